"""Checks whether the files that SQLite has open are still at their paths.

A process can write to a file that was deleted or replaced without an error, and the data is lost
when the process ends. An open inode is never reused, so comparing inodes detects this. A database
that was overwritten in place keeps its inode but not its modification time.
"""

from __future__ import annotations

import os
from pathlib import Path

from index.errors import StoreReplaced

SUFFIXES = ("", "-wal", "-shm")


class OpenFiles:
    """The inodes of the database, its write-ahead log and the log's index."""

    def __init__(self, path: Path) -> None:
        """Record the files of the database at `path`, which SQLite has open."""
        self._path = path
        names = [f"{path}{suffix}" for suffix in SUFFIXES]
        stats = {name: _stat(name) for name in names}
        self._inodes = {name: (one.st_dev, one.st_ino) for name, one in stats.items() if one}
        self._modified = self._modified_by_us = 0
        self.log_bytes = 0
        """The size of the write-ahead log at the last call of :meth:`check`."""
        self.check()
        self.record_own_change()

    def check(self) -> None:
        """Raise StoreReplaced if one of the files was deleted or replaced."""
        for name, inode in self._inodes.items():
            stat = _stat(name)
            if stat is None or (stat.st_dev, stat.st_ino) != inode:
                event = "was deleted" if stat is None else "was replaced"
                message = f"{name} {event} while it was open; restart with the right files"
                raise StoreReplaced(message, field=str(self._path))
            if name.endswith("-wal"):
                self.log_bytes = stat.st_size
            elif not name.endswith("-shm"):
                self._modified = stat.st_mtime_ns

    def written_by_others(self) -> bool:
        """Return whether others had changed the database at the last :meth:`check`."""
        return self._modified != self._modified_by_us

    def record_own_change(self) -> None:
        """Record that this process made the last change that :meth:`check` saw."""
        self._modified_by_us = self._modified


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except OSError:
        return None
