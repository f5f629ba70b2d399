"""The durable side of a collection: one SQLite file, the only source of truth.

:mod:`index.schema` says what is in it. A row number stands for one document for ever: it is never
given again, and replacing a document deletes its row and inserts another, so a replaced document
counts as inserted last.

The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
process and of the machine. The generation counts the commits that changed anything.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from encoder.codes import Codes, code_to_hex
from index.engines.protocol import Rows
from index.errors import InputError, StoreError
from index.filters import Filter
from index.records import StoredDocument, StoredRow
from index.schema import BOOKMARK, Description, checksum, last_row, number_in_meta
from index.slices import checkpoint
from index.sqlite.blocks import Block, BlockError, read_blocks, read_removed
from index.sqlite.changes import Changes, read_texts, storable
from index.sqlite.connections import in_chunks
from index.sqlite.database import Database
from index.sqlite.filter_sql import matching_between, matching_rows, where

TEXTS_AT_ONCE = 1000
# Characters of payloads and texts that one search may bring into memory.
MAX_READ = 128 << 20
# Reading so many payloads takes some tens of milliseconds.
ROWS_OF_A_SLICE = 20_000
# So many documents are read between two checkpoints.
ROWS_AT_ONCE = 500
STORED = "row, id, code, text, vector, payload, checksum"


class StoredCodes(NamedTuple):
    """Every code, ``uint8[N, C]``, and its row, ascending, as of a generation."""

    generation: int
    codes: Codes
    rows: Rows
    last_row: int


class Later(NamedTuple):
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


class Store:
    """An open store. Any number of threads can read; one can write at a time.

    Opened for reading only, it shows what another process has committed last.
    """

    def __init__(self, path: Path, *, writable: bool, accept_loss: bool = False) -> None:
        """Open the store at `path`; see :class:`index.sqlite.database.Database`.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has another format.
        """
        self.path = path
        self._database = Database(path, writable=writable, accept_loss=accept_loss)
        self.description = self._database.description
        self.incarnation = self._database.incarnation
        self.problems: list[str] = []

    @staticmethod
    def create(path: Path, description: Description, ranking: str | None = None) -> None:
        """Write an empty store to `path`, where there is none; `ranking` is its default one.

        Raises:
            StoreError: if it cannot be written.
        """
        Database.create(path, description, ranking)

    def close(self) -> None:
        """Close every connection; one that a thread is reading with, as soon as it is done."""
        self._database.close()

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

    def read_later(self, row: int) -> Later:
        """Return the codes of the documents above `row`, and what was removed of those before."""
        query = "SELECT row, code FROM documents WHERE row > ? ORDER BY row"
        with self._database.reading(one_moment=True) as connection:
            found = connection.execute(query, (row,)).fetchall()
            return Later(
                number_in_meta(connection, "generation"),
                self._stacked([code for _, code in found]),
                np.array([one for one, _ in found], dtype=np.int64),
                read_removed(connection, row),
                number_in_meta(connection, "documents"),
                last_row(connection),
            )

    def read_payloads(self) -> tuple[Codes, list[dict[str, Any]]]:
        """Return the code and the payload of every document, all as of one moment, by row."""
        with self._database.reading() as connection:
            found = connection.execute("SELECT code, payload FROM documents ORDER BY row")
            codes: list[bytes] = []
            payloads: list[dict[str, Any]] = []
            while some := found.fetchmany(ROWS_AT_ONCE):
                checkpoint()
                codes += [code for code, _ in some]
                payloads += [json.loads(payload) for _, payload in some]
        return self._stacked(codes), payloads

    def read_contents(self) -> list[StoredDocument]:
        """Return every document, all as of one moment, by row.

        Raises:
            StoreError: if a document does not have its checksum.
        """
        query = f"SELECT {STORED} FROM documents ORDER BY row"  # noqa: S608 - a fixed list
        with self._database.reading() as connection:
            return self._stored_all(connection.execute(query))

    def read_rows(
        self,
        rows: Sequence[int],
        *,
        with_payload: bool = False,
        with_text: bool = False,
        with_code: bool = False,
    ) -> dict[int, StoredRow]:
        """Return the id of each row, and what else is asked for; rows not there are left out."""
        asked = {"payload": with_payload, "text": with_text, "code": with_code}
        columns = ", ".join(name if wanted else "NULL" for name, wanted in asked.items())
        query = f"SELECT row, id, {columns} FROM documents WHERE row IN "  # noqa: S608
        found: dict[int, StoredRow] = {}
        size = 0
        with self._database.reading() as connection:
            for row, id_, payload, text, code in in_chunks(connection, query, rows):
                size += len(payload or "") + len(text or "")
                if size > MAX_READ:
                    message = f"the hits hold more than {MAX_READ:,} characters; ask for fewer"
                    raise InputError("limit", message)
                found[row] = (id_, None if payload is None else json.loads(payload), text, code)
        return found

    def read_documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """Return the documents of `rows`, by row; rows that are not there are left out.

        Raises:
            StoreError: if a document does not have its checksum.
        """
        query = f"SELECT {STORED} FROM documents WHERE row IN "  # noqa: S608 - a fixed list
        with self._database.reading() as connection:
            found = in_chunks(connection, query, rows)
        return sorted(map(self._stored, found), key=lambda document: document.row)

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """Return the rows of the documents with these ids, ascending; others are left out."""
        query = "SELECT row FROM documents WHERE id IN "
        with self._database.reading() as connection:
            return sorted(row for (row,) in in_chunks(connection, query, storable(ids)))

    def read_codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        """Return the code, ``uint8[C]``, of each document; ids that are not there are left out."""
        return {id_: self._stacked([code])[0] for id_, (code, _) in self.read_marks(ids).items()}

    def read_marks(self, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """Return the code and the checksum of each document; ids not there are left out."""
        if not ids:
            return {}
        query = "SELECT id, code, checksum FROM documents WHERE id IN "
        with self._database.reading() as connection:
            found = in_chunks(connection, query, storable(ids))
            return {id_: (code, mark) for id_, code, mark in found}

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None.

        Raises:
            StoreError: if it does not have its checksum.
        """
        query = f"SELECT {STORED} FROM documents WHERE id IN "  # noqa: S608 - a fixed list
        with self._database.reading() as connection:
            found = in_chunks(connection, query, storable([id_]))
        return self._stored(found[0]) if found else None

    def matching(self, filter_: Filter, after: int = 0) -> Matching:
        """Return the rows above `after` for whose payload the filter holds, as of one moment."""
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

    def count_matching(self, filter_: Filter) -> int:
        """Return for how many documents the filter holds, as of one moment."""
        with self._database.reading(one_moment=True) as connection:
            last, count = last_row(connection), 0
            condition, values = where(connection, filter_)
            query = (
                f"SELECT count(*) FROM documents WHERE row > :after AND row <= :to AND {condition}"  # noqa: S608 - made of fixed parts
            )
            for after in range(0, last, ROWS_OF_A_SLICE):
                checkpoint()
                bounds = {"after": after, "to": after + ROWS_OF_A_SLICE}
                count += int(connection.execute(query, {**values, **bounds}).fetchone()[0])
            return count

    def scroll(
        self, limit: int, after: int, up_to: int | None, filter_: Filter | None
    ) -> tuple[list[StoredDocument], int]:
        """Return the first documents above row `after`, and the last row that was ever given.

        Rows above `up_to` are left out, and those for which the filter does not hold.
        """
        with self._database.reading(one_moment=True) as connection:
            last = last_row(connection)
            condition, values = ("1", {}) if filter_ is None else where(connection, filter_)
            query = f"""
                SELECT {STORED} FROM documents
                WHERE row > :after AND row <= :up_to AND {condition} ORDER BY row LIMIT :limit
            """  # noqa: S608 - made of fixed parts
            bounds = {"after": after, "up_to": last if up_to is None else up_to, "limit": limit}
            found = connection.execute(query, {**values, **bounds})
            return self._stored_all(found), last

    def moment(self) -> AbstractContextManager[sqlite3.Connection]:
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

    def _stored_all(self, found: sqlite3.Cursor) -> list[StoredDocument]:
        """Read documents, between some of which others have their turn."""
        documents: list[StoredDocument] = []
        checkpoint()
        while some := found.fetchmany(ROWS_AT_ONCE):
            documents += [self._stored(one) for one in some]
            checkpoint()
        return documents

    def _stored(self, found: tuple[Any, ...]) -> StoredDocument:
        row, id_, code, text, vector, payload, mark = found
        if checksum(id_, code, payload, text, vector) != mark:
            raise StoreError(f"{self.path}: is damaged: document {id_!a} is not what was written")
        return StoredDocument(
            id=id_,
            row=row,
            code=code_to_hex(self._stacked([code])[0]),
            text=text,
            vector=None if vector is None else np.frombuffer(vector, dtype="<f4"),
            payload=json.loads(payload),
        )

    @property
    def _code_size(self) -> int:
        return self.description.n_bits // 8

    def _codes_of_documents(self, connection: sqlite3.Connection) -> Block:
        rows, codes = array("q"), bytearray()
        for row, code in connection.execute("SELECT row, code FROM documents ORDER BY row"):
            rows.append(row)
            codes += code
        if len(codes) != len(rows) * self._code_size:
            raise StoreError(f"{self.path}: is damaged: a code is not {self._code_size} bytes long")
        packed = np.frombuffer(codes, dtype=np.uint8).reshape(-1, self._code_size)
        return Block(packed, np.frombuffer(rows, dtype=np.int64))

    def _stacked(self, codes: Sequence[bytes]) -> Codes:
        size = self._code_size
        if any(not isinstance(code, bytes) or len(code) != size for code in codes):
            raise StoreError(f"{self.path}: is damaged: a code is not {size} bytes long")
        return np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), size)
