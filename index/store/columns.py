"""The values of payload fields by row, cached for facets, groups and sorted listings.

A column is read once, from the packed runs of an indexed field or from the payloads. After a write
only the added rows are read, and those whose payloads it changed. A search finds one generation, so
whoever uses a column compares its generation. Rows of deleted documents may stay.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: scipy.sparse takes long

from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.foundation.slices import about_to_build, about_to_wait, acquired
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.filters import Scalar, instant_of
from hummingbit.index.schema import last_row, number_in_meta
from hummingbit.index.store.fields import changed_rows, values_between, values_of_rows
from hummingbit.index.store.store import Store

MAX_BYTES = 256 << 20
BYTES_OF_AN_ENTRY = 24
BYTES_OF_A_VALUE = 100
# A column is read anew once it has so many times the entries that it was read with, because those
# of deleted documents stay.
MOST_GROWTH = 2
FEW_ENTRIES = 65_536
# What a search that others may wait for reads, and sorts, at most.
FEW_ROWS = 500
MANY_ENTRIES = 200_000

Codes = npt.NDArray[np.int64]
SortKey = tuple[int, Any]
"""The order of values: booleans, numbers, instants, other strings."""


NO_INSTANT = np.iinfo(np.int64).min
EXACT = 2**53
"""Whole numbers up to this one, and minus it, are floats of 64 bits."""


class Values:
    """The distinct values of a column, by code; more are added at the end."""

    def __init__(self) -> None:
        self.keys: list[tuple[int, Any]] = []
        self._codes: dict[tuple[int, Any], int] = {}
        self._as_arrays = (np.empty(0), np.empty(0, dtype=np.int64))

    def code_of(self, key: tuple[int, Any]) -> int:
        """Return the code of a value as :mod:`.fields` represents it, a new one if necessary."""
        code = self._codes.setdefault(key, len(self.keys))
        if code == len(self.keys):
            self.keys.append(key)
        return code

    def value(self, code: int) -> Scalar:
        """Return the value of a code."""
        kind, value = self.keys[code]
        if kind < 0:
            return bool(value)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def as_arrays(self, n_values: int) -> tuple[npt.NDArray[np.float64], Codes]:
        """Return the first `n_values` as numbers and as instants.

        Other values are NaN or :data:`NO_INSTANT`.
        """
        numbers, instants = self._as_arrays
        if len(numbers) < n_values:
            first = len(numbers)
            more = self.keys[first:n_values]
            are_numbers = [value if kind in {0, 1} else math.nan for kind, value in more]
            times = [
                instant_of(self.value(code)) if kind == 2 else None
                for code, (kind, _) in enumerate(more, first)
            ]
            are_instants = [NO_INSTANT if time is None else time for time in times]
            numbers = np.concatenate([numbers, np.array(are_numbers, dtype=np.float64)])
            instants = np.concatenate([instants, np.array(are_instants, dtype=np.int64)])
            self._as_arrays = numbers, instants
        return numbers[:n_values], instants[:n_values]


@dataclass(frozen=True, eq=False)
class Column:
    """The entries of a field: an ascending row and the code of a value for each."""

    generation: int
    last_row: int
    rows: Rows
    codes: Codes
    values: Values
    n_values: int
    n_read: int
    """The number of entries when all of the column was read."""

    @property
    def nbytes(self) -> int:
        """About the bytes of memory that it takes."""
        return BYTES_OF_AN_ENTRY * len(self.rows) + BYTES_OF_A_VALUE * self.n_values

    def value(self, code: int) -> Scalar:
        """Return the value of a code."""
        return self.values.value(code)

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """The number that each code stands for, or NaN."""
        return self.values.as_arrays(self.n_values)[0]

    @property
    def instants(self) -> Codes:
        """The microseconds since 1970 that each code stands for, or :data:`NO_INSTANT`."""
        return self.values.as_arrays(self.n_values)[1]

    @cached_property
    def has_exact_numbers(self) -> bool:
        """Whether all of :attr:`numbers` are the values themselves."""
        return bool((np.abs(self.numbers[~np.isnan(self.numbers)]) <= EXACT).all())

    @cached_property
    def is_single(self) -> bool:
        """Whether no document has several values."""
        return bool((self.rows[1:] != self.rows[:-1]).all())

    @cached_property
    def in_order(self) -> tuple[Codes, Codes]:
        """A code of each distinct sort key, ascending, and the position of each code among them."""
        numbers, instants = self.values.as_arrays(self.n_values)
        if self.n_values and not np.isnan(numbers).any() and self.has_exact_numbers:
            _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
            return first, places
        if self.n_values and (instants != NO_INSTANT).all():
            _, first, places = np.unique(instants, return_index=True, return_inverse=True)
            if len(first) == self.n_values:  # equal ones are in the order of their texts
                return first, places
        keys = [sort_key(self.value(code)) for code in range(self.n_values)]
        code_of = dict(zip(keys, range(self.n_values), strict=True))
        order = sorted(code_of)
        place_of = {key: place for place, key in enumerate(order)}
        codes = np.array([code_of[key] for key in order], dtype=np.int64)
        return codes, np.array([place_of[key] for key in keys], dtype=np.int64)

    @cached_property
    def postings(self) -> tuple[Rows, Codes]:
        """The rows by code, ascending within each, and where those of each code begin."""
        # scipy sorts by counting, in a tenth of the time of numpy's sorts.
        n = len(self.rows)
        parts = np.ones(n, dtype=np.int8), self.codes, np.arange(n + 1)
        marks = scipy.sparse.csr_array(parts, shape=(n, self.n_values)).tocsc()
        return self.rows[marks.indices], marks.indptr

    @cached_property
    def starts(self) -> npt.NDArray[np.int32]:
        """Where the entries of each row up to the last begin; one more, where the last ends."""
        counts = np.bincount(self.rows, minlength=self.last_row + 1)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def prepare_groups(self) -> None:
        """Compute what groups need, if it is not known yet.

        Raises:
            BeyondAllowance: if that may not be done here.
        """
        if not {"postings", "starts"} <= self.__dict__.keys():
            if len(self.rows) > MANY_ENTRIES:
                about_to_build()
            about_to_wait()
            _ = self.postings, self.starts

    def count_with(self, code: int) -> int:
        """Return the number of entries of a code."""
        starts = self.postings[1]
        return int(starts[code + 1] - starts[code])

    def rows_with(self, codes: list[int]) -> Rows:
        """Return the rows that have one of the values, ascending and without duplicates."""
        rows, starts = self.postings
        parts = [rows[starts[code] : starts[code + 1]] for code in codes]
        return sorted_distinct(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def codes_of(self, rows: Rows) -> list[list[int]]:
        """Return the codes of each row."""
        starts, counts = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        first: list[int] = self.codes.take(starts, mode="clip").tolist() if len(self.codes) else []
        if len(first) and counts.max(initial=0) <= 1:
            pairs = zip(first, counts.tolist(), strict=True)
            return [[code] if count else [] for code, count in pairs]
        return [
            self.codes[start : start + count].tolist()
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]

    def places(self, *, descending: bool) -> Codes:
        """Return for each row up to the last its place in the order, twice and plus one.

        A row of several values has the first of their places. A row without one comes last.
        """
        return self._descending if descending else self._ascending

    @cached_property
    def _ascending(self) -> Codes:
        return self._places(self.in_order[1])

    @cached_property
    def _descending(self) -> Codes:
        order, place = self.in_order
        return self._places(len(order) - 1 - place)

    def _places(self, place_of_code: Codes) -> Codes:
        places = np.full(self.last_row + 1, self.missing_place, dtype=np.int64)
        if len(self.rows):
            starts = np.flatnonzero(np.append(True, self.rows[1:] != self.rows[:-1]))
            first = np.minimum.reduceat(place_of_code[self.codes], starts)
            places[self.rows[starts]] = 2 * first + 1
        return places

    @property
    def missing_place(self) -> int:
        """The place of rows without a value."""
        return 2 * len(self.in_order[0]) + 1

    def place_of(self, key: SortKey | None, *, descending: bool) -> int:
        """Return the place of a value that no document may have any more; None is no value."""
        if key is None:
            return self.missing_place
        order = self.in_order[0]
        place = bisect_left(order, key, key=self._sort_key)
        is_held = place < len(order) and self._sort_key(order[place]) == key
        if descending:
            place = len(order) - place - is_held
        return 2 * place + is_held

    def key_at(self, place: int, *, descending: bool) -> SortKey | None:
        """Return the value of a place that :meth:`places` gives a row, or None if it has none."""
        order = self.in_order[0]
        if place >= 2 * len(order):
            return None
        return self._sort_key(order[len(order) - 1 - place // 2 if descending else place // 2])

    def _sort_key(self, code: int) -> SortKey:
        return sort_key(self.value(code))


def sort_key(value: Scalar) -> SortKey:
    """Return the key by which values are sorted."""
    if isinstance(value, bool):
        return 0, value
    if not isinstance(value, str):
        return 1, value
    instant = instant_of(value)
    return (3, value) if instant is None else (2, (instant, value))


class FieldColumns:
    """The columns of the fields that were used last, limited by :data:`MAX_BYTES`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._columns: OrderedDict[str, Column] = OrderedDict()

    def knows(self, field: str) -> bool:
        """Tell whether the column of a field is cached, so that most of it need not be read."""
        return field in self._columns

    def find(self, field: str, generation: int) -> Column:
        """Return the column of a field, of `generation` if it is cached, or else of now."""
        cached = self._columns.get(field)
        if cached is not None and cached.generation == generation:
            return cached
        if cached is None:
            about_to_build()
        about_to_wait()
        with acquired(self._lock), self._store.read_transaction() as connection:
            cached = self._columns.get(field)
            now = number_in_meta(connection, "generation")
            if cached is not None and cached.generation == now:
                return cached
            if cached is not None and cached.generation > now:
                # This is an earlier read transaction than the one that read the column.
                return _read(connection, field, now)
            column = self._bring_up(connection, field, cached, now)
            self._columns[field] = column
            self._columns.move_to_end(field)
            while len(self._columns) > 1 and self._size() > MAX_BYTES:
                self._columns.popitem(last=False)
            return column

    def _size(self) -> int:
        return sum(column.nbytes for column in self._columns.values())

    def _bring_up(
        self, connection: sqlite3.Connection, field: str, cached: Column | None, now: int
    ) -> Column:
        changed = None if cached is None else changed_rows(connection, cached.generation)
        if cached is None or changed is None:
            return _read(connection, field, now)
        if len(cached.rows) > MOST_GROWTH * cached.n_read + FEW_ENTRIES:
            return _read(connection, field, now)
        last = last_row(connection)
        changed = changed[changed <= cached.last_row]
        if last - cached.last_row + len(changed) > FEW_ROWS:
            about_to_build()
        return _extended(connection, field, cached, changed, last, now)


