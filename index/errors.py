"""What can go wrong with an index, each kind with a name of its own."""

# ruff: noqa: N818 - the names read as what happened; most of them need no "Error" to say so.

from __future__ import annotations

from foundation.errors import HummingbitError


class UnknownDocument(HummingbitError, LookupError):
    """No document of the collection has the id."""


class UnknownCollection(HummingbitError, LookupError):
    """No collection of the data folder has the name."""


class UnknownEncoder(HummingbitError, LookupError):
    """No encoder of the data folder has the name."""


class CollectionExists(HummingbitError, ValueError):
    """The name is taken by a collection of another kind."""


class CollectionUnavailable(HummingbitError, RuntimeError):
    """A collection is there but cannot be opened; the message says why."""


class EncoderMismatch(CollectionUnavailable):
    """The encoder that made a collection's codes is missing, or is another one by now."""


class StoreError(HummingbitError, RuntimeError):
    """A store is damaged, locked, closed or of a format that cannot be read."""


class StoreClosed(StoreError):
    """A store was closed, because its collection was dropped or the process ends."""


class StoreFull(StoreError):
    """There is no room on the disk for a write; it changed nothing."""


class StoreReplaced(StoreError):
    """The files of an open store were deleted or replaced; nothing more is written to them."""


class WritesLost(StoreError):
    """A store holds fewer generations than it acknowledged; nothing more is written to it."""


class StoreUnavailable(StoreError):
    """The server that holds a store cannot be reached; it may be later."""


class UnknownSnapshot(HummingbitError, LookupError):
    """No snapshot of the data folder has the id."""


class SnapshotError(HummingbitError, RuntimeError):
    """A snapshot cannot be written or read, or is not what was written."""


class InvalidSnapshot(SnapshotError):
    """A file is not a whole snapshot."""


class DataFolderError(HummingbitError, RuntimeError):
    """A data folder cannot be opened."""


class DataFolderInUse(DataFolderError):
    """Another process is writing to the data folder."""
