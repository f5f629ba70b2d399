"""The errors of an index."""

# ruff: noqa: N818 - most of these names say what happened without the suffix "Error".

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hummingbit.foundation.errors import HummingbitError

ROOM_FOR_A_WRITE = 1 << 20


class UnknownDocument(HummingbitError, LookupError):
    """No document of the collection has the id."""


class GenerationChanged(HummingbitError, RuntimeError):
    """The collection is at another generation than a write requires; nothing was written."""


class UnknownCollection(HummingbitError, LookupError):
    """No collection of the data folder has the name `name`; `known` are those that it has.

    Only who may see all of them is told: the message leaves them out.
    """

    def __init__(
        self,
        reason: str,
        name: str = "",
        known: Iterable[str] | None = None,
        *,
        position: int | None = None,
    ) -> None:
        super().__init__(reason, position=position)
        self.name = name
        self.known = None if known is None else sorted(known)


class UnknownEncoder(HummingbitError, LookupError):
    """No encoder of the data folder has the name `name`."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"there is no encoder {name!r}; known encoders: {names}")
        self.name = name


class CollectionExists(HummingbitError, ValueError):
    """Another collection or an alias has the name."""


class CollectionUnavailable(HummingbitError, RuntimeError):
    """A collection exists but cannot be opened; the message says why."""


class EncoderMismatch(CollectionUnavailable):
    """The encoder that made a collection's codes is missing or was replaced."""


class StoreError(HummingbitError, RuntimeError):
    """A store is damaged, locked, closed, or has a format that cannot be read."""


class StoreClosed(StoreError):
    """A store was closed because its collection was dropped or the process is ending."""


class StoreFull(StoreError):
    """The disk is full; the write changed nothing."""


class StoreReplaced(StoreError):
    """The files of an open store were deleted or replaced; nothing more is written to them."""


class RowsRemoved(StoreError):
    """Rows of the generation that a search reads were removed; the search runs again."""


class WritesLost(StoreError):
    """A store holds fewer generations than it acknowledged; nothing more is written to it."""


class StoreUnavailable(StoreError):
    """The server that holds a store cannot be reached now; trying later may help."""


class UnknownSnapshot(HummingbitError, LookupError):
    """No snapshot of the data folder has the id."""


DAMAGE_REMEDY = (
    "; the file is damaged: `hummingbit index verify NAME` lists what is, and `hummingbit snapshot"
    " restore` brings back a snapshot"
)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SnapshotError(HummingbitError, RuntimeError):
    """A snapshot cannot be written or read, or is damaged."""


class InvalidSnapshot(SnapshotError):
    """A file is not a complete, intact snapshot."""


class DataFolderError(HummingbitError, RuntimeError):
    """A data folder cannot be opened."""


class DataFolderInUse(DataFolderError):
    """Another process is writing to the data folder."""


def store_error(path: Path, error: sqlite3.Error | OSError, prefix: str = "") -> StoreError:
    """Return the StoreError of an error, a StoreFull if the disk is full."""
    kind = StoreFull if _is_full(path, error) else StoreError
    remedy = DAMAGE_REMEDY if is_damaged(error) else ""
    return kind(f"{path}: {prefix}{getattr(error, 'strerror', None) or error}{remedy}")


def is_damaged(error: sqlite3.Error | OSError) -> bool:
    """Return whether SQLite says that the content of a file is damaged."""
    return _sqlite_code(error) in _DAMAGED


def _sqlite_code(error: sqlite3.Error | OSError) -> int:
    """Return the primary error code of SQLite, without its extension."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)) & 0xFF


def _is_full(path: Path, error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return error.errno in {errno.ENOSPC, errno.EDQUOT}
    code = _sqlite_code(error)
    if code != sqlite3.SQLITE_IOERR:
        return code == sqlite3.SQLITE_FULL
    # SQLite reports this general error for some files that it cannot extend.
    return has_no_room(path.parent, ROOM_FOR_A_WRITE)


def has_no_room(folder: Path, room: int) -> bool:
    """Return whether the disk of a folder has less than `room` bytes left."""
    with suppress(OSError):
        return shutil.disk_usage(folder).free < room
    return False
