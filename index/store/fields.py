"""The payload fields of a store: cached columns, the rows that match filters, and saved columns.

Whoever asks names a generation, and gets what is cached of it, or else what is of now: the
published generation may be behind the store. What is cached is brought up to date by the documents
that were added since, and those whose payloads changed, which the store lists.

The columns of *indexed* fields are also saved in the store, so that a process need not read all
payloads for the first filter. They are derived, and behind the documents by what was written since.
A column that is damaged, or that another version wrote, is not used.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from hummingbit.foundation.processes import ProcessLock
from hummingbit.index.engines.protocol import Rows, rows_in_both
from hummingbit.index.filters import And, Filter, HasId, Not, Or, fields_of, ids_of, read_payload
from hummingbit.index.schema import last_row, number_in_meta
from hummingbit.index.store.columns import (
    BYTES_A_DOCUMENT,
    MAX_BYTES,
    NO_DOCUMENT,
    Column,
    ColumnReader,
    Mask,
    RowsAndPayloads,
    TooManyValuesError,
)
from hummingbit.index.store.connections import has_table, in_chunks

if TYPE_CHECKING:
    from hummingbit.index.store.database import Database

_log = logging.getLogger("hummingbit.index")

# The documents, and the tables of the store.


# With more, the collector of garbage takes half as long again as reading them.
DOCUMENTS_AT_ONCE = 128
# More columns are not read at once, since each takes memory until the last is read.
COLUMNS_AT_ONCE = 16
COLUMNS_SCHEMA = """CREATE TABLE columns (
    field TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    packed BLOB
)"""
# Earlier versions kept indexes of fields in these tables.
EARLIER_TABLES = {
    "fields": """CREATE TABLE fields (
    field TEXT PRIMARY KEY,
    covered INTEGER NOT NULL,
    refreshed INTEGER NOT NULL
) WITHOUT ROWID""",
    "field_runs": """CREATE TABLE field_runs (
    first_row INTEGER NOT NULL,
    field TEXT NOT NULL,
    documents INTEGER NOT NULL,
    packed BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (first_row, field)
)""",
}
# A column is saved again if the saved one lacks more documents than both numbers allow.
MOST_BEHIND = 1_000
SHARE_BEHIND = 1 / 50
# SQLite takes no larger values.
MOST_PACKED = 900_000_000


def indexed_fields(connection: sqlite3.Connection) -> list[str]:
    """Return the indexed fields, sorted."""
    for table in ("columns", "fields"):
        if has_table(connection, table):
            query = f"SELECT field FROM {table} ORDER BY field"  # noqa: S608 - fixed names
            return [field for (field,) in connection.execute(query)]
    return []


def set_indexed_fields(connection: sqlite3.Connection, fields: Sequence[str]) -> None:
    """Index these fields and no others from now on; their columns are saved later."""
    if not has_table(connection, "columns"):
        if not fields:
            return
        make_columns_table(connection)
    before = {field for (field,) in connection.execute("SELECT field FROM columns")}
    gone, added = before.difference(fields), [*dict.fromkeys(fields)]
    connection.executemany("DELETE FROM columns WHERE field = ?", [(field,) for field in gone])
    new = [(field,) for field in added if field not in before]
    connection.executemany("INSERT INTO columns VALUES (?, 0, 0, NULL)", new)


def make_columns_table(connection: sqlite3.Connection) -> None:
    """Create the table of saved columns, which must not exist."""
    connection.execute(COLUMNS_SCHEMA)


def make_earlier_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of earlier versions, with which their stores are compared."""
    for schema in EARLIER_TABLES.values():
        connection.execute(schema)


def has_earlier_tables(connection: sqlite3.Connection) -> bool:
    """Tell whether an earlier version indexed fields, in tables that :func:`upgrade` replaces."""
    return has_table(connection, "fields")


def upgrade(connection: sqlite3.Connection) -> None:
    """Replace the tables of an earlier version; the same fields stay indexed."""
    fields = indexed_fields(connection)
    for table in EARLIER_TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    set_indexed_fields(connection, fields)


def forget_columns(connection: sqlite3.Connection) -> None:
    """Delete all saved columns; the fields stay indexed."""
    if has_table(connection, "columns"):
        connection.execute("UPDATE columns SET generation = 0, last_row = 0, packed = NULL")


def save_column(connection: sqlite3.Connection, column: Column, packed: bytes) -> None:
    """Save the packed column of a field, if it is indexed, and unless it is too large."""
    if len(packed) <= MOST_PACKED:
        query = "UPDATE columns SET generation = ?, last_row = ?, packed = ? WHERE field = ?"
        values = (column.generation, column.last_row, packed, column.field)
        connection.execute(query, values)


def saved_column(connection: sqlite3.Connection, field: str) -> Column | None:
    """Return the column that is saved for a field; None if there is none, or it is damaged."""
    if not has_table(connection, "columns"):
        return None
    query = "SELECT generation, packed FROM columns WHERE field = ?"
    generation, packed = connection.execute(query, (field,)).fetchone() or (0, None)
    if packed is None:
        return None
    try:
        return Column.unpack(field, generation, packed)
    except ValueError as error:
        _log.warning("the column of the field %r is read anew: %s", field, error)
        return None


def damaged_columns(connection: sqlite3.Connection) -> Iterator[str]:
    """Compare every saved column with the payloads; yield a sentence for each that differs."""
    for field in indexed_fields(connection):
        query = "SELECT packed FROM columns WHERE field = ?"
        is_saved = (
            has_table(connection, "columns")
            and connection.execute(f"{query} AND packed IS NOT NULL", (field,)).fetchone()
        )
        if not is_saved:
            continue
        saved = saved_column(connection, field)
        if saved is None or not _agrees(connection, saved):
            yield f"the saved column of the field {field!r} is damaged"


def _agrees(connection: sqlite3.Connection, saved: Column) -> bool:
    """Tell whether a saved column, brought up to date, has the values of all payloads."""
    now = updated_column(connection, saved)
    try:
        (read,) = read_columns(connection, [saved.field])
    except TooManyValuesError:
        return True
    return now.agrees_with(read)


def documents_between(
    connection: sqlite3.Connection, after: int, up_to: int
) -> Iterator[RowsAndPayloads]:
    """Yield the documents in the rows after `after` and up to `up_to`, some at a time."""
    # Two values are fetched in two thirds of the time of one for each document.
    values = "group_concat(row), group_concat(payload)"
    query = f"SELECT {values} FROM documents WHERE row > ? AND row <= ?"  # noqa: S608 - fixed
    for start in range(after, up_to, DOCUMENTS_AT_ONCE):
        limits = start, min(start + DOCUMENTS_AT_ONCE, up_to)
        rows, payloads = connection.execute(query, limits).fetchone()
        if rows is not None:
            yield orjson.loads(f"[{rows}]"), _parse(payloads)


def documents_of(connection: sqlite3.Connection, rows: Rows) -> Iterator[RowsAndPayloads]:
    """Yield the documents in some rows, some at a time."""
    query = "SELECT row, payload FROM documents WHERE row IN "
    for start in range(0, len(rows), DOCUMENTS_AT_ONCE):
        some = rows[start : start + DOCUMENTS_AT_ONCE].tolist()
        stored = in_chunks(connection, query, some)
        yield [row for row, _ in stored], _parse(",".join(payload for _, payload in stored))


def _parse(payloads: str) -> list[Mapping[str, Any]]:
    """Return payloads that commas separate; one list is read in a third of the time of its items.

    As in :func:`.filters.read_payload`, an integer beyond 64 bits may become a float.
    """
    try:
        parsed: list[Mapping[str, Any]] = orjson.loads(f"[{payloads}]")
    except orjson.JSONDecodeError:
        # Python also reads numbers beyond the range of a float.
        parsed = json.loads(f"[{payloads}]")
    return parsed


def read_columns(connection: sqlite3.Connection, fields: Sequence[str]) -> list[Column]:
    """Read the columns of some fields from all payloads.

    Raises:
        TooManyValuesError: if the values of a field take too much memory.
    """
    generation, last = number_in_meta(connection, "generation"), last_row(connection)
    most = max(MAX_BYTES, BYTES_A_DOCUMENT * number_in_meta(connection, "documents"))
    columns: list[Column] = []
    for start in range(0, len(fields), COLUMNS_AT_ONCE):
        some = fields[start : start + COLUMNS_AT_ONCE]
        readers = [ColumnReader(field, last, most) for field in some]
        for rows, payloads in documents_between(connection, 0, last):
            for reader in readers:
                reader.add(rows, payloads)
        columns += [reader.column(generation) for reader in readers]
    return columns


