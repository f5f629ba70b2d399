"""Collections whose stores lie in the data folder, each in a folder with a random name."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from encoder.encoder import Encoder
from foundation.errors import InputError
from index.backend import CollectionBackend
from index.collection import Collection
from index.engines.setting import check_engine
from index.errors import CollectionUnavailable, StoreError, UnknownCollection
from index.filter_parser import check_indexed_fields
from index.folder.named_collections import Collections, HiddenCollection
from index.folder.named_encoders import EncoderFolder
from index.folder.partial import begin, remove, remove_partial, settle, settled
from index.rankings.protocol import HYBRID
from index.schema import AUTO, Description
from index.snapshots.restoring import restore
from index.sqlite.connection_pool import store_error
from index.sqlite.store import Store

STORE_FILE = "store.sqlite"
ROUNDS_BETWEEN_TRIES = 10
SECONDS_FOR_OPENING = 0.25


class LocalCollections(Collections):
    """The collections in one folder. A name is held in the store and never becomes a path."""

    def __init__(
        self, path: Path, encoders: EncoderFolder, engine: str, *, writable: bool, indexed: bool
    ) -> None:
        """Find the collections in `path`; :meth:`open_all` opens them.

        `engine` and `indexed` are for :class:`index.collection.Collection`.
        """
        super().__init__(encoders)
        self._path = path
        self._writable = writable
        self._engine = engine
        self._indexed = indexed
        self._folders: dict[str, Path] = {}
        self._rounds = 0
        self._opening: dict[Path, threading.Thread] = {}

    def open_all(self) -> None:
        """Open every collection there is; a writer first deletes what a crash left behind."""
        if self._writable:
            remove_partial(self._path)
        for folder in settled(self._path):
            self._open_folder(folder, indexed=self._indexed)

    def get_ready(self, name: str) -> CollectionBackend:
        """Return a collection once its index is built."""
        collection = self.get(name)
        if self._indexed and isinstance(collection, Collection):
            collection.build_index()
        return collection

    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> CollectionBackend:
        """Make an empty collection under a name that is free, and return it."""
        partial = self._begin_store(description, encoder, check_indexed_fields(indexed_fields))
        try:
            with self._store_errors():
                folder = settle(partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        name = description.name
        self._folders[name] = folder
        store = Store(folder / STORE_FILE, writable=True)
        self.opened[name] = collection = self._collection(store, encoder, indexed=self._indexed)
        return collection

    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, CollectionBackend]:
        """Make an empty collection in a partial folder, which a crash leaves to be deleted."""
        partial = self._begin_store(description, encoder)
        try:
            # Nobody searches it, and without an index it is written in half the time.
            store = Store(partial / STORE_FILE, writable=True)
            collection = Collection(store, encoder, indexed=False)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

        def appear() -> None:
            collection.close()
            self._settle(partial)

        def delete() -> None:
            collection.close()
            shutil.rmtree(partial, ignore_errors=True)

        return HiddenCollection(partial.stem, appear, delete), collection

    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Make a hidden collection of a snapshot's file, and install its encoder if it is missing.

        Raises:
            SnapshotError: if the file is not a whole snapshot.
            EncoderMismatch: if there is another encoder of the same name.
            StoreError: if it cannot be written.
        """
        with self._store_errors():
            partial = begin(self._path)
        try:
            with self._store_errors():
                restore(tar, partial / STORE_FILE, name, self._encoders)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return HiddenCollection(
            partial.stem,
            lambda: self._settle(partial),
            lambda: shutil.rmtree(partial, ignore_errors=True),
        )

    def published(self, id_: str) -> CollectionBackend | None:
        """Return the collection that was hidden under that id; None if it never appeared."""
        for name, folder in self._folders.copy().items():
            if folder.name == id_:
                return self.opened.get(name)
        return None

    def delete(self, name: str) -> None:
        """Delete a collection with all of its documents, also one that is damaged."""
        folder = self._folders[name]
        self._forget(name)
        remove(folder)

    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""
        check_engine(engine, n_bits)

    def problems(self) -> Mapping[str, list[str]]:
        """Return why nothing can be written to collections that are open, by name."""
        found = {
            name: collection.store.warnings()
            for name, collection in self.by_name().items()
            if isinstance(collection, Collection)
        }
        return MappingProxyType({name: problems for name, problems in found.items() if problems})

    def accept_loss(self, name: str) -> None:
        """Let a collection that lost acknowledged writes go on from what it holds.

        Raises:
            UnknownCollection: if there is none of that name.
            StoreError: if it cannot be written.
        """
        if name not in self._folders:
            raise UnknownCollection(f"there is no collection {name!a}")
        folder = self._folders[name]
        self._forget(name)
        Store(folder / STORE_FILE, writable=True, accept_loss=True).close()
        self._open_folder(folder, indexed=False)

    def follow(self, *, wait: bool) -> None:
        """See :meth:`index.folder.named_collections.Collections.follow`."""
        for name in list(self.opened):
            self._follow_collection(name)
        self._follow_folders(SECONDS_FOR_OPENING if not wait else None)

    def _follow_collection(self, name: str) -> None:
        collection = self.opened[name]
        try:
            if isinstance(collection, Collection) and not collection.follow():
                self._forget(name)
        except StoreError as error:
            folder = self._folders[name]
            self._forget(name)
            self._folders[name], self._unavailable[name] = folder, error

    def _follow_folders(self, seconds: float | None) -> None:
        """Open the collections that were made since, and close those that are gone."""
        self._rounds += 1
        there = settled(self._path)
        for name, folder in list(self._folders.items()):
            # What cannot be opened may have been mended. To try takes long, so it is seldom tried.
            again = name in self._unavailable and self._rounds % ROUNDS_BETWEEN_TRIES == 0
            if folder not in there or again:
                self._forget(name)
        self._opening = {one: thread for one, thread in self._opening.items() if thread.is_alive()}
        for folder in there:
            if folder not in self._folders.values() and folder not in self._opening:
                self._open_beside(folder, seconds)

    def _open_beside(self, folder: Path, seconds: float | None) -> None:
        """Open a collection; if it takes more than so long, the others are followed meanwhile."""
        opening = threading.Thread(
            target=self._open_folder,
            args=(folder,),
            kwargs={"indexed": self._indexed},
            name="opening",
        )
        self._opening[folder] = opening
        opening.start()
        opening.join(seconds)

    @property
    def are_opening(self) -> bool:
        """Whether some that are there will only be found in a while."""
        return any(opening.is_alive() for opening in self._opening.values())

    def close(self) -> None:
        """Close every collection, once those are open that are being opened."""
        for opening in self._opening.values():
            opening.join()
        super().close()

    def _forget(self, name: str) -> None:
        """Close a collection, which stays where it is."""
        self._unavailable.pop(name, None)
        collection = self.opened.pop(name, None)
        if collection is not None:
            collection.close()
        self._folders.pop(name, None)

    def _open_folder(self, folder: Path, *, indexed: bool) -> None:
        """Open a collection, or note why it cannot be opened."""
        name = folder.name
        store = None
        try:
            store = Store(folder / STORE_FILE, writable=self._writable)
            if store.description.name in self._folders:
                raise StoreError(f"there are two collections named {store.description.name!r}")
            name = store.description.name
            encoder = self._encoder_of(store.description)
            self.opened[name] = self._collection(store, encoder, indexed=indexed)
        except (StoreError, CollectionUnavailable) as error:
            if store is not None:
                store.close()
            self._unavailable[name] = error
        self._folders[name] = folder

    def _collection(self, store: Store, encoder: Encoder | None, *, indexed: bool) -> Collection:
        engine = store.description.engine
        try:
            check_engine(engine, store.description.n_bits)
        except InputError as error:
            raise StoreError(f"{store.path}: is damaged: {error}") from error
        engine = self._engine if engine == AUTO else engine
        return Collection(store, encoder, engine=engine, indexed=indexed)

    def _begin_store(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> Path:
        """Write an empty store in a partial folder, and return the folder."""
        with self._store_errors():
            partial = begin(self._path)
        try:
            ranking = _default_ranking(encoder)
            Store.create(partial / STORE_FILE, description, ranking, indexed_fields)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return partial

    def _settle(self, partial: Path) -> None:
        """Let the collection in a partial folder appear."""
        with self._store_errors():
            folder = settle(partial)
        self._open_folder(folder, indexed=False)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of the file system into a StoreError that names the data folder."""
        try:
            yield
        except OSError as error:
            raise store_error(self._path.parent, error, "cannot be written: ") from error


def _default_ranking(encoder: Encoder | None) -> str | None:
    """Return the default ranking of a collection that is made now; None is the distance of codes.

    Texts are stored, so they are searched by their words as well.
    """
    return HYBRID if encoder is not None and encoder.kind == "text" else None
