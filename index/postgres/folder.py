"""A data folder with its collections on PostgreSQL, and the names that services share there.

The schema ``hummingbit`` has the catalogue: the names of collections, the aliases, and the encoders
that collections use, which each service copies into its own data folder. What a service derives
from its collections, and its keys and jobs, are in its own data folder, too.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Names
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from hummingbit.encoder.artifact import ArtifactError, read_listed_names
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.catalog import (
    AliasAction,
    Aliases,
    Collections,
    EncoderFolder,
    HiddenCollection,
)
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder, Follower
from hummingbit.index.engines.choice import check_index_type
from hummingbit.index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    EncoderMismatch,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    UnknownEncoder,
)
from hummingbit.index.filters import check_indexed_fields
from hummingbit.index.folders import (
    ROUNDS_BETWEEN_RETRIES,
    SECONDS_FOR_OPENING,
    StoredCollections,
    first_ranking,
)
from hummingbit.index.names import AUTO
from hummingbit.index.postgres.server import Connection, Server
from hummingbit.index.postgres.store import PostgresStore, create_store, fill_store, schema_of
from hummingbit.index.schema import Description
from hummingbit.index.snapshots import restore
from hummingbit.index.store.store import Store

# The catalogue, which services share.


FORMAT_VERSION = 1
CATALOGUE = f"""
CREATE SCHEMA IF NOT EXISTS hummingbit;
CREATE TABLE IF NOT EXISTS hummingbit.catalogue (key text PRIMARY KEY, value json NOT NULL);
CREATE TABLE IF NOT EXISTS hummingbit.collections (id text PRIMARY KEY, name text UNIQUE);
CREATE TABLE IF NOT EXISTS hummingbit.encoders (
    fingerprint text NOT NULL, file text NOT NULL, content bytea NOT NULL,
    PRIMARY KEY (fingerprint, file)
);
INSERT INTO hummingbit.catalogue VALUES ('format_version', '{FORMAT_VERSION}'),
    ('aliases', '{{"aliases": {{}}, "jobs": []}}') ON CONFLICT DO NOTHING
