"""The connections of one SQLite file: a pool for reading, and the rows that searches read."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from hummingbit.foundation.errors import InputError
from hummingbit.foundation.processes import Inherited, Process, keep, note
from hummingbit.index.errors import StoreClosed, StoreError, StoreReplaced, store_error
from hummingbit.index.records import StoredRow, payload_parser

# Checks whether the files that SQLite has open are still at their paths.
#
# A process can write to a file that was deleted or replaced without an error, and the data is lost
# when the process ends. An open inode is never reused, so comparing inodes detects this. A database
# that was overwritten in place keeps its inode but not its modification time.


SUFFIXES = ("", "-wal", "-shm")


class OpenFiles:
    """The inodes of the database, its write-ahead log and the log's index."""

    def __init__(self, path: Path) -> None:
        """Record the files of the database at `path`, which SQLite has open."""
        self._path = path
        names = [f"{path}{suffix}" for suffix in SUFFIXES]
        stats = {name: _stat(name) for name in names}
        self._inodes = {name: (stat.st_dev, stat.st_ino) for name, stat in stats.items() if stat}
        self._modified = self._modified_by_us = 0
        self.log_bytes = 0
        """The size of the write-ahead log at the last call of :meth:`check`."""
        self.check()
        self.record_own_change()

    def check(self) -> None:
        """Raise StoreReplaced if one of the files was deleted or replaced."""
        for name, inode in self._inodes.items():
            stat = _stat(name)
            if stat is None or (stat.st_dev, stat.st_ino) != inode:
                event = "was deleted" if stat is None else "was replaced"
                message = f"{name} {event} while it was open; restart with the right files"
                raise StoreReplaced(message, field=str(self._path))
            if name.endswith("-wal"):
                self.log_bytes = stat.st_size
            elif not name.endswith("-shm"):
                self._modified = stat.st_mtime_ns

    def written_by_others(self) -> bool:
        """Return whether others had changed the database at the last :meth:`check`."""
        return self._modified != self._modified_by_us

    def record_own_change(self) -> None:
        """Record that this process made the last change that :meth:`check` saw."""
        self._modified_by_us = self._modified


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except OSError:
        return None


# The connections of one SQLite file: a pool for reading, and the rows that searches read.


BUSY_SECONDS = 5.0
# How long a read waits, after the file was deleted or replaced, for others that hold the open
# connections. They end by themselves, but on a busy machine that can take seconds.
WAIT_SECONDS = 60.0
# The most characters of payloads and texts that one search may read into memory.
MAX_READ = 128 << 20
# The pages that a connection for reading keeps, in KiB. The system has the file in memory anyway,
# and searches are no faster with SQLite's default of 2,000 KiB a connection.
READ_CACHE_KIB = 256
# Of each store, about so many ids that searches read are kept, which takes some 6 MB. A search that
# reads more than a page of others does not replace them.
IDS_KEPT = 32_768
IDS_AT_ONCE = 100
# SQLite limits the number of parameters of a statement.
PARAMETERS = 500


