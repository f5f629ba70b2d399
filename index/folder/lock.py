"""The lock that keeps a second process from writing to a data folder."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from index.errors import DataFolderError, DataFolderInUse, StoreReplaced
from index.folder.partial import make_folder


class FolderLock:
    """An open data folder, locked if it is writable.

    The operating system releases the lock when the process ends, however it ends.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open the folder at `path`; if `writable`, a missing folder is created.

        Raises:
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if the folder is missing, or cannot be created or read.
        """
        self._path = path
        self._writable = writable
        try:
            if writable:
                for folder in (path, path / "encoders", path / "collections"):
                    make_folder(folder)
                _check_can_write(path)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise DataFolderError(f"{path}: {error.strerror or error}") from error
        if writable:
            self._lock()

    @property
    def is_open(self) -> bool:
        """Whether :meth:`close` has not been called."""
        return self._descriptor >= 0

    def check_writable(self) -> None:
        """Raise a DataFolderError unless the folder is locked for writing and still at its path."""
        if not self._writable or not self.is_open:
            raise DataFolderError(f"{self._path} is not open for writing")
        if not self._is_at_path():
            message = "was deleted or replaced while it was open; restart with the right folder"
            raise StoreReplaced(f"{self._path}: {message}")

    def close(self) -> None:
        """Release the lock and close the folder."""
        if self.is_open:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            message = f"{self._path} is in use: another process is writing to it"
            raise DataFolderInUse(message) from error

    def _is_at_path(self) -> bool:
        """Tell whether the folder that was opened is still at its path."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError:
            return False
        return same and (self._path / "collections").is_dir()


def _check_can_write(path: Path) -> None:
    """Raise OSError unless files can be created in the folder and its collections."""
    for folder in (path, path / "collections"):
        if not os.access(folder, os.W_OK | os.X_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            code = errno.EROFS if read_only else errno.EACCES
            hint = "to serve it without writing, use --read-only"
            raise OSError(code, f"cannot be written: {os.strerror(code)}; {hint}")
