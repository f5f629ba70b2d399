"""Folders with random names that appear whole or not at all, and disappear in one step.

A folder is created under a name that ends in ``.partial`` and renamed when it is complete. To
remove it, it is renamed back and deleted. So whatever a crash leaves ends in ``.partial``.
"""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path

from foundation.files import sync_folder

PARTIAL = ".partial"


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are missing, and sync them to disk.

    Raises:
        OSError: if they cannot be created.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def begin_folder(parent: Path) -> Path:
    """Create an empty partial folder in `parent` and return its path."""
    make_folder(parent)
    partial = parent / (secrets.token_hex(8) + PARTIAL)
    partial.mkdir()
    return partial


def is_folder_name(name: str) -> bool:
    """Return whether a name is like those that :func:`begin_folder` gives."""
    return re.fullmatch(r"[0-9a-f]{16}", name) is not None


def finish_folder(partial: Path) -> Path:
    """Make a partial folder appear durably, and return its final path.

    Its files must be on disk before.
    """
    folder = partial.with_suffix("")
    sync_folder(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    return folder


def remove_folder(folder: Path) -> None:
    """Delete a finished folder; of a link to a folder elsewhere, only the link."""
    partial = folder.with_suffix(PARTIAL)
    folder.rename(partial)
    sync_folder(partial.parent)
    _delete(partial)


def finished_folders(parent: Path) -> list[Path]:
    """Return the finished folders, sorted by name; none if `parent` is missing."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and path.suffix != PARTIAL)


def remove_partial_folders(parent: Path) -> None:
    """Delete the partial folders, which a crash left."""
    for path in parent.glob(f"*{PARTIAL}"):
        _delete(path)


def _delete(folder: Path) -> None:
    if folder.is_symlink():  # an operator moved the folder to another disk
        folder.unlink()
    else:
        shutil.rmtree(folder)