"""  # noqa: S608 - a number
# One number for the catalogue; those of hidden collections follow from their ids.
CATALOGUE_LOCK = 0x48424954
MAX_JOBS = 100
# A read in progress keeps the tables of a collection; then, a later call deletes them.
DROP_MILLISECONDS = 200


class Catalogue:
    """The names of collections, their encoders and aliases, in the schema ``hummingbit``."""

    def __init__(self, server: Server, *, writable: bool) -> None:
        """Open the catalogue; if `writable`, a missing one is created.

        Raises:
            StoreError: if it is missing, or of another version.
        """
        self.server = server
        with self._changing() if writable else server.borrow() as connection:
            if writable:
                connection.run(CATALOGUE)
            query = "SELECT 1 FROM pg_tables WHERE schemaname = 'hummingbit'"
            if connection.run(query).fetchone() is None:
                hint = "the first service that writes creates them"
                raise StoreError(f"PostgreSQL at {server.address} has no collections; {hint}")
            query = "SELECT value FROM hummingbit.catalogue WHERE key = 'format_version'"
            version = (connection.run(query).fetchone() or (None,))[0]
        if version != FORMAT_VERSION:
            known = f"this hummingbit reads version {FORMAT_VERSION}"
            raise StoreError(f"PostgreSQL at {server.address} has version {version}; {known}")

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """Lend a connection in a transaction, while no other service changes the catalogue."""
        with self.server.borrow() as connection:
            connection.run("BEGIN")
            connection.run("SELECT pg_advisory_xact_lock(%s)", (CATALOGUE_LOCK,))
            yield connection
            connection.run("COMMIT")

    def names(self) -> dict[str, str]:
        """Return the name of each collection that is not hidden, by its id."""
        query = "SELECT id, name FROM hummingbit.collections WHERE name IS NOT NULL ORDER BY name"
        with self.server.borrow() as connection:
            return dict(connection.run(query).fetchall())

    def hidden(self) -> list[str]:
        """Return the ids of the hidden collections."""
        query = "SELECT id FROM hummingbit.collections WHERE name IS NULL"
        with self.server.borrow() as connection:
            return [id_ for (id_,) in connection.run(query).fetchall()]

    def add(self, name: str | None, make: Callable[[Connection, str], object]) -> str:
        """Add a collection that `make` makes, all in one transaction; return its id.

        Without a `name`, it is hidden.

        Raises:
            CollectionExists: if the name is taken.
        """
        id_ = secrets.token_hex(8)
        with self._changing() as connection:
            if name is not None:
                self._check_free(connection, name)
            connection.run("INSERT INTO hummingbit.collections VALUES (%s, %s)", (id_, name))
            make(connection, id_)
        return id_

    def show(self, id_: str, name: str) -> None:
        """Give a hidden collection its name.

        Raises:
            CollectionExists: if the name is taken.
        """
        with self._changing() as connection:
            self._check_free(connection, name)
            query = "UPDATE hummingbit.collections SET name = %s WHERE id = %s"
            connection.run(query, (name, id_))

    def hide(self, id_: str) -> None:
        """Take its name from a collection, so that nobody finds it any more."""
        query = "UPDATE hummingbit.collections SET name = NULL WHERE id = %s"
        with self._changing() as connection:
            connection.run(query, (id_,))

    def drop(self, id_: str) -> bool:
        """Delete a hidden collection, unless somebody still reads it; tell whether it is gone."""
        try:
            with self.server.borrow() as connection:
                connection.run("BEGIN")
                connection.run(f"SET LOCAL lock_timeout = '{DROP_MILLISECONDS}ms'")
                connection.run(f'DROP SCHEMA IF EXISTS "{schema_of(id_)}" CASCADE')
                connection.run("DELETE FROM hummingbit.collections WHERE id = %s", (id_,))
                connection.run("COMMIT")
        except StoreUnavailable:
            return False
        return True

    def _check_free(self, connection: Connection, name: str) -> None:
        query = "SELECT 1 FROM hummingbit.collections WHERE name = %s"
        if connection.run(query, (name,)).fetchone() is not None:
            raise CollectionExists(f"collection {name!r} already exists")
        aliases, _ = self.aliases(connection)
        if name in aliases:
            raise CollectionExists(f"{name!r} is an alias of collection {aliases[name]!r}")

    def aliases(self, connection: Connection | None = None) -> tuple[dict[str, str], list[str]]:
        """Return the collection of each alias, and the last jobs that changed aliases."""
        if connection is None:
            with self.server.borrow() as borrowed:
                return self.aliases(borrowed)
        query = "SELECT value FROM hummingbit.catalogue WHERE key = 'aliases'"
        (record,) = connection.run(query).fetchone()
        return record["aliases"], record["jobs"]

    @contextmanager
    def changing_aliases(self) -> Iterator[Callable[[Mapping[str, str], Sequence[str]], object]]:
        """Let no other service change aliases; yield what writes them."""
        with self._changing() as connection:

            def write(aliases: Mapping[str, str], jobs: Sequence[str]) -> None:
                record = json.dumps({"aliases": dict(sorted(aliases.items())), "jobs": [*jobs]})
                query = "UPDATE hummingbit.catalogue SET value = %s WHERE key = 'aliases'"
                connection.run(query, (record,))

            yield write

    def share_encoder(self, folder: Path, fingerprint: str) -> None:
        """Add an encoder, so that other services have it, unless it is known."""
        query = "SELECT 1 FROM hummingbit.encoders WHERE fingerprint = %s LIMIT 1"
        with self.server.borrow() as connection:
            if connection.run(query, (fingerprint,)).fetchone() is not None:
                return
        files = [folder / name for name in sorted(read_listed_names(folder))]
        query = "INSERT INTO hummingbit.encoders VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        with self._changing() as connection:
            for path in files:
                connection.run(query, (fingerprint, path.name, path.read_bytes()))

    def fetch_encoder(self, encoders: EncoderFolder, name: str, fingerprint: str) -> Encoder:
        """Copy an encoder into a data folder that lacks it.

        Raises:
            UnknownEncoder: if it is not on the server, either.
            ArtifactError: if what the server has is damaged, or has another fingerprint.
        """
        query = "SELECT file, content FROM hummingbit.encoders WHERE fingerprint = %s"
        with self.server.borrow() as connection:
            files = connection.run(query, (fingerprint,)).fetchall()
        if not files:
            raise UnknownEncoder(name, encoders.names())
        with tempfile.TemporaryDirectory() as scratch:
            for file, content in files:
                if Path(file).name != file:
                    raise ArtifactError(f"encoder {name!r} on PostgreSQL has a file {file[:80]!r}")
                (Path(scratch) / file).write_bytes(content)
            return encoders.install(Path(scratch), name)


class SharedAliases(Aliases):
    """Aliases in the catalogue, which services change one after the other."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Read the aliases.

        Raises:
            StoreError: if they cannot be read.
        """
        self._catalogue = catalogue
        self._write_lock = threading.Lock()
        self.names, self._jobs = catalogue.aliases()

    def apply(
        self, actions: Sequence[AliasAction], collections: Names[str], job: str | None = None
    ) -> Mapping[str, str]:
        """See :meth:`hummingbit.index.catalog.Aliases.apply`."""
        with self._shared():
            return super().apply(actions, collections, job)

    def forget(self, collection: str) -> None:
        """See :meth:`hummingbit.index.catalog.Aliases.forget`."""
        with self._shared():
            super().forget(collection)

    @contextmanager
    def _shared(self) -> Iterator[None]:
        with self._catalogue.changing_aliases() as write:
            self.names, self._jobs = self._catalogue.aliases()
            self._write_aliases = write
            yield

    def _write(self, aliases: dict[str, str], job: str | None = None) -> None:
        jobs = self._jobs if job is None else [*self._jobs, job][-MAX_JOBS:]
        self._write_aliases(aliases, jobs)
        self.names, self._jobs = aliases, jobs


# The collections.


class PostgresCollections(StoredCollections):
    """The collections on a server, each in a schema of its own."""

    def __init__(
        self,
        catalogue: Catalogue,
        path: Path,
        encoders: EncoderFolder,
        engine: str,
        *,
        writable: bool,
        indexed: bool,
    ) -> None:
        """Hold the collections; what is derived from them is kept in the folder `path`."""
        super().__init__(path, encoders, engine, writable=writable, indexed=indexed)
        self._catalogue = catalogue
        self._ids: dict[str, str] = {}
        """The id of each collection, by its name."""
        self.aliases: Callable[[], Mapping[str, str]] = dict
        """Returns the aliases as this service knows them."""
        self._undropped: list[str] = []
        """The ids of hidden collections whose tables somebody still read."""

    def open_all(self) -> None:
        """Open every collection; a writer first deletes what services that crashed left hidden."""
        if self._writable:
            for id_ in self._catalogue.hidden():
                with self._holding(id_) as is_free:
                    if is_free:
                        self._drop(id_)
        names = self._catalogue.names()
        if self._path.is_dir():
            for folder in self._path.iterdir():
                if folder.name not in names:
                    shutil.rmtree(folder, ignore_errors=True)
        for id_, name in names.items():
            self._open(id_, name, indexed=self._indexed)

    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> Collection:
        """Create an empty collection under a free name and return it."""
        fields = check_indexed_fields(indexed_fields)
        id_ = self._add(description.name, description, encoder, fields)
        self._open(id_, description.name, indexed=self._indexed)
        return self.get(description.name)

    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, Collection]:
        """Create an empty collection without a name, which other services do not show."""
        id_ = self._add(None, description, encoder)
        # Nobody searches it, and without an index, writes take half the time.
        store = PostgresStore(self._catalogue.server, id_, self._path / id_, writable=True)
        collection = Collection(store, encoder, indexed=False)
        return self._hidden(id_, description.name, collection.close), collection

    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Create a hidden collection from a snapshot file; a missing encoder is installed."""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "store.sqlite"
            restore(tar, path, name, self._encoders)
            with closing(Store(path, writable=False)) as store:
                description = store.description
            encoder = self._encoder_of(description)
            with closing(sqlite3.connect(path)) as file:

                def make(connection: Connection, id_: str) -> None:
                    create_store(connection, id_, description)
                    fill_store(connection, file)

                id_ = self._catalogue.add(None, make)
        self._share(encoder, description)
        return self._hidden(id_, name, lambda: None)

    def published_draft(self, id_: str) -> Collection | None:
        """Return the collection that was hidden under that id; None if it never appeared."""
        for name, id_of_name in self._ids.copy().items():
            if id_of_name == id_:
                return self.opened.get(name)
        return None

    def delete(self, name: str) -> None:
        """Delete a collection with all its documents, even if it is damaged."""
        id_ = self._ids[name]
        self._catalogue.hide(id_)
        self._ids.pop(name)
        self._take_away(name)
        self.let_go()
        self._drop(id_)
        shutil.rmtree(self._path / id_, ignore_errors=True)

    def find_gone(self) -> Mapping[str, Collection]:
        """See :meth:`hummingbit.index.catalog.Collections.find_gone`."""
        names = self._catalogue.names()
        gone = {
            name: self.opened[name]
            for name, id_ in self._ids.copy().items()
            if names.get(id_) != name and name in self.opened
        }
        return MappingProxyType(gone)

    def follow(self, gone: Mapping[str, Collection], *, wait: bool) -> set[str]:
        """See :meth:`hummingbit.index.catalog.Collections.follow`."""
        names = self._catalogue.names()
        undropped, self._undropped = self._undropped, []
        for id_ in undropped:
            self._drop(id_)
        for name in gone:
            self._take_away(name)
            self._ids.pop(name, None)
        self._rounds += 1
        # It may have been repaired. Opening is slow, so retries are few.
        is_retried = not self._rounds % ROUNDS_BETWEEN_RETRIES
        for name in [*self._unavailable]:
            if is_retried or names.get(self._ids.get(name, "")) != name:
                self._unavailable.pop(name)
                self._ids.pop(name, None)
        self._open_new(names, None if wait else SECONDS_FOR_OPENING)
        current = {*self._unavailable}
        for name, collection in self.opened.copy().items():
            with suppress(StoreClosed):  # it was dropped meanwhile; the next call finds out
                collection.follow()
                current.add(name)
        return current

    def _open_new(self, names: Mapping[str, str], seconds: float | None) -> None:
        """Open the collections that were created since; wait for them at most so many `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._opening = {id_: thread for id_, thread in self._opening.items() if thread.is_alive()}
        for id_, name in names.items():
            if name not in self._ids and id_ not in self._opening:
                opening = threading.Thread(
                    target=self._open_if_reachable, args=(id_, name), name="opening", daemon=True
                )
                self._opening[id_] = opening
                opening.start()
        for opening in self._opening.values():
            opening.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _open_if_reachable(self, id_: str, name: str) -> None:
        with suppress(StoreUnavailable):  # the next call tries again
            self._open(id_, name, indexed=self._indexed)

    def _add(
        self,
        name: str | None,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> str:
        """Add an empty collection; return its id."""
        self._share(encoder, description)
        ranking = first_ranking(description, encoder)

        def make(connection: Connection, id_: str) -> None:
            create_store(connection, id_, description, ranking, indexed_fields)

        return self._catalogue.add(name, make)

    def _share(self, encoder: Encoder | None, description: Description) -> None:
        if encoder is not None and description.encoder_name is not None:
            folder = self._encoders.folder(description.encoder_name)
            self._catalogue.share_encoder(folder, encoder.fingerprint)

    def _hidden(self, id_: str, name: str, close: Callable[[], object]) -> HiddenCollection:
        """Return a hidden collection, which is this process' as long as it lives."""
        holding = self._holding(id_)
        holding.__enter__()

        def appear() -> None:
            close()
            self._catalogue.show(id_, name)
            self._open(id_, name, indexed=False)

        def delete() -> None:
            close()
            holding.__exit__(None, None, None)
            if id_ not in self._ids.values():
                self._drop(id_)
                shutil.rmtree(self._path / id_, ignore_errors=True)

        return HiddenCollection(id_, appear, delete)

    def _drop(self, id_: str) -> None:
        if not self._catalogue.drop(id_):
            self._undropped.append(id_)

    @contextmanager
    def _holding(self, id_: str) -> Iterator[bool]:
        """Hold a hidden collection; yield whether no other process that lives does."""
        with self._catalogue.server.own_connection() as connection:
            query = "SELECT pg_try_advisory_lock(%s)"
            yield bool(connection.run(query, (int(id_, 16) >> 1,)).fetchone()[0])

    def _open(self, id_: str, name: str, *, indexed: bool) -> None:
        """Open a collection, or record why it cannot be opened."""
        self._ids[name] = id_
        try:
            store = PostgresStore(
                self._catalogue.server,
                id_,
                self._path / id_,
                writable=self._writable,
                check=self._check_aliases,
            )
            if store.description.name != name:
                raise StoreError(f"the store of {name!r} is that of {store.description.name!r}")
            encoder = self._encoder_of(store.description)
            check_index_type(store.description.engine, store.description.n_bits)
            engine = store.description.engine
            engine = self._engine if engine == AUTO else engine
            self.opened[name] = Collection(store, encoder, engine=engine, indexed=indexed)
        except StoreUnavailable:
            self._ids.pop(name)
            raise
        except InputError as error:
            self._unavailable[name] = StoreError(f"the store is damaged: {error}")
        except (StoreError, CollectionUnavailable) as error:
            self._unavailable[name] = error

    def _check_aliases(self, connection: Connection, name: str) -> None:
        """Raise StoreUnavailable if another service has moved an alias away from a collection.

        Until this service follows, a write by that alias would reach the wrong collection.
        """
        left = [alias for alias, target in self.aliases().items() if target == name]
        if left:
            now, _ = self._catalogue.aliases(connection)
            for alias in left:
                if now.get(alias) != name:
                    message = f"the alias {alias!r} has just moved to another collection"
                    raise StoreUnavailable(f"PostgreSQL: {message}; nothing was written; try again")

    def _encoder_of(self, description: Description) -> Encoder | None:
        name, fingerprint = description.encoder_name, description.encoder_fingerprint
        if name is not None and fingerprint is not None and name not in self._encoders.names():
            try:
                self._catalogue.fetch_encoder(self._encoders, name, fingerprint)
            except (UnknownEncoder, ArtifactError) as error:
                raise EncoderMismatch(str(error)) from error
        return super()._encoder_of(description)


