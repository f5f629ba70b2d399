"""The connections to a PostgreSQL server, the SQL that it gets, and its errors.

Stores are written in the SQL of SQLite (:mod:`hummingbit.index.store`). Both dialects have the same
tables, so :func:`translated` rewrites the few things in which they differ, and :class:`Connection`
has the part of :class:`sqlite3.Connection` that stores use. Each collection has a schema of its
own, with the tables of a store.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.pq import TransactionStatus

from hummingbit.foundation.errors import InputError
from hummingbit.foundation.processes import Inherited, Process, keep, note
from hummingbit.index.data_folder import check_postgres_address
from hummingbit.index.errors import StoreClosed, StoreError, StoreFull, StoreUnavailable

# The SQL of SQLite as that of PostgreSQL.


_NEVER_TOUCHED = {
    # SQLite keeps the last row that it ever assigned; here, the writer does.
    "SELECT seq FROM sqlite_sequence WHERE name = 'documents'": (
        "SELECT value::text::bigint FROM meta WHERE key = 'last_row'"
    ),
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?": (
        "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = %s"
    ),
    # PostgreSQL checks its own pages (initdb --data-checksums).
    "PRAGMA integrity_check(100)": "SELECT 'ok'",
}
"""Statements that are replaced as a whole."""
_KEYS = {
    "meta": ("key",),
    "expiries": ("row",),
    "labels": ("id", "who"),
    "judgements": ("query", "id", "who"),
}
_VALUES = {
    "meta": ("value",),
    "expiries": ("at",),
    "labels": ("labels", "grade", '"when"', "checksum"),
    "judgements": ("grade", '"when"', "checksum"),
}
_REPLACE = re.compile(r"^INSERT OR REPLACE INTO (\w+)")
_INSERT = re.compile(r"^INSERT INTO (\w+) VALUES ([(), ?]+)$")
_TYPES = {
    r"\bINTEGER PRIMARY KEY AUTOINCREMENT\b": "bigint PRIMARY KEY",
    r"\bINTEGER\b": "bigint",
    r"\bBLOB\b": "bytea",
    r"\bREAL\b": "double precision",
    # Keys are ordered by their bytes, as those of SQLite are.
    r"\bTEXT\b": 'text COLLATE "C"',
    r"\bvalue\)": "value json)",
    r" WITHOUT ROWID": "",
}


@lru_cache(1024)
def translated(query: str) -> str:
    """Return a statement of SQLite, or several that create tables, as PostgreSQL understands it."""
    plain = query.strip()
    if plain in _NEVER_TOUCHED:
        return _NEVER_TOUCHED[plain]
    if "CREATE TABLE" in plain:
        for pattern, replacement in _TYPES.items():
            plain = re.sub(pattern, replacement, plain)
        return plain
    plain = plain.replace("%", "%%")
    plain = re.sub(r"group_concat\((\w+)\)", r"string_agg(\1::text, ',')", plain)
    plain = re.sub(r"instr\((\w+), \?\)", r"strpos(\1, ?) > 0", plain)
    # In SQLite, a negative limit is none.
    plain = re.sub(r"LIMIT (\?|:\w+)", r"LIMIT nullif(\1::bigint, -1)", plain)
    plain = re.sub(r"WHERE 1(?= |$)", "WHERE true", plain)
    plain = re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", plain)
    if (found := _REPLACE.match(plain)) is not None:
        table = found[1]
        updates = ", ".join(f"{column} = excluded.{column}" for column in _VALUES[table])
        conflict = f" ON CONFLICT ({', '.join(_KEYS[table])}) DO UPDATE SET {updates}"
        plain = f"INSERT INTO {table}{plain[found.end() :]}{conflict}"
    return plain.replace("?", "%s")


def _values(query: str, values: Any) -> Any:
    """Return the values of a statement as PostgreSQL takes them.

    Those of the table ``meta`` become JSON: in SQLite, a value has the type that it was written
    with.
    """
    if not values:
        return values
    if "INTO meta VALUES" in query:
        key, value = values
        return key, json.dumps(value)
    if query.lstrip().startswith(("SELECT", "DELETE")) and not isinstance(values, Mapping):
        # No document has an id with a NUL, and PostgreSQL would refuse to look for it.
        return [_ABSENT if isinstance(value, str) and "\0" in value else value for value in values]
    return values


_ABSENT = f"\uffff{secrets.token_hex(8)}"
"""A text that no document has."""


# Rows that are fetched at a time of a statement that reads all documents.
ROWS_AT_ONCE = 2000
_IS_LONG = re.compile(
    r"FROM (?:documents|codes|removed|\(SELECT \* FROM documents).*ORDER BY", re.S
)


def _is_long(query: str) -> bool:
    """Tell whether a statement can return all documents, so that it must not be read at once."""
    return "LIMIT" not in query and " IN (?" not in query and _IS_LONG.search(query) is not None


class Cursor:
    """The rows of a statement; the part of :class:`sqlite3.Cursor` that stores use."""

    def __init__(self, cursor: Any, end: Callable[[], object] | None = None) -> None:
        """Hold a cursor of psycopg; `end` is called once all rows are read, or on closing."""
        self._cursor = cursor
        self._end = end
        self._is_ended = False

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""
        return int(self._cursor.rowcount)

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        with errors():
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return all other rows."""
        with errors():
            rows: list[Any] = self._cursor.fetchall()
        self.close()
        return rows

    def fetchmany(self, size: int) -> list[Any]:
        """Return the next rows, at most `size`."""
        if self._is_ended:
            return []
        with errors():
            rows: list[Any] = self._cursor.fetchmany(size)
        if len(rows) < size:
            self.close()
        return rows

    def __iter__(self) -> Iterator[Any]:
        while rows := self.fetchmany(ROWS_AT_ONCE):
            yield from rows

    def close(self) -> None:
        """End the statement."""
        end, self._end = self._end, None
        if end is not None:
            self._is_ended = True
            end()


