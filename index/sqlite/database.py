"""One SQLite file and its connections.

The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
process and of the machine.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from index.errors import StoreError
from index.schema import APPLICATION_ID, SCHEMA, Description, first_meta, read_description

BUSY_SECONDS = 5.0
# What a large ingest leaves of the write-ahead log once it has been moved into the file, and how
# many pages are moved at a time: a page that many commits write is then moved once.
LOG_BYTES_KEPT = 32 << 20
LOG_PAGES = 4096
# SQLite takes a limited number of parameters in one statement.
PARAMETERS = 500


class Database:
    """Any number of threads can read; one can write at a time.

    Opened for reading only, it shows what there was at that moment, whatever another process
    writes in the meantime.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open the file at `path`.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has a later format.
        """
        self.path = path
        self.writable = writable
        self._idle: deque[sqlite3.Connection] = deque()
        self._open = True
        self._snapshot_lock = threading.Lock()
        self._connection = self._connect("rw" if writable else "ro")
        try:
            with self._errors():
                if writable:
                    self._connection.execute("PRAGMA synchronous = FULL")
                    self._connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
                    self._connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
                else:
                    # The first read fixes what this connection sees until it is closed.
                    self._connection.execute("BEGIN")
                self.description = read_description(self._connection)
        except BaseException:
            self._connection.close()
            raise

    @staticmethod
    def create(path: Path, description: Description) -> None:
        """Write an empty store to `path`, where there is none.

        Raises:
            StoreError: if it cannot be written.
        """
        try:
            path.touch(exist_ok=False)
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.executescript(f"BEGIN; {SCHEMA}")
                entries = first_meta(description).items()
                connection.executemany("INSERT INTO meta VALUES (?, ?)", entries)
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{path}: cannot be written: {error}") from error

    def close(self) -> None:
        """Close every connection; one that a thread is reading with, as soon as it is done."""
        self._open = False
        while self._idle:
            self._idle.pop().close()
        # The last to close moves the write-ahead log into the file.
        with self._snapshot_lock:
            self._connection.close()

    @contextmanager
    def reading(self, *, one_moment: bool = False) -> Iterator[sqlite3.Connection]:
        """Lend a connection; with `one_moment`, several reads see the same state.

        Raises:
            StoreError: if the file is closed, or cannot be read.
        """
        with self._lent() as connection:
            if not one_moment or connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                # What a transaction sees is fixed by the first thing it reads.
                connection.execute("SELECT count(*) FROM meta").fetchone()
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; what was not committed by the end of the block is undone.

        The caller sees to it that only one thread writes.

        Raises:
            StoreError: if the file is open for reading only, cannot be written, or another process
                is writing.
        """
        self._check_writable()
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def vacuum(self) -> None:
        """Rewrite the file without what is unused, and empty the write-ahead log.

        Raises:
            StoreError: as :meth:`writing` does.
        """
        self._check_writable()
        with self._errors():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def bytes_on_disk(self) -> int:
        """Return the size of the file and its write-ahead log."""
        log = self.path.with_name(self.path.name + "-wal")
        return sum(path.stat().st_size for path in (self.path, log) if path.exists())

    def _check_writable(self) -> None:
        if not self.writable:
            raise StoreError(f"{self.path}: is open for reading only")
        if not self._open:
            raise StoreError(f"{self.path}: is closed")

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for reading; threads come and go, so it belongs to none of them."""
        if not self.writable:
            with self._errors(), self._snapshot_lock:
                yield self._connection
            return
        if not self._open:
            raise StoreError(f"{self.path}: is closed")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect("ro")
        try:
            with self._errors():
                yield connection
        finally:
            self._idle.append(connection)
            if not self._open:
                self.close()

    def _connect(self, mode: str) -> sqlite3.Connection:
        if mode == "ro" and self._is_frozen():
            mode = "ro&immutable=1"
        with self._errors():
            return sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )

    def _is_frozen(self) -> bool:
        """Tell whether nothing can change the file: SQLite would write beside it to read it."""
        log = self.path.with_name(self.path.name + "-wal")
        return not self.writable and not os.access(self.path.parent, os.W_OK) and not log.exists()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error


def in_chunks(
    connection: sqlite3.Connection, query: str, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run `query`, which ends in ``IN``, for all of `values` and return what is found."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(values), PARAMETERS):
        chunk = values[start : start + PARAMETERS]
        found += connection.execute(f"{query}({','.join('?' * len(chunk))})", chunk)
    return found