def updated_column(connection: sqlite3.Connection, earlier: Column) -> Column:
    """Return an earlier column with what was written since."""
    generation, last = number_in_meta(connection, "generation"), last_row(connection)
    changed = changed_rows(connection, earlier.generation)
    if changed is None or earlier.has_grown:
        (read,) = read_columns(connection, [earlier.field])
        return read
    changed = changed[changed <= earlier.last_row]
    reader = ColumnReader(earlier.field, last)
    for documents in chain(
        documents_of(connection, changed), documents_between(connection, earlier.last_row, last)
    ):
        reader.add(*documents)
    return earlier.updated(reader.column(generation))


def rows_by_payloads(connection: sqlite3.Connection, filter_: Filter, rows: Rows) -> Rows:
    """Return those of the ascending `rows` whose documents match a filter, read from the store."""
    query = "SELECT row, id, payload FROM documents WHERE row IN "
    matching: list[int] = []
    for start in range(0, len(rows), DOCUMENTS_AT_ONCE):
        stored = in_chunks(connection, query, rows[start : start + DOCUMENTS_AT_ONCE].tolist())
        matching += [
            row for row, id_, payload in stored if filter_.matches(read_payload(payload), id_)
        ]
    return np.array(sorted(matching), dtype=np.int64)


def document_rows(connection: sqlite3.Connection, source: str = "documents") -> Rows:
    """Return the rows of all documents, ascending; `source` is what to select them from."""
    # One value takes and releases Python's lock once.
    query = f"SELECT group_concat(row) FROM {source}"  # noqa: S608 - a fixed name
    (rows,) = connection.execute(query).fetchone()
    return np.sort(np.fromstring(rows or "", dtype=np.int64, sep=","))


# What is cached of a store.


MAX_BYTES_OF_ROWS = 128 << 20
# Rows of a filter are tested one by one if so few are new or changed; else columns are brought up
# to date, which takes as long as some thousand tests.
MOST_TESTED = 2_000
LOCKS = 64


class MatchingRows(NamedTuple):
    """The ascending rows of a generation that match a filter; deleted ones may be among them."""

    generation: int
    last_row: int
    rows: Rows


