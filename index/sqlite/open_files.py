"""Whether the files that SQLite has open are still the ones at their paths.

A process goes on writing to a file that was deleted or replaced: nothing fails, and nothing is left
of it once the process ends. An inode that is open is never given to another file, so comparing the
inodes tells. A database that was written over in place keeps its inode, not the time of its last
change.
"""

from __future__ import annotations

import os
from pathlib import Path

from index.errors import StoreReplaced

SUFFIXES = ("", "-wal", "-shm")


class OpenFiles:
    """The database, its write-ahead log and the log's index, as they are now."""

    def __init__(self, path: Path) -> None:
        """Remember the files of the database at `path`, which SQLite has open."""
        names = [f"{path}{suffix}" for suffix in SUFFIXES]
        self._path = path
        self._written = _last_change(path)
        self._known = {name: found for name in names if (found := _inode(name)) is not None}

    def check(self) -> None:
        """Raise StoreReplaced if one of the files was deleted or is another one by now."""
        for name, known in self._known.items():
            if _inode(name) != known:
                what = "was replaced" if os.path.exists(name) else "was deleted"
                message = f"{name} {what} while it was open; restart on the right files"
                raise StoreReplaced(f"{self._path}: {message}")

    def written_by_others(self) -> bool:
        """Tell whether the database was written since :meth:`note` was called."""
        return _last_change(self._path) != self._written

    def note(self) -> None:
        """Remember that the database was written by this process."""
        self._written = _last_change(self._path)


def _last_change(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def _inode(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino
