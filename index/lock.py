"""The lock that keeps a second process from writing to a data folder."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from pathlib import Path

from hummingbit.foundation.processes import Inherited, Process, keep, note
from hummingbit.index.catalog import make_folder
from hummingbit.index.errors import DataFolderError, DataFolderInUse, StoreReplaced

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = "writer.lock"
# A process that is killed while it starts another one leaves its lock to that one, which releases
# it as soon as it runs its own program. A new writer waits this long, in seconds.
HANDOVER = 0.5


class FolderLock(Inherited):
    """An open data folder, locked if it is writable.

    The operating system releases the lock when the process ends, however it ends.
    """

    def __init__(self, path: Path, process: Process, *, writable: bool) -> None:
        """Open the folder at `path` for a process; if `writable`, a missing folder is created.

        Raises:
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if the folder is missing, or cannot be created, read or locked.
        """
        self._path = path
        self._writable = writable
        try:
            if writable:
                for folder in (path, path / "encoders", path / "collections"):
                    make_folder(folder)
                _check_can_write(path)
            self._folder = _LockedByFile(path) if fcntl is None else _LockedItself(path)
        except OSError as error:
            raise DataFolderError(f"{path}: {error.strerror or error}") from error
        self.is_open = True
        """Whether :meth:`close` has not been called."""
        self.process = process
        note(self)
        if writable:
            self._lock()

    def check_writable(self) -> None:
        """Raise a DataFolderError unless the folder is locked for writing and still at its path."""
        self.process.check()
        if not self._writable or not self.is_open:
            raise DataFolderError(f"{self._path} is not open for writing")
        if not self._is_at_path():
            message = "was deleted or replaced while it was open; restart with the right folder"
            raise StoreReplaced(f"{self._path}: {message}")

    def close(self) -> None:
        """Release the lock and close the folder; a forked process releases nothing."""
        if self.is_open and self.process.is_here:
            self._folder.close()
            self.is_open = False

    def leave_to_parent(self) -> None:
        """See :meth:`hummingbit.foundation.processes.Inherited.leave_to_parent`.

        A copy would keep the folder locked after the parent has closed it.
        """
        if self.is_open and self._writable:
            self._folder.leave_to_parent()

    def _lock(self) -> None:
        try:
            self._folder.lock()
        except BlockingIOError as error:
            self.close()
            message = f"{self._path} is in use: another process is writing to it"
            raise DataFolderInUse(message) from error
        except OSError as error:
            self.close()
            message = f"cannot be locked against other writers: {error.strerror or error}"
            hint = "put it on a file system that can lock files, or use --read-only to serve it"
            raise DataFolderError(f"{self._path} {message}; {hint}") from error

    def _is_at_path(self) -> bool:
        """Tell whether the folder that was opened is still at its path."""
        try:
            same = os.path.samestat(self._folder.status, self._path.stat())
        except OSError:
            return False
        return same and (self._path / "collections").is_dir()


class _LockedItself:
    """A folder that is held open, so that none made in its place is mistaken for it."""

    def __init__(self, path: Path) -> None:
        """Raise OSError if there is no such folder."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.status = os.fstat(self._descriptor)

    def lock(self) -> None:
        """Raise BlockingIOError if another process locks it and does not release it in HANDOVER.

        Any other OSError says why it cannot be locked at all.
        """
        deadline = time.monotonic() + HANDOVER
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def close(self) -> None:
        os.close(self._descriptor)

    def leave_to_parent(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _LockedByFile:
    """A folder on a system that cannot lock one; a file in it is locked as SQLite locks its own."""

    def __init__(self, path: Path) -> None:
        """Raise OSError if there is no such folder."""
        self.status = path.stat()
        if not stat.S_ISDIR(self.status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        self._path = path / LOCK_FILE
        self._file: sqlite3.Connection | None = None

    def lock(self) -> None:
        """Raise BlockingIOError if another process has locked the file, or else an OSError."""
        file = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            file.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            file.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise BlockingIOError(errno.EAGAIN, str(error)) from None
            raise OSError(errno.ENOLCK, str(error)) from None
        self._file = file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def leave_to_parent(self) -> None:
        keep(self._file)


def _check_can_write(path: Path) -> None:
    """Raise OSError unless files can be created in the folder and its collections."""
    for folder in (path, path / "collections"):
        if not os.access(folder, os.W_OK | os.X_OK):
            read_only = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
            code = errno.EROFS if read_only else errno.EACCES
            hint = "to serve it without writing, use --read-only"
            raise OSError(code, f"cannot be written: {os.strerror(code)}; {hint}")
