"""One SQLite file, its transactions, and the record of the last acknowledged generation."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from hummingbit.foundation.files import sync_folder
from hummingbit.foundation.processes import Inherited, keep, note
from hummingbit.index.errors import StoreClosed, StoreError, StoreReplaced, WritesLost, store_error
from hummingbit.index.schema import (
    APPLICATION_ID,
    SCHEMA,
    Description,
    initial_meta,
    new_incarnation,
    number_in_meta,
    read_description,
    read_incarnation,
)
from hummingbit.index.store.connections import (
    BUSY_SECONDS,
    Connections,
    OpenFiles,
    RowReader,
    errors_of,
)
from hummingbit.index.store.fields import has_earlier_tables, set_indexed_fields, upgrade

# The last generation that a store acknowledged, in a small file beside it.
#
# SQLite reads its write-ahead log up to the first incomplete frame and takes that for the end. So a
# damaged byte in the log after a crash, or a deleted log, undoes every later write without an
# error. The number in this file shows such a loss.
#
# The number is written after the commit, so it is never ahead of the disk. It is not synced with
# each write, which would double the time that a small write waits for the disk. It survives the end
# of the process, and a power failure once the system has written it back, usually within half a
# minute. Until then it may be too low: a loss goes unnoticed, but no loss is reported that did not
# happen.


SUFFIX = "-acknowledged"

_RECORD = re.compile(rb"([0-9]{20}) ([0-9a-f]{8})\n")
_log = logging.getLogger("hummingbit.index")


def path_of(store: Path) -> Path:
    """Return the path of the file that holds the number of a store."""
    return store.with_name(store.name + SUFFIX)


def read_acknowledged(store: Path) -> int | None:
    """Return the generation, or None if no number was ever written.

    Raises:
        ValueError: if the file is damaged.
        OSError: if it cannot be read.
    """
    try:
        raw = path_of(store).read_bytes()
    except FileNotFoundError:
        return None
    match = _RECORD.fullmatch(raw)
    if match is None or raw != _record(int(match[1])):
        raise ValueError(f"{path_of(store).name} is damaged")
    return int(match[1])


class Acknowledged:
    """The number of one store, open for writing."""

    def __init__(self, store: Path, generation: int) -> None:
        """Open the number of the store at a path, and set it to the store's `generation`.

        Raises:
            OSError: if it cannot be written.
        """
        self.generation = generation
        path = path_of(store)
        exists = path.exists()
        binary = getattr(os, "O_BINARY", 0)  # Windows would otherwise change line ends
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | binary, 0o644)
        try:
            if not exists or os.read(self._descriptor, 64) != _record(generation):
                self._write(generation)
                os.ftruncate(self._descriptor, len(_record(generation)))
                os.fsync(self._descriptor)
            if not exists:
                sync_folder(path.parent)
        except BaseException:
            os.close(self._descriptor)
            raise

    def record(self, generation: int) -> None:
        """Write the generation of a commit that has returned."""
        self.generation = generation
        try:
            self._write(generation)
        except OSError as error:
            # The commit itself is on the disk, so the write stays acknowledged.
            _log.warning("writing the last acknowledged generation failed: %s", error)

    def _write(self, generation: int) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, _record(generation))

    def close(self) -> None:
        """Sync the number and close its file."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            _log.warning("syncing the last acknowledged generation failed: %s", error)
        finally:
            os.close(self._descriptor)


def _record(generation: int) -> bytes:
    number = b"%020d" % generation
    return b"%s %08x\n" % (number, zlib.crc32(number))


# One SQLite file and its connections.
#
# The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
# process and of the machine. :mod:`hummingbit.index.store.database` detects a log that was damaged
# later, and :mod:`hummingbit.index.store.connections` detects deleted or replaced files.


# The size to which the write-ahead log is cut after a large ingest, and the number of pages after
# which it is checkpointed: a page that many commits write is then moved only once.
LOG_BYTES_KEPT = 32 << 20
LOG_PAGES = 4096
# How long a write waits for readers to leave a log that is twice as long as LOG_BYTES_KEPT.
RESTART_MILLISECONDS = 200
# More generations than can have been lost, for a loss of unknown size.
GENERATIONS_SKIPPED = 1 << 32


