"""Data folders that collections of one process share: each is opened once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from index.data_folder import DataFolder

FolderKey = tuple[Path, bool]
"""Where a data folder is, and whether it is open for writing."""


@dataclass(slots=True)
class _SharedFolder:
    """A data folder that collections of this process share, and how many of them do."""

    folder: DataFolder
    users: int = 0


_OPEN: dict[FolderKey, _SharedFolder] = {}
_OPENING = threading.Lock()

NUMBERING = threading.Lock()
"""Held while documents are numbered and written: threads that add at once number none alike."""


def acquire(key: FolderKey) -> DataFolder:
    """Open a data folder, or share the one that this process has open."""
    with _OPENING:
        if key not in _OPEN:
            path, writable = key
            _OPEN[key] = _SharedFolder(DataFolder(path, writable=writable, indexed=False))
        _OPEN[key].users += 1
        return _OPEN[key].folder


def release(key: FolderKey) -> None:
    """Give a data folder back; it is closed once nobody has it."""
    with _OPENING:
        _OPEN[key].users -= 1
        if not _OPEN[key].users:
            _OPEN.pop(key).folder.close()


def release_soon(key: FolderKey) -> None:
    """Give a data folder back for a collection that nobody has any more.

    The garbage collector calls this at any moment, so another thread does it: this one may hold the
    lock, or be in the middle of something else that the folder needs.
    """
    threading.Thread(target=release, args=(key,), name="release").start()


@contextmanager
def borrowed(path: Path) -> Iterator[DataFolder]:
    """Lend a data folder, open for writing, while a collection is made in it."""
    key = (path.resolve(), True)
    folder = acquire(key)
    try:
        yield folder
    finally:
        release(key)
