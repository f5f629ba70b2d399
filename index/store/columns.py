"""The values of one payload field of all documents, by row, in arrays.

Filters, facets, groups and sorted listings need nothing else of a field. A row has the number of a
*cell*, and a cell has the codes of the values that a document holds there, one for each element of
a list. Codes are in the order of values, so a range of values is a range of codes::

    rows    1 2 3 4 5 6 …            cell 0: there is no such document
    cells   2 3 2 0 4 1 …            cell 1: the document has no such field
    cell 2 → 7    cell 3 → 9    cell 4 → 7, 9

A column is made of the payloads in 2 to 4 seconds a million documents. A later one is an earlier
one with the documents that were added or changed since (:meth:`Column.updated`).
"""

from __future__ import annotations

import io
import json
import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from hummingbit.foundation.arrays import numbers_of_runs
from hummingbit.foundation.errors import InputError
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.filters import (
    COMPARE,
    MAX_STRING_LENGTH,
    AnyOf,
    Exists,
    FieldCondition,
    HasText,
    InRange,
    IsMissing,
    IsNull,
    Scalar,
    held_values,
    instant_of,
    is_single,
    json_number,
    scalars_of,
)

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
"""The codes of values; those below :data:`FIRST_NUMBER` are not in :class:`Values`."""
NULL, OBJECT, SEVERAL, FALSE, TRUE, FIRST_NUMBER = range(6)
# OBJECT stands for what is there but is no scalar: an object, or a list without scalars. SEVERAL
# says that the field is in several places, or holds a list or an object.
NO_DOCUMENT, NO_FIELD, FIRST_CELL = range(3)
MAX_BYTES = 256 << 20
BYTES_A_DOCUMENT = 100
"""Fields whose distinct values take more than both of these have no column."""
BYTES_OF_A_VALUE = 60
# A column is read anew once it has so many times the entries that it was read with, because those
# of deleted documents stay.
MOST_GROWTH = 2
FEW_ENTRIES = 65_536
EXACT = 2**53
"""Whole numbers up to this one, and minus it, are floats of 64 bits."""
VERSION, CHECKSUM_BYTES = 1, 4

SortKey = tuple[int, Any]
"""The order of values: booleans, numbers, instants, other strings."""


class TooManyValuesError(InputError):
    """The distinct values of a field take too much memory for a column."""

    def __init__(self, field: str) -> None:
        self.column = field
        reason = f"{field!r} holds too many different long values; only filters can have it"
        super().__init__("field", reason)