class Database(RowReader, Inherited):
    """Any number of threads can read; one can write at a time.

    Every read is a short transaction of its own, so readers in other processes see the last commit
    and do not keep the log from being checkpointed.
    """

    def __init__(self, path: Path, *, writable: bool, accept_loss: bool = False) -> None:
        """Open the file at `path`.

        A store that holds fewer generations than it acknowledged is read-only, and `lost` says
        why. With `accept_loss` it can be written again, from a generation above all that were
        acknowledged.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has a later format.
        """
        super().__init__(path, Connections(path, writable=writable))
        self.writable = writable
        self.lost: str | None = None
        self._writer: sqlite3.Connection | None = None
        self._log_limit = 2 * LOG_BYTES_KEPT
        self._acknowledged: Acknowledged | None = None
        self._is_ended = False
        note(self)
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
        """Write an empty store to the new file `path`; `ranking` is its default ranking.

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

    def check_open(self) -> None:
        """Raise StoreClosed if the file was closed, or :meth:`end_writing` was called."""
        self.connections.check_open()
        if self._is_ended:
            raise StoreClosed(f"{self.path}: is closed for writing")

    def close(self) -> None:
        """Close every connection; those in use are closed when they are returned.

        In a process that was forked since the file was opened, this closes nothing.
        """
        if not self.connections.process.is_here:
            return
        self.connections.close()
        self.end_writing()

    def end_writing(self) -> None:
        """Close the connection that writes; reading goes on until :meth:`close`."""
        self._is_ended = True
        # The last connection to close moves the write-ahead log into the file.
        if self._writer is not None:
            self._writer.close()
        if self._acknowledged is not None:
            self._acknowledged.close()
            self._acknowledged = None

    def leave_to_parent(self) -> None:
        """See :meth:`hummingbit.foundation.processes.Inherited.leave_to_parent`."""
        keep(self._writer)

    def release(self) -> None:
        """Close the idle connections; new ones are opened when needed."""
        self.connections.release()

    def reading(self, *, transaction: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection; see :meth:`hummingbit.index.store.connections.Connections.reading`."""
        return self.connections.reading(transaction=transaction)

    def read_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection in a read transaction, to which all reads of this thread belong."""
        return self.reading(transaction=True)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction; at the end of the block, whatever is not committed is undone.

        The caller ensures that only one thread writes.

        Raises:
            StoreError: if the file is open for reading only, cannot be written, or another process
                is writing.
            StoreReplaced: if it was deleted or replaced since it was opened.
            WritesLost: if it holds fewer generations than it acknowledged.
        """
        writer = self._check_writer()
        with errors_of(self.path):
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
            finally:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")

    def commit(self, generation: int) -> None:
        """Commit the :meth:`transaction` as `generation`.

        Raises:
            StoreError: if it cannot be written.
            StoreReplaced: if the file was deleted or replaced; the write must not be acknowledged.
        """
        writer, acknowledged = self._require_writer()
        writer.execute("COMMIT")
        self._files.check()
        self._files.record_own_change()
        acknowledged.record(generation)
        self._bound_log(writer)

    def generation(self) -> int:
        """Return the number of commits that changed something."""
        with self.reading() as connection:
            return number_in_meta(connection, "generation")

    def warnings(self) -> list[str]:
        """Return why the store refuses writes, a sentence each; usually none."""
        if not self.writable:
            self.lost = self._describe_loss()
        reasons = [] if self.lost is None else [self.lost]
        try:
            self._files.check()
        except StoreReplaced as error:
            reasons.append(error.reason)
        return reasons

    def is_replaced(self) -> bool:
        """Tell whether another store has replaced this one at its path.

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
        """Rewrite the file without unused pages, and empty the write-ahead log.

        Raises:
            StoreError: as :meth:`transaction`.
        """
        writer = self._check_writer()
        with errors_of(self.path):
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._files.check()
        self._files.record_own_change()

    def bytes_on_disk(self) -> int:
        """Return the size of the file and its write-ahead log."""
        total = 0
        for path in (self.path, f"{self.path}-wal"):
            with suppress(FileNotFoundError):
                total += os.stat(path).st_size
        return total

    def _open_to_read(self) -> None:
        """Read the settings of the store with a read-only connection."""
        with self.reading() as connection:
            self.description = read_description(connection)
            self.incarnation = read_incarnation(connection)
        self.lost = self._describe_loss()

    def _describe_loss(self) -> str | None:
        """Say how many acknowledged writes are missing; None if none are."""
        try:
            # This must be read before the generation, because another process may be writing.
            acknowledged = read_acknowledged(self.path)
        except (OSError, ValueError) as error:
            return f"the last acknowledged write is unknown: {error}"
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
        if has_earlier_tables(self._writer):
            self._writer.execute("BEGIN IMMEDIATE")
            upgrade(self._writer)
            self._writer.execute("COMMIT")
        # The log exists from the first read on.
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
        """Restart the log from its beginning if it has grown long.

        SQLite does so by itself when nobody reads from the log. Under a steady load of searches
        somebody always does, so this waits for the readers for a short time. During a longer read,
        such as a verification, the log keeps growing.
        """
        size = self._files.log_bytes
        if size < self._log_limit:
            return
        with suppress(sqlite3.Error, StoreReplaced):
            writer.execute(f"PRAGMA busy_timeout = {RESTART_MILLISECONDS}")
            (busy, _, _) = writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            self._log_limit = size + LOG_BYTES_KEPT // 4 if busy else 2 * LOG_BYTES_KEPT
            self._files.check()
            self._files.record_own_change()
        writer.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")

    def _require_writer(self) -> tuple[sqlite3.Connection, Acknowledged]:
        if not self.writable:
            raise StoreError(f"{self.path}: is open for reading only")
        self.check_open()
        if self._writer is None or self._acknowledged is None:
            raise WritesLost(f"{self.path}: {self.lost}")
        return self._writer, self._acknowledged

    def _check_writer(self) -> sqlite3.Connection:
        """Return the writing connection after checking that its files were not replaced."""
        self.connections.process.check()
        writer, acknowledged = self._require_writer()
        self._files.check()
        if self._files.written_by_others():
            self._check_content(acknowledged.generation)
        return writer

    def _check_content(self, generation: int) -> None:
        """Raise StoreReplaced if the database was overwritten by an earlier one.

        The writer's own connection would not notice, because it caches pages of the file. Another
        process may have moved the log into the file, which is harmless.
        """
        with closing(self.connections.connect("ro")) as connection, errors_of(self.path):
            actual = number_in_meta(connection, "generation")
        if actual != generation:
            message = f"it is at generation {actual}; {generation} was written"
            raise StoreReplaced(f"{self.path}: was replaced while it was open: {message}")
        self._files.record_own_change()
