"""Data folders shared by the collections of a process: each is opened only once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from index.data_folder import DataFolder

FolderKey = tuple[Path, bool]
"""The path of a data folder, and whether it is open for writing."""


@dataclass(slots=True)
class _SharedFolder:
    """An open data folder, and how many collections of this process use it."""

    folder: DataFolder
    users: int = 0


_OPEN: dict[FolderKey, _SharedFolder] = {}
_OPENING = threading.Lock()

NUMBERING = threading.Lock()
"""Held while documents are numbered and written, so that no two threads use the same number."""


def acquire(key: FolderKey) -> DataFolder:
    """Open a data folder, or share the one that this process has open."""
    with _OPENING:
        if key not in _OPEN:
            path, writable = key
            _OPEN[key] = _SharedFolder(DataFolder(path, writable=writable, indexed=False))
        _OPEN[key].users += 1
        return _OPEN[key].folder


def release(key: FolderKey) -> None:
    """Release a data folder; it is closed once nothing uses it."""
    with _OPENING:
        _OPEN[key].users -= 1
        if not _OPEN[key].users:
            _OPEN.pop(key).folder.close()


def release_soon(key: FolderKey) -> None:
    """Release the data folder of a collection that was garbage-collected.

    The garbage collector may call this at any moment. Another thread does the work, because this
    one may hold the lock, or be in the middle of an operation on the folder.
    """
    threading.Thread(target=release, args=(key,), name="release").start()


@contextmanager
def shared_folder(path: Path) -> Iterator[DataFolder]:
    """Yield a data folder, open for writing, and release it at the end of the block."""
    key = (path.resolve(), True)
    folder = acquire(key)
    try:
        yield folder
    finally:
        release(key)
