"""The durable part of a collection: one SQLite file, the only source of truth."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.corpus.expiry import EXPIRES_AT, expiry_of
from hummingbit.corpus.field_types import FieldType
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.errors import StoreError
from hummingbit.index.filters import Filter, ids_of
from hummingbit.index.kept_vectors import pack_vector, unpack_vector
from hummingbit.index.languages import find_language
from hummingbit.index.names import AUTO, FLOAT32
from hummingbit.index.passages import CodeColumn, DocumentCodes, PassageCodes
from hummingbit.index.payloads import PayloadUpdate
from hummingbit.index.records import (
    CodedPayloads,
    StoredDocument,
    Verification,
    labels_of,
    parse_payloads,
)
from hummingbit.index.schema import (
    BOOKMARK,
    Description,
    checksum,
    last_row,
    new_incarnation,
    number_in_meta,
    number_of_codes,
    payloads_to_json,
    read_field_types,
    read_language,
)
from hummingbit.index.store.annotations import (
    LABELS,
    Record,
    Table,
    agreed_labels,
    damaged_records,
    delete_of_documents,
    delete_records,
    read_records,
    write_records,
)
from hummingbit.index.store.columns import Column
from hummingbit.index.store.connections import PARAMETERS, in_chunks
from hummingbit.index.store.database import Database
from hummingbit.index.store.expiries import (
    count_expired,
    derive_expiries,
    expired_documents,
    has_expiries,
    make_expiry_tables,
    next_expiry,
    set_expiries,
    unexpired,
)
from hummingbit.index.store.fields import (
    LAST_CHANGE,
    changed_rows,
    document_rows,
    forget_columns,
    indexed_fields,
    record_changed_rows,
    rows_by_payloads,
    save_column,
    set_indexed_fields,
)

# Codes in blocks of thousands, so that a million of them load as one array.
#
# A block holds rows, ``<i8`` in ascending order, their packed codes, and a CRC-32 of both. A write
# adds blocks at the end. Small blocks are merged as a binary counter carries: a block joins the
# previous one unless that is larger. So a collection that is written one document at a time has few
# blocks, and each code is rewritten at most log2(:data:`BLOCK_ROWS`) times. A deleted row is listed
# in ``removed``; folding takes such rows out of their blocks. Once the share :data:`REMOVED_SHARE`
# has been removed, each write folds some blocks, in proportion to what it removes itself.


BLOCK_ROWS = 4096
ROW_BYTES = 8
REMOVED_SHARE = 1 / 4


class BlockError(StoreError):
    """A block is damaged."""


class Block(NamedTuple):
    """Codes ``uint8[n, C]`` and their ascending rows, ``int64[n]``."""

    codes: Codes
    rows: Rows


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return one block of several whose rows follow one another."""
    codes = np.concatenate([block.codes for block in blocks])
    return Block(codes, np.concatenate([block.rows for block in blocks]))


