"""The compression of a file, by its suffix."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading; decompress it if its suffix is `.gz`, `.xz` or `.bz2`.

    Raises:
        OSError: if it cannot be opened.
    """
    decompress = COMPRESSIONS.get(path.suffix.lower())
    return path.open("rb") if decompress is None else cast("BinaryIO", decompress(path, "rb"))