class Connections(Inherited):
    """Lends connections to threads; no connection belongs to a thread.

    `files` are the open files; once they are set, no other file at the same path is opened.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.is_open = True
        self.files: OpenFiles | None = None
        self._path = path
        self._idle: deque[sqlite3.Connection] = deque()
        self._reading: set[sqlite3.Connection] = set()
        """All connections for reading that are open, idle or lent."""
        self._of_thread = threading.local()
        self._frozen = not writable and self._is_frozen()
        self.process = Process(path)
        note(self)

    def __len__(self) -> int:
        """Return the number of idle connections."""
        return len(self._idle)

    def close(self) -> None:
        """Close every connection; those in use are closed when they are returned."""
        self.is_open = False
        self._close_all(self._idle)

    def leave_to_parent(self) -> None:
        """See :meth:`hummingbit.foundation.processes.Inherited.leave_to_parent`."""
        keep(*self._reading)

    def check_open(self) -> None:
        """Raise StoreClosed if the file was closed; reads that began before still end.

        Raises:
            ForkedError: if this process was forked since the file was opened.
        """
        self.process.check()
        if not self.is_open:
            raise StoreClosed(f"{self._path}: is closed")

    def release(self) -> None:
        """Close the idle connections, so that this process can be forked."""
        self.process.check()
        self._close_all(self._idle)
        self.process.share()

    @contextmanager
    def reading(self, *, transaction: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection, with `transaction` in one read transaction of this thread.

        All reads of this thread inside the block use the same connection.

        Raises:
            StoreClosed: if the file was closed.
            StoreReplaced: if it was deleted or replaced, and other reads keep all connections.
            StoreError: if the file cannot be read.
        """
        self.process.check()
        own: sqlite3.Connection | None = getattr(self._of_thread, "connection", None)
        if own is not None:
            with errors_of(self._path):
                yield own
            return
        connection, idle = self._lend()
        try:
            if not transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                # The first read fixes what the transaction sees.
                connection.execute("SELECT count(*) FROM meta").fetchone()
                self._of_thread.connection = connection
                yield connection
            finally:
                self._of_thread.connection = None
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise store_error(self._path, error) from error
        finally:
            self._take_back(connection, idle)

    def fetch(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of one query on a connection of :meth:`reading`.

        Raises:
            StoreError: as :meth:`reading`.
        """
        if getattr(self._of_thread, "connection", None) is not None:
            with self.reading() as connection:
                return connection.execute(query, values).fetchall()
        connection, idle = self._lend()
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise store_error(self._path, error) from error
        finally:
            self._take_back(connection, idle)

    def each(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one query one by one; see :meth:`fetch`."""
        with self.reading() as connection, closing(connection.execute(query, values)) as cursor:
            yield from cursor

    def connect(self, mode: str) -> sqlite3.Connection:
        """Open a connection with the mode ``ro`` or ``rw``, which the caller closes.

        Raises:
            StoreError: if it cannot be opened.
        """
        options = "ro&immutable=1" if mode == "ro" and self._frozen else mode
        with errors_of(self._path):
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={options}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            if mode == "ro":
                connection.execute(f"PRAGMA cache_size = -{READ_CACHE_KIB}")
            return connection

    def _lend(self) -> tuple[sqlite3.Connection, deque[sqlite3.Connection]]:
        """Return a connection, and the idle ones that it belongs to, for :meth:`_take_back`."""
        self.check_open()
        if self._frozen and not self._is_frozen():
            self._thaw()
        idle = self._idle
        try:
            return idle.pop(), idle
        except IndexError:
            return self._open_or_wait(idle), idle

    def _take_back(self, connection: sqlite3.Connection, idle: deque[sqlite3.Connection]) -> None:
        idle.append(connection)
        if not self.is_open or idle is not self._idle:
            self._close_all(idle)

    def _open_or_wait(self, idle: deque[sqlite3.Connection]) -> sqlite3.Connection:
        """Open another connection; if the file is gone, wait until one that is open is returned."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            self.check_open()
            try:
                return self._open()
            except StoreReplaced:
                with suppress(IndexError):
                    return idle.pop()
                if not self._reading or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)
            with suppress(IndexError):
                return idle.pop()

    def _open(self) -> sqlite3.Connection:
        """Open a connection for reading, and with it all files, which are the right ones.

        Raises:
            StoreReplaced: if they were deleted or replaced before it had opened them.
            StoreError: if it cannot be opened.
        """
        self._check_files()
        connection: sqlite3.Connection | None = None
        try:
            connection = self.connect("ro")
            with errors_of(self._path):
                # SQLite opens the log with the first read.
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            self._check_files()
        except StoreError:
            if connection is not None:
                connection.close()
            self._check_files()
            raise
        self._reading.add(connection)
        return connection

    def _close_all(self, connections: deque[sqlite3.Connection]) -> None:
        while connections:
            connection = connections.pop()
            self._reading.discard(connection)
            connection.close()

    def _check_files(self) -> None:
        """Raise StoreReplaced if the file was deleted or replaced since it was opened."""
        if self.files is not None:
            self.files.check()

    def _thaw(self) -> None:
        """Close the connections that treat the file as immutable."""
        self._frozen, idle, self._idle = False, self._idle, deque()
        self._close_all(idle)

    def _is_frozen(self) -> bool:
        """Tell whether the file is immutable here, so SQLite must not create files beside it."""
        log = self._path.with_name(f"{self._path.name}-wal")
        return not os.access(self._path.parent, os.W_OK) and not log.exists()


class RowReader:
    """Reads the documents of a search's hits."""

    def __init__(self, path: Path, connections: Connections) -> None:
        self.path = path
        self.connections = connections
        self._ids: dict[int, StoredRow] = {}

    def read_rows(
        self,
        rows: Sequence[int],
        with_payload: bool = False,
        with_text: bool = False,
        with_code: bool = False,
    ) -> dict[int, StoredRow]:
        """Return the id of each row, and the requested fields; missing rows are left out.

        Raises:
            InputError: if the fields have more than :data:`MAX_READ` characters.
            StoreError: if the store cannot be read.
        """
        query = _ROWS_QUERIES[with_payload, with_text, with_code]
        stored: dict[int, StoredRow] = {}
        is_large, parse = with_payload or with_text, payload_parser()
        size = 0
        for start in range(0, len(rows), PARAMETERS):
            some = rows[start : start + PARAMETERS]
            marks = ",".join("?" * len(some))
            if not is_large:
                found = self.connections.fetch(f"{query}({marks})", some)
                for row, id_, *code in found:
                    stored[row] = (id_, None, None, code[-1] if code else None)
                continue
            # One row at a time: a payload may have millions of characters.
            for row, id_, payload, text, code in self.connections.each(f"{query}({marks})", some):
                length = len(payload or "") + len(text or "")
                size += length
                if size > MAX_READ:
                    message = f"the hits hold more than {MAX_READ:,} characters; request fewer"
                    raise InputError("limit", message)
                stored[row] = (id_, None if payload is None else parse(payload), text, code)
        return stored

    def read_ids(self, rows: Sequence[int]) -> dict[int, StoredRow]:
        """Return what :meth:`read_rows` does, without reading an id twice.

        So it may return a row that was removed after its id was read.

        Raises:
            StoreError: if the store is closed or cannot be read.
        """
        ids = self._ids
        self.connections.check_open()
        unread = [*set(rows).difference(ids)]
        if len(unread) > IDS_AT_ONCE:
            return self.read_rows(rows)
        if unread:
            query = f"{_ROWS_QUERIES[False, False, False]}({','.join('?' * len(unread))})"
            found = self.connections.fetch(query, unread)
            if len(ids) >= IDS_KEPT:
                self._ids = ids = {row: ids[row] for row in rows if row in ids}
            ids.update((row, (id_, None, None, None)) for row, id_ in found)
        known = [row for row in rows if row in ids] if unread else rows
        return {row: ids[row] for row in known}

    def forget_ids(self) -> None:
        """Have :meth:`read_ids` read all ids again."""
        self._ids = {}

    def read_vectors(self, rows: Sequence[int]) -> dict[int, bytes | None]:
        """Return what is stored of the vector of each row; missing rows are left out.

        Raises:
            StoreError: if the store cannot be read.
        """
        query = f"SELECT row, vector FROM documents WHERE row IN ({','.join('?' * len(rows))})"  # noqa: S608 - only marks
        return dict(self.connections.fetch(query, rows))


def _rows_query(*selected: bool) -> str:
    if not any(selected):
        return "SELECT row, id FROM documents WHERE row IN "
    names = zip(("payload", "text", "code"), selected, strict=True)
    columns = ", ".join(name if is_selected else "NULL" for name, is_selected in names)
    return f"SELECT row, id, {columns} FROM documents WHERE row IN "  # noqa: S608 - fixed parts


_ROWS_QUERIES = {flags: _rows_query(*flags) for flags in product((False, True), repeat=3)}


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether the database has a table."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a StoreError that names `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(path, error) from error


def in_chunks(
    connection: sqlite3.Connection, query: str, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run `query`, which ends with ``IN``, for all `values` and return its rows."""
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(values), PARAMETERS):
        chunk = values[start : start + PARAMETERS]
        rows += connection.execute(f"{query}({','.join('?' * len(chunk))})", chunk)
    return rows
