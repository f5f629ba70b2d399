"""Files of the public data that only experiments read."""

from __future__ import annotations

import os
from pathlib import Path

from corpus.datasets import VARIABLE
from corpus.rows import ReadError


def data_file(name: str, data_root: Path | None) -> Path:
    """Return where the file `name` lies in the data folder, by default in `$HUMMINGBIT_DATA`.

    Raises:
        ReadError: if no data folder is named, or it has no such file.
    """
    root = data_root or os.environ.get(VARIABLE)
    if not root:
        raise ReadError(f"{name}: pass --data-root FOLDER or set {VARIABLE}")
    path = Path(root, name)
    if not path.is_file():
        raise ReadError(f"there is no file {path}; is {root} the right data folder?")
    return path