class Connection:
    """A connection; the part of :class:`sqlite3.Connection` that stores use."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._long = 0
        self._ends: list[Callable[[], object]] = []
        """What ends the statements whose rows were not all read."""
        self.schema = ""
        """Whose tables statements use."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.info.transaction_status != TransactionStatus.IDLE

    @property
    def is_usable(self) -> bool:
        """Whether further statements can be sent."""
        return not self._connection.closed and not self._connection.broken

    def use(self, schema: str) -> None:
        """Use the tables of a schema from now on."""
        if self.schema != schema:
            with errors():
                self._connection.execute(f'SET search_path TO "{schema}"')
            self.schema = schema

    def execute(self, query: str, values: Any = ()) -> Cursor:
        """Run a statement of SQLite."""
        values = _values(query, values)
        if query == "BEGIN IMMEDIATE":
            return self.run("BEGIN")
        if not _is_long(query):
            return self.run(translated(query), values)
        is_own = not self.in_transaction
        if is_own:  # a cursor of the server needs a transaction
            self.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._long += 1
        cursor = self._connection.cursor(name=f"long_{self._long}")

        def end() -> None:
            self._ends.remove(end)
            with suppress(psycopg.Error):  # the connection was lost
                cursor.close()
            if is_own and self.is_usable:
                self.run("ROLLBACK")

        self._ends.append(end)
        with errors():
            cursor.itersize = ROWS_AT_ONCE
            cursor.execute(translated(query), values or None)
        return Cursor(cursor, end)

    def run(self, query: str, values: Any = ()) -> Cursor:
        """Run a statement of PostgreSQL."""
        with errors():
            return Cursor(self._connection.execute(query, values or None))

    def executemany(self, query: str, values: Iterable[Sequence[Any]]) -> Cursor:
        """Run a statement of SQLite for several values; what only inserts is copied."""
        found = _INSERT.match(query.strip())
        with errors():
            cursor = self._connection.cursor()
            if found is None or found[1] == "meta":
                records = [_values(query, some) for some in values]
                cursor.executemany(translated(query), records)
                return Cursor(cursor)
            size = found[2].partition(")")[0].count("?")
            with cursor.copy(f"COPY {found[1]} FROM STDIN") as copy:
                remaining = chain.from_iterable(values)
                while record := [*islice(remaining, size)]:
                    copy.write_row(record)
            return Cursor(cursor)

    def executescript(self, script: str) -> None:
        """Run several statements that create tables."""
        self.run(translated(script))

    def end_statements(self) -> None:
        """End the statements whose rows were not all read, and undo a transaction.

        Raises:
            StoreError: if the connection was lost.
        """
        for end in [*self._ends]:
            end()
        if self.is_usable and self.in_transaction:
            self.run("ROLLBACK")

    def close(self) -> None:
        """Close the connection; a transaction is undone."""
        with suppress(StoreError):
            self.end_statements()
        self._connection.close()


@contextmanager
def errors() -> Iterator[None]:
    """Turn errors of PostgreSQL into those of stores.

    Raises:
        StoreUnavailable: if the server cannot be reached, or did not answer in time.
        StoreClosed: if another service has dropped the collection.
        InputError: if a text holds a character that PostgreSQL does not store.
        StoreFull, StoreError: if it refuses for other reasons.
    """
    try:
        yield
    except psycopg.errors.DiskFull as error:
        raise StoreFull(f"PostgreSQL: {_short(error)}") from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise StoreClosed("PostgreSQL: the collection was dropped by another service") from error
    except psycopg.errors.LockNotAvailable as error:
        message = f"another service has been writing for {LOCK_SECONDS} s; try again later"
        raise StoreUnavailable(f"PostgreSQL: {message}") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        message = "it is a standby, which only services with --read-only can use"
        raise StoreError(f"PostgreSQL: the server refuses writes: {message}") from error
    except psycopg.DataError as error:
        if "NUL" in str(error):
            message = "holds the character NUL, which PostgreSQL does not store"
            raise InputError("documents", message) from error
        raise StoreError(f"PostgreSQL: {_short(error)}") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreUnavailable(f"PostgreSQL cannot be reached: {_short(error)}") from error
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL: {_short(error)}") from error