def append_block(connection: sqlite3.Connection, column: CodeColumn, block: Block) -> None:
    """Add codes whose rows follow all others; `column` says how documents hold them."""
    query = "SELECT first_row, length(rows) FROM codes ORDER BY first_row DESC LIMIT 1"
    while len(block.rows) and (tail := connection.execute(query).fetchone()) is not None:
        first, size = tail[0], tail[1] // ROW_BYTES
        if size > len(block.rows) or size + len(block.rows) > BLOCK_ROWS:
            break
        last = int(block.rows[0]) - 1
        before = _read_or_make_block(connection, first, last, column)
        connection.execute("DELETE FROM codes WHERE first_row = ?", (first,))
        block = join_blocks([before, block])
    for start in range(0, len(block.rows), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        _insert_block(connection, Block(block.codes[part], block.rows[part]))


def read_blocks(connection: sqlite3.Connection, code_size: int, count: int) -> Block:
    """Return every code whose row was not removed, as one array.

    Raises:
        BlockError: if a block is damaged, the rows do not ascend, or there are not `count` codes.
    """
    (size,) = connection.execute("SELECT coalesce(sum(length(rows)), 0) FROM codes").fetchone()
    rows = np.empty(size // ROW_BYTES, dtype=np.int64)
    codes = np.empty((len(rows), code_size), dtype=np.uint8)
    start = 0
    for stored in connection.execute("SELECT * FROM codes ORDER BY first_row"):
        block = _parse_block(stored, code_size)
        end = start + len(block.rows)
        rows[start:end], codes[start:end] = block.rows, block.codes
        start = end
    if (rows[1:] <= rows[:-1]).any():
        raise BlockError("the rows of the blocks of codes do not ascend")
    live = _remove_rows(Block(codes, rows), read_removed(connection))
    if len(live.rows) != count:
        raise BlockError(f"the blocks hold {len(live.rows)} codes; there are {count}")
    return live


def read_removed(connection: sqlite3.Connection, up_to: int = 2**63 - 1) -> Rows:
    """Return the removed rows that are still in a block, ascending."""
    query = "SELECT row FROM removed WHERE row <= ? ORDER BY row"
    cursor = connection.execute(query, (up_to,))
    return np.fromiter((row for (row,) in cursor), dtype=np.int64)


def fold_some(
    connection: sqlite3.Connection, column: CodeColumn, *, codes: int, removed: int, deleted: int
) -> int:
    """Fold some blocks if many rows were removed; return how many rows were taken out.

    The arguments are the numbers of codes, of removed rows still in blocks, and of rows that this
    write deleted.
    """
    if removed <= max(BLOCK_ROWS, REMOVED_SHARE * (codes + removed)):
        return 0
    # On average more than a quarter of a block is removed, so this keeps up with deletions.
    blocks = 1 + deleted * 8 // BLOCK_ROWS
    return sum(_fold_first(connection, column) for _ in range(blocks))


def rewrite_blocks(connection: sqlite3.Connection, column: CodeColumn, block: Block) -> None:
    """Replace all blocks by `block`, which holds every code."""
    connection.execute("DELETE FROM codes")
    connection.execute("DELETE FROM removed")
    append_block(connection, column, block)


def damaged_blocks(connection: sqlite3.Connection, code_size: int) -> list[str]:
    """Check every block; return a sentence for each damaged one."""
    problems: list[str] = []
    for stored in connection.execute("SELECT * FROM codes ORDER BY first_row"):
        try:
            _parse_block(stored, code_size)
        except BlockError as error:
            problems.append(str(error))
    return problems


def _fold_first(connection: sqlite3.Connection, column: CodeColumn) -> int:
    """Fold the first block with removed rows; return how many rows were taken out."""
    (lowest,) = connection.execute("SELECT min(row) FROM removed").fetchone()
    if lowest is None:
        return 0
    last = lowest
    query = "SELECT max(first_row) FROM codes WHERE first_row <= ?"
    (first,) = connection.execute(query, (lowest,)).fetchone()
    if first is not None:
        last = max(lowest, _last_row(connection, first, column))
        block = _read_or_make_block(connection, first, last, column)
        connection.execute("DELETE FROM codes WHERE first_row = ?", (first,))
        remaining = _remove_rows(block, read_removed(connection, last))
        if len(remaining.rows):
            _insert_block(connection, remaining)
    return connection.execute("DELETE FROM removed WHERE row <= ?", (last,)).rowcount


def _insert_block(connection: sqlite3.Connection, block: Block) -> None:
    rows, codes = block.rows.astype("<i8").tobytes(), block.codes.tobytes()
    values = (int(block.rows[0]), rows, codes, zlib.crc32(codes, zlib.crc32(rows)))
    connection.execute("INSERT INTO codes VALUES (?, ?, ?, ?)", values)


def _read_or_make_block(
    connection: sqlite3.Connection, first: int, last: int, column: CodeColumn
) -> Block:
    """Read a block; if it is damaged, rebuild it from the documents up to row `last`."""
    query = "SELECT * FROM codes WHERE first_row = ?"
    try:
        return _parse_block(connection.execute(query, (first,)).fetchone(), column.code_size)
    except BlockError:
        query = "SELECT row, code FROM documents WHERE row BETWEEN ? AND ? ORDER BY row"
        bounds = column.document_row(first), column.document_row(last)
        codes, rows = codes_of_columns(connection.execute(query, bounds), column)
    inside = (rows >= first) & (rows <= last)
    return Block(codes[inside], rows[inside])


def codes_of_columns(columns: Iterable[tuple[int, bytes]], column: CodeColumn) -> Block:
    """Return the codes that the columns ``code`` of documents hold, and their rows in the index.

    A damaged column has no codes.
    """
    rows, codes = array("q"), bytearray()
    for row, stored in columns:
        rows.extend(column.index_rows(row, len(stored)))
        codes += column.codes(stored) if column.has_passages else stored
    packed = np.frombuffer(codes, dtype=np.uint8).reshape(len(rows), column.code_size)
    return Block(packed, np.frombuffer(rows, dtype=np.int64))


def _last_row(connection: sqlite3.Connection, first: int, column: CodeColumn) -> int:
    """Return the last row that a block starting at row `first` can hold."""
    query = "SELECT min(first_row) FROM codes WHERE first_row > ?"
    (following,) = connection.execute(query, (first,)).fetchone()
    if following is not None:
        return int(following) - 1
    # Either table may be empty.
    (document,) = connection.execute("SELECT max(row) FROM documents").fetchone()
    (removed,) = connection.execute("SELECT max(row) FROM removed").fetchone()
    return max(column.last_index_row(document or 0), removed or 0, first)


def _parse_block(stored: tuple[Any, ...], code_size: int) -> Block:
    first, rows, codes, crc = stored
    whole = isinstance(rows, bytes) and isinstance(codes, bytes) and len(rows) > 0
    if not whole or len(rows) // ROW_BYTES * code_size != len(codes):
        raise BlockError(f"the block of codes from row {first} has the wrong length")
    if zlib.crc32(codes, zlib.crc32(rows)) != crc:
        raise BlockError(f"the block of codes from row {first} does not match its checksum")
    packed = np.frombuffer(codes, dtype=np.uint8).reshape(len(rows) // ROW_BYTES, code_size)
    return Block(packed, np.frombuffer(rows, dtype="<i8"))


def _remove_rows(block: Block, removed: Rows) -> Block:
    if not len(removed) or not len(block.rows):
        return block
    positions = np.searchsorted(block.rows, removed)
    positions = positions[positions < len(block.rows)]
    remaining = np.ones(len(block.rows), dtype=np.bool_)
    remaining[positions[np.isin(block.rows[positions], removed)]] = False
    return Block(block.codes[remaining], block.rows[remaining])


# The changes of one write transaction of a store.


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


# The interpreter lock is offered after so many. With 100, the p99 of searches beside updates was
# 2.1 to 2.4 times that of searches alone in place of 1.8, and an update of 10,000 took 150 ms in
# place of 240.
UPDATED_AT_ONCE = 25


class Changes:
    """One transaction that :meth:`hummingbit.index.store.store.Store.writing` began.

    `generation` is that of the store before the transaction; `last_row` is the last assigned row,
    and `documents` the number of documents.
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
        self.documents = number_in_meta(connection, "documents")
        self._removed = number_in_meta(connection, "removed")
        self._n_codes = number_of_codes(connection)
        self._deleted = 0
        self._connection = connection
        self._commit = commit
        self._column = description.code_column
        self._keep_vectors = description.keep_vectors
        self._inserted: list[Block] = []
        self._prepared = False
        self.has_expiries = has_expiries(connection)
        """Whether the store has, or had, documents that expire."""

    def delete(self, ids: Sequence[str], within: Filter | None = None) -> list[int]:
        """Delete the documents with these ids; unknown ids are ignored.

        So are those of documents that do not match a filter. Return the rows that the index loses,
        ascending.
        """
        query = "SELECT row, length(code) FROM documents WHERE id IN "
        stored = in_chunks(self._connection, query, storable_ids(ids))
        if within is not None:
            rows = np.array(sorted(row for row, _ in stored), dtype=np.int64)
            inside = {*rows_by_payloads(self._connection, within, rows).tolist()}
            stored = [record for record in stored if record[0] in inside]
        return self._delete_rows(stored)

    def payloads_of(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the payloads of the documents with these ids; unknown ids are left out."""
        query = f"SELECT id, payload FROM {unexpired(self._connection)} WHERE id IN "  # noqa: S608 - fixed parts
        stored = in_chunks(self._connection, query, storable_ids(ids))
        payloads = parse_payloads([payload for _, payload in stored])
        return dict(zip((id_ for id_, _ in stored), payloads, strict=True))

    def expired_rows(self) -> Rows:
        """Return the rows of the index of documents that have expired, and are still stored."""
        return index_rows(self._column, self._expired())

    def delete_expired(self, limit: int) -> list[int]:
        """Delete at most so many documents that have expired, and their annotations."""
        expired = self._expired(limit)
        query = "SELECT id FROM documents WHERE row IN "
        ids = [id_ for (id_,) in in_chunks(self._connection, query, [row for row, _ in expired])]
        rows = self._delete_rows(expired)
        self.delete_annotations(ids)
        return rows

    def _expired(self, limit: int = -1) -> list[tuple[int, int]]:
        if not self.has_expiries:
            return []
        return expired_documents(self._connection, time.time(), limit)

    def _set_expiries(self, expiries: Sequence[tuple[int, float | None]]) -> None:
        """Set when documents expire, by row; None means never."""
        if not self.has_expiries:
            if all(at is None for _, at in expiries):
                return
            make_expiry_tables(self._connection)
            self.has_expiries = True
        set_expiries(self._connection, expiries)

    def delete_rows(self, rows: Rows) -> list[int]:
        """Delete the documents in these rows; see :meth:`delete`."""
        query = "SELECT row, length(code) FROM documents WHERE row IN "
        return self._delete_rows(in_chunks(self._connection, query, rows.tolist()))

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], matching: Sequence[Rows | None]
    ) -> tuple[int, int]:
        """Change the payloads of documents; each update sees what those before it did.

        `matching` has the rows that match the filter of each update; None if ids give them. Return
        how many documents were selected, and how many payloads changed.
        """
        selected = changed = np.empty(0, dtype=np.int64)
        for update, rows_of_filter in zip(updates, matching, strict=True):
            rows = self._rows_to_update(update, rows_of_filter, changed)
            some_selected, some_changed = self._update(update, rows)
            selected = np.union1d(selected, some_selected)
            changed = np.union1d(changed, some_changed)
        if len(changed):
            record_changed_rows(self._connection, self.generation + 1, changed)
        return len(selected), len(changed)

    def _rows_to_update(self, update: PayloadUpdate, matching: Rows | None, changed: Rows) -> Rows:
        """Return the rows that an update selects, if those before it changed some rows."""
        ids = update.ids if update.filter is None else ids_of(update.filter)
        if ids is not None:
            query = "SELECT row FROM documents WHERE id IN "
            found = in_chunks(self._connection, query, storable_ids(ids))
            rows = np.unique(np.array([row for (row,) in found], dtype=np.int64))
            if update.filter is not None:
                rows = rows_by_payloads(self._connection, update.filter, rows)
        else:
            assert update.filter is not None and matching is not None  # noqa: S101, PT018
            kept = np.setdiff1d(matching, changed, assume_unique=True)
            rows = np.union1d(kept, rows_by_payloads(self._connection, update.filter, changed))
        expired = [row for row, _ in self._expired()]
        return rows[~np.isin(rows, expired)] if expired else rows

    def _update(self, update: PayloadUpdate, rows: Rows) -> tuple[Rows, Rows]:
        """Change the payloads of `rows`.

        Return the rows of documents among them, and those that changed.
        """
        found: list[int] = []
        changed: list[int] = []
        expiries: list[tuple[int, float | None]] = []
        for start in range(0, len(rows), UPDATED_AT_ONCE):
            stored = self._whole(rows[start : start + UPDATED_AT_ONCE])
            befores = parse_payloads([payload for *_, payload in stored])
            afters = payloads_to_json([*map(update.apply, befores)])
            records: list[tuple[int, str, bytes]] = []
            for columns, after in zip(stored, afters, strict=True):
                row, id_, code, text, vector, payload = columns
                found.append(row)
                if after == payload:
                    continue
                records.append((row, after, checksum(id_, code, after, text, vector)))
                if EXPIRES_AT in after or EXPIRES_AT in payload:
                    expiries.append((row, expiry_of(json.loads(after))))
            changed += [row for row, *_ in records]
            self._write_payloads(records)
        if expiries:
            self._set_expiries(expiries)
        return np.array(found, dtype=np.int64), np.array(changed, dtype=np.int64)

    def _write_payloads(self, records: Sequence[tuple[int, str, bytes]]) -> None:
        """Write the payloads and checksums of some documents, by their rows."""
        if not records:
            return
        values = ",".join(["(?,?,?)"] * len(records))
        # One statement takes the interpreter lock once, where one for each row takes it often.
        self._connection.execute(
            f"WITH changed(row, payload, checksum) AS (VALUES {values})"  # noqa: S608 - marks
            " UPDATE documents SET payload = changed.payload, checksum = changed.checksum"
            " FROM changed WHERE documents.row = changed.row",
            [*chain.from_iterable(records)],
        )

    def _whole(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Return the columns of the documents of `rows` but for their checksums, which are checked.

        Raises:
            StoreError: if a document is damaged.
        """
        query = f"SELECT {STORED} FROM documents WHERE row IN "  # noqa: S608 - a fixed list
        stored = in_chunks(self._connection, query, rows.tolist())
        stored.sort(key=itemgetter(0))
        for _, id_, code, text, vector, payload, mark in stored:
            if checksum(id_, code, payload, text, vector) != mark:
                raise StoreError(f"document {id_!r} is damaged; nothing was written")
        return [columns[:-1] for columns in stored]

    def write_records(self, table: Table[Record], records: Iterable[Record]) -> int:
        """See :func:`hummingbit.index.store.annotations.write_records`."""
        return write_records(self._connection, table, records)

    def delete_records(self, table: Table[Any], keys: Iterable[Sequence[str]]) -> int:
        """See :func:`hummingbit.index.store.annotations.delete_records`."""
        return delete_records(self._connection, table, keys)

    def delete_annotations(self, ids: Sequence[str] | None) -> None:
        """See :func:`hummingbit.index.store.annotations.delete_of_documents`."""
        delete_of_documents(self._connection, None if ids is None else storable_ids(ids))

    def insert(self, documents: Sequence[Document], codes: DocumentCodes) -> Block:
        """Insert documents with new ids; return the codes that the index gains, and their rows."""
        rows = self.last_row + 1 + np.arange(len(documents))
        if self._column.has_passages and not isinstance(codes, PassageCodes):
            codes = PassageCodes.of_documents(codes)
        if isinstance(codes, PassageCodes):
            block, stored = Block(codes.codes, codes.rows(self.last_row + 1)), codes.packed()
        else:
            size, packed = self._column.code_size, codes.tobytes()
            block = Block(codes, rows)
            stored = [packed[at * size : (at + 1) * size] for at in range(len(documents))]
        self.last_row += len(documents)
        self.documents += len(documents)
        self._n_codes += len(block.rows)
        columns = _stored_columns(documents, stored, self._keep_vectors)
        records = [*zip(rows.tolist(), *columns, strict=True)]
        whole = len(records) - len(records) % ROWS_A_STATEMENT
        groups = [
            tuple(chain.from_iterable(records[start : start + ROWS_A_STATEMENT]))
            for start in range(0, whole, ROWS_A_STATEMENT)
        ]
        self._connection.executemany(_insert_statement(ROWS_A_STATEMENT), groups)
        self._connection.executemany(_insert_statement(1), records[whole:])
        expiries = [
            (row, expiry_of(document.payload))
            for row, document in zip(rows.tolist(), documents, strict=True)
            if EXPIRES_AT in document.payload
        ]
        if expiries:
            self._set_expiries(expiries)
        self._inserted.append(block)
        return block

    @property
    def deletes(self) -> bool:
        """Whether documents were deleted, or replaced."""
        return self._deleted > 0

    def last_index_row(self, row: int) -> int:
        """See :meth:`hummingbit.index.passages.CodeColumn.last_index_row`."""
        return self._column.last_index_row(row)

    def added_texts(self) -> list[tuple[int, str]]:
        """Return (row, text) of what this transaction adds to the lexical index, by row."""
        stored = read_texts(self._connection, self._last_row_before, self.last_row)
        return [*chain.from_iterable(self._column.texts(*record) for record in stored)]

    def prepare(self) -> None:
        """Write everything, so that only the commit itself is left."""
        if self._prepared:
            return
        self._prepared = True
        if self._inserted:
            append_block(self._connection, self._column, join_blocks(self._inserted))
        self._removed -= fold_some(
            self._connection,
            self._column,
            codes=self._n_codes,
            removed=self._removed,
            deleted=self._deleted,
        )
        self.find_language()
        counts = {"documents": self.documents, "removed": self._removed}
        if self._column.has_passages:
            counts["n_passages"] = self._n_codes
        self._write_meta(generation=self.generation + 1, **counts)

    def commit(self) -> None:
        """Commit the changes as the next generation."""
        self.prepare()
        self._commit(self.generation + 1)

    def describe(self, description: Description) -> None:
        """Replace the description of the collection; the generation is unchanged."""
        # The columns that came with the store are not trusted.
        forget_columns(self._connection)
        derive_expiries(self._connection)
        self._write_meta(**description.meta, incarnation=new_incarnation())
        self._commit(self.generation)

    def set_default_ranking(self, ranking: str) -> None:
        """Set the default ranking; the generation is unchanged."""
        self._write_meta(default_ranking=ranking)
        self._commit(self.generation)

    def set_hybrid_weight(self, weight: float | None) -> None:
        """Set the weight of codes beside words; None takes the encoder's. The generation stays."""
        self._write_meta(hybrid_weight=weight)
        self._commit(self.generation)

    def set_language(self, language: str) -> None:
        """Set the language of the texts, or ``auto``; the generation is unchanged."""
        self._write_meta(language=language, language_found=None)
        self.find_language()
        self._commit(self.generation)

    def find_language(self) -> None:
        """Settle the language of the texts if it is to be found, and if there are enough words."""
        setting, found = read_language(self._connection)
        if setting != AUTO or found is not None:
            return
        texts = read_texts(self._connection, 0, self.last_row, LANGUAGE_TEXTS)
        language, is_sure = find_language(text for _, text, _ in texts)
        if is_sure or len(texts) == LANGUAGE_TEXTS:
            self._write_meta(language_found=language)

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """Remember the types of more payload fields; the generation is unchanged."""
        known = read_field_types(self._connection)
        self._write_meta(field_types=json.dumps({**known, **types}, ensure_ascii=False))
        self._commit(self.generation)

    def set_indexed_fields(self, fields: Sequence[str]) -> None:
        """See :func:`hummingbit.index.store.fields.set_indexed_fields`, in this generation."""
        set_indexed_fields(self._connection, fields)
        self._commit(self.generation)

    def save_columns(self, packed: Iterable[tuple[Column, bytes]]) -> None:
        """Save the columns of indexed fields, and packed ones; the generation is unchanged."""
        for column in packed:
            save_column(self._connection, *column)
        self._commit(self.generation)

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
        rewrite_blocks(self._connection, self._column, block)
        forget_columns(self._connection)
        self._write_meta(removed=0)
        self._commit(self.generation)

    def _write_meta(self, **entries: object) -> None:
        query = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
        self._connection.executemany(query, entries.items())

    def _delete_rows(self, stored: Iterable[tuple[int, int]]) -> list[int]:
        """Delete documents, given their rows and the lengths of their codes, in any order."""
        ordered = sorted(stored)
        removed: list[int] = index_rows(self._column, ordered).tolist()
        self.documents -= len(ordered)
        self._n_codes -= len(removed)
        self._removed += len(removed)
        self._deleted += len(removed)
        self._connection.executemany(
            "DELETE FROM documents WHERE row = ?", [(row,) for row, _ in ordered]
        )
        if self.has_expiries:
            set_expiries(self._connection, ((row, None) for row, _ in ordered))
        self._connection.executemany("INSERT INTO removed VALUES (?)", [(row,) for row in removed])
        return removed


def index_rows(column: CodeColumn, stored: Iterable[tuple[int, int]]) -> Rows:
    """Return the ascending rows of the index of documents, given as rows and lengths of codes."""
    rows = chain.from_iterable(column.index_rows(*record) for record in sorted(stored))
    return np.array([*rows], dtype=np.int64)


def read_texts(
    connection: sqlite3.Connection, after: int, up_to: int, limit: int = -1
) -> list[tuple[int, str, bytes]]:
    """Return the row, text and codes of the first `limit` documents with a text, by row.

    They are those in (after, up_to].
    """
    query = """
        SELECT row, text, code FROM documents
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
    ids, texts = [document.id for document in documents], [document.text for document in documents]
    payloads = payloads_to_json([document.payload_with_labels for document in documents])
    vectors = [pack_vector(document.vector, keep_vectors) for document in documents]
    checksums = [*map(checksum, ids, codes, payloads, texts, vectors)]
    return _Columns(ids, codes, checksums, payloads, texts, vectors)


# Reads the documents of a store and checks them against their checksums.


# The number of documents that are read between two checkpoints.
ROWS_AT_ONCE = 500
STORED = "row, id, code, text, vector, payload, checksum"


class DocumentReader(Database):
    """Reads the documents of a store, in any number of threads."""

    @cached_property
    def code_column(self) -> CodeColumn:
        """How documents hold their codes."""
        return self.description.code_column

    def read_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """Return the code and payload of every document of one generation, by row.

        With `with_given_labels`, also return the labels that people agree on.

        Raises:
            StoreError: if a label is damaged.
        """
        with self.reading() as connection:
            agreed = agreed_labels(read_records(connection, LABELS)) if with_given_labels else {}
            query = f"SELECT row, id FROM {unexpired(connection)} WHERE id IN "  # noqa: S608 - fixed parts
            labels = {row: agreed[id_] for row, id_ in in_chunks(connection, query, list(agreed))}
            codes = bytearray()
            payloads: list[Mapping[str, Any]] = []
            given_labels: list[tuple[str, ...]] = []
            for rows, some_codes, some_payloads in self._coded_payloads(connection):
                codes += some_codes
                payloads += some_payloads
                if with_given_labels:
                    given_labels += [labels.get(row, ()) for row in rows]
        return CodedPayloads(self._as_codes(codes, len(payloads)), payloads, given_labels)

    def read_labels(self, field: str) -> tuple[Codes, list[tuple[str, ...]]]:
        """Return the code of every document of one generation, and its labels, by row.

        Payloads are dropped as soon as their labels are read: to free a million of them at once
        takes a third of a second, and keeps the interpreter lock.

        Raises:
            InputError: as :func:`hummingbit.index.records.labels_of`.
        """
        codes = bytearray()
        labels: list[tuple[str, ...]] = []
        distinct: dict[tuple[str, ...], tuple[str, ...]] = {}
        with self.reading() as connection:
            for _, some_codes, payloads in self._coded_payloads(connection):
                codes += some_codes
                for payload in payloads:
                    found = labels_of(payload, field)
                    labels.append(distinct.setdefault(found, found))
        return self._as_codes(codes, len(labels)), labels

    def _coded_payloads(
        self, connection: sqlite3.Connection
    ) -> Iterator[tuple[list[int], bytes, list[Mapping[str, Any]]]]:
        """Yield rows, their joined codes and their payloads, some at a time, by row."""
        query = f"SELECT row, code, payload FROM {unexpired(connection)} ORDER BY row"  # noqa: S608 - fixed parts
        cursor = connection.execute(query)
        while some := cursor.fetchmany(ROWS_AT_ONCE):
            codes = self._pack_codes([code for _, code, _ in some])
            payloads = parse_payloads([payload for _, _, payload in some])
            yield [row for row, _, _ in some], codes.tobytes(), payloads

    def _as_codes(self, joined: bytearray, count: int) -> Codes:
        return np.frombuffer(joined, dtype=np.uint8).reshape(count, self._code_size)

    def read_contents(self) -> list[StoredDocument]:
        """Return every document of one generation, by row.

        Raises:
            StoreError: if a document does not match its checksum.
        """
        with self.reading() as connection:
            query = f"SELECT {STORED} FROM {unexpired(connection)} ORDER BY row"  # noqa: S608 - fixed parts
            return self._parse_documents(connection.execute(query))

    def read_documents(self, rows: Sequence[int]) -> list[StoredDocument]:
        """Return the documents of `rows`, by row; missing rows are left out.

        Raises:
            StoreError: if a document does not match its checksum.
        """
        query = f"SELECT {STORED} FROM documents WHERE row IN "  # noqa: S608 - a fixed list
        with self.reading() as connection:
            return self._parse_documents(sorted(in_chunks(connection, query, rows)))

    def rows_of(self, ids: Sequence[str]) -> list[int]:
        """Return the rows of the documents with these ids, ascending; unknown ids are ignored."""
        return sorted(self.row_of_each(ids).values())

    def row_of_each(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the row of each of these documents; unknown ids are left out."""
        query = "SELECT id, row FROM documents WHERE id IN "
        with self.reading() as connection:
            return dict(in_chunks(connection, query, storable_ids(ids)))

    def read_codes_of(self, ids: Sequence[str]) -> dict[str, Codes]:
        """Return the code, ``uint8[C]``, of each document; unknown ids are left out."""
        return {id_: self._pack_codes([code])[0] for id_, (code, _) in self.read_marks(ids).items()}

    def read_marks(self, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """Return the stored codes and the checksum of each document; unknown ids are left out."""
        if not ids:
            return {}
        with self.reading() as connection:
            query = f"SELECT id, code, checksum FROM {unexpired(connection)} WHERE id IN "  # noqa: S608 - fixed parts
            marks = in_chunks(connection, query, storable_ids(ids))
            return {id_: (code, mark) for id_, code, mark in marks}

    def get(self, id_: str) -> StoredDocument | None:
        """Return the document with the id, or None.

        Raises:
            StoreError: if it does not match its checksum.
        """
        with self.reading() as connection:
            query = f"SELECT {STORED} FROM {unexpired(connection)} WHERE id IN "  # noqa: S608 - fixed parts
            stored = in_chunks(connection, query, storable_ids([id_]))
        return self._parse_some(stored)[0] if stored else None

    def count_rows(self, rows: Rows) -> int:
        """Return the number of documents in these rows, which ascend, that have not expired."""
        with self.reading() as connection:
            present = document_rows(connection, unexpired(connection))
        return len(np.intersect1d(rows, present, assume_unique=True))

    def scroll(
        self, limit: int, after: int, up_to: int | None, rows: Rows | None = None
    ) -> tuple[list[StoredDocument], int]:
        """Return the first documents after row `after`, and the last row that was ever assigned.

        Rows after `up_to` are left out, and those that are not among the ascending `rows`.
        """
        with self.read_transaction() as connection:
            last = last_row(connection)
            to = last if up_to is None else up_to
            if rows is not None:
                some = rows[(rows > after) & (rows <= to)]
                return self._scroll_rows(connection, limit, some), last
            query = f"""
                SELECT {STORED} FROM {unexpired(connection)}
                WHERE row > ? AND row <= ? ORDER BY row LIMIT ?
            """  # noqa: S608 - made of fixed parts
            return self._parse_documents(connection.execute(query, (after, to, limit))), last

    def _scroll_rows(
        self, connection: sqlite3.Connection, limit: int, rows: Rows
    ) -> list[StoredDocument]:
        """Return the first documents in some ascending rows."""
        documents: list[StoredDocument] = []
        query = f"SELECT {STORED} FROM {unexpired(connection)} WHERE row IN "  # noqa: S608 - fixed parts
        at_once = min(limit, PARAMETERS)
        for start in range(0, len(rows), at_once):
            some: list[int] = rows[start : start + at_once].tolist()
            documents += self._parse_some(sorted(in_chunks(connection, query, some)))
            if len(documents) >= limit:
                break
        return documents[:limit]

    def _parse_documents(self, stored: Iterable[tuple[Any, ...]]) -> list[StoredDocument]:
        """Read stored documents in slices."""
        documents: list[StoredDocument] = []
        remaining = iter(stored)
        while some := [*islice(remaining, ROWS_AT_ONCE)]:
            documents += self._parse_some(some)
        return documents

    def _parse_some(self, stored: Sequence[tuple[Any, ...]]) -> list[StoredDocument]:
        """Check documents and parse them; their codes and payloads are parsed together."""
        for _, id_, code, text, vector, payload, mark in stored:
            if checksum(id_, code, payload, text, vector) != mark:
                message = f"document {id_!r} does not match its checksum"
                raise StoreError(f"{self.path}: is damaged: {message}")
        digits = code_to_hex(self._pack_codes([record[2] for record in stored]))
        size = 2 * self._code_size
        payloads = parse_payloads([record[5] for record in stored])
        return [
            StoredDocument(
                id_,
                row,
                digits[position * size : (position + 1) * size],
                text,
                None if vector is None else unpack_vector(vector, self.description.keep_vectors),
                payloads[position],
            )
            for position, (row, id_, _, text, vector, *_) in enumerate(stored)
        ]

    @property
    def _code_size(self) -> int:
        return self.code_column.code_size

    def _pack_codes(self, codes: Sequence[bytes]) -> Codes:
        """Return the codes of documents, given their columns ``code``."""
        size = self._code_size
        if self.code_column.has_passages:
            codes = [self.code_column.code(code) for code in codes]
        if any(not isinstance(code, bytes) or len(code) != size for code in codes):
            raise StoreError(f"{self.path}: is damaged: a code is not {size} bytes long")
        return np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), size)


# The durable part of a collection: one SQLite file, the only source of truth.
#
# :mod:`hummingbit.index.schema` describes its tables. Row numbers are never reused. Replacing a
# document deletes its row and inserts another, so a replaced document counts as inserted last.
#
# The file is in WAL mode with synchronous=FULL: a commit that returned survives a crash of the
# process and of the machine. The generation counts the commits that changed something.


TEXTS_AT_ONCE = 1000
# The language is found from so many of the first texts.
LANGUAGE_TEXTS = 1000


class StoredCodes(NamedTuple):
    """Every code of the index of a generation, ``uint8[N, C]``, and its row, ascending."""

    generation: int
    codes: Codes
    rows: Rows
    last_row: int
    documents: int


class LaterRows(NamedTuple):
    """The codes of the index written after a row, ``uint8[N, C]``, and their rows, ascending.

    `removed` are rows up to that row that were removed lately. It may lack rows that were removed
    earlier; comparing with `n_codes`, the number of all codes, shows whether it does.
    """

    generation: int
    codes: Codes
    rows: Rows
    removed: Rows
    n_codes: int
    documents: int
    last_row: int

    @property
    def write(self) -> tuple[int, Codes, Rows, Rows]:
        """The arguments of :meth:`hummingbit.index.engines.segments.IndexSnapshot.with_changes`."""
        return self.generation, self.codes, self.rows, self.removed


class Store(DocumentReader):
    """An open store. Any number of threads can read; one can write at a time.

    A store opened for reading only shows the last commit of another process.
    """

    changes_class: ClassVar[type[Changes]] = Changes
    """Makes the changes of :meth:`writing`."""

    def __init__(self, path: Path, *, writable: bool, accept_loss: bool = False) -> None:
        """Open the store at `path`; see :class:`hummingbit.index.store.database.Database`.

        Raises:
            StoreError: if it is missing, is not a store, is damaged, or has another format.
        """
        super().__init__(path, writable=writable, accept_loss=accept_loss)
        self.problems: list[str] = []

    def default_ranking(self) -> str | None:
        """Return the default ranking, or None if it was never set."""
        stored = self._meta("default_ranking")
        return None if stored is None else str(stored)

    def hybrid_weight(self) -> float | None:
        """Return the weight of codes beside words, or None if it is the encoder's."""
        stored = self._meta("hybrid_weight")
        return None if stored is None else float(stored)

    def read_bookmark(self, key: str) -> str | None:
        """Return the last value of :meth:`Changes.set_bookmark`, or None."""
        stored = self._meta(BOOKMARK + key)
        return None if stored is None else str(stored)

    def last_payload_change(self) -> int:
        """Return the last generation that changed the payload of a document; 0 if none did."""
        return int(self._meta(LAST_CHANGE) or 0)

    def _meta(self, key: str) -> Any:
        """Return an entry of the table ``meta``, or None."""
        stored = self.connections.fetch("SELECT value FROM meta WHERE key = ?", (key,))
        return stored[0][0] if stored else None

    def language(self) -> tuple[str | None, str | None]:
        """Return the setting of the language, and the language that was found with ``auto``.

        The setting is None in stores of earlier versions, whose texts are read as English without
        other forms of words (:mod:`hummingbit.index.word_forms`).
        """
        with self.reading() as connection:
            return read_language(connection)

    def guess_language(self) -> str:
        """Return the language of the first texts."""
        with self.reading() as connection:
            texts = read_texts(connection, 0, last_row(connection), LANGUAGE_TEXTS)
        return find_language(text for _, text, _ in texts)[0]

    def count(self) -> int:
        """Return the number of documents that have not expired."""
        with self.reading() as connection:
            documents = number_in_meta(connection, "documents")
            if not has_expiries(connection):
                return documents
            return documents - count_expired(connection, time.time())

    def expired(self) -> tuple[Rows, float]:
        """Return the rows of the index of expired documents that are still stored, ascending.

        Also return when the next document expires, in seconds since 1970.
        """
        now = time.time()
        with self.reading() as connection:
            if not has_expiries(connection):
                return np.empty(0, dtype=np.int64), math.inf
            rows = index_rows(self.code_column, expired_documents(connection, now))
            return rows, next_expiry(connection, now)

    def last_row(self) -> int:
        """Return the last row that was ever assigned, or 0."""
        with self.reading() as connection:
            return last_row(connection)

    def texts(self, after: int = 0, up_to: int | None = None) -> Iterator[tuple[int, str]]:
        """Yield the rows of the index of the documents in (after, up_to], each with its text.

        Each thousand documents is read in a transaction of its own.
        """
        last = self.last_row() if up_to is None else up_to
        while True:
            with self.reading() as connection:
                stored = read_texts(connection, after, last, TEXTS_AT_ONCE)
            for record in stored:
                yield from self.code_column.texts(*record)
            if len(stored) < TEXTS_AT_ONCE:
                return
            after = stored[-1][0]

    def texts_of(self, rows: Rows) -> Iterator[tuple[int, str]]:
        """Do as :meth:`texts` for the documents with ascending `rows`."""
        query = "SELECT row, text, code FROM documents WHERE text IS NOT NULL AND row IN "
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            with self.reading() as connection:
                some: list[int] = rows[start : start + TEXTS_AT_ONCE].tolist()
                stored = sorted(in_chunks(connection, query, some))
            for record in stored:
                yield from self.code_column.texts(*record)

    def read_codes(self) -> StoredCodes:
        """Return every code of one generation.

        If the blocks of codes are damaged, the codes are read from the documents, and
        :attr:`problems` says so.

        Raises:
            StoreError: if the documents are damaged, too.
        """
        with self.read_transaction() as connection:
            n_codes = number_of_codes(connection)
            try:
                block = read_blocks(connection, self._code_size, n_codes)
            except BlockError as error:
                self.problems = [f"{error}; the codes were read from the documents instead"]
                block = self._codes_of_documents(connection)
            if len(block.rows) != n_codes:
                counts = f"it has {n_codes} documents but {len(block.rows)} codes"
                raise StoreError(f"{self.path}: is damaged: {counts}")
            generation, documents = (
                number_in_meta(connection, key) for key in ("generation", "documents")
            )
            return StoredCodes(generation, block.codes, block.rows, last_row(connection), documents)

    def read_later(self, row: int) -> LaterRows:
        """Return the codes of the documents after `row`, and the removed rows up to it."""
        query = "SELECT row, code FROM documents WHERE row > ? ORDER BY row"
        with self.read_transaction() as connection:
            later = codes_of_columns(connection.execute(query, (row,)), self.code_column)
            return LaterRows(
                number_in_meta(connection, "generation"),
                later.codes,
                later.rows,
                read_removed(connection, self.code_column.last_index_row(row)),
                number_of_codes(connection),
                number_in_meta(connection, "documents"),
                last_row(connection),
            )

    def indexed_fields(self) -> list[str]:
        """See :func:`hummingbit.index.store.fields.indexed_fields`."""
        with self.reading() as connection:
            return indexed_fields(connection)

    def field_types(self) -> dict[str, FieldType]:
        """See :func:`hummingbit.index.schema.read_field_types`."""
        with self.reading() as connection:
            return read_field_types(connection)

    def payloads_changed_since(self, generation: int) -> list[StoredDocument]:
        """Return the documents whose payloads a later generation changed, or all if unknown."""
        with self.read_transaction() as connection:
            rows = changed_rows(connection, generation)
            return self.read_contents() if rows is None else self.read_documents(rows.tolist())

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
        with self.transaction() as connection:
            changes = self.changes_class(connection, self.description, self.commit)
            yield changes
        if changes.deletes:
            self.forget_ids()

    @contextmanager
    def holding_writes(self) -> Iterator[bool]:
        """Let no other process write in the block; tell whether any could, which is not so here."""
        yield False

    def compact(self) -> None:
        """Rebuild the blocks of codes from the documents and rewrite the file without unused pages.

        The caller ensures that only one thread writes. This needs as much free space as the file.

        Raises:
            StoreError: if the store cannot be written, or is damaged.
        """
        with self.reading() as connection:
            block = self._codes_of_documents(connection)
        with self.writing() as changes:
            changes.rewrite_codes(block)
        self.vacuum()
        self.problems = []

    def copy_to(self, path: Path) -> None:
        """Copy one generation of the store to the new file `path`; writes continue.

        Raises:
            StoreError: if the store cannot be read or the copy cannot be written.
        """
        with self.reading() as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)

    def _codes_of_documents(self, connection: sqlite3.Connection) -> Block:
        stored = connection.execute("SELECT row, code FROM documents ORDER BY row")
        try:
            block = codes_of_columns(stored, self.code_column)
        except ValueError:
            block = None
        if block is None or len(block.codes) != len(block.rows):
            raise StoreError(f"{self.path}: is damaged: a code is not {self._code_size} bytes long")
        return block