def _read(connection: sqlite3.Connection, field: str, now: int) -> Column:
    nothing = np.empty(0, dtype=np.int64)
    empty = Column(now, 0, nothing, nothing, Values(), 0, 0)
    column = _extended(connection, field, empty, nothing, last_row(connection), now)
    return replace(column, n_read=len(column.rows))


def _extended(  # noqa: PLR0917 - what the column was and what it becomes
    connection: sqlite3.Connection, field: str, before: Column, changed: Rows, last: int, now: int
) -> Column:
    """Return a column with the rows after its last one, and with other values of some rows."""
    values = before.values
    rows, codes = before.rows, before.codes
    if len(changed):
        is_changed = np.zeros(before.last_row + 1, dtype=np.bool_)
        is_changed[changed] = True
        is_changed = is_changed[rows]
        new_rows, new_codes = _entries(*values_of_rows(connection, field, changed), values)
        are_same = np.array_equal(rows[is_changed], new_rows)
        if not are_same or not np.array_equal(codes[is_changed], new_codes):
            rows = np.concatenate([rows[~is_changed], new_rows])
            codes = np.concatenate([codes[~is_changed], new_codes])
            order = np.argsort(rows, kind="stable")
            rows, codes = rows[order], codes[order]
    if last == before.last_row and rows is before.rows:
        # What was derived of it stays right.
        column = replace(before, generation=now)
        column.__dict__.update({**before.__dict__, "generation": now})
        return column
    parts = [(rows, codes)]
    parts += [
        _entries(*some, values) for some in values_between(connection, field, before.last_row, last)
    ]
    rows = np.concatenate([part[0] for part in parts])
    codes = np.concatenate([part[1] for part in parts])
    return Column(now, last, rows, codes, values, len(values.keys), before.n_read)


def _entries(
    rows: Rows, local_codes: Codes, keys: list[tuple[int, Any]], values: Values
) -> tuple[Rows, Codes]:
    """Return entries with the codes of the column, each value of a row once."""
    table = np.array([values.code_of(key) for key in keys], dtype=np.int64)
    codes = table[local_codes] if len(keys) else local_codes
    if len(rows) > 1 and (rows[1:] == rows[:-1]).any():
        order = np.lexsort((codes, rows))
        rows, codes = rows[order], codes[order]
        first = np.append(True, (rows[1:] != rows[:-1]) | (codes[1:] != codes[:-1]))
        rows, codes = rows[first], codes[first]
    return rows, codes
