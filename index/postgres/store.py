"""The durable part of a collection on PostgreSQL: a schema with the tables of a store.

Every read and write is that of :class:`hummingbit.index.store.store.Store`. Here are connections,
transactions, and what depends on there being a file.

**Writers.** Any number of services write. A write begins by locking the row of ``meta`` that holds
the generation, so writes follow one another, and each makes the next generation of the one before.

**Readers** see the last commit. A transaction reads one generation (``REPEATABLE READ``).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, cast

from hummingbit.foundation.processes import Process
from hummingbit.index.errors import StoreClosed, StoreError
from hummingbit.index.postgres.server import Connection, Server
from hummingbit.index.schema import (
    SCHEMA,
    Description,
    described_by,
    initial_meta,
    last_row,
    read_incarnation,
)
from hummingbit.index.store.annotations import make_tables
from hummingbit.index.store.connections import Connections, RowReader, has_table
from hummingbit.index.store.expiries import make_expiry_tables
from hummingbit.index.store.fields import (
    make_changes_table,
    make_columns_table,
    set_indexed_fields,
)
from hummingbit.index.store.store import Changes, Store

PREFIX = "hummingbit_"
"""The schemas of collections have names that begin so, and end with the collection's id."""
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def schema_of(id_: str) -> str:
    """Return the schema of a collection."""
    return PREFIX + id_


