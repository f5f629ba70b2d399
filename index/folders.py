"""Collections that are stored in the data folder, each in a folder with a random name."""

from __future__ import annotations

import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Names
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.catalog import (
    Collections,
    EncoderFolder,
    HiddenCollection,
    begin_folder,
    finish_folder,
    finished_folders,
    remove_folder,
    remove_partial_folders,
)
from hummingbit.index.collection import Collection
from hummingbit.index.engines.choice import check_index_type
from hummingbit.index.errors import (
    CollectionUnavailable,
    StoreError,
    UnknownCollection,
    store_error,
)
from hummingbit.index.filters import check_indexed_fields
from hummingbit.index.names import AUTO, BM25, HYBRID
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store

# A collection that stays hidden until it is complete.
#
# Its store is in a partial folder (:mod:`hummingbit.index.catalog`), so nobody else finds or
# changes it, and the next opening of the data folder deletes what a crash leaves. Its name is
# reserved meanwhile.


class Draft:
    """A hidden collection; :meth:`publish` or :meth:`discard` ends it."""

    def __init__(
        self,
        name: str,
        hidden: HiddenCollection,
        collection: Collection,
        publish: Callable[[str, HiddenCollection], Collection],
        release: Callable[[str], object],
    ) -> None:
        """Hold a hidden collection; `publish` makes it appear, and `release` frees its name."""
        self.id = hidden.id
        """The id for :meth:`hummingbit.index.data_folder.DataFolder.published_draft`."""
        self.collection = collection
        self._name = name
        self._hidden = hidden
        self._publish = publish
        self._release = release
        self._ended = False

    def publish(self) -> Collection:
        """Make the collection appear under its name, in one step, and return it.

        Raises:
            CollectionExists: if an alias has got the name meanwhile; the draft stays.
            StoreError, DataFolderError: if it cannot be opened.
        """
        collection = self._publish(self._name, self._hidden)
        self._release(self._name)
        self._ended = True
        return collection

    def discard(self) -> None:
        """Delete the collection, unless it was published or discarded before."""
        if not self._ended:
            self._ended = True
            self._hidden.delete()
            self._release(self._name)


def first_ranking(description: Description, encoder: Encoder | None) -> str | None:
    """Return the default ranking of a collection that is created; None is by Hamming distance."""
    # Texts are stored, so they can also be searched by their words.
    takes_texts = encoder is not None and encoder.kind == "text"
    return BM25 if description.n_bits == 0 else HYBRID if takes_texts else None


# Collections that are read from stores.


ROUNDS_BETWEEN_RETRIES = 10
SECONDS_FOR_OPENING = 0.25
# Windows deletes no open file.
IS_WINDOWS = os.name == "nt"


class StoredCollections(Collections):
    """Collections that are read from stores, in the data folder or on a server.

    Those that are gone close once the reads in progress end. Others are opened in threads.
    """

    def __init__(
        self, path: Path, encoders: EncoderFolder, engine: str, *, writable: bool, indexed: bool
    ) -> None:
        """Hold no collections yet; their files are in the folder `path`.

        `engine` and `indexed` are passed to :class:`hummingbit.index.collection.Collection`.
        """
        super().__init__(encoders)
        self._path = path
        self._engine = engine
        self._writable = writable
        self._indexed = indexed
        self._rounds = 0
        self._opening: dict[Path | str, threading.Thread] = {}
        """The threads that open collections which others made, by folder or id."""
        self._gone: list[Collection] = []
        self._lingering: dict[Store, threading.Timer] = {}

    def get_ready(self, name: str) -> Collection:
        """Return a collection after building its index."""
        collection = self.get(name)
        if self._indexed:
            collection.build_index()
        return collection

    def let_go(self, held: Names[Collection] = ()) -> None:
        """Close the collections that are gone, except those that are still `held`.

        Reads in progress go on for at most :attr:`linger_seconds`. They hold the collection, and
        its files can be read while they are open.
        """
        gone, self._gone = self._gone, [kept for kept in self._gone if kept in held]
        for collection in gone:
            if collection in held:
                continue
            if not self.linger_seconds or IS_WINDOWS:
                collection.close()
                continue
            collection.end_writing()
            timer = threading.Timer(self.linger_seconds, self._end_lingering, (collection.store,))
            timer.daemon = True
            self._lingering[collection.store] = timer
            timer.start()
            # Nobody can read it any more once this process has no reference to it.
            finalizer = weakref.finalize(collection, self._end_lingering, collection.store)
            finalizer.atexit = False

    def close(self) -> None:
        """Close every collection, after those that are being opened are open."""
        for opening in self._opening.values():
            opening.join()
        super().close()
        for store in list(self._lingering):
            self._end_lingering(store)
        while self._gone:
            self._gone.pop().close()

    def _take_away(self, name: str) -> None:
        """Take the name from a collection, which is closed by :meth:`let_go`."""
        self._unavailable.pop(name, None)
        if name in self.opened:
            self._gone.append(self.opened.pop(name))

    def _end_lingering(self, store: Store) -> None:
        timer = self._lingering.pop(store, None)
        if timer is not None:
            timer.cancel()
            store.close()


