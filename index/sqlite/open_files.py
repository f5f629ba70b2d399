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
        self._path = path
        names = [f"{path}{suffix}" for suffix in SUFFIXES]
        found = {name: _stat(name) for name in names}
        self._known = {name: (one.st_dev, one.st_ino) for name, one in found.items() if one}
        self._changed = self._noted = 0
        self.log_bytes = 0
        """The size of the write-ahead log when :meth:`check` was last called."""
        self.check()
        self.note()

    def check(self) -> None:
        """Raise StoreReplaced if one of the files was deleted or is another one by now."""
        for name, known in self._known.items():
            found = _stat(name)
            if found is None or (found.st_dev, found.st_ino) != known:
                what = "was deleted" if found is None else "was replaced"
                message = f"{name} {what} while it was open; restart on the right files"
                raise StoreReplaced(message, field=str(self._path))
            if name.endswith("-wal"):
                self.log_bytes = found.st_size
            elif not name.endswith("-shm"):
                self._changed = found.st_mtime_ns

    def written_by_others(self) -> bool:
        """Tell whether the database was changed between :meth:`note` and :meth:`check`."""
        return self._changed != self._noted

    def note(self) -> None:
        """Remember that the database, as :meth:`check` saw it last, is as this process left it."""
        self._noted = self._changed


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except OSError:
        return None
