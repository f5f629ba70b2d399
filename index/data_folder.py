"""The data folder: encoders and collections by name, and one writer at a time.

::

    encoders/NAME/                       an encoder artifact
    collections/RANDOM/store.sqlite      a collection; its name is held in the store
    aliases.json                         second names of collections, where there are any
    snapshots/RANDOM/                    a snapshot of a collection

A name that a caller gives is only ever compared with names that are there; it never becomes a
path, except when an encoder's folder has been listed under it. Whoever writes holds an exclusive
lock on the folder itself, which the operating system drops when the process ends in any way.

Collections and snapshots appear whole or not at all, see :mod:`index.folder.partial`. What a crash
leaves behind is deleted when the data folder is next opened for writing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from encoder.artifact import ArtifactError
from encoder.classifier import Classifier
from encoder.codes import check_n_bits
from encoder.encoder import Encoder
from index.backend import CollectionBackend
from index.collection import Collection
from index.engines.setting import check_engine
from index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    DataFolderInUse,
    EncoderMismatch,
    InputError,
    SnapshotError,
    StoreError,
    StoreReplaced,
    UnknownCollection,
    UnknownEncoder,
)
from index.folder.aliases import AliasAction, Aliases
from index.folder.drafts import Draft
from index.folder.encoders import EncoderFolder
from index.folder.following import Follower
from index.folder.names import check_name
from index.folder.partial import begin, make_folder, remove, remove_partial, settle, settled
from index.rankings.protocol import HYBRID
from index.schema import AUTO, Description
from index.snapshots.restoring import restore
from index.snapshots.snapshots import Snapshot, Snapshots
from index.sqlite.connections import store_error
from index.sqlite.store import Store

STORE_FILE = "store.sqlite"
ROUNDS_BETWEEN_TRIES = 10
ALIASES_FILE = "aliases.json"


def _nothing(_: str) -> None:
    """Do nothing before a snapshot or a collection counts."""


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

        Opened for reading only, it shows the collections and aliases that there are at that moment,
        and those that another process makes later where it is to `follow` that process. A
        collection that cannot be opened does not stand in the way of the others: see
        :meth:`unavailable`.
        `engine` and `indexed` are for :class:`index.collection.Collection`: a process that needs
        one collection, or only writes, does without building the index of every one.

        Raises:
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if it is missing or cannot be made or read.
        """
        self.path = path
        self.writable = writable
        self._engine = engine
        self._indexed = indexed
        self._changing = threading.Lock()
        self._encoders = EncoderFolder(path / "encoders")
        self._snapshots = Snapshots(path / "snapshots")
        self._folders: dict[str, Path] = {}
        self._collections: dict[str, CollectionBackend] = {}
        self._unavailable: dict[str, StoreError | CollectionUnavailable] = {}
        self._drafts: set[str] = set()
        self._follower: Follower | None = None
        try:
            if writable:
                for folder in (path, path / "encoders", path / "collections"):
                    make_folder(folder)
                _check_can_write(path)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise DataFolderError(f"{path}: {error.strerror or error}") from error
        try:
            if writable:
                self._lock()
                self._delete_partial()
            self._open_collections()
            self._aliases = Aliases(path / ALIASES_FILE)
        except BaseException:
            self.close()
            raise
        self._rounds = 0
        self._follower = Follower(self.follow) if follow and not writable else None

    def encoder_names(self) -> list[str]:
        """Return the names of the encoders, in order."""
        return self._encoders.names()

    def encoder(self, name: str) -> Encoder:
        """Return an encoder; see :meth:`index.folder.encoders.EncoderFolder.load`."""
        return self._encoders.load(name)

    def labelled_ids(self, name: str) -> list[str]:
        """See :meth:`index.folder.encoders.EncoderFolder.labelled_ids`."""
        return self._encoders.labelled_ids(name)

    def classifier(self, name: str) -> Classifier | None:
        """See :meth:`index.folder.encoders.EncoderFolder.classifier`."""
        return self._encoders.classifier(name)

    def figures(self, name: str) -> dict[str, Any]:
        """See :meth:`index.folder.encoders.EncoderFolder.figures`."""
        return self._encoders.figures(name)

    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""
        check_engine(engine, n_bits)

    def aliases(self) -> Mapping[str, str]:
        """Return which collection each alias means, in the order of the aliases."""
        return self._aliases.current()

    def change_aliases(
        self, actions: Sequence[AliasAction], job: str | None = None
    ) -> Mapping[str, str]:
        """Take all actions or none, see :meth:`index.folder.aliases.Aliases.apply`.

        Raises:
            DataFolderError: also if the folder is not open for writing.
        """
        with self._changing:
            self._check_writable()
            return self._aliases.apply(actions, self._names(), job)

    def aliases_changed_by(self, job: str) -> bool:
        """Tell whether :meth:`change_aliases` took the actions of a job."""
        return self._aliases.changed_by(job)

    def collections(self) -> Mapping[str, CollectionBackend]:
        """Return the collections by name, in the order of the names."""
        return MappingProxyType(dict(sorted(self._collections.copy().items())))

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name, or by folder if that is not known."""
        reasons = {name: str(error) for name, error in self._unavailable.copy().items()}
        return MappingProxyType(dict(sorted(reasons.items())))

    def collection(self, name: str) -> CollectionBackend:
        """Return a collection by its name or an alias.

        Raises:
            UnknownCollection: if there is none of that name.
            EncoderMismatch: if its encoder is missing, damaged or another one by now.
            CollectionUnavailable: if it is there but cannot be opened for another reason.
        """
        name = self._aliases.resolve(name)
        collection = self._collections.get(name)
        if collection is not None:
            return collection
        reason = self._unavailable.get(name)
        if reason is not None:
            kind = type(reason) if isinstance(reason, EncoderMismatch) else CollectionUnavailable
            raise kind(f"collection {name!a} cannot be opened: {reason}") from reason
        raise UnknownCollection(f"there is no collection {name!a}")

    def create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str = AUTO,
    ) -> CollectionBackend:
        """Make a collection with an encoder, or for codes of `n_bits` that documents bring.

        `engine` is one of :data:`index.engines.choice.ENGINES`; the collection is searched by it
        from then on. If there is one just like it, that one is returned.

        Raises:
            InputError: if the name, `n_bits` or the engine cannot be, or of encoder and `n_bits`
                both or none are given.
            UnknownEncoder: if there is no encoder of that name.
            ArtifactError: if the encoder is not intact.
            CollectionExists: if the name is taken by a collection with other settings.
            StoreError: if it cannot be written.
        """
        check_name(name)
        if (encoder is None) == (n_bits is None):
            raise InputError("encoder", "exactly one of encoder and n_bits must be given")
        loaded = None if encoder is None else self.encoder(encoder)
        description = replace(_describe(name, encoder, loaded, n_bits), engine=engine)
        self.check_engine(engine, description.n_bits)
        with self._changing:
            if name in self._collections or name in self._unavailable:
                return self._existing(description)
            self._check_free(name)
            self._check_writable()
            self._collections[name] = collection = self._create(description, loaded)
            return collection

    def draft_collection(self, name: str, *, encoder: str, engine: str = AUTO) -> Draft:
        """Begin a collection that nobody sees before it is published; the name is taken meanwhile.

        Raises:
            InputError, UnknownEncoder, ArtifactError, StoreError: as :meth:`create_collection`.
            CollectionExists: if the name is taken.
        """
        check_name(name)
        loaded = self.encoder(encoder)
        description = replace(_describe(name, encoder, loaded, None), engine=engine)
        self.check_engine(engine, description.n_bits)
        with self._changing:
            self._check_free(name)
            self._check_writable()
            self._drafts.add(name)
        try:
            return self._draft(description, loaded)
        except BaseException:
            self._drafts.discard(name)
            raise

    def published(self, id_: str) -> CollectionBackend | None:
        """Return the collection that was a draft of that id; None if it never appeared."""
        for name, folder in self._folders.copy().items():
            if folder.name == id_:
                return self._collections.get(name)
        return None

    def drop_collection(self, name: str) -> None:
        """Delete a collection, all of its documents and its aliases, also one that is damaged.

        Raises:
            UnknownCollection: if there is none of that name.
        """
        with self._changing:
            if name not in self._names():
                raise UnknownCollection(f"there is no collection {name!a}")
            self._check_writable()
            self._aliases.forget(name)
            self._unavailable.pop(name, None)
            collection = self._collections.pop(name, None)
            if collection is not None:
                collection.close()
            self._delete(name)

    def snapshots(self) -> Snapshots:
        """Return the snapshots of this folder, to be listed, read and deleted."""
        return self._snapshots

    def create_snapshot(
        self, name: str, before_it_counts: Callable[[str], object] = _nothing
    ) -> Snapshot:
        """Copy a collection and its encoder, as of one moment; searches and writes go on.

        `before_it_counts` is told the id once all is written, just before the snapshot is listed.

        Raises:
            UnknownCollection: if there is none of that name.
            CollectionUnavailable: if it cannot be opened.
            DataFolderError: if the folder is not open for writing.
            SnapshotError: if the collection lies elsewhere, or the snapshot cannot be written.
        """
        self._check_writable()
        collection = self.collection(name)
        if not isinstance(collection, Collection):
            message = f"collection {name!a} does not lie in this folder; use index export"
            raise SnapshotError(message)
        encoder = collection.encoder_name
        artifact = None if encoder is None else self._encoders.folder(encoder)
        return self._snapshots.create(collection.copy_to, artifact, before_it_counts)

    def restore_snapshot(
        self, tar: Path, name: str, before_it_counts: Callable[[str], object] = _nothing
    ) -> CollectionBackend:
        """Make a collection `name` of a snapshot's file, with its encoder if it is not there.

        `before_it_counts` is told what :meth:`published` will know it by, once all is written and
        just before the collection appears.

        Raises:
            InputError: if the name cannot be.
            CollectionExists: if the name is taken.
            SnapshotError: if the file is not a whole snapshot.
            EncoderMismatch: if there is another encoder of the same name.
            DataFolderError: if the folder is not open for writing.
        """
        check_name(name)
        self._check_writable()
        partial = begin(self.path / "collections")
        try:
            restore(tar, partial / STORE_FILE, name, self._encoders)
            with self._changing:
                self._check_free(name)
                before_it_counts(partial.stem)
                self._open_collection(settle(partial))
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return self.collection(name)

    def problems(self) -> Mapping[str, list[str]]:
        """Return why nothing can be written to collections that are open, by name."""
        found = {
            name: collection.warnings()
            for name, collection in self.collections().items()
            if isinstance(collection, Collection)
        }
        return MappingProxyType({name: problems for name, problems in found.items() if problems})

    def accept_loss(self, name: str) -> None:
        """Let a collection that lost acknowledged writes go on from what it holds.

        Raises:
            UnknownCollection: if there is none of that name.
            DataFolderError: if the folder is not open for writing.
            StoreError: if it cannot be written.
        """
        name = self._aliases.resolve(name)
        with self._changing:
            if name not in self._folders:
                raise UnknownCollection(f"there is no collection {name!a}")
            self._check_writable()
            folder = self._folders[name]
            self._forget(name)
            Store(folder / STORE_FILE, writable=True, accept_loss=True).close()
            self._open_collection(folder)

    def follow(self) -> None:
        """Show what another process has written since: documents, collections and aliases.

        Raises:
            DataFolderError: if the aliases cannot be read.
        """
        with self._changing:
            if self._descriptor < 0:
                return
            for name in list(self._collections):
                self._follow_collection(name)
            # Read before the collections, so that what an alias means is among them.
            aliases = Aliases(self.path / ALIASES_FILE)
            self._follow_folders()
            self._aliases = aliases

    def close(self) -> None:
        """Close every collection and let another process write."""
        if self._follower is not None:
            self._follower.stop()
        with self._changing:
            for collection in self._collections.values():
                collection.close()
            self._collections.clear()
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"{self.path} is in use: another process is writing to it"
            raise DataFolderInUse(message) from error

    def _check_writable(self) -> None:
        if not self.writable or self._descriptor < 0:
            raise DataFolderError(f"{self.path} is not open for writing")
        if not self._is_there():
            message = "was deleted or replaced while it was open; restart on the right folder"
            raise StoreReplaced(f"{self.path}: {message}")

    def _is_there(self) -> bool:
        """Tell whether the folder that was opened is still at its path."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:
            return False
        return same and (self.path / "collections").is_dir()

    def _delete_partial(self) -> None:
        remove_partial(self.path / "collections")
        self._snapshots.delete_partial()

    def _follow_collection(self, name: str) -> None:
        collection = self._collections[name]
        try:
            if isinstance(collection, Collection) and not collection.follow():
                self._forget(name)
        except StoreError as error:
            folder = self._folders[name]
            self._forget(name)
            self._folders[name], self._unavailable[name] = folder, error

    def _follow_folders(self) -> None:
        """Open the collections that were made since, and close those that are gone."""
        self._rounds += 1
        there = settled(self.path / "collections")
        for name, folder in list(self._folders.items()):
            # What cannot be opened may have been mended. To try takes long, so it is seldom tried.
            again = name in self._unavailable and self._rounds % ROUNDS_BETWEEN_TRIES == 0
            if folder not in there or again:
                self._forget(name)
        for folder in there:
            if folder not in self._folders.values():
                self._open_collection(folder)

    def _forget(self, name: str) -> None:
        """Close a collection, which stays where it is."""
        self._unavailable.pop(name, None)
        collection = self._collections.pop(name, None)
        if collection is not None:
            collection.close()
        self._folders.pop(name, None)

    def _open_collections(self) -> None:
        for path in settled(self.path / "collections"):
            self._open_collection(path)

    def _open_collection(self, folder: Path) -> None:
        name = folder.name
        store = None
        try:
            store = Store(folder / STORE_FILE, writable=self.writable)
            if store.description.name in self._folders:
                raise StoreError(f"there are two collections named {store.description.name!r}")
            name = store.description.name
            self._collections[name] = self._collection(store, self._encoder_of(store.description))
        except (StoreError, CollectionUnavailable) as error:
            if store is not None:
                store.close()
            self._unavailable[name] = error
        self._folders[name] = folder

    def _collection(self, store: Store, encoder: Encoder | None) -> Collection:
        wanted = store.description.engine
        try:
            check_engine(wanted, store.description.n_bits)
        except InputError as error:
            raise StoreError(f"{store.path}: is damaged: {error}") from error
        engine = self._engine if wanted == AUTO else wanted
        return Collection(store, encoder, engine=engine, indexed=self._indexed)

    def _encoder_of(self, description: Description) -> Encoder | None:
        if description.encoder_name is None:
            return None
        try:
            return self.encoder(description.encoder_name)
        except (UnknownEncoder, ArtifactError) as error:
            raise EncoderMismatch(str(error)) from error

    def _names(self) -> set[str]:
        return {*self._collections, *self._unavailable}

    def _check_free(self, name: str) -> None:
        if name in self._names():
            raise CollectionExists(f"collection {name!a} exists already")
        if name in self._drafts:
            raise CollectionExists(f"collection {name!a} is being made")
        if name in self._aliases.current():
            meant = self._aliases.resolve(name)
            raise CollectionExists(f"{name!a} is an alias of collection {meant!a}")

    def _existing(self, description: Description) -> CollectionBackend:
        collection = self.collection(description.name)
        made_with = collection.encoder_name, collection.encoder_fingerprint
        found = Description(
            collection.name, collection.n_bits, *made_with, collection.engine_setting
        )
        if found != description:
            made = collection.encoder_name or f"{collection.n_bits} bits"
            message = f"collection {description.name!a} exists already, with {made}"
            raise CollectionExists(f"{message} and the engine {collection.engine_setting}")
        return collection

    def _create(self, description: Description, encoder: Encoder | None) -> CollectionBackend:
        """Make an empty collection and open it."""
        partial = self._begin_store(description, encoder)
        try:
            with self._store_errors():
                folder = settle(partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        self._folders[description.name] = folder
        return self._collection(Store(folder / STORE_FILE, writable=True), encoder)

    def _draft(self, description: Description, encoder: Encoder) -> Draft:
        partial = self._begin_store(description, encoder)
        try:
            store = Store(partial / STORE_FILE, writable=True)
            # Nobody searches it, and without an index it is written in half the time.
            draft = Collection(store, encoder, indexed=False)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

        def publish() -> CollectionBackend:
            with self._changing:
                self._drafts.discard(description.name)
                try:
                    self._check_free(description.name)
                finally:
                    self._drafts.add(description.name)
                draft.close()
                with self._store_errors():
                    folder = settle(partial)
                self._open_collection(folder)
                self._drafts.discard(description.name)
            return self.collection(description.name)

        def discard() -> None:
            draft.close()
            shutil.rmtree(partial, ignore_errors=True)
            self._drafts.discard(description.name)

        return Draft(partial.stem, draft, publish, discard)

    def _begin_store(self, description: Description, encoder: Encoder | None) -> Path:
        """Write an empty store in a folder that does not count yet, and return the folder."""
        with self._store_errors():
            partial = begin(self.path / "collections")
        try:
            Store.create(partial / STORE_FILE, description, _first_ranking(encoder))
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return partial

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of the file system into a StoreError that names the data folder."""
        try:
            yield
        except OSError as error:
            raise store_error(self.path, error, "cannot be written: ") from error

    def _delete(self, name: str) -> None:
        """Delete a collection that is closed."""
        remove(self._folders.pop(name))


def _check_can_write(path: Path) -> None:
    """Raise OSError unless files can be made in the folder and in those that are written to."""
    for folder in (path, path / "collections"):
        if not os.access(folder, os.W_OK | os.X_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            code = errno.EROFS if read_only else errno.EACCES
            hint = "it can be served with --read-only"
            raise OSError(code, f"cannot be written: {os.strerror(code)}; {hint}")


def _describe(
    name: str, encoder_name: str | None, encoder: Encoder | None, n_bits: int | None
) -> Description:
    if encoder is not None:
        return Description(name, encoder.n_bits, encoder_name, encoder.fingerprint)
    try:
        return Description(name, check_n_bits(n_bits or 0))
    except ValueError as error:
        raise InputError("n_bits", str(error).removeprefix("n_bits ")) from None


def _first_ranking(encoder: Encoder | None) -> str | None:
    """Return what orders the hits of a collection that is made now; None is the distance of codes.

    Texts are stored, so they are searched by their words as well.
    """
    return HYBRID if encoder is not None and encoder.kind == "text" else None