class PayloadFields:
    """The columns that were used last, and the rows of the filters that were."""

    def __init__(self, store: Database) -> None:
        self._store = store
        process = store.connections.process
        self._lock = ProcessLock(process)
        self._columns: OrderedDict[str, Column] = OrderedDict()
        self._rows: OrderedDict[Filter, MatchingRows] = OrderedDict()
        # A column is read once, while columns of other fields are read, too.
        self._locks = [ProcessLock(process) for _ in range(LOCKS)]

    def knows_filter(self, filter_: Filter) -> bool:
        """Tell whether the rows of a filter are cached, or nearly so, or found by ids."""
        is_by_ids = ids_of(filter_) is not None
        return (
            is_by_ids
            or filter_ in self._rows
            or all(field in self._columns for field in fields_of(filter_))
        )

    def column(self, field: str, generation: int = -1) -> Column:
        """Return the column of a field, of `generation` if it is cached, or else of now.

        Raises:
            TooManyValuesError: if the values of the field take too much memory.
            StoreError: if the store cannot be read.
        """
        cached = self._columns.get(field)
        if cached is not None and cached.generation == generation:
            return cached
        return self.columns([field])[field]

    def columns(self, fields: Collection[str]) -> dict[str, Column]:
        """Return the columns of some fields, all of one generation; see :meth:`column`."""
        with ExitStack() as stack:
            for number in sorted({hash(field) % LOCKS for field in fields}):
                stack.enter_context(self._locks[number])
            connection = stack.enter_context(self._store.read_transaction())
            now = number_in_meta(connection, "generation")
            columns: dict[str, Column] = {}
            missing: list[str] = []
            for field in fields:
                cached = self._columns.get(field) or saved_column(connection, field)
                if cached is None or cached.generation > now:
                    # This may be an earlier transaction than that of the cached column.
                    missing.append(field)
                elif cached.generation == now:
                    columns[field] = cached
                else:
                    columns[field] = updated_column(connection, cached)
            columns.update(zip(missing, read_columns(connection, missing), strict=True))
            self._keep(columns)
            return columns

    def rows(self, filter_: Filter, generation: int = -1) -> MatchingRows:
        """Return the rows that match a filter, of `generation` if they are cached, or else of now.

        Raises:
            StoreError: as :meth:`column`.
        """
        with self._lock:
            cached = self._rows.get(filter_)
            if cached is not None:
                self._rows.move_to_end(filter_)
        if cached is not None and cached.generation == generation:
            return cached
        with self._store.read_transaction() as connection:
            now = number_in_meta(connection, "generation")
            if cached is not None and cached.generation == now:
                return cached
            rows = None if cached is None else _rows_since(connection, filter_, cached)
            rows = self._find(connection, filter_) if rows is None else rows
            matching = MatchingRows(now, last_row(connection), rows)
        # Indexes cache what they derive from an array that cannot change.
        matching.rows.setflags(write=False)
        with self._lock:
            self._rows[filter_] = matching
            self._rows.move_to_end(filter_)
            while sum(some.rows.nbytes for some in self._rows.values()) > MAX_BYTES_OF_ROWS:
                self._rows.popitem(last=False)
        return matching

    def clear(self) -> None:
        """Drop everything, and with it what is kept of deleted documents."""
        with self._lock:
            self._rows.clear()
            self._columns.clear()

    def _not_excluded(self, connection: sqlite3.Connection, filter_: Filter, rows: Rows) -> Rows:
        """Leave out rows that a part of a filter excludes whose rows are cached.

        So the payloads of other tenants' documents are not read, however a key names their ids.
        """
        if not isinstance(filter_, And):
            return rows
        now = number_in_meta(connection, "generation")
        with self._lock:
            known = [self._rows[part] for part in filter_.parts if part in self._rows]
        for matching in known:
            if matching.generation == now:
                rows = rows_in_both(rows, matching.rows)
        return rows

    def to_save(self, *, read: bool = False) -> list[Column]:
        """Return the columns of indexed fields that are far ahead of what is saved of them.

        With `read`, columns that are not cached are read.
        """
        with self._store.read_transaction() as connection:
            if not has_table(connection, "columns"):
                return []
            query = "SELECT field, generation, last_row FROM columns"
            saved = connection.execute(query).fetchall()
            documents = number_in_meta(connection, "documents")
            fields: list[str] = []
            for field, generation, last in saved:
                if read or field in self._columns:
                    changed = changed_rows(connection, generation)
                    behind = last_row(connection) - last
                    behind += documents if changed is None else len(changed)
                    if not generation or behind > max(MOST_BEHIND, SHARE_BEHIND * documents):
                        fields.append(field)
            while fields:
                try:
                    return [*self.columns(fields).values()]
                except TooManyValuesError as error:
                    fields.remove(error.column)
            return []

    def _keep(self, columns: Mapping[str, Column]) -> None:
        with self._lock:
            for field, column in columns.items():
                kept = self._columns.get(field)
                if kept is None or kept.generation <= column.generation:
                    self._columns[field] = column
                    self._columns.move_to_end(field)
            while len(self._columns) > 1 and self._size() > MAX_BYTES:
                self._columns.popitem(last=False)

    def _size(self) -> int:
        return sum(column.nbytes for column in self._columns.values())

    def _find(self, connection: sqlite3.Connection, filter_: Filter) -> Rows:
        ids = ids_of(filter_)
        if ids is not None:
            named = self._not_excluded(connection, filter_, _rows_of_ids(connection, ids))
            return rows_by_payloads(connection, filter_, named)
        try:
            columns = self.columns(fields_of(filter_))
        except TooManyValuesError:
            return rows_by_payloads(connection, filter_, document_rows(connection))
        rows: Rows = np.flatnonzero(Evaluation(connection, columns).mask(filter_))
        return rows


def _rows_since(
    connection: sqlite3.Connection, filter_: Filter, earlier: MatchingRows
) -> Rows | None:
    """Return the rows that match now, given those that did; None if too many are to be tested."""
    last, changed = last_row(connection), changed_rows(connection, earlier.generation)
    is_later = number_in_meta(connection, "generation") > earlier.generation
    if not is_later or changed is None:
        return None
    changed = changed[changed <= earlier.last_row]
    if last - earlier.last_row + len(changed) > MOST_TESTED:
        return None
    added = np.arange(earlier.last_row + 1, last + 1)
    rows = earlier.rows
    if len(changed):
        kept = rows[~np.isin(rows, changed, assume_unique=True)]
        rows = np.union1d(kept, rows_by_payloads(connection, filter_, changed))
    return np.concatenate([rows, rows_by_payloads(connection, filter_, added)])


