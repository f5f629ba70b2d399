"""One SQLite file and its connections.

The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
process and of the machine. :mod:`index.sqlite.acknowledged` says how a log that was damaged
afterwards is noticed, :mod:`index.sqlite.open_files` how files that were deleted meanwhile are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from index.errors import StoreClosed, StoreError, StoreReplaced, WritesLost
from index.schema import (
    APPLICATION_ID,
    SCHEMA,
    Description,
    initial_meta,
    new_incarnation,
    number_in_meta,
    read_description,
    read_incarnation,
)
from index.sqlite.acknowledged import Acknowledged, read_acknowledged
from index.sqlite.connection_pool import BUSY_SECONDS, Connections, errors_of, store_error
from index.sqlite.field_indexes import set_indexed_fields
from index.sqlite.open_files import OpenFiles

# What a large ingest leaves of the write-ahead log once it has been moved into the file, and how
# many pages are moved at a time: a page that many commits write is then moved once.
LOG_BYTES_KEPT = 32 << 20
LOG_PAGES = 4096
# How long a write waits for readers to leave a log that is twice as long as what is kept of it.
RESTART_MILLISECONDS = 200
# Where nobody knows how many writes were lost, more than these cannot have been.
GENERATIONS_SKIPPED = 1 << 32


class Database:
    """Any number of threads can read; one can write at a time.

    Every read is a short transaction of its own, so readers in other processes see what the writer
    committed last and do not keep its log from being emptied.
    """

    def __init__(self, path: Path, *, writable: bool, accept_loss: bool = False) -> None:
        """Open the file at `path`.

        A store that holds fewer generations than it acknowledged can be read only, and `lost` says
        so, unless the caller is to `accept_loss`: then the store goes on from what it holds, at a
        generation above all that were acknowledged.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has a later format.
        """
        self.path = path
        self.writable = writable
        self.lost: str | None = None
        self.connections = Connections(path, writable=writable)
        self._writer: sqlite3.Connection | None = None
        self._log_limit = 2 * LOG_BYTES_KEPT
        self._acknowledged: Acknowledged | None = None
        try:
            with errors_of(self.path):
                self._open_to_read()
                self._files = self.connections.files = OpenFiles(path)
                if writable and (accept_loss or self.lost is None):
                    self._open_to_write(accept_loss=accept_loss and self.lost is not None)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(
        path: Path,
        description: Description,
        ranking: str | None = None,
        indexed_fields: Sequence[str] = (),
    ) -> None:
        """Write an empty store to `path`, where there is none; `ranking` is its default one.

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
                entries = initial_meta(description, ranking).items()
                connection.executemany("INSERT INTO meta VALUES (?, ?)", entries)
                set_indexed_fields(connection, indexed_fields)
                connection.execute("COMMIT")
            Acknowledged(path, 0).close()
        except (sqlite3.Error, OSError) as error:
            raise store_error(path, error, "cannot be written: ") from error

    def close(self) -> None:
        """Close every connection; one that a thread is reading with, as soon as it is done."""
        self.connections.close()
        # The last to close moves the write-ahead log into the file.
        if self._writer is not None:
            self._writer.close()
        if self._acknowledged is not None:
            self._acknowledged.close()
            self._acknowledged = None

    def reading(self, *, one_moment: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection; see :meth:`index.sqlite.connection_pool.Connections.reading`."""
        return self.connections.reading(one_moment=one_moment)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; what was not committed by the end of the block is undone.

        The caller sees to it that only one thread writes.

        Raises:
            StoreError: if the file is open for reading only, cannot be written, or another process
                is writing.
            StoreReplaced: if it was deleted or replaced since it was opened.
            WritesLost: if it holds fewer generations than it acknowledged.
        """
        writer = self._checked_writer()
        with errors_of(self.path):
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
            finally:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")

    def commit(self, generation: int) -> None:
        """Make the transaction of :meth:`writing` last; the store is at `generation` then.

        Raises:
            StoreError: if it cannot be written.
            StoreReplaced: if it was deleted or replaced; then nothing must be acknowledged.
        """
        writer, acknowledged = self._opened_writer()
        writer.execute("COMMIT")
        self._files.check()
        self._files.note()
        acknowledged.note(generation)
        self._bound_log(writer)

    def generation(self) -> int:
        """Return the number of commits that changed anything."""
        with self.reading() as connection:
            return number_in_meta(connection, "generation")

    def warnings(self) -> list[str]:
        """Say why nothing can be written to the store, a sentence each; mostly nothing."""
        if not self.writable:
            self.lost = self._missing()
        found = [] if self.lost is None else [self.lost]
        try:
            self._files.check()
        except StoreReplaced as error:
            found.append(error.reason)
        return found

    def replaced(self) -> bool:
        """Tell whether another store is at the path by now.

        Raises:
            StoreError: if the file is closed, or cannot be read.
        """
        try:
            self._files.check()
        except StoreReplaced:
            return True
        with self.reading() as connection:
            return read_incarnation(connection) != self.incarnation

    def vacuum(self) -> None:
        """Rewrite the file without what is unused, and empty the write-ahead log.

        Raises:
            StoreError: as :meth:`writing` does.
        """
        writer = self._checked_writer()
        with errors_of(self.path):
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._files.check()
        self._files.note()

    def bytes_on_disk(self) -> int:
        """Return the size of the file and its write-ahead log."""
        return sum(path.stat().st_size for path in (self.path, self._log) if path.exists())

    @property
    def _log(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def _open_to_read(self) -> None:
        """Read what the store is, by a connection that leaves the files as they are."""
        with self.reading() as connection:
            self.description = read_description(connection)
            self.incarnation = read_incarnation(connection)
        self.lost = self._missing()

    def _missing(self) -> str | None:
        """Say which acknowledged writes the store does not hold, if it is any."""
        try:
            # In this order: another process may be writing.
            acknowledged = read_acknowledged(self.path)
        except (OSError, ValueError) as error:
            return f"which write was acknowledged last cannot be told: {error}"
        generation = self.generation()
        if acknowledged is None or acknowledged <= generation:
            return None
        return (
            f"{acknowledged - generation:,} acknowledged writes are missing: generation"
            f" {acknowledged} was acknowledged, and the store holds {generation}; its write-ahead"
            " log was damaged or deleted"
        )

    def _open_to_write(self, *, accept_loss: bool = False) -> None:
        self._writer = self.connections.connect("rw")
        self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        if accept_loss:
            generation = self._generation_above_all()
            entries = [("generation", generation), ("incarnation", new_incarnation())]
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", entries)
            self._writer.execute("COMMIT")
            self.lost = None
            self.incarnation = read_incarnation(self._writer)
        # The log is there from the first read on.
        generation = number_in_meta(self._writer, "generation")
        self._files = self.connections.files = OpenFiles(self.path)
        try:
            self._acknowledged = Acknowledged(self.path, generation)
        except OSError as error:
            raise store_error(self.path, error) from error

    def _generation_above_all(self) -> int:
        """Return a generation that was never acknowledged."""
        with suppress(OSError, ValueError):
            return max(read_acknowledged(self.path) or 0, self.generation()) + 1
        return self.generation() + GENERATIONS_SKIPPED

    def _bound_log(self, writer: sqlite3.Connection) -> None:
        """Have the log begin again from its start where it has grown long.

        SQLite does so by itself once nobody reads from the log. Under a steady load of searches
        somebody always does; so readers are waited for, shortly. One that takes longer, a
        verification, lets the log grow until it is done.
        """
        size = self._files.log_bytes
        if size < self._log_limit:
            return
        with suppress(sqlite3.Error, StoreReplaced):
            writer.execute(f"PRAGMA busy_timeout = {RESTART_MILLISECONDS}")
            (busy, _, _) = writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            self._log_limit = size + LOG_BYTES_KEPT // 4 if busy else 2 * LOG_BYTES_KEPT
            self._files.check()
            self._files.note()
        writer.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")

    def _opened_writer(self) -> tuple[sqlite3.Connection, Acknowledged]:
        if not self.writable:
            raise StoreError(f"{self.path}: is open for reading only")
        if not self.connections.is_open:
            raise StoreClosed(f"{self.path}: is closed")
        if self._writer is None or self._acknowledged is None:
            raise WritesLost(f"{self.path}: {self.lost}")
        return self._writer, self._acknowledged

    def _checked_writer(self) -> sqlite3.Connection:
        """Return the connection that writes, if it still writes to the store that was opened."""
        writer, acknowledged = self._opened_writer()
        self._files.check()
        if self._files.written_by_others():
            self._check_content(acknowledged.generation)
        return writer

    def _check_content(self, generation: int) -> None:
        """Raise StoreReplaced if the database was written over by an earlier one.

        The writer's own connection would not see it: it has pages of the file in memory. Another
        process may have moved the log into the file, which changes nothing.
        """
        with closing(self.connections.connect("ro")) as connection, errors_of(self.path):
            found = number_in_meta(connection, "generation")
        if found != generation:
            message = f"it is at generation {found}; {generation} was written"
            raise StoreReplaced(f"{self.path}: was replaced while it was open: {message}")
        self._files.note()