@dataclass(frozen=True, eq=False)
class Values:
    """The distinct numbers, times and other strings of a column, each kind in ascending order.

    The code of the first number is :data:`FIRST_NUMBER`. Times are strings, in the order of their
    instants and then of the strings.
    """

    numbers: Array
    """``float64``, or objects where a whole number is too large to be a float."""
    times: Array
    instants: npt.NDArray[np.int64]
    """The microseconds since 1970 of :attr:`times`."""
    strings: Array

    @classmethod
    def of(cls, distinct: Iterable[str | float]) -> Values:
        """Return different numbers and strings in their order."""
        numbers: list[Any] = []
        strings: list[str] = []
        times: list[tuple[int, str]] = []
        for value in distinct:
            if not isinstance(value, str):
                numbers.append(value)
            elif (instant := instant_of(value)) is None:
                strings.append(value)
            else:
                times.append((instant, value))
        numbers.sort()
        times.sort()
        strings.sort()
        instants = np.array([instant for instant, _ in times], dtype=np.int64)
        texts = _objects([text for _, text in times])
        return cls(_numbers(numbers), texts, instants, _objects(strings))

    @classmethod
    def of_numbers(cls, ascending: Array) -> Values:
        """Return the values of numbers alone."""
        nothing = _objects([])
        return cls(ascending, nothing, np.empty(0, dtype=np.int64), nothing)

    def __len__(self) -> int:
        """Return the number of codes, including those below :data:`FIRST_NUMBER`."""
        return self.first_string + len(self.strings)

    @property
    def first_time(self) -> int:
        """The code of the first time."""
        return FIRST_NUMBER + len(self.numbers)

    @property
    def first_string(self) -> int:
        """The code of the first string that is no time."""
        return self.first_time + len(self.times)

    def value(self, code: int) -> Scalar:
        """Return the value of a code from :data:`FALSE` on; whole numbers are integers."""
        if code < FIRST_NUMBER:
            return code == TRUE
        if code >= self.first_string:
            return str(self.strings[code - self.first_string])
        if code >= self.first_time:
            return str(self.times[code - self.first_time])
        number = self.numbers[code - FIRST_NUMBER]
        if isinstance(number, int):
            return number
        number = float(number)
        return int(number) if number.is_integer() and -(2.0**63) <= number < 2.0**63 else number

    @cached_property
    def as_numbers(self) -> npt.NDArray[np.float64]:
        """The number that each code stands for, or NaN."""
        numbers = np.full(len(self), math.nan)
        numbers[FIRST_NUMBER : self.first_time] = self.numbers
        return numbers

    @cached_property
    def first_equal(self) -> Codes:
        """The first code that stands for a value equal to that of each code: the same instant."""
        first = np.arange(len(self), dtype=np.int32)
        equal = np.searchsorted(self.instants, self.instants)
        first[self.first_time : self.first_string] = self.first_time + equal
        return first

    def equal_to(self, value: Scalar) -> slice:
        """Return the codes that stand for a value equal to this one."""
        if isinstance(value, bool):
            code = TRUE if value else FALSE
            return slice(code, code + 1)
        return self.between({"gte": value, "lte": value})

    def between(self, bounds: Mapping[str, Any]) -> slice:
        """Return the codes of the values within bounds, all of which are of one kind.

        Unless all bounds are times, strings are compared with strings that are no times only.
        """
        if not isinstance(next(iter(bounds.values())), str):
            # A buffer yields Python's own numbers, which compare exactly.
            is_exact = self.numbers.dtype == object
            return _between(self.numbers if is_exact else self.numbers.data, bounds, FIRST_NUMBER)
        instants = {name: instant_of(bound) for name, bound in bounds.items()}
        if None in instants.values():
            return _between(self.strings, bounds, self.first_string)
        return _between(self.instants, instants, self.first_time)

    def key(self, code: int) -> SortKey:
        """Return the key by which the value of a code is sorted."""
        value = self.value(code)
        if code < self.first_time:
            return int(code >= FIRST_NUMBER), value
        is_time = code < self.first_string
        return (2, int(self.instants[code - self.first_time])) if is_time else (3, value)

    def place_of(self, key: SortKey) -> tuple[int, bool]:
        """Return the first code not below a sort key, and whether it is of that key."""
        kind, value = key
        if kind == 0:
            return (TRUE if value else FALSE), True
        is_exact = self.numbers.dtype == object
        some, first = {
            1: (self.numbers if is_exact else self.numbers.data, FIRST_NUMBER),
            2: (self.instants, self.first_time),
            3: (self.strings, self.first_string),
        }[kind]
        place = bisect_left(some, value)
        return first + place, place < len(some) and bool(some[place] == value)

    def accepts(self, condition: AnyOf | InRange | HasText) -> Mask:
        """Tell which codes stand for values that a condition on a single value accepts."""
        accepted = np.zeros(len(self), dtype=np.bool_)
        of_times = slice(self.first_time, self.first_string)
        if isinstance(condition, AnyOf):
            for value in condition.values:
                accepted[self.equal_to(value)] = True
        elif isinstance(condition, InRange):
            bounds = condition.bounds
            accepted[self.between(bounds)] = True
            if isinstance(next(iter(bounds.values())), str) and not condition.is_of_instants:
                tests = [(COMPARE[name], bound) for name, bound in bounds.items()]
                accepted[of_times] = [
                    all(test(text, bound) for test, bound in tests) for text in self.times
                ]
        else:
            accepted[of_times] = [*map(condition.accepts, self.times)]
            accepted[self.first_string :] = [*map(condition.accepts, self.strings)]
        return accepted

    def merged(self, other: Values) -> tuple[Values, Codes, Codes]:
        """Return the values of both, and the code there of each code of this one, and of `other`.

        It takes a search for each value of `other`.
        """
        numbers, others = self.numbers, other.numbers
        if numbers.dtype != others.dtype:
            numbers, others = numbers.astype(object), others.astype(object)
        first, last = (
            np.searchsorted(self.instants, other.instants, side).tolist()
            for side in ("left", "right")
        )
        bounds = zip(other.times.tolist(), first, last, strict=True)
        places = [bisect_left(self.times, text, low, high) for text, low, high in bounds]
        of_numbers = _Union.of(numbers, others, np.searchsorted(numbers, others))
        of_times = _Union.of(self.times, other.times, np.array(places, dtype=np.intp))
        of_strings = _Union.of(
            self.strings, other.strings, np.searchsorted(self.strings, other.strings)
        )
        unions = of_numbers, of_times, of_strings
        merged = Values(
            of_numbers.join(numbers, others),
            of_times.join(self.times, other.times),
            of_times.join(self.instants, other.instants),
            of_strings.join(self.strings, other.strings),
        )
        firsts = FIRST_NUMBER, merged.first_time, merged.first_string
        fixed = np.arange(FIRST_NUMBER)
        of_self = [first + union.of_held for first, union in zip(firsts, unions, strict=True)]
        of_other = [first + union.of_new for first, union in zip(firsts, unions, strict=True)]
        mapped = np.concatenate([fixed, *of_self]), np.concatenate([fixed, *of_other])
        return merged, mapped[0].astype(np.int32), mapped[1].astype(np.int32)