# Checks a store against its checksums, and an index against its store.


MAX_PROBLEMS = 100
# The number of documents that are checked between two checkpoints.


def verify_store(
    connection: sqlite3.Connection, column: CodeColumn, indexed: Block | None
) -> Verification:
    """Check pages, documents, labels, blocks of codes and the index against one another.

    Every document, record and block of codes must match its checksum. The codes in the blocks, and
    the `indexed` codes, must equal those of the documents. `connection` must be in a read
    transaction. At most :data:`MAX_PROBLEMS` problems of each kind are listed.
    """
    rows, codes = array("q"), bytearray()
    problems: list[str] = []
    n_documents = 0
    try:
        problems += _pages(connection)
        problems += _documents(connection, column, rows, codes)
        packed = np.frombuffer(codes, dtype=np.uint8).reshape(len(rows), column.code_size)
        stored = Block(packed, np.frombuffer(rows, dtype=np.int64))
        n_documents = len(column.document_rows(stored.rows))
        problems += _counts(connection, stored, n_documents, column)
        problems += _blocks(connection, column.code_size, stored)
        if indexed is not None and has_expiries(connection):
            n_documents -= count_expired(connection, time.time())
            stored = _without_expired(connection, stored, indexed, column)
        problems += islice(damaged_records(connection), MAX_PROBLEMS)
        if indexed is not None and not _are_equal(indexed, stored):
            problems.append("the index and the documents have different codes")
    except sqlite3.DatabaseError as error:
        problems.append(f"SQLite: {error}")
    return Verification(n_documents, problems)


