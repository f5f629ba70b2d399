"""The data folder: encoders and collections by name, and one writer at a time.

::

    encoders/NAME/                       an encoder artifact, and ANALYZER.terms, the terms that
                                         its words have there, which can be made anew
    collections/RANDOM/store.sqlite      a collection; the store holds its name
    collections/RANDOM/words.index       its word index, which can be made anew
    aliases.json                         second names of collections, if there are any
    snapshots/RANDOM/                    a snapshot of a collection

A name from a caller is compared with the existing names and never becomes a path. The writing
process holds an exclusive lock on the folder, which the operating system releases when the
process ends, however it ends. Collections and snapshots appear whole or not at all; see
:mod:`hummingbit.index.catalog`. The remains of a crash are deleted at the next opening for
writing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack
from urllib.parse import parse_qsl, urlsplit

from hummingbit.foundation.errors import install_command
from hummingbit.foundation.files import remove_leftovers
from hummingbit.foundation.processes import Process, ProcessLock
from hummingbit.foundation.slices import begin_stage, count_in_stage
from hummingbit.index.catalog import (
    AddAlias,
    AliasAction,
    Aliases,
    Collections,
    EncoderFolder,
    HiddenCollection,
    check_name,
    is_sign_encoder,
)
from hummingbit.index.collection import Collection
from hummingbit.index.errors import (
    CollectionExists,
    DataFolderError,
    StoreClosed,
    StoreError,
    UnknownCollection,
)
from hummingbit.index.folders import Draft, LocalCollections
from hummingbit.index.languages import check_language
from hummingbit.index.lock import FolderLock
from hummingbit.index.names import AUTO, FLOAT32, Backend, check_backend
from hummingbit.index.passages import Passages

if TYPE_CHECKING:
    from hummingbit.index.snapshots import Snapshot, Snapshots
    from hummingbit.index.transfer import Header

# What only exports, snapshots and re-encoding need is imported there: a search would wait for it.

# A thread that keeps a data folder open for reading up to date with its writer.


SECONDS = 0.25

_log = logging.getLogger("hummingbit.index")


class Follower:
    """Calls a function every :data:`SECONDS` until it is stopped."""

    def __init__(self, follow: Callable[[], object]) -> None:
        """Start the thread; an error of `follow` is logged once, until it changes or is over."""
        self._follow = follow
        self._stopped = threading.Event()
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after a call in progress."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(SECONDS):
            try:
                self._follow()
                self._last_error = ""
            except Exception as error:  # noqa: BLE001 - the next call may succeed
                if str(error) != self._last_error:
                    _log.warning("following the data folder failed: %s", error)
                self._last_error = str(error)


# The data folder.


ALIASES_FILE = "aliases.json"


class CollectionSettings(TypedDict, total=False):
    """The settings of :meth:`DataFolder.create_collection`."""

    encoder: str | None
    n_bits: int | None
    engine: str
    indexed_fields: Sequence[str] | None
    keep_vectors: str
    passages: Passages | None
    language: str | None


class DataFolder:
    """An open data folder. All methods are thread-safe."""

    def __init__(
        self,
        path: Path,
        *,
        writable: bool,
        engine: str = "auto",
        indexed: bool = True,
        follow: bool = False,
    ) -> None:
        """Open the data folder at `path`; if `writable`, a missing folder is created.

        A folder opened for reading shows its contents at that moment, and with `follow` what
        another process writes later. `engine` and `indexed` are those of
        :class:`hummingbit.index.collection.Collection`; a process that only writes needs no index.

        Raises:
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if the folder is missing, or cannot be created or read.
        """
        self.path = path
        self.writable = writable
        self.process = Process(path)
        """The process that may use the folder."""
        self._changing = ProcessLock(self.process)
        self.encoders = EncoderFolder(path / "encoders")
        self._reserved: set[str] = set()
        self._predecessors: Mapping[str, Collection] = {}
        self._follower: Follower | None = None
        self._collections = self._make_collections(engine, indexed=indexed)
        self._lock = FolderLock(path, self.process, writable=writable)
        if writable:
            remove_leftovers(path / "encoders")
            self.encoders.delete_partial()
        try:
            if writable:
                self.snapshots.delete_partial()
            self._collections.open_all()
            self._aliases = self._read_aliases()
            is_current = {*self._aliases.names.values()} <= self._collections.names()
            if not writable and not is_current:
                self.follow()  # the writer has moved an alias meanwhile
        except BaseException:
            self.close()
            raise
        if follow and not writable:
            self._follower = Follower(lambda: self.follow(wait=False))

    @cached_property
    def snapshots(self) -> Snapshots:
        """The snapshots in the folder."""
        from hummingbit.index.snapshots import Snapshots  # noqa: PLC0415 - see above

        return Snapshots(self.path / "snapshots")

    def _make_collections(self, engine: str, *, indexed: bool) -> Collections:
        """Return the collections, none of them open yet."""
        path, writable = self.path / "collections", self.writable
        return LocalCollections(path, self.encoders, engine, writable=writable, indexed=indexed)

    def _read_aliases(self) -> Aliases:
        """Read the aliases, which another process may have changed."""
        return Aliases(self.path / ALIASES_FILE)

    def engine_problem(self) -> str | None:
        """Return why the server that stores the collections cannot be used now, within seconds.

        It is None if it can, and where the collections are in the data folder.
        """
        return None

    def prepare_fork(self) -> None:
        """Close all connections, so that this process and a forked one can both use the folder.

        The caller's must be the only thread, and the folder be open for reading.
        """
        for collection in self.collections().values():
            collection.prepare_fork()
        self.process.share()

    @property
    def linger_seconds(self) -> float:
        """How long reads may go on that began before their collection was dropped.

        A dropped collection is closed when nobody holds it any more, and after so many seconds at
        the latest; with 0, it is closed at once. On Windows, where open files cannot be deleted, it
        is always closed at once.
        """
        return self._collections.linger_seconds

    @linger_seconds.setter
    def linger_seconds(self, seconds: float) -> None:
        self._collections.linger_seconds = seconds

    @property
    def moved_aliases(self) -> Names[str]:
        """The aliases that another process moved to collections which are not open here yet.

        Until they are, the collection that an alias named before is returned for it.
        """
        return self._predecessors.keys()

    def aliases(self) -> Mapping[str, str]:
        """Return the collection of each alias, in the order of the aliases."""
        self.process.check()
        return self._aliases.current()

    def change_aliases(
        self, actions: Sequence[AliasAction], job: str | None = None
    ) -> Mapping[str, str]:
        """Apply all actions or none; see :meth:`hummingbit.index.catalog.Aliases.apply`.

        Raises:
            DataFolderError: also if the folder is not open for writing.
        """
        with self._changing:
            self._lock.check_writable()
            return self._aliases.apply(actions, self._collections.names(), job)

    def aliases_changed_by(self, job: str) -> bool:
        """Tell whether :meth:`change_aliases` applied the actions of a job."""
        return self._aliases.changed_by(job)

    def collections(self) -> Mapping[str, Collection]:
        """Return the collections by name, in the order of the names."""
        self.process.check()
        return self._collections.by_name()

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name, or by folder if the name is unknown."""
        return self._collections.unavailable()

    def collection(self, name: str) -> Collection:
        """Return a collection by its name or an alias; see :meth:`Collections.get`.

        An alias always has a collection while it moves, even if the collection that it leaves is
        dropped at once.
        """
        self.process.check()
        while True:
            predecessors, aliases = self._predecessors, self._aliases.names
            target = aliases.get(name, name)
            collection = predecessors.get(name)
            if collection is None:
                collection = self._collections.opened.get(target)
            if collection is not None:
                return collection
            if predecessors is self._predecessors and aliases is self._aliases.names:
                return self._collections.get(target)

    def create_collection(self, name: str, **settings: Unpack[CollectionSettings]) -> Collection:
        """Create a collection with an encoder, or for documents with codes of `n_bits`.

        Without either, the encoder is the one that ships (:func:`catalog.shipped_encoder`); if it
        is not installed, or `n_bits` is 0, documents are searched by words alone.
        `engine` is one of :data:`hummingbit.index.engines.choice.INDEX_TYPES`.
        Filters on `indexed_fields` read no payloads. Vectors are kept in a form of
        :mod:`hummingbit.index.kept_vectors`. With `passages`, texts are split. The `language` is
        that of :meth:`hummingbit.index.backend.CollectionBackend.set_language`; it is found without
        one. If a collection with the same name and settings exists, it is returned.

        Raises:
            InputError: if a value is invalid, or both encoder and `n_bits` are given.
            UnknownEncoder, ArtifactError: if the encoder is missing or damaged.
            CollectionExists: if an alias or a collection with other settings has the name.
            StoreError: if it cannot be written.
        """
        return self.find_or_create_collection(name, **settings)[0]

    def find_or_create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str = AUTO,
        indexed_fields: Sequence[str] | None = None,
        keep_vectors: str = FLOAT32,
        passages: Passages | None = None,
        language: str | None = None,
    ) -> tuple[Collection, bool]:
        """Do as :meth:`create_collection`; tell also whether this call created the collection."""
        if language not in (None, AUTO):
            check_language(language)
        if n_bits is None and (encoder is None or is_sign_encoder(encoder)):
            self._lock.check_writable()
        description, loaded = self._collections.describe(
            name, encoder, n_bits, engine, keep_vectors=keep_vectors, passages=passages
        )
        with self._changing:
            if name in self._collections.names():
                existing = self._collections.get_equal(description, indexed_fields)
                if language not in (None, AUTO, existing.language):
                    is_of = f"exists with the language {existing.language}, not {language}"
                    raise CollectionExists(f"collection {name!r} {is_of}")
                return existing, False
            self._check_free(name)
            self._lock.check_writable()
            created = self._collections.create(description, loaded, indexed_fields or ())
            if language is not None:
                try:
                    created.set_language(language)
                except BaseException:
                    self._collections.delete(name)
                    raise
            return created, True

    def draft_collection(
        self,
        name: str,
        *,
        encoder: str,
        engine: str = AUTO,
        keep_vectors: str = FLOAT32,
        passages: Passages | None = None,
    ) -> Draft:
        """Create a collection that is hidden until it is published; its name is reserved meanwhile.

        Raises:
            InputError, UnknownEncoder, ArtifactError, StoreError: as :meth:`create_collection`.
            CollectionExists: if the name is taken.
        """
        description, loaded = self._collections.describe(
            name, encoder, None, engine, keep_vectors=keep_vectors, passages=passages
        )
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

    def draft_like(
        self, source: Collection, name: str, encoder: str, engine: str | None = None
    ) -> Draft:
        """Create a draft with the settings of `source`, except for its encoder and its `engine`.

        Raises:
            InputError, UnknownEncoder, ArtifactError, StoreError, CollectionExists: as
                :meth:`draft_collection`.
        """
        from hummingbit.index.ingestion import form_for, passages_for  # noqa: PLC0415 - see above

        draft = self.draft_collection(
            name,
            encoder=encoder,
            engine=engine or source.engine_setting,
            keep_vectors=form_for(self, encoder, source),
            passages=passages_for(self, encoder, source),
        )
        try:
            if source.n_bits:  # without codes, words alone could rank
                draft.collection.set_ranking(source.ranking)
            if source.own_hybrid_weight is not None:
                draft.collection.set_hybrid_weight(source.own_hybrid_weight)
            draft.collection.set_indexed_fields(source.indexed_fields)
            draft.collection.remember_field_types(source.field_types)
            if source.language is not None:
                draft.collection.set_language(source.language)
        except BaseException:
            draft.discard()
            raise
        return draft

    def reindex(
        self, name: str, encoder: str, into: str, alias: str | None, engine: str | None
    ) -> int:
        """Re-encode a collection into another and then move `alias`; return how many documents.

        If that fails, no new collection is left behind. Other services wait with their writes.

        Raises:
            InputError, UnknownCollection, UnknownEncoder, ArtifactError, StoreError,
            CollectionExists: as :meth:`collection` and :meth:`draft_collection`.
        """
        source = self.collection(name)
        if alias is not None:
            check_name(alias, "alias")
        from hummingbit.index.ingestion import carry_annotations, copy_following  # noqa: PLC0415 - see above

        draft = self.draft_like(source, into, encoder, engine)
        try:
            with source.holding_writes():
                with count_in_stage("encoding", len(source)) as advance:
                    copy_following(source, draft.collection, 0, advance)
                begin_stage("copying labels and judgements")
                carry_annotations(source, draft.collection)
                target = draft.publish()
        finally:
            draft.discard()  # unless it was published
        if alias is not None:
            try:
                self.change_aliases([AddAlias(alias, into)])
            except BaseException:
                self.drop_collection(into)
                raise
        return len(target)

    def collection_for(self, name: str, header: Header) -> Collection:
        """See :func:`hummingbit.index.transfer.collection_for`."""
        from hummingbit.index.transfer import collection_for  # noqa: PLC0415 - see above

        return collection_for(self, name, header)

    def published_draft(self, id_: str) -> Collection | None:
        """Return the collection that was the draft `id_`; None if it was never published."""
        return self._collections.published_draft(id_)

    def drop_collection(self, name: str) -> None:
        """Delete a collection with all its documents and aliases, even if it is damaged.

        UnknownCollection is raised if no collection has that name.
        """
        with self._changing:
            if name not in self._collections.names():
                raise UnknownCollection(self._explain_unknown(name))
            self._lock.check_writable()
            self._aliases.forget(name)
            self._collections.delete(name)

    def _explain_unknown(self, name: str) -> str:
        """Return why a name is that of no collection."""
        target = self._aliases.resolve(name)
        if target == name:
            return f"there is no collection {name!r}"
        return f"{name!r} is an alias of the collection {target!r}; give the collection's own name"

    def create_snapshot(
        self, name: str, before_appearing: Callable[[str], object] | None = None
    ) -> Snapshot:
        """Copy one generation of a collection and its encoder; searches and writes continue.

        `before_appearing` is called with the id just before the snapshot is listed.

        Raises:
            UnknownCollection, CollectionUnavailable: as :meth:`collection`.
            DataFolderError: if the folder is not open for writing.
            SnapshotError: if the snapshot cannot be written.
        """
        self._lock.check_writable()
        collection = self.collection(name)
        collection.remove_expired()
        encoder = collection.encoder_name
        artifact = None if encoder is None else self.encoders.folder(encoder)
        return self.snapshots.create(collection.store.copy_to, artifact, before_appearing)

    def remove_expired(self) -> None:
        """Delete from all open collections the documents that have expired.

        An error is logged, and the next call tries again: no read returns these documents.
        """
        for name, collection in self.collections().items():
            try:
                collection.remove_expired()
            except StoreClosed:
                continue  # it was dropped meanwhile
            except StoreError as error:
                _log.warning("removing expired documents of %s failed: %s", name, error)

    def restore_snapshot(
        self,
        snapshot: Path | str,
        name: str,
        before_appearing: Callable[[str], object] | None = None,
    ) -> Collection:
        """Create the collection `name` from a snapshot, and its encoder if it is missing.

        `snapshot` is a snapshot's file, or the id of one of this folder.
        `before_appearing` is called with the id of :meth:`published_draft`, before it appears.

        Raises:
            InputError, CollectionExists: if the name is invalid or taken.
            UnknownSnapshot: if the folder has no snapshot with the id.
            SnapshotError, EncoderMismatch, StoreError: as :meth:`Collections.restore_hidden`.
            DataFolderError: if the folder is not open for writing.
        """
        check_name(name)
        self._lock.check_writable()
        tar = self.snapshots.file(snapshot) if isinstance(snapshot, str) else snapshot
        restored = self._collections.restore_hidden(tar, name)
        try:
            with self._changing:
                self._check_free(name)
                if before_appearing is not None:
                    before_appearing(restored.id)
                restored.appear()
        finally:
            restored.delete()
        return self._collections.get_ready(name)

    def problems(self) -> Mapping[str, list[str]]:
        """Return why open collections refuse writes, by name."""
        return self._collections.problems()

    def accept_loss(self, name: str) -> None:
        """Accept the loss of acknowledged writes, so that a collection can be written again.

        Raises:
            UnknownCollection, StoreError: if there is none of that name, or it cannot be written.
            DataFolderError: if the folder is not open for writing.
        """
        name = self._aliases.resolve(name)
        with self._changing:
            self._lock.check_writable()
            self._collections.accept_loss(name)
        self._collections.get_ready(name)

    def follow(self, *, wait: bool = True) -> None:
        """Show what another process has written since: documents, collections and aliases.

        Without `wait`, a collection that opens slowly appears later; see :attr:`moved_aliases`.
        """
        with self._changing:
            if not self._lock.is_open:
                return
            gone, before = self._collections.find_gone(), self._aliases.names
            left = {alias: gone[name] for alias, name in before.items() if name in gone}
            self._predecessors = held = {**left, **self._predecessors}
            try:
                # Aliases are read before the collections are followed, so that these hold what was
                # written before an alias moved.
                aliases = self._read_aliases()
            finally:
                current = self._collections.follow(gone, wait=wait)
            predecessors = {}
            for alias, name in aliases.names.items():
                previous = held.get(alias, self._collections.opened.get(before.get(alias, "")))
                if name not in current and previous is not None:
                    predecessors[alias] = previous
            # At every moment, each alias that has a collection is found.
            self._predecessors = {**held, **predecessors}
            self._aliases = aliases
            self._predecessors = predecessors
            self._collections.let_go({*predecessors.values()})

    def close(self) -> None:
        """Close every collection and release the lock; a forked process closes nothing."""
        if not self.process.is_here:
            return
        if self._follower is not None:
            self._follower.stop()
        with self._changing:
            self._collections.close()
            self._lock.close()

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(self, name: str, hidden: HiddenCollection) -> Collection:
        with self._changing:
            self._aliases.check_free(name)
            hidden.appear()
        return self._collections.get_ready(name)

    def _check_free(self, name: str) -> None:
        if name in self._collections.names():
            raise CollectionExists(f"collection {name!r} already exists")
        if name in self._reserved:
            raise CollectionExists(f"collection {name!r} is being created")
        self._aliases.check_free(name)