@dataclass(frozen=True, eq=False)
class _Union:
    """The union of two ascending arrays without duplicates."""

    places: npt.NDArray[np.intp]
    """Where those of the second that the first lacks are inserted into it."""
    is_added: Mask
    """Which ones of the second these are."""
    of_held: npt.NDArray[np.intp]
    """The position in the union of each element of the first."""
    of_new: npt.NDArray[np.intp]
    """The position in the union of each element of the second."""

    @classmethod
    def of(cls, held: Array, new: Array, places: npt.NDArray[np.intp]) -> _Union:
        """Join `new` into `held`, whose elements from `places` on are not below those of `new`."""
        is_known = places < len(held)
        is_known[is_known] = held[places[is_known]] == new[is_known]
        is_added = ~is_known
        added, of_held = places[is_added], np.arange(len(held))
        if len(added):
            of_held += np.searchsorted(added, of_held, side="right")
        return cls(added, is_added, of_held, places + np.cumsum(is_added) - is_added)

    def join(self, held: Array, new: Array) -> Array:
        """Return the union of the arrays, or of others that are in the same order."""
        if not len(self.places):
            return held
        return np.insert(held, self.places, new[self.is_added])


@dataclass(frozen=True, eq=False)
class Column:
    """The values of a field as of a generation, in the rows up to the last; see :mod:`.columns`."""

    field: str
    generation: int
    cells: npt.NDArray[np.int32]
    """The cell of each row from 0 to the last."""
    owners: npt.NDArray[np.int32]
    """The cell of each entry, ascending."""
    codes: Codes
    """The code of each entry; no cell has a code twice."""
    values: Values
    n_read: int
    """The number of entries when all payloads were read."""

    def updated(self, some: Column) -> Column:
        """Return the column with the documents that were added or changed since.

        `some` has these documents only, and is of the later generation.
        """
        rows = np.flatnonzero(some.cells)
        cells = np.zeros(len(some.cells), dtype=np.int32)
        cells[: len(self.cells)] = self.cells
        offset = self.n_cells - FIRST_CELL
        cells[rows] = np.where(some.cells[rows] == NO_FIELD, NO_FIELD, some.cells[rows] + offset)
        values, of_held, of_new = self.values.merged(some.values)
        codes = self.codes if len(values) == len(self.values) else of_held[self.codes]
        return replace(
            self,
            generation=some.generation,
            cells=cells,
            owners=np.concatenate([self.owners, (some.owners + offset).astype(np.int32)]),
            codes=np.concatenate([codes, of_new[some.codes]]),
            values=values,
        )

    @property
    def last_row(self) -> int:
        """The last row that had been assigned."""
        return len(self.cells) - 1

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return int(self.owners[-1]) + 1 if len(self.owners) else FIRST_CELL

    @property
    def has_grown(self) -> bool:
        """Whether reading all payloads again would free much memory."""
        return len(self.owners) > MOST_GROWTH * self.n_read + FEW_ENTRIES

    @cached_property
    def nbytes(self) -> int:
        """About the bytes of memory that it takes."""
        arrays = self.cells.nbytes + self.owners.nbytes + self.codes.nbytes
        return (
            arrays
            + 8 * len(self.values)
            + sum(_size_of_strings(strings) for strings in (self.values.times, self.values.strings))
        )

    def pack(self) -> bytes:
        """Return the bytes that :meth:`unpack` reads."""
        values = self.values
        arrays: dict[str, Array] = {}
        arrays |= {"cells": self.cells, "owners": self.owners, "codes": self.codes}
        if values.numbers.dtype == object:
            arrays["objects"] = _bytes(json.dumps(values.numbers.tolist()).encode())
        else:
            arrays["numbers"] = values.numbers
        for name in ("times", "strings"):
            arrays[name] = _bytes(orjson.dumps(getattr(values, name).tolist()))
        arrays["instants"] = values.instants
        arrays["version"] = np.array([VERSION, self.n_read])
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        raw = packed.getvalue()
        return zlib.crc32(raw).to_bytes(CHECKSUM_BYTES) + raw

    @classmethod
    def unpack(cls, field: str, generation: int, packed: bytes) -> Column:
        """Read the bytes of :meth:`pack`.

        Raises:
            ValueError: if they are damaged, or another version wrote them.
        """
        raw = packed[CHECKSUM_BYTES:]
        if zlib.crc32(raw).to_bytes(CHECKSUM_BYTES) != packed[:CHECKSUM_BYTES]:
            raise ValueError("it does not match its checksum")
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            version, n_read = arrays["version"].tolist()
            if version != VERSION:
                raise ValueError("another version wrote it")
            texts = (_objects(orjson.loads(arrays[name].data)) for name in ("times", "strings"))
            times, strings = texts
            if "objects" in arrays:
                numbers = _objects(json.loads(arrays["objects"].tobytes()))
            else:
                numbers = arrays["numbers"]
            values = Values(numbers, times, arrays["instants"], strings)
            of_cells = arrays["cells"], arrays["owners"], arrays["codes"]
            return cls(field, generation, *of_cells, values, n_read)

    # Filters.

    def matches(self, condition: FieldCondition) -> Mask:
        """Tell which rows are of documents that a condition on the field holds for.

        It may miss some of :meth:`cut_rows`.
        """
        codes, is_negated = np.zeros(len(self.values), dtype=np.bool_), False
        if isinstance(condition, AnyOf | InRange | HasText):
            codes = self.values.accepts(condition)
        elif isinstance(condition, Exists):
            codes[OBJECT], codes[FALSE:] = True, True
            is_negated = not condition.expected
        elif isinstance(condition, IsNull):
            codes[NULL] = True
            is_negated = not condition.expected
        elif isinstance(condition, IsMissing):
            codes[:] = True
            is_negated = condition.expected
        else:
            codes[SEVERAL] = True
            is_negated = condition.expected
        return self._rows_of_codes(codes, is_negated=is_negated)

    def cut_rows(self, condition: FieldCondition) -> Rows:
        """Return the rows with a string that is cut before a place where a condition looks."""
        longest = 0
        if isinstance(condition, HasText):
            longest = len(condition.part) if condition.is_prefix else MAX_STRING_LENGTH + 1
        elif isinstance(condition, AnyOf | InRange):
            given = condition.values if isinstance(condition, AnyOf) else condition.bounds.values()
            longest = max((len(value) for value in given if isinstance(value, str)), default=0)
        codes = np.zeros(len(self.values), dtype=np.bool_)
        if longest > MAX_STRING_LENGTH:
            lengths = np.fromiter(map(len, self.values.strings), dtype=np.int64)
            codes[self.values.first_string :] = lengths > MAX_STRING_LENGTH
        return np.flatnonzero(self._rows_of_codes(codes)) if codes.any() else np.empty(0, np.int64)

    def rows_with(self, codes: Iterable[int]) -> Rows:
        """Return the rows with a value that is equal to that of one of the codes, ascending."""
        chosen = np.zeros(len(self.values), dtype=np.bool_)
        chosen[[*codes]] = True
        return np.flatnonzero(self._rows_of_codes(chosen[self.values.first_equal]))

    def _rows_of_codes(self, codes: Mask, *, is_negated: bool = False) -> Mask:
        of_cells = np.zeros(self.n_cells, dtype=np.bool_)
        of_cells[self.owners[codes[self.codes]]] = True
        if is_negated:
            of_cells = ~of_cells
            of_cells[NO_DOCUMENT] = False
        return of_cells[self.cells]

    def agrees_with(self, other: Column) -> bool:
        """Tell whether the documents of another column hold here what they hold there."""
        if len(self.cells) != len(other.cells):
            return False
        rows = np.flatnonzero(other.cells)
        cells, others = self.cells[rows], other.cells[rows]
        if not cells.all() or ((cells == NO_FIELD) != (others == NO_FIELD)).any():
            return False
        _, of_self, of_other = self.values.merged(other.values)
        here = _entries_of(self.owners, of_self[self.codes], cells)
        there = _entries_of(other.owners, of_other[other.codes], others)
        one, two = (codes[np.lexsort((codes, at))] for at, codes in (here, there))
        return np.array_equal(here[0], there[0]) and np.array_equal(one, two)

    # Counts and groups. Equal values are counted as the first of them.

    @cached_property
    def _scalars(self) -> tuple[npt.NDArray[np.int32], Codes]:
        """The entries that are scalars: their cells, and the first codes equal to theirs."""
        is_scalar = self.codes >= FALSE
        return self.owners[is_scalar], self.values.first_equal[self.codes[is_scalar]]

    def count_cells(self, selected: Mask) -> npt.NDArray[np.int64]:
        """Return the number of the `selected` rows, ``bool[last_row + 1]``, with each cell."""
        return np.bincount(self.cells[selected], minlength=self.n_cells)

    def count_documents(self, of_cells: npt.NDArray[np.int64]) -> int:
        """Return the number of documents with a value, given how many have each cell."""
        has_value = np.zeros(self.n_cells, dtype=np.bool_)
        has_value[self._scalars[0]] = True
        return int(of_cells[has_value].sum())

    def count_by(
        self, bucket_of: npt.NDArray[np.int64], of_cells: npt.NDArray[np.int64], n_buckets: int
    ) -> npt.NDArray[np.int64]:
        """Return how many documents have a value in each bucket, given how many have each cell.

        `bucket_of` has the number of the bucket of each code, -1 for none.
        """
        owners, codes = self._scalars
        buckets = bucket_of[codes]
        inside = buckets >= 0
        if not inside.all():
            owners, buckets = owners[inside], buckets[inside]
        if len(owners) > 1 and (owners[1:] == owners[:-1]).any():
            # A document counts once for a bucket.
            pairs = np.unique(owners.astype(np.int64) * n_buckets + buckets)
            owners, buckets = np.divmod(pairs, n_buckets)
        # The sums of whole numbers are exact.
        counts = np.bincount(buckets, of_cells[owners], minlength=n_buckets)
        return counts.astype(np.int64)

    def count_values(self, of_cells: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of documents with a value equal to that of each code.

        It is at the first of the codes that are equal.
        """
        return self.count_by(np.arange(len(self.values)), of_cells, len(self.values))

    def shown_values(self, of_cells: npt.NDArray[np.int64]) -> Callable[[int], Scalar]:
        """Return a function that returns a value that some document has, given a code it equals."""
        held = np.zeros(len(self.values), dtype=np.bool_)
        held[self.codes[of_cells[self.owners] > 0]] = True

        def value_of(code: int) -> Scalar:
            while not held[code]:
                code += 1
            return self.values.value(code)

        return value_of

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of rows with a value equal to that of each code, as :meth:`count_values`."""
        return self.count_values(np.bincount(self.cells, minlength=self.n_cells))

    def entries_of(self, rows: Rows) -> tuple[list[int], list[int]]:
        """Return the position in `rows` and the code of each entry of `rows`, in their order."""
        at, codes = _entries_of(*self._scalars, self.cells[rows])
        return at.tolist(), codes.tolist()

    def value_at(self, row: int, code: int) -> Scalar:
        """Return the value of a row that equals that of a code."""
        start, end = np.searchsorted(self.owners, [self.cells[row], self.cells[row] + 1])
        codes: list[int] = self.codes[start:end].tolist()
        equal = (held for held in codes if self.values.first_equal[held] == code)
        return self.values.value(next(equal))

    # The order of rows. Positions are twice the number of lower codes, and odd for a code itself,
    # so that the place of a value that no document has is between those of codes.

    def positions(self, rows: Rows, *, descending: bool) -> npt.NDArray[np.int64]:
        """Return the position of each row in the order of values.

        A row of several values has the first of their positions. A row without one comes last.
        """
        return (self._descending if descending else self._ascending)[self.cells[rows]]

    @cached_property
    def _ascending(self) -> npt.NDArray[np.int64]:
        owners, codes = self._scalars
        return self._positions(owners, codes)

    @cached_property
    def _descending(self) -> npt.NDArray[np.int64]:
        owners, codes = self._scalars
        return self._positions(owners, len(self.values) - 1 - codes)

    def _positions(self, owners: Array, order: Array) -> npt.NDArray[np.int64]:
        """Return the position of each cell, given the place of each entry in the order."""
        positions = np.full(self.n_cells, self.missing_position, dtype=np.int64)
        if len(owners):
            starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
            first = np.minimum.reduceat(order, starts).astype(np.int64)
            positions[owners[starts]] = 2 * first + 1
        return positions

    @property
    def missing_position(self) -> int:
        """The position of rows without a value."""
        return 2 * len(self.values) + 1

    def position_of(self, key: SortKey | None, *, descending: bool) -> int:
        """Return the position of a value that no document may have any more; None is no value."""
        if key is None:
            return self.missing_position
        code, is_held = self.values.place_of(key)
        if descending:
            code = len(self.values) - code - is_held
        return 2 * code + is_held

    def key_at(self, position: int, *, descending: bool) -> SortKey | None:
        """Return the value at a position of :meth:`positions`, or None if it has none."""
        if position == self.missing_position:
            return None
        code = position // 2
        return self.values.key(len(self.values) - 1 - code if descending else code)


def _entries_of(owners: Array, codes: Codes, cells: Array) -> tuple[Array, Codes]:
    """Return the position in `cells` and the code of each entry of these cells, in their order."""
    starts, ends = np.searchsorted(owners, cells), np.searchsorted(owners, cells, "right")
    counts = ends - starts
    at = np.repeat(np.arange(len(cells)), counts)
    return at, codes[numbers_of_runs(starts, counts)]


RowsAndPayloads = tuple[Sequence[int], Sequence[Mapping[str, Any]]]
"""Some rows, and the payloads of their documents."""
_MISSING: Any = object()
_SPECIAL: list[Any] = [object() for _ in range(FIRST_NUMBER)]
"""What stands for the codes below the first number in what cells hold."""
_SPECIAL_CODES: Mapping[Any, int] = {mark: code for code, mark in enumerate(_SPECIAL)}
_PLAIN = frozenset({str, int, float})
_PLAIN_OR_MISSING = _PLAIN | {type(_MISSING)}


class ColumnReader:
    """Makes the column of a field of documents.

    What a cell holds is looked up by a key: a string or number as it is, a tuple for a list of
    these, and a :class:`_Held` for all else. Only the keys that differ are read further.
    """

    def __init__(self, field: str, last_row: int, most_bytes: int = MAX_BYTES) -> None:
        """Begin; the distinct keys may take `most_bytes`."""
        self._field = field
        self._most_bytes = most_bytes
        self._bytes = 0
        self._cells = np.zeros(last_row + 1, dtype=np.int32)
        self._number_of: dict[Any, int] = {_MISSING: NO_FIELD}
        self._keys_of = self._keys_by_path if "." in field else self._keys_by_name

    def add(self, rows: Sequence[int], payloads: Sequence[Mapping[str, Any]]) -> None:
        """Add documents; later ones replace those of the same rows.

        Raises:
            TooManyValuesError: if the distinct values take too much memory.
        """
        number_of = self._number_of
        keys = self._keys_of(payloads)
        new = [key for key in dict.fromkeys(keys) if key not in number_of]
        number_of.update(zip(new, count(len(number_of) + 1), strict=False))
        numbers = np.fromiter(map(number_of.__getitem__, keys), dtype=np.int32, count=len(keys))
        self._cells[np.array(rows, dtype=np.intp)] = numbers
        self._bytes += sum(map(_size_of_key, new))
        if self._bytes > self._most_bytes:
            raise TooManyValuesError(self._field)

    def column(self, generation: int) -> Column:
        """Return the column of the documents, which are of a generation."""
        owners, codes, values = _entries([*self._number_of][1:])
        return Column(self._field, generation, self._cells, owners, codes, values, len(owners))

    def _keys_by_name(self, payloads: Sequence[Mapping[str, Any]]) -> list[Any]:
        field = self._field
        values = [payload.get(field, _MISSING) for payload in payloads]
        if _PLAIN_OR_MISSING.issuperset(map(type, values)):
            return values
        return [value if type(value) in _PLAIN_OR_MISSING else _key(value) for value in values]

    def _keys_by_path(self, payloads: Sequence[Mapping[str, Any]]) -> list[Any]:
        field = self._field
        held = ((held_values(payload, field), payload) for payload in payloads)
        return [
            _Held.of(values, is_single=is_single(payload, field)) if values else _MISSING
            for values, payload in held
        ]


class _Held(NamedTuple):
    """The parts of a cell: scalars, and what stands for the codes below the first number."""

    parts: tuple[Any, ...]
    mark: object = _MISSING
    """So that it equals no list of a payload."""

    @classmethod
    def of(cls, held: Sequence[Any], *, is_single: bool) -> _Held:
        """Return what a cell holds, given what every place of the field in a payload does."""
        present = [value for value in held if value is not None]
        parts = [] if len(present) == len(held) else [_SPECIAL[NULL]]
        scalars = [*chain.from_iterable(map(scalars_of, present))]
        if present and not scalars:
            parts.append(_SPECIAL[OBJECT])
        if not is_single:
            parts.append(_SPECIAL[SEVERAL])
        # To Python, True equals 1.
        parts += [_SPECIAL[FALSE + part] if isinstance(part, bool) else part for part in scalars]
        return cls(tuple(parts))


def _key(value: Any) -> Any:
    """Return a key of what a field holds that is no plain string or number."""
    if type(value) is list and value and _PLAIN.issuperset(map(type, value)):
        return tuple(value)
    return _Held.of([value], is_single=not isinstance(value, Mapping | list))


def _size_of_key(key: Any) -> int:
    if isinstance(key, tuple):
        return sum(map(_size_of_key, key.parts if isinstance(key, _Held) else key))
    return BYTES_OF_A_VALUE + (len(key) if isinstance(key, str) else 0)


def _parts(key: Any) -> list[Any]:
    """Return the different parts of a cell, given its key."""
    if isinstance(key, _Held):
        return [*dict.fromkeys(map(_normal, key.parts))]
    if isinstance(key, tuple):
        return [_SPECIAL[SEVERAL], *dict.fromkeys(map(_normal, key))]
    return [_normal(key)]


def _normal(part: Any) -> Any:
    """Cut a string where no condition compares it; a whole number may become a float."""
    if isinstance(part, str):
        return part if len(part) <= MAX_STRING_LENGTH else part[: MAX_STRING_LENGTH + 1]
    return json_number(part) if isinstance(part, int) else part


def _is_time_or_long(text: str) -> bool:
    return len(text) > MAX_STRING_LENGTH or instant_of(text) is not None


def _entries(keys: list[Any]) -> tuple[npt.NDArray[np.int32], Codes, Values]:
    """Return the cell and the code of each entry, and the values, given the keys of the cells."""
    owners = np.arange(FIRST_CELL, FIRST_CELL + len(keys), dtype=np.int32)
    kinds = {*map(type, keys)}
    # Of one kind, there may be as many as documents; these take a third of the time.
    is_exact = kinds == {float} or all(-EXACT <= key <= EXACT for key in keys if type(key) is int)
    if kinds <= {int, float} and is_exact:
        numbers, places = np.unique(np.array(keys, dtype=np.float64), return_inverse=True)
        return owners, (FIRST_NUMBER + places).astype(np.int32), Values.of_numbers(numbers)
    if kinds == {str} and not any(map(_is_time_or_long, keys)):
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)
        codes = np.empty(len(keys), dtype=np.int32)
        codes[order] = np.arange(FIRST_NUMBER, FIRST_NUMBER + len(keys))
        return owners, codes, replace(Values.of(()), strings=_objects(keys)[order])
    if kinds <= _PLAIN:
        parts = [*map(_normal, keys)]
    else:
        cells = [*map(_parts, keys)]
        sizes = np.fromiter(map(len, cells), dtype=np.intp, count=len(cells))
        owners = np.repeat(owners, sizes)
        parts = [*chain.from_iterable(cells)]
    values = Values.of(part for part in dict.fromkeys(parts) if part not in _SPECIAL_CODES)
    ordered = chain(values.numbers.tolist(), values.times, values.strings)
    code_of = {**_SPECIAL_CODES, **dict(zip(ordered, count(FIRST_NUMBER), strict=False))}
    codes = np.fromiter(map(code_of.__getitem__, parts), dtype=np.int32, count=len(parts))
    return owners, codes, values


def _between(values: Any, bounds: Mapping[str, Any], first: int) -> slice:
    """Return the codes of the ascending `values` within bounds; `first` is that of the first."""
    start, end = 0, len(values)
    for name, bound in bounds.items():
        search = bisect_left if name in {"gte", "lt"} else bisect_right
        position = search(values, bound)
        start, end = (position, end) if name in {"gt", "gte"} else (start, position)
    return slice(first + start, first + max(start, end))


def _numbers(ascending: list[Any]) -> Array:
    """Return numbers as floats, unless a whole one among them is no float."""
    large = (value for value in ascending if isinstance(value, int) and abs(value) > EXACT)
    if any(int(float(value)) != value for value in large):
        return _objects(ascending)
    return np.array(ascending, dtype=np.float64)


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _bytes(raw: bytes) -> Array:
    return np.frombuffer(raw, dtype=np.uint8)


def _size_of_strings(strings: Array) -> int:
    """Return about the bytes of memory of strings, by a sample of a thousand."""
    sample = strings[:: max(1, len(strings) // 1000)]
    length = sum(map(len, sample)) / max(1, len(sample))
    return round(len(strings) * (BYTES_OF_A_VALUE + length))