def _without_expired(
    connection: sqlite3.Connection, stored: Block, indexed: Block, column: CodeColumn
) -> Block:
    """Return the stored codes without those of expired documents that the index lacks."""
    expired = index_rows(column, expired_documents(connection, time.time()))
    missing = np.setdiff1d(expired, indexed.rows)
    kept = ~np.isin(stored.rows, missing)
    return Block(stored.codes[kept], stored.rows[kept])


def _pages(connection: sqlite3.Connection) -> Iterator[str]:
    begin_stage("checking the pages of the store")
    for (message,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
        if message != "ok":
            yield f"SQLite: {message}"


def _documents(
    connection: sqlite3.Connection, column: CodeColumn, rows: array[int], codes: bytearray
) -> Iterator[str]:
    """Check every document and append its rows in the index and its codes."""
    begin_stage("checking documents")
    damaged = 0
    query = "SELECT row, id, code, payload, text, vector, checksum FROM documents ORDER BY row"
    for checked, stored in enumerate(connection.execute(query)):
        row, id_, code, payload, text, vector, mark = stored
        if checked % ROWS_AT_ONCE == 0:
            check_cancelled()
        # A code of the wrong length counts as that of a document without passages.
        n = max(1, column.count(len(code)))
        rows.extend(column.index_rows(row, len(code)) or column.index_rows(row, column.code_size))
        codes += code[: n * column.code_size].ljust(n * column.code_size, b"\0")
        wrong_length = column.count(len(code)) == 0
        if wrong_length or checksum(id_, code, payload, text, vector) != mark:
            damaged += 1
            if damaged <= MAX_PROBLEMS:
                yield f"document {id_!r} (row {row}) does not match its checksum"
    if damaged > MAX_PROBLEMS:
        yield f"{damaged - MAX_PROBLEMS:,} more documents do not match their checksums"


def _counts(
    connection: sqlite3.Connection, stored: Block, n_documents: int, column: CodeColumn
) -> Iterator[str]:
    documents, n_codes = number_in_meta(connection, "documents"), number_of_codes(connection)
    if documents != n_documents:
        count = counted(n_documents, "document")
        yield f"the store holds {count}, not {documents:,} as recorded"
    if column.has_passages and n_codes != len(stored.rows):
        count = counted(len(stored.rows), "passage")
        yield f"the store holds {count}, not {n_codes:,} as recorded"
    removed = number_in_meta(connection, "removed")
    (listed,) = connection.execute("SELECT count(*) FROM removed").fetchone()
    if removed != listed:
        yield f"the store lists {counted(listed, 'removed row')}, not {removed:,} as recorded"
    last = last_row(connection)
    highest = column.document_row(int(stored.rows[-1])) if len(stored.rows) else 0
    if highest > last:
        yield f"there is a row {highest}, but the last assigned row is {last}"


def _blocks(connection: sqlite3.Connection, code_size: int, stored: Block) -> Iterator[str]:
    begin_stage("checking blocks of codes")
    damaged = damaged_blocks(connection, code_size)
    yield from damaged[:MAX_PROBLEMS]
    if damaged:
        return
    try:
        blocks = read_blocks(connection, code_size, len(stored.rows))
    except BlockError as error:
        yield str(error)
        return
    if not _are_equal(blocks, stored):
        yield "the blocks of codes and the documents have different codes"


def _are_equal(block: Block, other: Block) -> bool:
    return np.array_equal(block.rows, other.rows) and np.array_equal(block.codes, other.codes)