class SchemaConnections(Connections):
    """Lends connections that use the tables of one schema."""

    def __init__(self, server: Server, schema: str) -> None:
        self.is_open = True
        self.files = None
        self.process: Process = server.process
        self._server = server
        self._schema = schema
        self._of_thread = threading.local()

    def __len__(self) -> int:
        """Return the number of idle connections that belong to this schema alone: none."""
        return 0

    def close(self) -> None:
        """Lend no more connections; the server keeps them."""
        self.is_open = False

    def check_open(self) -> None:
        """See :meth:`hummingbit.index.store.connections.Connections.check_open`."""
        self.process.check()
        if not self.is_open:
            raise StoreClosed("the collection was closed")

    def release(self) -> None:
        """Close the idle connections, so that this process can be forked."""
        self._server.release()

    @contextmanager
    def reading(self, *, transaction: bool = False) -> Iterator[sqlite3.Connection]:
        """See :meth:`hummingbit.index.store.connections.Connections.reading`."""
        self.check_open()
        own: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if own is not None:
            yield own
            return
        with self._server.borrow(self._schema) as borrowed:
            connection = cast("sqlite3.Connection", borrowed)
            if not transaction:
                yield connection
                return
            borrowed.run(BEGIN_READING)
            try:
                # The first read fixes what the transaction sees.
                borrowed.run("SELECT 1 FROM meta LIMIT 1").fetchone()
                self._of_thread.connection = connection
                yield connection
            finally:
                self._of_thread.connection = None

    def fetch(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """See :meth:`hummingbit.index.store.connections.Connections.fetch`."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    def each(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """See :meth:`hummingbit.index.store.connections.Connections.each`."""
        with self.reading() as connection, closing(connection.execute(query, values)) as cursor:
            yield from cursor

    def connect(self, mode: str) -> sqlite3.Connection:
        """Raise: there is no file to connect to."""
        raise NotImplementedError(mode)


class ChangesOnPostgres(Changes):
    """The changes of one transaction, which also keeps the last row that was ever assigned."""

    def prepare(self) -> None:
        """See :meth:`hummingbit.index.store.store.Changes.prepare`."""
        if not self._prepared:
            self._write_meta(last_row=self.last_row)
        super().prepare()


class PostgresStore(Store):
    """A store in a schema of PostgreSQL."""

    changes_class = ChangesOnPostgres

    def __init__(
        self,
        server: Server,
        id_: str,
        folder: Path,
        *,
        writable: bool,
        check: Callable[[Connection, str], object] | None = None,
    ) -> None:
        """Open the store of a collection; what is derived from it is kept in `folder`.

        `check` is called in every write, while no other service can write, with the connection and
        the name of the collection; an error that it raises ends the write.

        Raises:
            StoreError: if it is missing, damaged, or has a later format.
        """
        self._server = server
        self._schema = schema_of(id_)
        self._is_ended = False
        self._check = check
        RowReader.__init__(self, folder / "store", SchemaConnections(server, self._schema))
        self.writable = writable
        self.lost = None
        self.problems: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        with self.reading() as connection:
            self.description = described_by(connection, self._name)
            self.incarnation = read_incarnation(connection)

    @property
    def _name(self) -> str:
        return f"PostgreSQL at {self._server.address}, schema {self._schema}"

    def check_open(self) -> None:
        """See :meth:`hummingbit.index.store.database.Database.check_open`."""
        self.connections.check_open()
        if self._is_ended:
            raise StoreClosed(f"{self._name}: is closed for writing")

    def close(self) -> None:
        """Lend no more connections."""
        self.connections.close()
        self._is_ended = True

    def end_writing(self) -> None:
        """Refuse writes from now on; reading goes on until :meth:`close`."""
        self._is_ended = True

    def leave_to_parent(self) -> None:
        """Do nothing: the server's connections do."""

    def reading(self, *, transaction: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection; see :meth:`SchemaConnections.reading`."""
        return self.connections.reading(transaction=transaction)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction, after those of other services that write to this collection.

        At the end of the block, whatever is not committed is undone.

        Raises:
            StoreUnavailable: if the server cannot be reached, or another write takes a minute.
            StoreError: if the store is open for reading only.
        """
        if not self.writable:
            raise StoreError(f"{self._name}: is open for reading only")
        self.check_open()
        with self._server.borrow(self._schema) as connection:
            connection.run("BEGIN")
            connection.run("SELECT 1 FROM meta WHERE key = 'generation' FOR UPDATE").fetchone()
            if self._check is not None:
                self._check(connection, self.description.name)
            self._writing = connection
            yield cast("sqlite3.Connection", connection)

    @contextmanager
    def holding_writes(self) -> Iterator[bool]:
        """Let nobody write in the block: neither other services nor this one."""
        with self._server.borrow(self._schema) as connection:
            connection.run("BEGIN")
            connection.run("SELECT 1 FROM meta WHERE key = 'generation' FOR UPDATE").fetchone()
            yield True

    def commit(self, generation: int) -> None:  # noqa: ARG002 - the store holds it
        """Commit the :meth:`transaction`; once this returns, the server has it on its disk.

        Raises:
            StoreUnavailable: if the connection was lost. The server may have committed.
        """
        self._writing.run("COMMIT")

    def warnings(self) -> list[str]:
        """Return why the store refuses writes: here, it never does for long."""
        return []

    def is_replaced(self) -> bool:
        """Tell whether another store has replaced this one under its id."""
        with self.reading() as connection:
            return read_incarnation(connection) != self.incarnation

    def vacuum(self) -> None:
        """Have the server use the space of deleted documents again."""
        with self._server.borrow(self._schema) as connection:
            for table in tables_of(connection):
                connection.run(f'VACUUM ANALYZE "{table}"')

    def bytes_on_disk(self) -> int:
        """Return the size of the tables and their indexes."""
        query = """
            SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND c.relkind = 'r'
        """
        with self._server.borrow(self._schema) as connection:
            return int(connection.run(query, (self._schema,)).fetchone()[0])

    def copy_to(self, path: Path) -> None:
        """Copy one generation to the new file of SQLite `path`; writes continue.

        Raises:
            StoreError: if the store cannot be read or the copy cannot be written.
        """
        with self.read_transaction() as source:
            path.unlink(missing_ok=True)
            Store.create(path, described_by(source, self._name))
            with closing(sqlite3.connect(path, isolation_level=None)) as copy:
                copy.execute("BEGIN")
                copy_tables(source, copy)
                copy.execute("DELETE FROM meta WHERE key = 'last_row'")
                copy.execute("DELETE FROM sqlite_sequence WHERE name = 'documents'")
                last = ("documents", last_row(source))
                copy.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", last)
                copy.execute("COMMIT")
                # A snapshot is this file alone.
                copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                copy.execute("PRAGMA journal_mode = DELETE")


def create_store(
    connection: Connection,
    id_: str,
    description: Description,
    ranking: str | None = None,
    indexed_fields: Sequence[str] = (),
) -> None:
    """Create the schema of an empty store, in the transaction of `connection`."""
    connection.run(f'CREATE SCHEMA "{schema_of(id_)}"')
    connection.use(schema_of(id_))
    like_sqlite = cast("sqlite3.Connection", connection)
    like_sqlite.executescript(SCHEMA)
    entries = {**initial_meta(description, ranking), "last_row": 0}
    like_sqlite.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", entries.items())
    set_indexed_fields(like_sqlite, indexed_fields)


def fill_store(connection: Connection, file: sqlite3.Connection) -> None:
    """Copy the tables of a file into the empty store whose schema `connection` uses."""
    like_sqlite = cast("sqlite3.Connection", connection)
    copy_tables(file, like_sqlite)
    query = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
    like_sqlite.executemany(query, [("last_row", last_row(file))])


def tables_of(connection: Connection) -> list[str]:
    """Return the tables of the schema that a connection uses."""
    query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
    return [name for (name,) in connection.run(query).fetchall()]


_MAKERS = {
    "labels": make_tables,
    "expiries": make_expiry_tables,
    "columns": make_columns_table,
    "payload_changes": make_changes_table,
}
_COLUMNS = {
    "meta": 2,
    "documents": 7,
    "codes": 4,
    "removed": 1,
    "labels": 6,
    "judgements": 6,
    "expiries": 2,
    "columns": 4,
    "payload_changes": 2,
}
"""The tables of a store that are copied, and how many columns they have."""


def copy_tables(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy everything from the tables of one store to those of another, which is empty."""
    for table, size in _COLUMNS.items():
        if not has_table(source, table):
            continue
        maker = _MAKERS.get(table)
        if maker is not None and not has_table(target, table):
            maker(target)
        target.execute(f"DELETE FROM {table}")  # noqa: S608 - a fixed name
        query = f"SELECT * FROM {table}"  # noqa: S608 - a fixed name
        if table in ("documents", "removed"):
            query += " ORDER BY row"
        if table == "codes":
            query += " ORDER BY first_row"
        marks = ", ".join("?" * size)
        insert = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608 - a fixed name
        if table == "meta":
            insert = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
        target.executemany(insert, source.execute(query))