# Collections that are stored in the data folder, each in a folder with a random name.


STORE_FILE = "store.sqlite"


class LocalCollections(StoredCollections):
    """The collections in one folder. The store holds the name, which never becomes a path."""

    def __init__(
        self, path: Path, encoders: EncoderFolder, engine: str, *, writable: bool, indexed: bool
    ) -> None:
        """Hold the collections in `path`; :meth:`open_all` opens them.

        `engine` and `indexed` are passed to :class:`hummingbit.index.collection.Collection`.
        """
        super().__init__(path, encoders, engine, writable=writable, indexed=indexed)
        self._folders: dict[str, Path] = {}

    def open_all(self) -> None:
        """Open every collection; a writer first deletes the remains of a crash."""
        if self._writable:
            remove_partial_folders(self._path)
        for folder in finished_folders(self._path):
            self._open_folder(folder, indexed=self._indexed)

    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> Collection:
        """Create an empty collection under a free name and return it."""
        partial = self._begin_store(description, encoder, check_indexed_fields(indexed_fields))
        try:
            with self._store_errors():
                folder = finish_folder(partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        name = description.name
        self._folders[name] = folder
        store = Store(folder / STORE_FILE, writable=True)
        self.opened[name] = collection = self._open_store(store, encoder, indexed=self._indexed)
        return collection

    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, Collection]:
        """Create an empty collection in a partial folder."""
        partial = self._begin_store(description, encoder)
        try:
            # Nobody searches it, and without an index, writes take half the time.
            store = Store(partial / STORE_FILE, writable=True)
            collection = Collection(store, encoder, indexed=False)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

        def appear() -> None:
            collection.close()
            self._finish(partial)

        def delete() -> None:
            collection.close()
            shutil.rmtree(partial, ignore_errors=True)

        return HiddenCollection(partial.stem, appear, delete), collection

    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Create a hidden collection from a snapshot file; a missing encoder is installed.

        Raises:
            SnapshotError: if the file is not a complete, intact snapshot.
            EncoderMismatch: if another encoder has the same name.
            StoreError: if the collection cannot be written.
        """
        from hummingbit.index.snapshots import restore  # noqa: PLC0415 - it imports tarfile

        partial = self._begin(lambda path: restore(tar, path, name, self._encoders))
        return HiddenCollection(
            partial.stem,
            lambda: self._finish(partial),
            lambda: shutil.rmtree(partial, ignore_errors=True),
        )

    def published_draft(self, id_: str) -> Collection | None:
        """Return the collection that was hidden under that id; None if it never appeared."""
        for name, folder in self._folders.copy().items():
            if folder.name == id_:
                return self.opened.get(name)
        return None

    def delete(self, name: str) -> None:
        """Delete a collection with all its documents, even if it is damaged."""
        self._take_away(name)
        self.let_go()
        remove_folder(self._folders.pop(name))

    def problems(self) -> Mapping[str, list[str]]:
        """Return why open collections refuse writes, by name; not of those dropped meanwhile."""
        problems: dict[str, list[str]] = {}
        for name, collection in self.by_name().items():
            try:
                warnings = collection.store.warnings()
            except StoreError as error:
                warnings = [str(error)]
            is_kept = self.opened.get(name) is collection and not self._is_gone(name)
            if warnings and is_kept:
                problems[name] = warnings
        return MappingProxyType(problems)

    def accept_loss(self, name: str) -> None:
        """Accept the loss of acknowledged writes, so that a collection can be written again.

        Raises:
            UnknownCollection: if no collection has that name.
            StoreError: if it cannot be written.
        """
        if name not in self._folders:
            raise UnknownCollection(f"there is no collection {name!r}")
        folder = self._folders[name]
        self._close_collection(name)
        Store(folder / STORE_FILE, writable=True, accept_loss=True).close()
        self._open_folder(folder, indexed=False)

    def find_gone(self) -> Mapping[str, Collection]:
        """See :meth:`hummingbit.index.catalog.Collections.find_gone`."""
        present = {*finished_folders(self._path)}
        return {
            name: self.opened[name]
            for name, folder in self._folders.copy().items()
            if folder not in present and name in self.opened
        }

    def follow(self, gone: Mapping[str, Collection], *, wait: bool) -> set[str]:
        """See :meth:`hummingbit.index.catalog.Collections.follow`."""
        self._rounds += 1
        for name in gone:
            self._take_away(name)
            self._folders.pop(name, None)
        present = finished_folders(self._path)
        for name in list(self._unavailable):
            # It may have been repaired. Opening is slow, so retries are few.
            if self._folders.get(name) not in present or not self._rounds % ROUNDS_BETWEEN_RETRIES:
                self._close_collection(name)
        before = {*self.opened}
        for name in before:
            self._follow_collection(name)
        self._open_new(present, SECONDS_FOR_OPENING if not wait else None)
        opened = {*self.opened} - before
        for name in opened:
            self._follow_collection(name)  # its opening may have begun long ago
        return before | opened | {*self._unavailable}

    def _is_gone(self, name: str) -> bool:
        """Tell whether the folder of a collection was deleted, which only the writer does."""
        folder = self._folders.get(name)
        return folder is None or (not self._writable and not folder.is_dir())

    def _follow_collection(self, name: str) -> None:
        collection, reason = self.opened[name], None
        try:
            if collection.follow():
                return
        except StoreError as error:
            reason = error
        if self._is_gone(name):
            return  # the next call finds out
        folder = self._folders[name]
        self._close_collection(name)
        if reason is not None:
            self._folders[name], self._unavailable[name] = folder, reason

    def _open_new(self, folders: Sequence[Path], seconds: float | None) -> None:
        """Open the collections that were created since; wait for them at most so many `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._opening = {
            folder: thread for folder, thread in self._opening.items() if thread.is_alive()
        }
        for folder in folders:
            if folder in self._folders.values() or folder in self._opening:
                continue
            opening = threading.Thread(
                target=self._open_folder,
                args=(folder,),
                kwargs={"indexed": self._indexed},
                name="opening",
            )
            self._opening[folder] = opening
            opening.start()
            opening.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _close_collection(self, name: str) -> None:
        """Close a collection; its files stay."""
        self._unavailable.pop(name, None)
        self._folders.pop(name, None)
        if name in self.opened:
            self.opened.pop(name).close()

    def _open_folder(self, folder: Path, *, indexed: bool) -> None:
        """Open a collection, or record why it cannot be opened."""
        name = folder.name
        store = None
        try:
            store = Store(folder / STORE_FILE, writable=self._writable)
            name = store.description.name
            if name in self._folders:
                if self._is_gone(name):
                    store.close()
                    return  # the next call of `follow` opens it under the name that is free then
                name = folder.name
                raise StoreError(f"another collection is also named {store.description.name!r}")
            encoder = self._encoder_of(store.description)
            self.opened[name] = self._open_store(store, encoder, indexed=indexed)
        except (StoreError, CollectionUnavailable) as error:
            if store is not None:
                store.close()
            if not self._writable and not folder.is_dir():
                return  # the writer has dropped it meanwhile
            self._unavailable[name] = error
        self._folders[name] = folder

    def _open_store(self, store: Store, encoder: Encoder | None, *, indexed: bool) -> Collection:
        engine = store.description.engine
        try:
            check_index_type(engine, store.description.n_bits)
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
        """Write an empty store in a partial folder and return the folder."""
        ranking = first_ranking(description, encoder)
        return self._begin(lambda path: Store.create(path, description, ranking, indexed_fields))

    def _begin(self, write: Callable[[Path], object]) -> Path:
        """Return a new partial folder in which `write` has written a store."""
        with self._store_errors():
            partial = begin_folder(self._path)
            try:
                write(partial / STORE_FILE)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
        return partial

    def _finish(self, partial: Path) -> None:
        """Make the collection in a partial folder appear, and open it."""
        with self._store_errors():
            folder = finish_folder(partial)
        self._open_folder(folder, indexed=False)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of the file system into a StoreError that names the data folder."""
        try:
            yield
        except OSError as error:
            raise store_error(self._path.parent, error, "cannot be written: ") from error
