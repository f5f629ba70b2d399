"""The durable part of a collection: one SQLite file, the only source of truth.

:mod:`index.schema` describes its tables. Row numbers are never reused. Replacing a document deletes
its row and inserts another, so a replaced document counts as inserted last.

The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
process and of the machine. The generation counts the commits that changed something.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpus.tables import FieldType
from encoder.codes import Codes
from index.engines.protocol import Rows
from index.errors import StoreError
from index.filters import Filter
from index.schema import BOOKMARK, last_row, number_in_meta, read_field_types
from index.sqlite.blocks import Block, BlockError, read_blocks, read_removed
from index.sqlite.changes import Changes, read_texts
from index.sqlite.database import Database
from index.sqlite.document_reader import DocumentReader
from index.sqlite.field_indexes import indexed_fields, is_covered, matching_rows
from index.sqlite.filter_sql import matching_between

TEXTS_AT_ONCE = 1000


class StoredCodes(NamedTuple):
    """Every code of a generation, ``uint8[N, C]``, and its row, ascending."""

    generation: int
    codes: Codes
    rows: Rows
    last_row: int


class LaterRows(NamedTuple):
    """The codes written after a row, ``uint8[N, C]``, and their rows, ascending.

    `removed` are rows up to that row that were removed lately. It may lack rows that were removed
    earlier; comparing with the total number of `documents` shows whether it does.
    """

    generation: int
    codes: Codes
    rows: Rows
    removed: Rows
    documents: int
    last_row: int

    @property
    def write(self) -> tuple[int, Codes, Rows, Rows]:
        """The arguments of :meth:`index.engines.segments.Generation.with_changes`."""
        return self.generation, self.codes, self.rows, self.removed


class Matching(NamedTuple):
    """The rows of a generation that match a filter, ascending, up to a last row.

    Unless it is `complete`, there are rows after the last row, which were not tested.
    """

    generation: int
    last_row: int
    rows: Rows
    complete: bool = True


class Store(DocumentReader):
    """An open store. Any number of threads can read; one can write at a time.

    A store opened for reading only shows the last commit of another process.
    """

    def __init__(self, path: Path, *, writable: bool, accept_loss: bool = False) -> None:
        """Open the store at `path`; see :class:`index.sqlite.database.Database`.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has another format.
        """
        super().__init__(path, Database(path, writable=writable, accept_loss=accept_loss))
        self.incarnation = self._database.incarnation
        self.problems: list[str] = []

    create = staticmethod(Database.create)

    def close(self) -> None:
        """Close every connection; those in use are closed when they are returned."""
        self._database.close()

    def release(self) -> None:
        """Close the idle connections; new ones are opened when needed."""
        self._database.connections.release()

    def generation(self) -> int:
        """Return the number of commits that changed something."""
        return self._database.generation()

    def warnings(self) -> list[str]:
        """Return why the store refuses writes, a sentence each; usually none."""
        return self._database.warnings()

    def check_open(self) -> None:
        """Raise StoreClosed if the store was closed or :meth:`end_writing` was called."""
        self._database.check_open()

    def end_writing(self) -> None:
        """Refuse writes from now on. The caller ensures that nobody is writing."""
        self._database.end_writing()

    def is_replaced(self) -> bool:
        """Tell whether another store has replaced this one at its path.

        Raises:
            StoreError: if the store is closed, or cannot be read.
        """
        return self._database.is_replaced()

    def default_ranking(self) -> str | None:
        """Return the default ranking, or None if it was never set."""
        with self._database.reading() as connection:
            query = "SELECT value FROM meta WHERE key = 'default_ranking'"
            stored = connection.execute(query).fetchone()
        return None if stored is None else str(stored[0])

    def count(self) -> int:
        """Return the number of documents."""
        with self._database.reading() as connection:
            return number_in_meta(connection, "documents")

    def read_bookmark(self, key: str) -> str | None:
        """Return the last value of :meth:`index.sqlite.changes.Changes.set_bookmark`, or None."""
        query = "SELECT value FROM meta WHERE key = ?"
        with self._database.reading() as connection:
            stored = connection.execute(query, (BOOKMARK + key,)).fetchone()
        return None if stored is None else str(stored[0])

    def last_row(self) -> int:
        """Return the last row that was ever assigned, or 0."""
        with self._database.reading() as connection:
            return last_row(connection)

    def texts(self, after: int = 0, up_to: int | None = None) -> Iterator[tuple[int, str]]:
        """Yield (row, text) of the documents with a text in (after, up_to], by row.

        Each thousand is read in a transaction of its own.
        """
        last = self.last_row() if up_to is None else up_to
        while True:
            with self._database.reading() as connection:
                texts = read_texts(connection, after, last, TEXTS_AT_ONCE)
            yield from texts
            if len(texts) < TEXTS_AT_ONCE:
                return
            after = texts[-1][0]

    def read_codes(self) -> StoredCodes:
        """Return every code of one generation.

        If the blocks of codes are damaged, the codes are read from the documents, and
        :attr:`problems` says so.

        Raises:
            StoreError: if the documents are damaged, too.
        """
        with self._database.reading(transaction=True) as connection:
            documents = number_in_meta(connection, "documents")
            try:
                block = read_blocks(connection, self._code_size, documents)
            except BlockError as error:
                self.problems = [f"{error}; the codes were read from the documents instead"]
                block = self._codes_of_documents(connection)
            if len(block.rows) != documents:
                counts = f"it has {documents} documents but {len(block.rows)} codes"
                raise StoreError(f"{self.path}: is damaged: {counts}")
            generation = number_in_meta(connection, "generation")
            return StoredCodes(generation, block.codes, block.rows, last_row(connection))

    def read_later(self, row: int) -> LaterRows:
        """Return the codes of the documents after `row`, and the removed rows up to it."""
        query = "SELECT row, code FROM documents WHERE row > ? ORDER BY row"
        with self._database.reading(transaction=True) as connection:
            later = connection.execute(query, (row,)).fetchall()
            return LaterRows(
                number_in_meta(connection, "generation"),
                self._pack_codes([code for _, code in later]),
                np.array([later_row for later_row, _ in later], dtype=np.int64),
                read_removed(connection, row),
                number_in_meta(connection, "documents"),
                last_row(connection),
            )

    def indexed_fields(self) -> dict[str, int]:
        """See :func:`index.sqlite.field_indexes.indexed_fields`."""
        with self._database.reading() as connection:
            return indexed_fields(connection)

    def field_types(self) -> dict[str, FieldType]:
        """See :func:`index.schema.read_field_types`."""
        with self._database.reading() as connection:
            return read_field_types(connection)

    def is_covered(self, filter_: Filter, *, wholly: bool = False) -> bool:
        """See :func:`index.sqlite.field_indexes.is_covered`."""
        with self._database.reading() as connection:
            return is_covered(connection, filter_, wholly=wholly)

    def matching(self, filter_: Filter, after: int = 0) -> Matching:
        """Return the rows of one generation after `after` that match the filter.

        They may include rows of deleted documents.
        """
        with self._database.reading(transaction=True) as connection:
            rows = matching_rows(connection, filter_, after)
            generation = number_in_meta(connection, "generation")
            return Matching(generation, last_row(connection), rows)

    def matching_slice(self, filters: Sequence[Filter], after: int, rows: int) -> list[Matching]:
        """Do as :meth:`matching` for several filters and the next `rows` rows.

        The `last_row` of a result is the last row that was tested.
        """
        with self._database.reading(transaction=True) as connection:
            last, generation = last_row(connection), number_in_meta(connection, "generation")
            up_to = min(after + rows, last)
            parts = matching_between(connection, filters, after, up_to)
            return [Matching(generation, up_to, part, complete=up_to == last) for part in parts]

    def read_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection in a read transaction.

        Whatever this thread reads of the store inside the block belongs to the same transaction.

        Raises:
            StoreError: if the store cannot be read.
        """
        return self._database.reading(transaction=True)

    @contextmanager
    def writing(self) -> Iterator[Changes]:
        """Begin a transaction; at the end of the block, whatever is not committed is undone.

        The caller ensures that only one thread writes.

        Raises:
            StoreError: if the store is open for reading only, cannot be written, or another process
                is writing.
            StoreReplaced: if its files were deleted or replaced since it was opened.
            WritesLost: if it holds fewer generations than it acknowledged.
        """
        with self._database.writing() as connection:
            yield Changes(connection, self.description, self._database.commit)
        self.forget_ids()

    def compact(self) -> None:
        """Rebuild the blocks of codes from the documents and rewrite the file without unused pages.

        The caller ensures that only one thread writes. This needs as much free space as the file.

        Raises:
            StoreError: if the store cannot be written, or is damaged.
        """
        with self._database.reading() as connection:
            block = self._codes_of_documents(connection)
        with self.writing() as changes:
            changes.rewrite_codes(block)
        self._database.vacuum()
        self.problems = []

    def copy_to(self, path: Path) -> None:
        """Copy one generation of the store to the new file `path`; writes continue.

        Raises:
            StoreError: if the store cannot be read or the copy cannot be written.
        """
        with self._database.reading() as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)

    def bytes_on_disk(self) -> int:
        """Return the size of the file and its write-ahead log."""
        return self._database.bytes_on_disk()

    def _codes_of_documents(self, connection: sqlite3.Connection) -> Block:
        rows, codes = array("q"), bytearray()
        for row, code in connection.execute("SELECT row, code FROM documents ORDER BY row"):
            rows.append(row)
            codes += code
        if len(codes) != len(rows) * self._code_size:
            raise StoreError(f"{self.path}: is damaged: a code is not {self._code_size} bytes long")
        packed = np.frombuffer(codes, dtype=np.uint8).reshape(-1, self._code_size)
        return Block(packed, np.frombuffer(rows, dtype=np.int64))
