"""Folders with random names that appear whole or not at all, and go in one step.

A folder is made under a name that ends in ``.partial`` and renamed when it is complete; to remove
one is to rename it back and delete it. What a crash leaves behind ends in ``.partial``.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from foundation.files import sync_folder

PARTIAL = ".partial"


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where they are missing; they are on disk then.

    Raises:
        OSError: if they cannot be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def begin(parent: Path) -> Path:
    """Make an empty folder in `parent` that does not count yet."""
    make_folder(parent)
    partial = parent / (secrets.token_hex(8) + PARTIAL)
    partial.mkdir()
    return partial


def settle(partial: Path) -> Path:
    """Make a folder count, for good, once what is in it is on disk; return its path from now on."""
    folder = partial.with_suffix("")
    sync_folder(partial)
    partial.rename(folder)
    sync_folder(folder.parent)
    return folder


def remove(folder: Path) -> None:
    """Delete a folder that counts."""
    partial = folder.with_suffix(PARTIAL)
    folder.rename(partial)
    sync_folder(partial.parent)
    shutil.rmtree(partial)


def settled(parent: Path) -> list[Path]:
    """Return the folders that count, in the order of their names; none if `parent` is missing."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and path.suffix != PARTIAL)


def remove_partial(parent: Path) -> None:
    """Delete what a crash left behind."""
    for path in parent.glob(f"*{PARTIAL}"):
        shutil.rmtree(path)
