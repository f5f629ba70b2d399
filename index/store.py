"""The durable side of a collection: one SQLite file, the only source of truth.

``meta`` holds what the collection is and its generation; ``documents`` what was given; ``codes``
the packed codes, in a narrow table of their own so that opening a collection reads no texts. A row
number stands for one document for ever: it is never given again, and replacing a document deletes
its row and inserts another, so a replaced document counts as inserted last.

The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
process and of the machine. The generation counts the commits that changed anything.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoder.codes import Codes, check_n_bits, code_to_hex
from index.changes import Changes, in_chunks, storable
from index.errors import StoreError
from index.protocol import Rows
from index.records import StoredDocument

FORMAT_VERSION = 1
APPLICATION_ID = 0x48424954
BUSY_SECONDS = 5.0
# What a large ingest leaves of the write-ahead log once it has been moved into the file.
LOG_BYTES_KEPT = 64 << 20

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    payload TEXT NOT NULL,
    text TEXT,
    vector BLOB
);
CREATE TABLE codes (row INTEGER PRIMARY KEY, code BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Description:
    """What a collection is, from its creation on."""

    name: str
    n_bits: int
    encoder_name: str | None = None
    encoder_fingerprint: str | None = None


class Store:
    """An open store. Any number of threads can read; one can write at a time.

    Opened for reading only, it shows the collection as it was at that moment, whatever another
    process writes in the meantime.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open the store at `path`.

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
                else:
                    # The first read fixes what this connection sees until it is closed.
                    self._connection.execute("BEGIN")
                self.description = _read_description(self._connection)
        except BaseException:
            self._connection.close()
            raise

    @staticmethod
    def create(path: Path, description: Description) -> None:
        """Write an empty store to `path`, where there is none.

        Raises:
            StoreError: if it cannot be written.
        """
        entries = {
            "format_version": FORMAT_VERSION,
            "name": description.name,
            "n_bits": check_n_bits(description.n_bits),
            "encoder_name": description.encoder_name,
            "encoder_fingerprint": description.encoder_fingerprint,
            "generation": 0,
        }
        try:
            path.touch(exist_ok=False)
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.executescript(f"BEGIN; {SCHEMA}")
                connection.executemany("INSERT INTO meta VALUES (?, ?)", entries.items())
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

    def generation(self) -> int:
        """Return the number of commits that changed anything."""
        with self._reading() as connection:
            return _generation(connection)

    def read_codes(self) -> tuple[int, Codes, Rows]:
        """Return the generation, its codes, ``uint8[N, C]``, and their rows, ascending.

        Raises:
            StoreError: if a code has another length, or codes and documents do not match.
        """
        with self._reading() as connection, _one_moment(connection):
            generation = _generation(connection)
            found = connection.execute("SELECT row, code FROM codes ORDER BY row").fetchall()
            (documents,) = connection.execute("SELECT count(*) FROM documents").fetchone()
        rows = np.array([row for row, _ in found], dtype=np.int64)
        if len(rows) != documents:
            raise StoreError(f"{self.path}: is damaged: {documents} documents, {len(rows)} codes")
        return generation, self._stacked([code for _, code in found]), rows

    def read_payloads(self) -> tuple[Codes, list[dict[str, Any]]]:
        """Return the code and the payload of every document, all as of one moment, by row."""
        query = "SELECT code, payload FROM codes JOIN documents USING (row) ORDER BY row"
        with self._reading() as connection:
            found = connection.execute(query).fetchall()
        codes = self._stacked([code for code, _ in found])
        return codes, [json.loads(payload) for _, payload in found]

    def read_contents(self) -> list[StoredDocument]:
        """Return every document, all as of one moment, by row."""
        query = """
            SELECT row, id, code, text, vector, payload
            FROM documents JOIN codes USING (row) ORDER BY row
        """
        with self._reading() as connection:
            return [self._stored(found) for found in connection.execute(query)]

    def read_rows(
        self, rows: Iterable[int], *, with_payload: bool
    ) -> dict[int, tuple[str, dict[str, Any] | None]]:
        """Return the id of each row, and its payload if asked for; rows not there are left out."""
        columns = "row, id, payload" if with_payload else "row, id, NULL"
        query = f"SELECT {columns} FROM documents WHERE row IN "  # noqa: S608 - two fixed lists
        with self._reading() as connection:
            return {
                row: (id_, None if payload is None else json.loads(payload))
                for row, id_, payload in in_chunks(connection, query, list(rows))
            }

    def read_codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        """Return the code, ``uint8[C]``, of each document; ids that are not there are left out."""
        query = "SELECT id, code FROM documents JOIN codes USING (row) WHERE id IN "
        with self._reading() as connection:
            found = dict(in_chunks(connection, query, storable(ids)))
        return {id_: self._stacked([code])[0] for id_, code in found.items()}

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None."""
        query = """
            SELECT row, id, code, text, vector, payload
            FROM documents JOIN codes USING (row) WHERE id IN
        """
        with self._reading() as connection:
            found = next(in_chunks(connection, query, storable([id_])), None)
        return None if found is None else self._stored(found)

    @contextmanager
    def writing(self) -> Iterator[Changes]:
        """Begin a transaction; what was not committed by the end of the block is undone.

        The caller sees to it that only one thread writes.

        Raises:
            StoreError: if the store is open for reading only, or another process is writing.
        """
        if not self.writable:
            raise StoreError(f"{self.path}: is open for reading only")
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield Changes(self._connection, _generation(self._connection))
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def bytes_on_disk(self) -> int:
        """Return the size of the file and its write-ahead log."""
        log = self.path.with_name(self.path.name + "-wal")
        return sum(path.stat().st_size for path in (self.path, log) if path.exists())

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
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
        with self._errors():
            return sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error

    def _stored(
        self, found: tuple[int, str, bytes, str | None, bytes | None, str]
    ) -> StoredDocument:
        row, id_, code, text, vector, payload = found
        return StoredDocument(
            id=id_,
            row=row,
            code=code_to_hex(self._stacked([code])[0]),
            text=text,
            vector=None if vector is None else np.frombuffer(vector, dtype="<f4"),
            payload=json.loads(payload),
        )

    def _stacked(self, codes: Sequence[bytes]) -> Codes:
        size = self.description.n_bits // 8
        if any(len(code) != size for code in codes):
            raise StoreError(f"{self.path}: is damaged: a code is not {size} bytes long")
        return np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), size)


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Let several reads see the same state, unless a transaction does so already."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def _generation(connection: sqlite3.Connection) -> int:
    query = "SELECT value FROM meta WHERE key = 'generation'"
    return int(connection.execute(query).fetchone()[0])


def _read_description(connection: sqlite3.Connection) -> Description:
    (path,) = [file for _, name, file in connection.execute("PRAGMA database_list") if file]
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise StoreError(f"{path}: is not a hummingbit store")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    version = meta.get("format_version")
    if version != FORMAT_VERSION:
        hint = f"this hummingbit reads version {FORMAT_VERSION}; use a later one"
        raise StoreError(f"{path}: has format version {version}; {hint}")
    try:
        return Description(
            name=meta["name"],
            n_bits=check_n_bits(meta["n_bits"]),
            encoder_name=meta["encoder_name"],
            encoder_fingerprint=meta["encoder_fingerprint"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: is damaged: {error}") from error
