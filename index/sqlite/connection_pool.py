"""The connections of one SQLite file: a pool to read with, and what every search reads."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from foundation.errors import InputError
from foundation.slices import checkpoint
from index.errors import StoreClosed, StoreError, StoreFull
from index.records import StoredRow
from index.sqlite.open_files import OpenFiles

BUSY_SECONDS = 5.0
ROOM_FOR_A_WRITE = 1 << 20
# Characters of payloads and texts that one search may bring into memory.
MAX_READ = 128 << 20
# SQLite takes a limited number of parameters in one statement.
PARAMETERS = 500


class Connections:
    """Lends connections to threads, which come and go; none belongs to a thread.

    `files` are those that were opened; once they are known, no other file at the same path is.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.is_open = True
        self.files: OpenFiles | None = None
        self._path = path
        self._idle: deque[sqlite3.Connection] = deque()
        self._held = threading.local()
        self._frozen = not writable and self._is_frozen()

    def __len__(self) -> int:
        """Return how many connections wait to be lent."""
        return len(self._idle)

    def close(self) -> None:
        """Close every connection; one that is lent, as soon as it is given back."""
        self.is_open = False
        _close_all(self._idle)

    def release(self) -> None:
        """Close the connections that wait to be lent."""
        _close_all(self._idle)

    @contextmanager
    def reading(self, *, one_moment: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection; with `one_moment`, all that this thread reads meanwhile is as of then.

        Raises:
            StoreClosed: if the file was closed.
            StoreReplaced: if it was deleted or replaced, and a further connection is needed.
            StoreError: if the file cannot be read.
        """
        held: sqlite3.Connection | None = getattr(self._held, "connection", None)
        if held is not None:
            with errors_of(self._path):
                yield held
            return
        with self._lent() as connection:
            if not one_moment:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                # What a transaction sees is fixed by the first thing it reads.
                connection.execute("SELECT count(*) FROM meta").fetchone()
                self._held.connection = connection
                yield connection
            finally:
                self._held.connection = None
                connection.execute("ROLLBACK")

    def fetch(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return what one query finds, as :meth:`reading` would read it.

        Raises:
            StoreError: as :meth:`reading` does.
        """
        idle = self._idle
        if self._frozen or not idle or getattr(self._held, "connection", None) is not None:
            with self.reading() as connection:
                return connection.execute(query, values).fetchall()
        # Nearly always a connection is idle, and no context manager is needed to borrow it.
        connection = idle.pop()
        try:
            return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise store_error(self._path, error) from error
        finally:
            idle.append(connection)
            if not self.is_open or idle is not self._idle:
                _close_all(idle)

    def connect(self, mode: str) -> sqlite3.Connection:
        """Open a further connection, ``ro`` or ``rw``, which the caller closes.

        Raises:
            StoreError: if it cannot be opened.
        """
        if mode == "ro" and self._frozen:
            mode = "ro&immutable=1"
        with errors_of(self._path):
            return sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        if not self.is_open:
            raise StoreClosed(f"{self._path}: is closed")
        if self._frozen and not self._is_frozen():
            self._thaw()
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            if self.files is not None:
                self.files.check()
            connection = self.connect("ro")
        try:
            with errors_of(self._path):
                yield connection
        finally:
            idle.append(connection)
            if not self.is_open or idle is not self._idle:
                _close_all(idle)

    def _thaw(self) -> None:
        """Let go of connections that take the file for one that nobody changes."""
        self._frozen, idle, self._idle = False, self._idle, deque()
        _close_all(idle)

    def _is_frozen(self) -> bool:
        """Tell whether nothing can change the file: SQLite would write beside it to read it."""
        log = self._path.with_name(f"{self._path.name}-wal")
        return not os.access(self._path.parent, os.W_OK) and not log.exists()


class RowReader:
    """Reads what a search shows of its hits."""

    def __init__(self, path: Path, connections: Connections) -> None:
        self.path = path
        self._connections = connections

    def read_rows(
        self,
        rows: Sequence[int],
        *,
        with_payload: bool = False,
        with_text: bool = False,
        with_code: bool = False,
    ) -> dict[int, StoredRow]:
        """Return the id of each row, and what else is asked for; rows not there are left out.

        Raises:
            InputError: if it is more than fits into memory.
            StoreError: if the store cannot be read.
        """
        query = _ROWS_QUERIES[with_payload, with_text, with_code]
        found: dict[int, StoredRow] = {}
        size = 0
        for start in range(0, len(rows), PARAMETERS):
            if start:
                checkpoint()
            some = rows[start : start + PARAMETERS]
            marks = ",".join("?" * len(some))
            for row, id_, payload, text, code in self._connections.fetch(f"{query}({marks})", some):
                size += len(payload or "") + len(text or "")
                if size > MAX_READ:
                    message = f"the hits hold more than {MAX_READ:,} characters; ask for fewer"
                    raise InputError("limit", message)
                found[row] = (id_, None if payload is None else json.loads(payload), text, code)
        return found


def _rows_query(*wanted: bool) -> str:
    names = zip(("payload", "text", "code"), wanted, strict=True)
    columns = ", ".join(name if is_wanted else "NULL" for name, is_wanted in names)
    return f"SELECT row, id, {columns} FROM documents WHERE row IN "  # noqa: S608 - fixed parts


_ROWS_QUERIES = {wanted: _rows_query(*wanted) for wanted in product((False, True), repeat=3)}


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a StoreError that names `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(path, error) from error


def store_error(path: Path, error: sqlite3.Error | OSError, what: str = "") -> StoreError:
    """Return the StoreError of an error: a StoreFull where there is no room on the disk."""
    kind = StoreFull if _is_full(path, error) else StoreError
    return kind(f"{path}: {what}{getattr(error, 'strerror', None) or error}")


def _is_full(path: Path, error: sqlite3.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOSPC
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code != sqlite3.SQLITE_IOERR:
        return code == sqlite3.SQLITE_FULL
    # SQLite says no more than that of some files that it cannot extend.
    with suppress(OSError):
        return shutil.disk_usage(path.parent).free < ROOM_FOR_A_WRITE
    return False


def in_chunks(
    connection: sqlite3.Connection, query: str, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run `query`, which ends in ``IN``, for all of `values` and return what is found."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(values), PARAMETERS):
        checkpoint()
        chunk = values[start : start + PARAMETERS]
        found += connection.execute(f"{query}({','.join('?' * len(chunk))})", chunk)
    return found


def _close_all(connections: deque[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()
