"""Indexes of payload fields: the values of a field, packed in runs of rows, beside the documents.

A run is a fixed range of :data:`RUN_ROWS` rows. A row always means the same document and its
payload never changes, so a run is packed once, when its last row has been assigned. ``covered`` is
the last row of the last packed run; for later rows the payloads are read. A deletion packs nothing:
the entries stay, and no index of codes finds the row. Runs of which more than half was deleted are
packed again by later writes, two for each run that is added, in turn.

The indexes depend on the payloads only. If a version without them writes to a store, ``covered``
lags behind and every filter stays right; later writes catch up.

For a field with a dot, earlier versions packed only what nested objects hold. The checksums of such
fields begin from another number now, so none of their runs is taken for a run with all values.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from foundation.slices import checkpoint
from index.engines.protocol import Rows
from index.filters import Filter, fields_of, implied_filter, read_field, read_payload
from index.schema import last_row
from index.sqlite.connection_pool import PARAMETERS
from index.sqlite.field_block import (
    FieldBlock,
    cost_of_list,
    matching_offsets,
    pack_field,
    packable,
    unpack_field,
)
from index.sqlite.filter_sql import matching_between, where

RUN_ROWS = 4096
FIELDS_SCHEMA = (
    """CREATE TABLE fields (
    field TEXT PRIMARY KEY,
    covered INTEGER NOT NULL,
    refreshed INTEGER NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE field_runs (
    first_row INTEGER NOT NULL,
    field TEXT NOT NULL,
    documents INTEGER NOT NULL,
    packed BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (first_row, field)
)""",
)
# A write packs so many runs more than it fills, for fields whose indexing has not finished.
RUNS_BEHIND = 1
REFRESHED_AT_ONCE = 2
# For rows without a run the payloads are read, which is slow beyond so many runs.
MAX_RUNS_UNCOVERED = 4
# The most runs that are packed in one transaction while writers wait.
RUNS_AT_ONCE = 8
# A run whose lists take more bytes of memory, 256 numbers a document, is not packed.
MAX_COST = 1 << 27
_NOT_PACKED = b""
# Where the checksum of a field with a dot begins.
_ALL_PLACES = 1
_NONE = np.zeros(0, dtype=np.bool_)
_Runs = list[tuple[str, Any, int]]


def has_field_tables(connection: sqlite3.Connection) -> bool:
    """Tell whether the store has the tables, so that a field is indexed."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'fields'"
    return connection.execute(query).fetchone() is not None


def indexed_fields(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the indexed fields, sorted, and the last row that the index of each covers."""
    if not has_field_tables(connection):
        return {}
    return dict(connection.execute("SELECT field, covered FROM fields ORDER BY field"))


def make_field_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, which must not exist."""
    for statement in FIELDS_SCHEMA:
        connection.execute(statement)


def set_indexed_fields(connection: sqlite3.Connection, fields: Sequence[str]) -> None:
    """Index these fields and no others from now on; :func:`cover` packs present documents."""
    before = indexed_fields(connection)
    if has_field_tables(connection) != bool(fields):
        if fields:
            make_field_tables(connection)
        else:
            connection.execute("DROP TABLE fields")
            connection.execute("DROP TABLE field_runs")
            return
    for field in before.keys() - set(fields):
        connection.execute("DELETE FROM fields WHERE field = ?", (field,))
        connection.execute("DELETE FROM field_runs WHERE field = ?", (field,))
    added = [(field,) for field in dict.fromkeys(fields) if field not in before]
    if added:
        connection.executemany("INSERT INTO fields VALUES (?, 0, 0)", added)


def outdated_fields(connection: sqlite3.Connection) -> list[str]:
    """Return the fields whose runs lack values, because an earlier version packed them."""
    outdated: list[str] = []
    for field in indexed_fields(connection):
        if "." in field:
            query = "SELECT packed, checksum FROM field_runs WHERE field = ? ORDER BY first_row"
            first = connection.execute(query, (field,)).fetchone()
            last = connection.execute(f"{query} DESC", (field,)).fetchone()
            if any(run is not None and _is_outdated(field, *run) for run in (first, last)):
                outdated.append(field)
    return outdated


def forget_runs(connection: sqlite3.Connection, fields: Sequence[str]) -> None:
    """Drop the runs of these fields; filters read the payloads until they are packed again."""
    for field in fields:
        connection.execute("DELETE FROM field_runs WHERE field = ?", (field,))
        connection.execute("UPDATE fields SET covered = 0, refreshed = 0 WHERE field = ?", (field,))


def repack(connection: sqlite3.Connection) -> None:
    """Rebuild the indexes of all fields from the documents."""
    if has_field_tables(connection):
        connection.execute("DELETE FROM field_runs")
        connection.execute("UPDATE fields SET covered = 0, refreshed = 0")
        while cover(connection, RUNS_AT_ONCE):
            checkpoint()


def cover(connection: sqlite3.Connection, runs: int) -> bool:
    """Pack at most so many full runs; tell whether any are left."""
    fields = indexed_fields(connection)
    full = last_row(connection) // RUN_ROWS * RUN_ROWS
    for _ in range(runs):
        behind = min(fields.values(), default=full)
        if behind >= full:
            return False
        lagging = [field for field, covered in fields.items() if covered == behind]
        _pack_run(connection, behind + 1, lagging)
        covered = behind + RUN_ROWS
        fields |= dict.fromkeys(lagging, covered)
        connection.execute("UPDATE fields SET covered = ? WHERE covered = ?", (covered, behind))
        _refresh(connection, lagging)
    return min(fields.values(), default=full) < full


def cover_after(connection: sqlite3.Connection, inserted: int) -> None:
    """Pack the runs that a write filled, and :data:`RUNS_BEHIND` earlier ones."""
    if inserted:
        cover(connection, -(-inserted // RUN_ROWS) + RUNS_BEHIND)


def is_covered(connection: sqlite3.Connection, filter_: Filter, *, wholly: bool = False) -> bool:
    """Tell whether the indexes find most rows that match the filter.

    Unless `wholly`, the payloads of these rows may also have to be read.
    """
    fields = indexed_fields(connection)
    indexed = implied_filter(filter_, fields) if fields else None
    if indexed is None or (wholly and indexed is not filter_):
        return False
    uncovered = last_row(connection) - min(fields[field] for field in fields_of(indexed))
    return uncovered < MAX_RUNS_UNCOVERED * RUN_ROWS


def matching_rows(connection: sqlite3.Connection, filter_: Filter, after: int = 0) -> Rows:
    """Return all rows that :func:`matching_in_runs` yields after `after`."""
    parts = [*matching_in_runs(connection, filter_, after, last_row(connection))]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def matching_in_runs(
    connection: sqlite3.Connection, filter_: Filter, after: int, up_to: int
) -> Iterator[Rows]:
    """Yield the rows after `after` and up to `up_to` that match the filter, ascending.

    They may include rows of deleted documents. Indexes are used where possible.
    """
    fields = indexed_fields(connection)
    indexed = implied_filter(filter_, fields) if fields else None
    if indexed is not None:
        names = sorted(fields_of(indexed))
        covered = min(up_to, *(fields[field] for field in names))
        for first in range(after // RUN_ROWS * RUN_ROWS + 1, covered + 1, RUN_ROWS):
            checkpoint()
            last = min(first + RUN_ROWS - 1, covered)
            runs = _read_run(connection, first, names)
            try:
                blocks = {field: _parse_run(field, packed, mark) for field, packed, mark in runs}
                matches = matching_offsets(indexed, blocks, RUN_ROWS) if runs else _NONE
            except (ValueError, KeyError):
                # The run is damaged or was too large to pack, so the payloads are read.
                yield from _matching_payloads(connection, filter_, max(after, first - 1), last)
                continue
            rows: Rows = first + np.flatnonzero(matches)
            rows = rows[(rows > after) & (rows <= last)]
            yield rows if indexed is filter_ else _filter_rows(connection, filter_, rows)
        after = max(after, covered)
    yield from _matching_payloads(connection, filter_, after, up_to)


def damaged_runs(connection: sqlite3.Connection) -> Iterator[str]:
    """Compare every run with the payloads; yield a sentence for each that differs."""
    for field, covered in indexed_fields(connection).items():
        for first in range(1, covered + 1, RUN_ROWS):
            checkpoint()
            offsets, values = _values(connection, first, [field])
            if not _run_matches(_read_run(connection, first, [field]), offsets, values[0]):
                yield f"the index of the field {field!r} is damaged from row {first}"


def _run_matches(runs: _Runs, offsets: list[int], values: list[Any] | None) -> bool:
    """Tell whether a run has the values of the payloads of the remaining documents."""
    if not runs:
        return not offsets
    ((field, packed, mark),) = runs
    if packed == _NOT_PACKED and mark == _checksum(field, _NOT_PACKED):
        return True  # documents may have been deleted since
    if _is_outdated(field, packed, mark):
        return True  # filters read the payloads
    try:
        block = _parse_run(field, packed, mark)
    except ValueError:
        return False
    if values is None:
        return True
    remaining = set(offsets)
    return [entry for entry in block.entries() if entry[0] in remaining] == [
        *unpack_field(pack_field(offsets, values)).entries()
    ]


def _read_run(connection: sqlite3.Connection, first: int, fields: Sequence[str]) -> _Runs:
    """Return the packed runs of some fields; none if all documents of the run were deleted."""
    marks = ",".join("?" * len(fields))
    condition = f"first_row = ? AND field IN ({marks})"
    query = f"SELECT field, packed, checksum FROM field_runs WHERE {condition}"  # noqa: S608 - marks
    return connection.execute(query, (first, *fields)).fetchall()


def _checksum(field: str, packed: bytes) -> int:
    return zlib.crc32(packed, _ALL_PLACES if "." in field else 0)


def _is_outdated(field: str, packed: Any, checksum: int) -> bool:
    """Tell whether a run of a field with a dot is intact, but of an earlier version."""
    return "." in field and isinstance(packed, bytes) and zlib.crc32(packed) == checksum


def _parse_run(field: str, packed: Any, checksum: int) -> FieldBlock:
    if not isinstance(packed, bytes) or _checksum(field, packed) != checksum:
        raise ValueError("it does not match its checksum")
    return unpack_field(packed)


def _matching_payloads(
    connection: sqlite3.Connection, filter_: Filter, after: int, up_to: int
) -> Iterator[Rows]:
    """Yield the matching rows according to the payloads, a run at a time."""
    for start in range(after, up_to, RUN_ROWS):
        checkpoint()
        yield matching_between(connection, [filter_], start, min(start + RUN_ROWS, up_to))[0]


def _filter_rows(connection: sqlite3.Connection, filter_: Filter, rows: Rows) -> Rows:
    """Return those of `rows`, all of one run, that match the filter."""
    if len(rows) > RUN_ROWS // 2:
        first, last = int(rows[0]), int(rows[-1])
        return matching_between(connection, [filter_], first - 1, last)[0]
    condition, values = where(connection, filter_)
    matching: list[int] = []
    for start in range(0, len(rows), PARAMETERS):
        some = ",".join(map(str, rows[start : start + PARAMETERS].tolist()))
        query = f"SELECT row FROM documents WHERE row IN ({some}) AND {condition} ORDER BY row"  # noqa: S608 - numbers and fixed parts
        matching += [row for (row,) in connection.execute(query, values)]
    return np.array(matching, dtype=np.int64)


def _pack_run(connection: sqlite3.Connection, first: int, fields: Sequence[str]) -> None:
    offsets, columns = _values(connection, first, fields)
    for field, values in zip(fields, columns, strict=True):
        packed = _NOT_PACKED if values is None else pack_field(offsets, values)
        record = (first, field, len(offsets), packed, _checksum(field, packed))
        connection.execute("INSERT OR REPLACE INTO field_runs VALUES (?, ?, ?, ?, ?)", record)


def _values(
    connection: sqlite3.Connection, first: int, fields: Sequence[str]
) -> tuple[list[int], list[list[Any] | None]]:
    """Return the offsets of a run's documents, and the values of each field, None if too large."""
    query = "SELECT row, payload FROM documents WHERE row BETWEEN ? AND ? ORDER BY row"
    offsets: list[int] = []
    columns: list[list[Any] | None] = [[] for _ in fields]
    costs = [0] * len(fields)
    for row, text in connection.execute(query, (first, first + RUN_ROWS - 1)):
        offsets.append(row - first)
        payload = read_payload(text)
        for place, (field, values) in enumerate(zip(fields, columns, strict=True)):
            if values is None:
                continue
            values.append(value := packable(read_field(payload, field)))
            if type(value) is list:
                costs[place] += cost_of_list(value)
                if costs[place] > MAX_COST:
                    columns[place] = None
    return offsets, columns


def _refresh(connection: sqlite3.Connection, fields: Sequence[str]) -> None:
    """Pack the next runs again if more than half of their documents were deleted."""
    for field in fields:
        query = "SELECT refreshed, covered FROM fields WHERE field = ?"
        place, covered = connection.execute(query, (field,)).fetchone()
        for _ in range(REFRESHED_AT_ONCE):
            place = place % covered
            query = "SELECT documents FROM field_runs WHERE first_row = ? AND field = ?"
            packed = connection.execute(query, (place + 1, field)).fetchone()
            query = "SELECT count(*) FROM documents WHERE row BETWEEN ? AND ?"
            (remaining,) = connection.execute(query, (place + 1, place + RUN_ROWS)).fetchone()
            if packed is not None and not remaining:
                query = "DELETE FROM field_runs WHERE first_row = ? AND field = ?"
                connection.execute(query, (place + 1, field))
            elif packed is not None and 2 * remaining < packed[0]:
                _pack_run(connection, place + 1, [field])
            place += RUN_ROWS
        connection.execute("UPDATE fields SET refreshed = ? WHERE field = ?", (place, field))
