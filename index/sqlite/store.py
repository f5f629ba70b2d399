"""The durable side of a collection: one SQLite file, the only source of truth.

:mod:`index.schema` says what is in it. A row number stands for one document for ever: it is never
given again, and replacing a document deletes its row and inserts another, so a replaced document
counts as inserted last.

The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
process and of the machine. The generation counts the commits that changed anything.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from encoder.codes import Codes
from index.engines.protocol import Rows
from index.errors import StoreError
from index.filters import Filter
from index.schema import BOOKMARK, Description, last_row, number_in_meta
from index.sqlite.blocks import Block, BlockError, read_blocks, read_removed
from index.sqlite.changes import Changes, read_texts
from index.sqlite.database import Database
from index.sqlite.document_reader import DocumentReader
from index.sqlite.field_indexes import indexed_fields, is_covered, matching_rows
from index.sqlite.filter_sql import matching_between

TEXTS_AT_ONCE = 1000


class StoredCodes(NamedTuple):
    """Every code, ``uint8[N, C]``, and its row, ascending, as of a generation."""

    generation: int
    codes: Codes
    rows: Rows
    last_row: int


class LaterRows(NamedTuple):
    """What was written after a row: codes, ``uint8[N, C]``, and their rows, ascending.

    `removed` are rows at or below it that were removed lately. Rows that were removed earlier may
    be missing from it; there are `documents` in all, which tells.
    """

    generation: int
    codes: Codes
    rows: Rows
    removed: Rows
    documents: int
    last_row: int

    @property
    def write(self) -> tuple[int, Codes, Rows, Rows]:
        """What :meth:`index.engines.segments.Generation.with_changes` takes."""
        return self.generation, self.codes, self.rows, self.removed


class Matching(NamedTuple):
    """The rows for which a filter held, ascending, as of a generation and its last row.

    Where it is not `complete`, there are rows above the last row, which were not asked about.
    """

    generation: int
    last_row: int
    rows: Rows
    complete: bool = True


class Store(DocumentReader):
    """An open store. Any number of threads can read; one can write at a time.

    Opened for reading only, it shows what another process has committed last.
    """

    def __init__(self, path: Path, *, writable: bool, accept_loss: bool = False) -> None:
        """Open the store at `path`; see :class:`index.sqlite.database.Database`.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has another format.
        """
        super().__init__(path, Database(path, writable=writable, accept_loss=accept_loss))
        self.incarnation = self._database.incarnation
        self.problems: list[str] = []

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
        Database.create(path, description, ranking, indexed_fields)

    def close(self) -> None:
        """Close every connection; one that a thread is reading with, as soon as it is done."""
        self._database.close()

    def release(self) -> None:
        """Close the connections that nobody uses; others are opened as they are needed."""
        self._database.connections.release()

    def generation(self) -> int:
        """Return the number of commits that changed anything."""
        return self._database.generation()

    def warnings(self) -> list[str]:
        """Say why nothing can be written to the store, a sentence each; mostly nothing."""
        return self._database.warnings()

    def replaced(self) -> bool:
        """Tell whether another store is at the path by now.

        Raises:
            StoreError: if the store is closed, or cannot be read.
        """
        return self._database.replaced()

    def default_ranking(self) -> str | None:
        """Return what orders the hits of searches that name no ranking, if that was ever set."""
        with self._database.reading() as connection:
            query = "SELECT value FROM meta WHERE key = 'default_ranking'"
            found = connection.execute(query).fetchone()
        return None if found is None else str(found[0])

    def count(self) -> int:
        """Return the number of documents."""
        with self._database.reading() as connection:
            return number_in_meta(connection, "documents")

    def bookmark(self, key: str) -> str | None:
        """Return what :meth:`index.sqlite.changes.Changes.bookmark` noted last, if anything."""
        query = "SELECT value FROM meta WHERE key = ?"
        with self._database.reading() as connection:
            found = connection.execute(query, (BOOKMARK + key,)).fetchone()
        return None if found is None else str(found[0])

    def last_row(self) -> int:
        """Return the last row that was ever given; 0 where there was none."""
        with self._database.reading() as connection:
            return last_row(connection)

    def texts(self, after: int = 0, up_to: int | None = None) -> Iterator[tuple[int, str]]:
        """Yield (row, text) of the documents above row `after` that have a text, by row.

        Rows above `up_to` are left out. Each thousand is as of the moment when it is reached.
        """
        last = self.last_row() if up_to is None else up_to
        while True:
            with self._database.reading() as connection:
                found = read_texts(connection, after, last, TEXTS_AT_ONCE)
            yield from found
            if len(found) < TEXTS_AT_ONCE:
                return
            after = found[-1][0]

    def read_codes(self) -> StoredCodes:
        """Return every code, all as of one moment.

        Where the blocks of codes are damaged, the codes are read of the documents, one by one;
        :attr:`problems` then says so.

        Raises:
            StoreError: if that cannot be done either.
        """
        with self._database.reading(one_moment=True) as connection:
            documents = number_in_meta(connection, "documents")
            try:
                block = read_blocks(connection, self._code_size, documents)
            except BlockError as error:
                self.problems = [f"{error}; the documents' own codes are used"]
                block = self._codes_of_documents(connection)
            if len(block.rows) != documents:
                found = f"{documents} documents, {len(block.rows)} codes"
                raise StoreError(f"{self.path}: is damaged: {found}")
            generation = number_in_meta(connection, "generation")
            return StoredCodes(generation, block.codes, block.rows, last_row(connection))

    def read_later(self, row: int) -> LaterRows:
        """Return the codes of the documents above `row`, and what was removed of those before."""
        query = "SELECT row, code FROM documents WHERE row > ? ORDER BY row"
        with self._database.reading(one_moment=True) as connection:
            found = connection.execute(query, (row,)).fetchall()
            return LaterRows(
                number_in_meta(connection, "generation"),
                self._packed([code for _, code in found]),
                np.array([one for one, _ in found], dtype=np.int64),
                read_removed(connection, row),
                number_in_meta(connection, "documents"),
                last_row(connection),
            )

    def indexed_fields(self) -> dict[str, int]:
        """See :func:`index.sqlite.field_indexes.indexed_fields`."""
        with self._database.reading() as connection:
            return indexed_fields(connection)

    def is_covered(self, filter_: Filter, *, wholly: bool = False) -> bool:
        """See :func:`index.sqlite.field_indexes.is_covered`."""
        with self._database.reading() as connection:
            return is_covered(connection, filter_, wholly=wholly)

    def matching(self, filter_: Filter, after: int = 0) -> Matching:
        """Return the rows above `after` for whose payload the filter holds, as of one moment.

        Rows of documents that were deleted may be among them.
        """
        with self._database.reading(one_moment=True) as connection:
            rows = matching_rows(connection, filter_, after)
            generation = number_in_meta(connection, "generation")
            return Matching(generation, last_row(connection), rows)

    def matching_slice(self, filters: Sequence[Filter], after: int, rows: int) -> list[Matching]:
        """Do as :meth:`matching` for several filters and the next so many rows.

        The `last_row` of what is returned is the last that was asked about. It is as of the
        generation if that is the last row there is.
        """
        with self._database.reading(one_moment=True) as connection:
            last, generation = last_row(connection), number_in_meta(connection, "generation")
            up_to = min(after + rows, last)
            found = matching_between(connection, filters, after, up_to)
            return [Matching(generation, up_to, one, complete=up_to == last) for one in found]

    def read_transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection that sees the store as it is when it is lent, until it is given back.

        Whatever this thread reads of the store meanwhile is as of the same moment.

        Raises:
            StoreError: if the store cannot be read.
        """
        return self._database.reading(one_moment=True)

    @contextmanager
    def writing(self) -> Iterator[Changes]:
        """Begin a transaction; what was not committed by the end of the block is undone.

        The caller sees to it that only one thread writes.

        Raises:
            StoreError: if the store is open for reading only, cannot be written, or another process
                is writing.
            StoreReplaced: if its files were deleted or replaced since it was opened.
            WritesLost: if it holds fewer generations than it acknowledged.
        """
        with self._database.writing() as connection:
            yield Changes(connection, self._code_size, self._database.commit)

    def compact(self) -> None:
        """Make the blocks of codes anew of the documents, and the file without what is unused.

        The caller sees to it that only one thread writes. It takes as much room again as the file.

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
        """Write the store as of one moment to `path`, where there is nothing; writes go on.

        Raises:
            StoreError: if the store cannot be read or the copy not be written.
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