class PostgresFolder(DataFolder):
    """A data folder whose collections are on PostgreSQL, where other services use them, too."""

    def __init__(
        self,
        path: Path,
        uri: str,
        password: str | None = None,
        *,
        writable: bool,
        indexed: bool = True,
        follow: bool = False,
    ) -> None:
        """Open the data folder at `path` and the collections at `uri`.

        With `follow`, or if it is `writable`, it shows what other services write.

        Raises:
            StoreError: if the server cannot be reached or refuses.
            DataFolderInUse: if `writable` and another process writes with the same data folder.
            DataFolderError: if the folder is missing, or cannot be created or read.
        """
        self._server = Server(uri, password)
        try:
            self._catalogue = Catalogue(self._server, writable=writable)
            super().__init__(path, writable=writable, indexed=indexed)
        except BaseException:
            self._server.close()
            raise
        if follow or writable:
            self._follower = Follower(lambda: self.follow(wait=False))

    def engine_problem(self) -> str | None:
        """See :meth:`hummingbit.index.data_folder.DataFolder.engine_problem`."""
        return self._server.ping()

    def close(self) -> None:
        """Close every collection and the connections, and release the lock."""
        super().close()
        self._server.close()

    def prepare_fork(self) -> None:
        """Raise: services on PostgreSQL do not fork."""
        raise DataFolderError("collections on PostgreSQL are not shared with a forked process")

    def _known_aliases(self) -> Mapping[str, str]:
        """Return the aliases as this service knows them; none while it opens."""
        return self._aliases.names if hasattr(self, "_aliases") else {}

    def _read_aliases(self) -> Aliases:
        return SharedAliases(self._catalogue)

    def _make_collections(self, engine: str, *, indexed: bool) -> Collections:
        path = self.path / "postgres"
        options = {"writable": self.writable, "indexed": indexed}
        collections = PostgresCollections(self._catalogue, path, self.encoders, engine, **options)
        collections.aliases = self._known_aliases
        return collections
