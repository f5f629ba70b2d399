"""The data folder: encoders and collections by name, and one writer at a time.

::

    encoders/NAME/                       an encoder artifact
    collections/RANDOM/store.sqlite      a collection; its name is held in the store
    aliases.json                         second names of collections, where there are any
    snapshots/RANDOM/                    a snapshot of a collection

A name that a caller gives is compared with the names that are there and never becomes a path.
Whoever writes holds an exclusive lock on the folder, which the operating system drops when the
process ends in any way.

Collections and snapshots appear whole or not at all, see :mod:`index.folder.partial`. What a crash
leaves behind is deleted when the data folder is next opened for writing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from index.backend import CollectionBackend
from index.collection import Collection
from index.errors import CollectionExists, SnapshotError, UnknownCollection
from index.folder.alias_file import AliasAction, Aliases
from index.folder.drafts import Draft
from index.folder.following import Follower
from index.folder.local import LocalCollections
from index.folder.lock import FolderLock
from index.folder.named_collections import Collections, HiddenCollection
from index.folder.named_encoders import EncoderFolder
from index.folder.names import check_name
from index.schema import AUTO
from index.snapshots.snapshot_files import Snapshot, Snapshots

ALIASES_FILE = "aliases.json"


class DataFolder:
    """An open data folder. All methods are thread-safe."""

    drafts_survive = False
    """Whether a draft (:mod:`index.folder.drafts`) outlives a crash."""

    def __init__(
        self,
        path: Path,
        *,
        writable: bool,
        engine: str = "auto",
        indexed: bool = True,
        follow: bool = False,
    ) -> None:
        """Open the data folder at `path`; it is made if it is missing and `writable`.

        Opened for reading only, it shows what is there at that moment, and with `follow` what
        another process writes later. A collection that cannot be opened does not stand in the way
        of the others: see :meth:`unavailable`. `engine` and `indexed` are for
        :class:`index.collection.Collection`; a process that only writes needs no index.

        Raises:
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if it is missing or cannot be made or read.
        """
        self.path = path
        self.writable = writable
        self._changing = threading.Lock()
        self.encoders = EncoderFolder(path / "encoders")
        self.snapshots = Snapshots(path / "snapshots")
        self._reserved: set[str] = set()
        self._follower: Follower | None = None
        self._collections = self._find_collections(engine, indexed=indexed)
        self._lock = FolderLock(path, writable=writable)
        try:
            if writable:
                self.snapshots.delete_partial()
            self._collections.open_all()
            self._aliases = Aliases(path / ALIASES_FILE)
        except BaseException:
            self.close()
            raise
        if follow and not writable:
            self._follower = Follower(lambda: self.follow(wait=False))

    def _find_collections(self, engine: str, *, indexed: bool) -> Collections:
        """Return the collections, none of them open yet."""
        path, writable = self.path / "collections", self.writable
        return LocalCollections(path, self.encoders, engine, writable=writable, indexed=indexed)

    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""
        self._collections.check_engine(engine, n_bits)

    def aliases(self) -> Mapping[str, str]:
        """Return which collection each alias means, in the order of the aliases."""
        return self._aliases.current()

    def change_aliases(
        self, actions: Sequence[AliasAction], job: str | None = None
    ) -> Mapping[str, str]:
        """Take all actions or none, see :meth:`index.folder.alias_file.Aliases.apply`.

        Raises:
            DataFolderError: also if it is not open for writing.
        """
        with self._changing:
            self._lock.check_writable()
            return self._aliases.apply(actions, self._collections.names(), job)

    def aliases_changed_by(self, job: str) -> bool:
        """Tell whether :meth:`change_aliases` took the actions of a job."""
        return self._aliases.changed_by(job)

    def collections(self) -> Mapping[str, CollectionBackend]:
        """Return the collections by name, in the order of the names."""
        return self._collections.by_name()

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name, or by folder if that is not known."""
        return self._collections.unavailable()

    def collection(self, name: str) -> CollectionBackend:
        """Return a collection by its name or an alias; see :meth:`Collections.get`."""
        name = self._aliases.names.get(name, name)
        found = self._collections.opened.get(name)
        return self._collections.get(name) if found is None else found

    def create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str = AUTO,
        indexed_fields: Sequence[str] | None = None,
    ) -> CollectionBackend:
        """Make a collection with an encoder, or for codes of `n_bits` that documents bring.

        `engine` is one of :data:`index.engines.choice.ENGINES`; the collection is searched by it
        from then on. Filters find documents by the `indexed_fields` of their payloads without
        reading these. If there is one just like it, that one is returned.

        Raises:
            InputError: if a value cannot be, or of encoder and `n_bits` both or none are given.
            UnknownEncoder, ArtifactError: if the encoder is missing or not intact.
            CollectionExists: if the name is taken by a collection with other settings.
            StoreError: if it cannot be written.
        """
        description, loaded = self._collections.describe(name, encoder, n_bits, engine)
        with self._changing:
            if name in self._collections.names():
                return self._collections.get_like(description, indexed_fields)
            self._check_free(name)
            self._lock.check_writable()
            return self._collections.create(description, loaded, indexed_fields or ())

    def draft_collection(self, name: str, *, encoder: str, engine: str = AUTO) -> Draft:
        """Begin a collection that nobody sees before it is published; the name is taken meanwhile.

        Raises:
            InputError, UnknownEncoder, ArtifactError, StoreError: as :meth:`create_collection`.
            CollectionExists: if the name is taken.
        """
        description, loaded = self._collections.describe(name, encoder, None, engine)
        with self._changing:
            self._check_free(name)
            self._lock.check_writable()
            self._reserved.add(name)
        try:
            hidden, collection = self._collections.create_hidden(description, loaded)
        except BaseException:
            self._reserved.discard(name)
            raise
        return Draft(name, hidden, collection, self._publish, self._reserved.discard)

    def published(self, id_: str) -> CollectionBackend | None:
        """Return the collection that was a draft of that id; None if it never appeared."""
        return self._collections.published(id_)

    def drop_collection(self, name: str) -> None:
        """Delete a collection, all of its documents and its aliases, also one that is damaged.

        Raises:
            UnknownCollection: if there is none of that name.
        """
        with self._changing:
            if name not in self._collections.names():
                raise UnknownCollection(f"there is no collection {name!a}")
            self._lock.check_writable()
            self._aliases.forget(name)
            self._collections.delete(name)

    def create_snapshot(
        self, name: str, before_it_counts: Callable[[str], object] | None = None
    ) -> Snapshot:
        """Copy a collection and its encoder, as of one moment; searches and writes go on.

        `before_it_counts` is told the id once all is written, just before the snapshot is listed.

        Raises:
            UnknownCollection, CollectionUnavailable: as :meth:`collection`.
            DataFolderError: if the folder is not open for writing.
            SnapshotError: if the collection lies elsewhere, or the snapshot cannot be written.
        """
        self._lock.check_writable()
        collection = self.collection(name)
        if not isinstance(collection, Collection):
            message = f"collection {name!a} does not lie in this folder; use index export"
            raise SnapshotError(message)
        encoder = collection.encoder_name
        artifact = None if encoder is None else self.encoders.folder(encoder)
        return self.snapshots.create(collection.store.copy_to, artifact, before_it_counts)

    def restore_snapshot(
        self, tar: Path, name: str, before_it_counts: Callable[[str], object] | None = None
    ) -> CollectionBackend:
        """Make a collection `name` of a snapshot's file, with its encoder if it is not there.

        `before_it_counts` is told the id for :meth:`published`, just before the collection appears.

        Raises:
            InputError, CollectionExists: if the name cannot be, or is taken.
            SnapshotError, EncoderMismatch, StoreError: as :meth:`Collections.restore_hidden`.
            DataFolderError: if the folder is not open for writing.
        """
        check_name(name)
        self._lock.check_writable()
        restored = self._collections.restore_hidden(tar, name)
        try:
            with self._changing:
                self._check_free(name)
                if before_it_counts is not None:
                    before_it_counts(restored.id)
                restored.appear()
        finally:
            restored.delete()
        return self._collections.get_ready(name)

    def problems(self) -> Mapping[str, list[str]]:
        """Return why nothing can be written to collections that are open, by name."""
        return self._collections.problems()

    def accept_loss(self, name: str) -> None:
        """Let a collection that lost acknowledged writes go on from what it holds.

        Raises:
            UnknownCollection: if there is none of that name.
            DataFolderError: if the folder is not open for writing.
            StoreError: if it cannot be written.
        """
        name = self._aliases.resolve(name)
        with self._changing:
            self._lock.check_writable()
            self._collections.accept_loss(name)
        self._collections.get_ready(name)

    def follow(self, *, wait: bool = True) -> None:
        """Show what another process has written since: documents, collections and aliases.

        Without `wait`, a collection that opens slowly is there later; till then no alias moves.
        DataFolderError is raised if the aliases cannot be read.
        """
        with self._changing:
            if not self._lock.is_open:
                return
            try:
                # Read before the folders, so that what an alias means is among them.
                aliases = Aliases(self.path / ALIASES_FILE)
            finally:
                self._collections.follow(wait=wait)
            self._aliases = self._aliases if self._collections.are_opening else aliases

    def close(self) -> None:
        """Close every collection and let another process write."""
        if self._follower is not None:
            self._follower.stop()
        with self._changing:
            self._collections.close()
            self._lock.close()

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(self, name: str, hidden: HiddenCollection) -> CollectionBackend:
        with self._changing:
            self._aliases.check_free(name)
            hidden.appear()
        return self._collections.get_ready(name)

    def _check_free(self, name: str) -> None:
        if name in self._collections.names():
            raise CollectionExists(f"collection {name!a} exists already")
        if name in self._reserved:
            raise CollectionExists(f"collection {name!a} is being made")
        self._aliases.check_free(name)