def _short(error: Exception) -> str:
    first = " ".join(str(error).split())
    return first if len(first) <= 300 else first[:297] + "..."


# The connections.


CONNECT_SECONDS = 3
LOCK_SECONDS = 60
# Idle connections that are kept; more are opened when more threads read at once.
IDLE_KEPT = 16
SESSION = {
    "application_name": "hummingbit",
    "client_encoding": "utf8",
    "connect_timeout": CONNECT_SECONDS,
    # A machine that fails while it writes must not keep others from writing for hours.
    "options": " ".join(
        f"-c {setting}"
        for setting in (
            f"lock_timeout={LOCK_SECONDS}s",
            "tcp_keepalives_idle=10",
            "tcp_keepalives_interval=5",
            "tcp_keepalives_count=3",
        )
    ),
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    # Milliseconds until data that the server does not acknowledge end a connection.
    "tcp_user_timeout": 15_000,
}


class Server(Inherited):
    """The connections to one database, for any number of threads and collections."""

    def __init__(self, uri: str, password: str | None = None) -> None:
        """Connect to ``postgresql://USER@HOST:5432/DATABASE``.

        Without a `password`, that of ``PGPASSWORD`` or of the file ``~/.pgpass`` is used.

        Raises:
            StoreUnavailable: if there is no server, or it refuses the user.
            StoreError: if the address is invalid.
        """
        try:
            check_postgres_address(uri)
        except ValueError as error:
            raise StoreError(f"the address of PostgreSQL {error}") from None
        parts = urlsplit(uri)
        self.address = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
        """The address without the user, for messages."""
        self.process = Process(f"PostgreSQL at {self.address}")
        self._uri = uri
        self._password = {} if password is None else {"password": password}
        self._idle: deque[Connection] = deque()
        self._lock = threading.Lock()
        self._is_open = True
        note(self)
        with self.borrow():
            pass

    @contextmanager
    def borrow(self, schema: str | None = None) -> Iterator[Connection]:
        """Lend a connection, whose statements use the tables of a schema."""
        self.process.check()
        connection = self._take(schema)
        try:
            if schema is not None:
                connection.use(schema)
            yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def own_connection(self) -> Iterator[Connection]:
        """Open a connection of its own, and close it in the end."""
        self.process.check()
        connection = self._connect()
        try:
            yield connection
        finally:
            connection.close()

    def ping(self) -> str | None:
        """Return why the server cannot be used now, within seconds; None if it can."""
        try:
            with self.own_connection() as connection:
                connection.run("SELECT 1").fetchone()
        except StoreError as error:
            return str(error)
        return None

    def release(self) -> None:
        """Close the idle connections, so that this process can be forked."""
        self.process.check()
        self._close_idle()
        self.process.share()

    def leave_to_parent(self) -> None:
        """See :meth:`hummingbit.foundation.processes.Inherited.leave_to_parent`."""
        keep(*self._idle)
        self._idle = deque()

    def close(self) -> None:
        """Close every connection; those in use are closed when they are returned."""
        self._is_open = False
        self._close_idle()

    def _take(self, schema: str | None) -> Connection:
        with self._lock:
            for connection in reversed(self._idle):
                # To use another schema takes a statement.
                if connection.schema == schema:
                    self._idle.remove(connection)
                    return connection
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: Connection) -> None:
        with suppress(StoreError):
            connection.end_statements()
        if not connection.is_usable:
            # The server has ended, and with it all other connections.
            connection.close()
            self._close_idle()
            return
        with self._lock:
            if self._is_open and len(self._idle) < IDLE_KEPT and connection.is_usable:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self) -> Connection:
        if not self._is_open:
            raise StoreClosed(f"PostgreSQL at {self.address}: the connection was closed")
        settings: Mapping[str, Any] = {**SESSION, **self._password}
        try:
            connection = psycopg.connect(self._uri, autocommit=True, **settings)
        except (psycopg.OperationalError, OSError) as error:
            message = f"PostgreSQL at {self.address} cannot be reached: {_short(error)}"
            raise StoreUnavailable(message) from error
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL at {self.address}: {_short(error)}") from error
        return Connection(connection)

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, deque()
        for connection in idle:
            connection.close()