# Where collections are stored, according to settings and options.


def check_postgres_address(uri: str) -> None:
    """Raise ValueError unless the address can be printed and names a server of PostgreSQL."""
    parts = urlsplit(uri)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("must look like postgresql://USER@HOST:5432/DATABASE")
    if parts.password or "password" in dict(parse_qsl(parts.query)):
        raise ValueError("must not hold a password, because addresses are printed; give it apart")


@dataclass(frozen=True, slots=True)
class DataFolderLocation:
    """The data folder, and whether its collections are stored in it or on a server."""

    path: Path
    engine: Backend = "local"
    postgres_uri: str | None = None
    postgres_password: str | None = field(default=None, repr=False)

    def open(self, *, writable: bool, indexed: bool = True, follow: bool = False) -> DataFolder:
        """Open the data folder; see :class:`hummingbit.index.data_folder.DataFolder`.

        Raises:
            DataFolderError: if it cannot be opened, or the package for the server or its address
                is missing.
            StoreError: if the server cannot be reached or refuses the connection.
        """
        if self.engine == "local":
            return DataFolder(self.path, writable=writable, indexed=indexed, follow=follow)
        try:
            check_backend(self.engine)
        except ValueError as error:
            raise DataFolderError(f"engine is {self.engine[:80]!r}; it {error}") from None
        if self.postgres_uri is None:
            example = "for example postgresql://USER@HOST:5432/DATABASE"
            hint = f"set --postgres-uri or HUMMINGBIT_POSTGRES_URI, {example}"
            raise DataFolderError(f"the engine postgres needs the address of a server; {hint}")
        if find_spec("psycopg") is None:
            hint = install_command("postgres")
            raise DataFolderError(f"the engine postgres needs the package psycopg; run {hint}")
        # psycopg may not be installed.
        from hummingbit.index.postgres.folder import PostgresFolder  # noqa: PLC0415

        options = {"writable": writable, "indexed": indexed, "follow": follow}
        return PostgresFolder(self.path, self.postgres_uri, self.postgres_password, **options)
