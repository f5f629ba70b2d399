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
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: scipy.sparse takes long

from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.foundation.slices import about_to_build, about_to_wait, acquired
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.filters import (
    And,
    AnyOf,
    Filter,
    InRange,
    Or,
    Scalar,
    fields_of,
    instant_of,
)
from hummingbit.index.schema import last_row, number_in_meta
from hummingbit.index.store.fields import (
    COMPARE,
    changed_rows,
    key_of,
    values_between,
    values_of_rows,
)
from hummingbit.index.store.store import Matching, Store

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
MOST_COUNTED = 1_000

Codes = npt.NDArray[np.int64]
SortKey = tuple[int, Any]
"""The order of values: booleans, numbers, instants, other strings."""


Mask = npt.NDArray[np.bool_]
_COMPARE_ARRAYS: Mapping[str, Callable[[Any, Any], Mask]] = {
    "gt": np.greater,
    "gte": np.greater_equal,
    "lt": np.less,
    "lte": np.less_equal,
}
NO_INSTANT = np.iinfo(np.int64).min
EXACT = 2**53
"""Whole numbers up to this one, and minus it, are floats of 64 bits."""


class Values:
    """The distinct values of a column, by code; more are added at the end."""

    def __init__(self) -> None:
        self.keys: list[tuple[int, Any]] = []
        self._codes: dict[tuple[int, Any], int] = {}
        self._as_arrays = (np.empty(0), np.empty(0, dtype=np.int64))

    def codes_of(self, keys: Sequence[tuple[int, Any]]) -> list[int]:
        """Return the codes of values as :mod:`.fields` represents them, new ones if necessary."""
        codes, known = self._codes, len(self.keys)
        found = [codes.setdefault(key, len(codes)) for key in keys]
        if len(codes) > known:
            pairs = zip(keys, found, strict=True)
            self.keys += dict.fromkeys(key for key, code in pairs if code >= known)
        return found

    def code_of(self, value: Scalar) -> int | None:
        """Return the code of a value, or None if no document has it."""
        return self._codes.get((-1, int(value)) if isinstance(value, bool) else key_of(value))

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
            kinds = np.array([kind for kind, _ in more])
            are_numbers, are_instants = np.full(len(more), math.nan), np.full(len(more), NO_INSTANT)
            are_numbers[(kinds == 0) | (kinds == 1)] = [
                value for kind, value in more if 0 <= kind < 2
            ]
            for position in np.flatnonzero(kinds == 2).tolist():
                time = instant_of(self.value(first + position))
                if time is not None:
                    are_instants[position] = time
            numbers = np.concatenate([numbers, are_numbers])
            instants = np.concatenate([instants, are_instants])
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

    def accepts(self, condition: AnyOf | InRange) -> Mask:
        """Tell which codes stand for values that a condition on a single value accepts."""
        accepted = np.zeros(self.n_values, dtype=np.bool_)
        if isinstance(condition, AnyOf):
            for code in map(self.values.code_of, condition.values):
                if code is not None and code < self.n_values:
                    accepted[code] = True
            return accepted
        bounds = condition.bounds
        if condition.is_of_instants:
            accepted = self.instants != NO_INSTANT
            for name, instant in condition.instants.items():
                accepted &= _COMPARE_ARRAYS[name](self.instants, instant)
        elif self.has_exact_numbers and all(map(_is_exact, bounds.values())):
            accepted = ~np.isnan(self.numbers)
            for name, bound in bounds.items():
                accepted &= _COMPARE_ARRAYS[name](self.numbers, bound)
        else:
            are_texts = isinstance(next(iter(bounds.values())), str)
            kinds = (2,) if are_texts else (0, 1)
            # The bytes of UTF-8 are in the order of code points, and numbers compare exactly.
            tests = [(COMPARE[name], key_of(bound)[1]) for name, bound in bounds.items()]
            found = (
                kind in kinds and all(test(value, bound) for test, bound in tests)
                for kind, value in islice(self.values.keys, self.n_values)
            )
            accepted = np.fromiter(found, dtype=np.bool_, count=self.n_values)
        return accepted

    @cached_property
    def is_single(self) -> bool:
        """Whether no document has several values."""
        return bool((self.rows[1:] != self.rows[:-1]).all())

    @cached_property
    def in_order(self) -> tuple[Codes, Codes]:
        """A code of each distinct sort key, ascending, and the position of each code among them."""
        numbers, instants = self.values.as_arrays(self.n_values)
        is_number, is_instant = ~np.isnan(numbers), instants != NO_INSTANT
        others = np.flatnonzero(~is_number & ~is_instant).tolist()
        is_boolean = {code: isinstance(self.value(code), bool) for code in others}
        parts = [
            self._sorted([code for code in others if is_boolean[code]]),
            self._sorted(np.flatnonzero(is_number), numbers if self.has_exact_numbers else None),
            self._sorted(np.flatnonzero(is_instant), instants),
            self._sorted([code for code in others if not is_boolean[code]]),
        ]
        positions, n_before = np.zeros(self.n_values, dtype=np.int64), 0
        for codes, first, some in parts:
            positions[codes] = n_before + some
            n_before += len(first)
        return np.concatenate([first for _, first, _ in parts]), positions

    def _sorted(
        self, codes: Sequence[int] | Codes, keys: npt.NDArray[Any] | None = None
    ) -> tuple[Codes, Codes, Codes]:
        """Return some codes, one of each distinct sort key, and the position of each among them.

        `keys` of all codes are in the order of sort keys, if these are different.
        """
        of = np.asarray(codes, dtype=np.int64)
        if keys is not None:
            _, first, positions = np.unique(keys[of], return_index=True, return_inverse=True)
            # Equal instants are in the order of their texts.
            if keys.dtype == np.float64 or len(first) == len(of):
                return of, of[first], positions
        pairs = sorted((self._sort_key(code), code) for code in of.tolist())
        sort_keys = [key for key, _ in pairs]
        is_first = [
            position == 0 or key != sort_keys[position - 1]
            for position, key in enumerate(sort_keys)
        ]
        in_order = np.array([code for _, code in pairs], dtype=np.int64)
        firsts = np.array(is_first, dtype=np.bool_)
        return in_order, in_order[firsts], np.cumsum(firsts) - 1

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
        if not {"postings", "starts", "is_single"} <= self.__dict__.keys():
            if len(self.rows) > MANY_ENTRIES:
                about_to_build()
            about_to_wait()
            _ = self.postings, self.starts, self.is_single

    def count_with(self, code: int) -> int:
        """Return the number of entries of a code."""
        starts = self.postings[1]
        return int(starts[code + 1] - starts[code])

    def rows_with(self, codes: list[int]) -> Rows:
        """Return the rows that have one of the values, ascending and without duplicates."""
        rows, starts = self.postings
        parts = [rows[starts[code] : starts[code + 1]] for code in codes]
        return sorted_distinct(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def entries_of(self, rows: Rows) -> tuple[list[int], list[int]]:
        """Return the position in `rows` and the code of each entry of `rows`, in their order."""
        starts = self.starts[rows]
        counts = self.starts[rows + 1] - starts
        of_row = np.repeat(np.arange(len(rows)), counts)
        if self.is_single:
            return of_row.tolist(), self.codes[starts[of_row]].tolist()
        before = np.cumsum(counts) - counts
        positions = np.repeat(starts - before, counts) + np.arange(len(of_row))
        return of_row.tolist(), self.codes[positions].tolist()

    def positions(self, *, descending: bool) -> Codes:
        """Return for each row up to the last its position in the order, twice and plus one.

        A row of several values has the first of their positions. A row without one comes last.
        """
        return self._descending if descending else self._ascending

    @cached_property
    def _ascending(self) -> Codes:
        return self._positions(self.in_order[1])

    @cached_property
    def _descending(self) -> Codes:
        order, position = self.in_order
        return self._positions(len(order) - 1 - position)

    def _positions(self, position_of_code: Codes) -> Codes:
        positions = np.full(self.last_row + 1, self.missing_position, dtype=np.int64)
        if len(self.rows):
            starts = np.flatnonzero(np.append(True, self.rows[1:] != self.rows[:-1]))
            first = np.minimum.reduceat(position_of_code[self.codes], starts)
            positions[self.rows[starts]] = 2 * first + 1
        return positions

    @property
    def missing_position(self) -> int:
        """The position of rows without a value."""
        return 2 * len(self.in_order[0]) + 1

    def position_of(self, key: SortKey | None, *, descending: bool) -> int:
        """Return the position of a value that no document may have any more; None is no value."""
        if key is None:
            return self.missing_position
        order = self.in_order[0]
        position = bisect_left(order, key, key=self._sort_key)
        is_held = position < len(order) and self._sort_key(order[position]) == key
        if descending:
            position = len(order) - position - is_held
        return 2 * position + is_held

    def key_at(self, position: int, *, descending: bool) -> SortKey | None:
        """Return the value at a position of :meth:`positions`, or None if it has none."""
        order = self.in_order[0]
        if position >= 2 * len(order):
            return None
        return self._sort_key(
            order[len(order) - 1 - position // 2 if descending else position // 2]
        )

    def _sort_key(self, code: int) -> SortKey:
        return sort_key(self.value(code))


def _is_exact(bound: Scalar) -> bool:
    return not isinstance(bound, str) and abs(bound) <= EXACT


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
        self._filtered: Counter[str] = Counter()
        """How many filters had a field whose column was not cached."""

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

    def matching(self, filter_: Filter) -> Matching | None:
        """Return the rows of now that match a filter, or None if the payloads should be read.

        The first filter on a field reads the payloads, which takes less time than the column. The
        second finds that the field is filtered by again, so the column is read.
        """
        fields = fields_of(filter_)
        if not fields or not _compares_values(filter_):
            return None
        if len(self._filtered) > MOST_COUNTED:
            self._filtered.clear()
        for field in fields:
            if not self.knows(field):
                self._filtered[field] += 1
                if self._filtered[field] != 2:
                    return None
        columns = {field: self.find(field, -1) for field in fields}
        first, *others = columns.values()
        if any(column.generation != first.generation for column in others):
            return None
        return Matching(first.generation, first.last_row, _matching_rows(filter_, columns))

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


def _compares_values(filter_: Filter) -> bool:
    """Tell whether the values of fields alone decide a filter, each for itself."""
    if isinstance(filter_, And | Or):
        return all(map(_compares_values, filter_.parts))
    return isinstance(filter_, AnyOf | InRange)


def _matching_rows(filter_: Filter, columns: Mapping[str, Column]) -> Rows:
    """Return the rows with values that match a filter, ascending."""
    if isinstance(filter_, And | Or):
        join = np.intersect1d if isinstance(filter_, And) else np.union1d
        return reduce(join, (_matching_rows(part, columns) for part in filter_.parts))
    assert isinstance(filter_, AnyOf | InRange)  # noqa: S101 - see _compares_values
    column = columns[filter_.field]
    return sorted_distinct(column.rows[column.accepts(filter_)[column.codes]])


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
        some = [
            _entries(*row_values, values)
            for row_values in values_of_rows(connection, field, changed)
        ]
        new_rows = np.concatenate([entries[0] for entries in some])
        new_codes = np.concatenate([entries[1] for entries in some])
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
    table = np.array(values.codes_of(keys), dtype=np.int64)
    codes = table[local_codes] if len(keys) else local_codes
    if len(rows) > 1 and (rows[1:] == rows[:-1]).any():
        order = np.lexsort((codes, rows))
        rows, codes = rows[order], codes[order]
        first = np.append(True, (rows[1:] != rows[:-1]) | (codes[1:] != codes[:-1]))
        rows, codes = rows[first], codes[first]
    return rows, codes
