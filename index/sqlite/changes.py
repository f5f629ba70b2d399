"""The changes of one write transaction of a store."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from corpus.document import Document
from corpus.tables import FieldType
from encoder.codes import Codes
from index.engines.protocol import Rows
from index.filters import Filter
from index.kept_vectors import FLOAT32, pack_vector
from index.schema import (
    BOOKMARK,
    Description,
    checksum,
    last_row,
    new_incarnation,
    number_in_meta,
    payloads_to_json,
    read_field_types,
)
from index.sqlite.annotation_tables import (
    Record,
    Table,
    delete_of_documents,
    delete_records,
    write_records,
)
from index.sqlite.blocks import Block, append_block, fold_some, join_blocks, rewrite_blocks
from index.sqlite.connection_pool import in_chunks
from index.sqlite.field_indexes import (
    RUNS_AT_ONCE,
    cover,
    cover_after,
    matching_rows,
    repack,
    set_indexed_fields,
)

# One statement for several rows takes three quarters of the time of one statement each.
ROWS_A_STATEMENT = 50
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Columns(NamedTuple):
    """The columns of documents as they are stored, without their rows."""

    ids: Sequence[str]
    codes: Sequence[bytes]
    checksums: list[bytes]
    payloads: Sequence[str]
    texts: Sequence[str | None]
    vectors: Sequence[bytes | None]


class Changes:
    """One transaction that :meth:`index.sqlite.store.Store.writing` began.

    `generation` is that of the store before the transaction; `last_row` is the last assigned row.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        description: Description,
        commit: Callable[[int], None],
    ) -> None:
        """Begin; `commit` is called with the generation to commit as."""
        self.generation = number_in_meta(connection, "generation")
        self.last_row = last_row(connection)
        self._last_row_before = self.last_row
        self._documents = number_in_meta(connection, "documents")
        self._removed = number_in_meta(connection, "removed")
        self._deleted = 0
        self._connection = connection
        self._commit = commit
        self._code_size = description.n_bits // 8
        self._keep_vectors = description.keep_vectors
        self._inserted: list[Block] = []
        self._prepared = False

    def delete(self, ids: Sequence[str]) -> list[int]:
        """Delete the documents with these ids and return their rows; unknown ids are ignored."""
        query = "SELECT row FROM documents WHERE id IN "
        rows = sorted(row for (row,) in in_chunks(self._connection, query, storable_ids(ids)))
        self._delete_rows(rows)
        return rows

    def delete_where(self, filter_: Filter) -> list[int]:
        """Delete the documents that match the filter, and return their rows."""
        matching: list[int] = matching_rows(self._connection, filter_).tolist()
        query = "SELECT row FROM documents WHERE row IN "
        rows = sorted(row for (row,) in in_chunks(self._connection, query, matching))
        self._delete_rows(rows)
        return rows

    def write_records(self, table: Table[Record], records: Iterable[Record]) -> int:
        """See :func:`index.sqlite.annotation_tables.write_records`."""
        return write_records(self._connection, table, records)

    def delete_records(self, table: Table[Any], keys: Iterable[Sequence[str]]) -> int:
        """See :func:`index.sqlite.annotation_tables.delete_records`."""
        return delete_records(self._connection, table, keys)

    def delete_annotations(self, ids: Sequence[str] | None) -> None:
        """See :func:`index.sqlite.annotation_tables.delete_of_documents`."""
        delete_of_documents(self._connection, None if ids is None else storable_ids(ids))

    def insert(self, documents: Sequence[Document], codes: Codes) -> Rows:
        """Insert documents with new ids, and return their rows in order."""
        rows = self.last_row + 1 + np.arange(len(documents))
        self.last_row += len(documents)
        self._documents += len(documents)
        size, packed = self._code_size, codes.tobytes()
        columns = _stored_columns(
            documents,
            [packed[start : start + size] for start in range(0, len(packed), size)],
            self._keep_vectors,
        )
        records = [*zip(rows.tolist(), *columns, strict=True)]
        whole = len(records) - len(records) % ROWS_A_STATEMENT
        groups = [
            tuple(chain.from_iterable(records[start : start + ROWS_A_STATEMENT]))
            for start in range(0, whole, ROWS_A_STATEMENT)
        ]
        self._connection.executemany(_insert_statement(ROWS_A_STATEMENT), groups)
        self._connection.executemany(_insert_statement(1), records[whole:])
        self._inserted.append(Block(codes, rows))
        return rows

    def added_texts(self) -> list[tuple[int, str]]:
        """Return (row, text) of the documents of this transaction that have a text, by row."""
        return read_texts(self._connection, self._last_row_before, self.last_row)

    def prepare(self) -> None:
        """Write everything, so that only the commit itself is left."""
        if self._prepared:
            return
        self._prepared = True
        if self._inserted:
            append_block(self._connection, join_blocks(self._inserted))
            cover_after(self._connection, self.last_row - self._last_row_before)
        self._removed -= fold_some(
            self._connection,
            self._code_size,
            documents=self._documents,
            removed=self._removed,
            deleted=self._deleted,
        )
        self._write_meta(
            generation=self.generation + 1, documents=self._documents, removed=self._removed
        )

    def commit(self) -> None:
        """Commit the changes as the next generation."""
        self.prepare()
        self._commit(self.generation + 1)

    def describe(self, description: Description) -> None:
        """Replace the description of the collection; the generation is unchanged."""
        # The indexes that came with the store are not trusted.
        repack(self._connection)
        self._write_meta(**asdict(description), incarnation=new_incarnation())
        self._commit(self.generation)

    def set_default_ranking(self, ranking: str) -> None:
        """Set the default ranking; the generation is unchanged."""
        self._write_meta(default_ranking=ranking)
        self._commit(self.generation)

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Remember the types of more payload fields; the generation is unchanged."""
        known = read_field_types(self._connection)
        self._write_meta(field_types=json.dumps({**known, **types}, ensure_ascii=False))
        self._commit(self.generation)

    def set_indexed_fields(self, fields: Sequence[str]) -> None:
        """See :func:`index.sqlite.field_indexes.set_indexed_fields`, in this generation."""
        set_indexed_fields(self._connection, fields)
        self._commit(self.generation)

    def cover_fields(self) -> bool:
        """Pack a few runs of indexed fields and tell whether any are left, in this generation."""
        unfinished = cover(self._connection, RUNS_AT_ONCE)
        self._commit(self.generation)
        return unfinished

    def set_bookmark(self, key: str, value: str | None) -> None:
        """Store the progress of a job in this transaction, or delete it if `value` is None."""
        self._write_meta(**{BOOKMARK + key: value})
        if value is None:
            self._connection.execute("DELETE FROM meta WHERE key = ?", (BOOKMARK + key,))

    def commit_bookmark(self) -> None:
        """Commit a transaction of bookmarks only; the generation is unchanged."""
        self._commit(self.generation)

    def rewrite_codes(self, block: Block) -> None:
        """Replace all blocks by the codes of all documents; the generation is unchanged."""
        rewrite_blocks(self._connection, block)
        repack(self._connection)
        self._write_meta(removed=0)
        self._commit(self.generation)

    def _write_meta(self, **entries: object) -> None:
        query = "INSERT OR REPLACE INTO meta VALUES (:key, :value)"
        values = [{"key": key, "value": one} for key, one in entries.items()]
        self._connection.executemany(query, values)

    def _delete_rows(self, rows: Sequence[int]) -> None:
        parameters = [(row,) for row in rows]
        self._documents -= len(rows)
        self._removed += len(rows)
        self._deleted += len(rows)
        self._connection.executemany("DELETE FROM documents WHERE row = ?", parameters)
        self._connection.executemany("INSERT INTO removed VALUES (?)", parameters)


def read_texts(
    connection: sqlite3.Connection, after: int, up_to: int, limit: int = -1
) -> list[tuple[int, str]]:
    """Return (row, text) of the first `limit` documents with a text in (after, up_to], by row."""
    query = """
        SELECT row, text FROM documents
        WHERE row > ? AND row <= ? AND text IS NOT NULL ORDER BY row LIMIT ?
    """
    return connection.execute(query, (after, up_to, limit)).fetchall()


def storable_ids(ids: Sequence[str]) -> Sequence[str]:
    """Leave out ids with a lone surrogate, which SQLite cannot store, so no document has them."""
    if all(map(str.isascii, ids)):
        return ids
    return [id_ for id_ in ids if not LONE_SURROGATE.search(id_)]


def document_checksums(
    documents: Sequence[Document], codes: Sequence[bytes], keep_vectors: str = FLOAT32
) -> list[bytes]:
    """Return the checksums of documents that are stored with `codes` and so kept vectors."""
    return _stored_columns(documents, codes, keep_vectors).checksums


def _insert_statement(rows: int) -> str:
    return f"INSERT INTO documents VALUES {','.join(['(?, ?, ?, ?, ?, ?, ?)'] * rows)}"  # noqa: S608 - fixed parts


def _stored_columns(
    documents: Sequence[Document], codes: Sequence[bytes], keep_vectors: str
) -> _Columns:
    ids, texts = [one.id for one in documents], [one.text for one in documents]
    payloads = payloads_to_json([one.payload_with_labels for one in documents])
    vectors = [pack_vector(one.vector, keep_vectors) for one in documents]
    checksums = [*map(checksum, ids, codes, payloads, texts, vectors)]
    return _Columns(ids, codes, checksums, payloads, texts, vectors)