class Evaluation:
    """Evaluates a filter by columns of one generation."""

    def __init__(self, connection: sqlite3.Connection, columns: Mapping[str, Column]) -> None:
        self._connection = connection
        self._columns = columns
        self._size = last_row(connection) + 1

    def mask(self, filter_: Filter) -> Mask:
        """Tell which rows, from 0 on, match; deleted documents may be among them."""
        if isinstance(filter_, Not):
            return self._documents() & ~self.mask(filter_.part)
        if isinstance(filter_, And | Or):
            join = np.logical_and if isinstance(filter_, And) else np.logical_or
            mask: Mask = reduce(join, map(self.mask, filter_.parts))
            return mask
        if isinstance(filter_, HasId):
            return self._mask_of(_rows_of_ids(self._connection, filter_.ids))
        column = self._columns[filter_.field]
        mask = column.matches(filter_)
        unsure = column.cut_rows(filter_)
        if len(unsure):
            mask[unsure] = False
            mask[rows_by_payloads(self._connection, filter_, unsure)] = True
        return mask

    def _documents(self) -> Mask:
        for column in self._columns.values():
            documents: Mask = column.cells != NO_DOCUMENT
            return documents
        return self._mask_of(document_rows(self._connection))

    def _mask_of(self, rows: Rows) -> Mask:
        mask = np.zeros(self._size, dtype=np.bool_)
        mask[rows] = True
        return mask


def _rows_of_ids(connection: sqlite3.Connection, ids: Sequence[str]) -> Rows:
    stored = in_chunks(connection, "SELECT row FROM documents WHERE id IN ", ids)
    return np.array(sorted({row for (row,) in stored}), dtype=np.int64)


# The rows whose payloads were changed, by generation.
#
# Whoever keeps what it derived from payloads reads here which rows it must look at again. The list
# reaches back a limited number of rows and generations.


CHANGES_SCHEMA = """CREATE TABLE payload_changes (
    generation INTEGER PRIMARY KEY,
    rows BLOB NOT NULL
)"""
MAX_CHANGES = 10_000
MAX_CHANGED_BYTES = 8 << 20
LAST_CHANGE, FIRST_KNOWN = "payloads_changed", "payload_changes_from"


def make_changes_table(connection: sqlite3.Connection) -> None:
    """Create the table, which must not exist."""
    connection.execute(CHANGES_SCHEMA)


def record_changed_rows(connection: sqlite3.Connection, generation: int, rows: Rows) -> None:
    """Record that a generation changes the payloads of `rows`."""
    if not has_table(connection, "payload_changes"):
        make_changes_table(connection)
    add = "INSERT INTO payload_changes VALUES (?, ?)"
    connection.execute(add, (generation, rows.astype("<i8").tobytes()))
    set_meta = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
    connection.execute(set_meta, (LAST_CHANGE, generation))
    query = "SELECT count(*), sum(length(rows)) FROM payload_changes"
    count, size = connection.execute(query).fetchone()
    if count > MAX_CHANGES or size > MAX_CHANGED_BYTES:
        # Half of them go at once, so that this is rarely done.
        query = "SELECT generation, length(rows) FROM payload_changes ORDER BY generation DESC"
        latest = connection.execute(query).fetchall()[: MAX_CHANGES // 2]
        sizes = [*accumulate(length for _, length in latest)]
        known = latest[min(bisect_right(sizes, MAX_CHANGED_BYTES // 2), len(latest) - 1)][0]
        connection.execute("DELETE FROM payload_changes WHERE generation <= ?", (known,))
        connection.execute(set_meta, (FIRST_KNOWN, known))


def changed_rows(connection: sqlite3.Connection, generation: int) -> Rows | None:
    """Return the rows whose payloads were changed after a generation, ascending.

    None means that they are no longer known.
    """
    query = "SELECT key, value FROM meta WHERE key IN (?, ?)"
    meta = dict(connection.execute(query, (LAST_CHANGE, FIRST_KNOWN)))
    if generation < meta.get(FIRST_KNOWN, 0):
        return None
    if generation >= meta.get(LAST_CHANGE, 0):
        return np.empty(0, dtype=np.int64)
    query = "SELECT rows FROM payload_changes WHERE generation > ?"
    parts = [np.frombuffer(rows, "<i8") for (rows,) in connection.execute(query, (generation,))]
    return np.unique(np.concatenate(parts)).astype(np.int64)
