"""Payload fields in SQL: filters as conditions, indexed fields in packed runs, and expiries."""

from __future__ import annotations

import json
import math
import operator
import re
import sqlite3
import struct
import time
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, count, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from hummingbit.corpus.expiry import EXPIRES_AT, expiry_of
from hummingbit.foundation.slices import checkpoint
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.filters import (
    MAX_STRING_LENGTH,
    And,
    AnyOf,
    Exists,
    FieldCondition,
    Filter,
    HasId,
    HasText,
    IndexableCondition,
    InRange,
    IsMissing,
    IsNull,
    IsSingle,
    Not,
    Or,
    fields_of,
    ids_of,
    implied_filter,
    instant_of,
    json_number,
    read_field,
    read_payload,
    scalars_of,
)
from hummingbit.index.schema import last_row
from hummingbit.index.store.connections import PARAMETERS, has_table, in_chunks

# Translates filters to SQL conditions on stored payloads.
#
# Names and values are parameters, never part of the statement. Python evaluates what SQLite's
# reading of JSON gets wrong: SQLite reads some decimal fractions with a different last bit, rounds
# integers beyond 64 bits, ends a string at a NUL, and some of its versions do not find a key that
# JSON writes with a backslash.
#
# The field ``a.b`` is looked up in two locations, the key ``a.b`` and the key ``b`` of the object
# ``a``. If a payload may have it elsewhere, such as in a list of objects, Python evaluates the
# condition.


_HAS_NUL = r"instr(payload, '\u0000')"
# The characters that JSON writes with a backslash.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
# A field of more names is looked up nested by Python only, so that conditions stay short.
MAX_NAMES_IN_SQL = 4
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# Conditions on the JSON type of a field, which is NULL where it is missing.
_KIND_TESTS: Mapping[type, str] = {
    Exists: "coalesce({}, 'null') <> 'null'",
    IsNull: "coalesce({}, '') = 'null'",
    IsMissing: "{} IS NOT NULL",
}


def matching_between(
    connection: sqlite3.Connection, filters: Sequence[Filter], after: int, up_to: int
) -> list[Rows]:
    """Return, for each filter, the rows after `after` and up to `up_to` that match it.

    Each payload is read once for all filters. All rows come in one value, because fetching single
    rows would take and release Python's lock for each.
    """
    translation = _Translation(shared=len(filters) > 1)
    conditions = [translation.root_condition(filter_) for filter_ in filters]
    translation.register_functions(connection)
    columns = ", ".join(
        f"group_concat(CASE WHEN {condition} THEN row END)" for condition in conditions
    )
    source = "documents WHERE row > :after AND row <= :up_to"
    query = f"SELECT {columns} FROM {source}"  # noqa: S608 - made of fixed parts
    if len(filters) > 1:
        # Materialized, so that a field of several filters is extracted once.
        first = f"SELECT {translation.columns()} FROM {source}"  # noqa: S608
        query = f"WITH read AS MATERIALIZED ({first}) SELECT {columns} FROM read"  # noqa: S608
    values = {**translation.parameters, "after": after, "up_to": up_to}
    return [_rows(text) for text in connection.execute(query, values).fetchone()]


def where(connection: sqlite3.Connection, filter_: Filter) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``payload`` and its parameters, for statements of `connection`.

    The connection can evaluate only one filter at a time.
    """
    translation = _Translation()
    condition = translation.root_condition(filter_)
    translation.register_functions(connection)
    return condition, translation.parameters


def _rows(text: str | None) -> Rows:
    rows = np.fromstring(text or "", dtype=np.int64, sep=",")
    rows.sort()
    return rows


class _Location(NamedTuple):
    """The SQL expressions of a location in the payload: its path, its JSON type, and its value."""

    path: str
    kind: str
    value: str


class _Field(NamedTuple):
    """The locations of a field, and a condition: whether a payload may have it elsewhere too."""

    locations: tuple[_Location, ...]
    elsewhere: str


class _Translation:
    """Collects the parameters of one statement, and the parts that Python may have to evaluate.

    If `shared`, conditions test the columns of :meth:`columns` instead of the payload itself.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.parameters: dict[str, Any] = {}
        self._shared = shared
        self._parts: list[Filter] = []
        self._fields: dict[str, _Field] = {}
        self._columns = ["row", "id", "payload", f"{_HAS_NUL} AS has_nul"]

    def columns(self) -> str:
        """Return the columns to read of each document: every field of the filters, once."""
        return ", ".join(self._columns)

    def register_functions(self, connection: sqlite3.Connection) -> None:
        """Register the SQL functions that evaluate parts in Python, for one translation."""
        parts = self._parts

        def matches(part: int, payload: str, id_: str) -> bool:
            return parts[part].matches(json.loads(payload), id_)

        connection.create_function("matches", 3, matches, deterministic=True)
        connection.create_function("instant", 1, instant_of, deterministic=True)
        connection.create_function("json_number", 1, json_number, deterministic=True)

    def root_condition(self, filter_: Filter) -> str:
        """Translate a whole filter."""
        number = len(self._parts)
        self._parts.append(filter_)
        condition = self.condition(filter_)
        has_nul = "has_nul" if self._shared else _HAS_NUL
        return f"CASE WHEN {has_nul} THEN matches({number}, payload, id) ELSE {condition} END"

    def condition(self, filter_: Filter) -> str:
        """Translate a part of a filter, for payloads without NUL."""
        if isinstance(filter_, Not):
            return f"NOT {self.condition(filter_.part)}"
        if isinstance(filter_, And | Or):
            word = " AND " if isinstance(filter_, And) else " OR "
            return f"({word.join(self.condition(part) for part in filter_.parts)})"
        if isinstance(filter_, HasId):
            return f"(id IN ({', '.join(map(self._parameter, filter_.ids))}))"
        field = self._field(filter_.field)
        number = len(self._parts)
        self._parts.append(filter_)
        condition = self._field_condition(filter_, field, number)
        if field.elsewhere:
            inexact = f"matches({number}, payload, id)"
            condition = f"CASE WHEN {field.elsewhere} THEN {inexact} ELSE {condition} END"
        return condition

    def _field_condition(self, filter_: FieldCondition, field: _Field, number: int) -> str:
        """Translate a condition for payloads that have the field in its usual locations only."""
        is_negated = False
        if isinstance(filter_, IsSingle):
            kinds = [location.kind for location in field.locations]
            places = " + ".join(f"({kind} IS NOT NULL)" for kind in kinds)
            scalars = (f"coalesce({kind}, '') NOT IN ('object', 'array')" for kind in kinds)
            is_negated = not filter_.expected
            anywhere = [" AND ".join([f"{places or '0'} <= 1", *scalars])]
        elif isinstance(filter_, Exists | IsNull | IsMissing):
            test = _KIND_TESTS[type(filter_)]
            anywhere = [test.format(location.kind) for location in field.locations]
            # What SQL tests is that a field is not missing.
            is_negated = filter_.expected == isinstance(filter_, IsMissing)
        else:
            tests = self._tests(filter_)
            anywhere = [
                _scalar_or_list_condition(location, tests, number) for location in field.locations
            ]
        return f"{'NOT ' if is_negated else ''}({' OR '.join(anywhere) or '0'})"

    def _field(self, field: str) -> _Field:
        if field not in self._fields:
            if _ESCAPED.search(field):
                # JSON writes a backslash into every such key.
                self._fields[field] = _Field((), r"instr(payload, '\') > 0")
            elif "." not in field:
                self._fields[field] = _Field((self._location(field),), "")
            else:
                self._fields[field] = self._dotted_field(field.split("."))
        return self._fields[field]

    def _dotted_field(self, names: Sequence[str]) -> _Field:
        whole, n_names = self._location(".".join(names)), len(names)
        elsewhere: list[str] = []
        if not all(names) or n_names > MAX_NAMES_IN_SQL:
            # It begins with a key of the payload that is not the whole name.
            keys = [".".join(names[:end]) for end in range(1, n_names)]
            elsewhere = [f"{self._kind(key)} IN ('object', 'array')" for key in keys if key]
            if not names[0]:
                elsewhere.append("""instr(payload, '"":') > 0""")
            locations: tuple[_Location, ...] = (whole,)
        else:
            locations = (whole, self._location(*names))
            # It leaves the nested location by a list, or by a key of several names.
            for start in range(n_names):
                for end in range(start + 1, n_names + (start > 0)):
                    kind = self._kind(*names[:start], ".".join(names[start:end]))
                    if end == start + 1 < n_names:
                        elsewhere.append(f"{kind} = 'array'")
                    elif end < n_names:
                        elsewhere.append(f"{kind} IN ('object', 'array')")
                    elif end > start + 1:
                        elsewhere.append(f"{kind} IS NOT NULL")
        condition = f"({' OR '.join(elsewhere)})"
        if not self._shared:
            return _Field(locations, condition)
        name = f"elsewhere{len(self._columns)}"
        self._columns.append(f"{condition} AS {name}")
        return _Field(locations, name)

    def _kind(self, *keys: str) -> str:
        return f"json_type(payload, {self._path(keys)})"

    def _location(self, *keys: str) -> _Location:
        path = self._path(keys)
        kind, value = f"json_type(payload, {path})", f"json_extract(payload, {path})"
        if not self._shared:
            return _Location(path, kind, value)
        number = len(self._columns)
        self._columns += [f"{kind} AS kind{number}", f"{value} AS value{number}"]
        return _Location(path, f"kind{number}", f"value{number}")

    def _path(self, keys: Sequence[str]) -> str:
        return self._parameter("".join(f'."{key}"' for key in keys), "$")

    def _tests(self, filter_: AnyOf | InRange | HasText) -> Mapping[str, str]:
        """Return, by JSON type, a test of a value, which ``%s`` stands for."""
        if isinstance(filter_, HasText):
            part = self._parameter(filter_.part)
            sign = "= 1" if filter_.is_prefix else "> 0"
            return {"text": f"instr(%s, {part}) {sign}" if filter_.part else "1"}
        if isinstance(filter_, InRange) and filter_.is_of_instants:
            return {"text": f"coalesce({self._within('instant(%s)', filter_.instants)}, 0)"}
        if isinstance(filter_, InRange):
            texts = any(isinstance(bound, str) for bound in filter_.bounds.values())
            return {"text" if texts else "number": self._within("%s", filter_.bounds)}
        strings = [value for value in filter_.values if isinstance(value, str)]
        truths = [value for value in filter_.values if isinstance(value, bool)]
        numbers = [value for value in filter_.values if not isinstance(value, str | bool)]
        tests = {json.dumps(truth): "1" for truth in truths}
        for kind, some in (("text", strings), ("number", numbers)):
            if some:
                tests[kind] = f"%s IN ({', '.join(self._parameter(value) for value in some)})"
        return tests

    def _within(self, value: str, bounds: Mapping[str, Any]) -> str:
        return " AND ".join(
            f"{value} {_SIGNS[name]} {self._parameter(bound)}" for name, bound in bounds.items()
        )

    def _parameter(self, value: Any, prefix: str = "") -> str:
        name = f"v{len(self.parameters)}"
        self.parameters[name] = prefix + value if prefix else value
        return f":{name}"


def _scalar_or_list_condition(location: _Location, tests: Mapping[str, str], part: int) -> str:
    path, value = location.path, location.value
    exact = f"CASE typeof({value}) WHEN 'integer' THEN {value} ELSE json_number(payload -> {path})"
    scalar = _by_type(tests, value, f"({exact} END)")
    element = _by_type(tests, "each.value", "each.value", f"matches({part}, payload, NULL)")
    elements = f"FROM json_each(payload, {path}) AS each WHERE CASE each.type {element} ELSE 0 END"
    any_element = f"EXISTS (SELECT 1 {elements})"
    return f"CASE {location.kind} WHEN 'array' THEN {any_element} {scalar} ELSE 0 END"


def _by_type(tests: Mapping[str, str], value: str, number: str, inexact: str | None = None) -> str:
    """Return the ``WHEN`` clauses that test a value by its type."""
    clauses: list[str] = []
    for kind, test in tests.items():
        tested = f"({test.replace('%s', number if kind == 'number' else value)})"
        if kind != "number":
            clauses.append(f"WHEN '{kind}' THEN {tested}")
        elif inexact is not None:
            whole = f"CASE typeof({number}) WHEN 'integer' THEN {tested} ELSE {inexact} END"
            clauses += [f"WHEN 'integer' THEN {whole}", f"WHEN 'real' THEN {inexact}"]
        else:
            clauses += [f"WHEN 'integer' THEN {tested}", f"WHEN 'real' THEN {tested}"]
    return " ".join(clauses)


# The values of one payload field in a run of documents, packed so that numpy evaluates filters.
#
# Each distinct value has a number, its *code*, and codes ascend as values do::
#
#     0 absent or null    1 a value that no condition matches: an object, an empty list
#     2 false    3 true    then integers, then other numbers, then strings by code point
#
# The values of a document are *entries*: its offset in the run and a code, one entry for each
# element of a list. So every condition selects a few ranges of codes. Integers within 64 bits are
# separate from other numbers, because not every integer is a float; 1 and 1.0 have the same code. A
# string is cut just above the length of the longest string in a filter.


ABSENT, NO_SCALAR, FALSE, TRUE, FIRST_NUMBER = range(5)
_HEADER = struct.Struct("<6I")
_WIDTHS = (1, 2, 4)
# A boolean equals a number in Python, so an object of its own represents it.
_FALSE, _TRUE, _NOTHING = object(), object(), object()
_TRUTHS = {False: _FALSE, True: _TRUE}
_FIXED: dict[Any, int] = {None: ABSENT, _NOTHING: NO_SCALAR, _FALSE: FALSE, _TRUE: TRUE}
_PLAIN = frozenset({str, int, float, type(None)})
_NUMBERS_AND_STRINGS = frozenset({str, int, float})
# Up to so many ranges are compared with each code; for more, a table is looked up.
MAX_COMPARED = 4
# The bytes of an entry while it is packed, without a string.
COST = 128

Mask = npt.NDArray[np.bool_]


class Strings(Sequence[bytes]):
    """Strings in UTF-8, whose byte order is the order of code points, in one buffer."""

    def __init__(self, ends: npt.NDArray[np.uint32], data: bytes) -> None:
        self._ends = ends.data
        self._data = data

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, position: Any) -> Any:
        start = self._ends[position - 1] if position else 0
        return self._data[start : self._ends[position]]


class FieldBlock(NamedTuple):
    """The entries of a field, ascending by offset, and the values of the codes."""

    codes: npt.NDArray[Any]
    offsets: npt.NDArray[np.uint16] | None
    """None if there is one entry for each offset from 0."""
    whole: npt.NDArray[np.int64]
    other: npt.NDArray[np.float64]
    strings: Strings

    @property
    def n_codes(self) -> int:
        """The number of codes, including those of absent values."""
        return self.first_string + len(self.strings)

    @property
    def first_string(self) -> int:
        """The code of the first string."""
        return FIRST_NUMBER + len(self.whole) + len(self.other)

    def keys(self) -> list[tuple[int, Any]]:
        """Return the kind of the value of each code from :data:`FIRST_NUMBER` on, and the value."""
        whole, other = self.whole.tolist(), self.other.tolist()
        return [
            *((0, value) for value in whole),
            *((1, value) for value in other),
            *((2, value) for value in self.strings),
        ]

    def entries(self) -> Iterator[tuple[int, Any]]:
        """Yield the offset of each entry and a representation of its value."""
        values = [*map(repr, [*self.whole.tolist(), *self.other.tolist(), *self.strings])]
        offsets = range(len(self.codes)) if self.offsets is None else self.offsets.tolist()
        for offset, code in zip(offsets, self.codes.tolist(), strict=True):
            yield offset, code if code < FIRST_NUMBER else values[code - FIRST_NUMBER]

    def at_offsets(self, selected: Mask, size: int) -> Mask:
        """Return which offsets of a run of `size` have a `selected` entry, ``bool[size]``."""
        if self.offsets is None and len(selected) == size:
            return selected
        mask = np.zeros(size, dtype=np.bool_)
        if self.offsets is None:
            mask[: len(selected)] = selected
        else:
            mask[self.offsets[selected]] = True
        return mask


def packable(value: Any) -> Any:
    """Return the part of a value to pack: long strings are cut where no condition compares them.

    Otherwise a run of long texts could exceed the size of a value in SQLite.
    """
    if type(value) is str:
        return value[: MAX_STRING_LENGTH + 1]
    if type(value) is list:
        return [packable(element) if type(element) is str else element for element in value]
    return value


def cost_of_list(value: Sequence[Any]) -> int:
    """Return roughly the bytes of memory that a :func:`packable` list takes while it is packed."""
    return sum(COST + 4 * len(element) if type(element) is str else COST for element in value)


def pack_field(offsets: Sequence[int], values: Sequence[Any]) -> bytes:
    """Pack the :func:`packable` values of a field in some documents; None if it is absent.

    `offsets` are the positions of the documents in their run, ascending and below 65,536. Equal
    arguments give equal bytes.
    """
    entry_values, entry_offsets = _entries(offsets, values)
    order, code_of = _number_values(entry_values)
    codes = np.array([code_of[value] for value in entry_values], dtype=np.int64)
    return _pack(codes, np.array(entry_offsets, dtype=np.int64), order)


def repack_values(
    block: FieldBlock, offsets: npt.NDArray[np.int64], values: Sequence[Any]
) -> bytes:
    """Pack a block in which the documents at some ascending `offsets` have other `values`.

    Raises:
        ValueError: if one of the values is a list, whose size nothing here bounds.
    """
    if list in map(type, values):
        raise ValueError("a value is a list")
    entry_values, _ = _entries(offsets.tolist(), values)
    before = np.arange(len(block.codes)) if block.offsets is None else block.offsets
    kept = ~np.isin(before, offsets)
    codes = block.codes[kept].astype(np.int64)
    keys = block.keys()
    used = {keys[code - FIRST_NUMBER] for code in np.unique(codes).tolist() if code >= FIRST_NUMBER}
    order, code_of = _number_values(entry_values, used)
    position_of = {key: position for position, key in enumerate(order, FIRST_NUMBER)}
    others = [position_of.get(key, ABSENT) for key in keys]
    table = np.array([*range(FIRST_NUMBER), *others], dtype=np.int64)
    changed = np.array([code_of[value] for value in entry_values], dtype=np.int64)
    all_offsets = np.concatenate([before[kept].astype(np.int64), offsets])
    by_offset = np.argsort(all_offsets, kind="stable")
    return _pack(np.concatenate([table[codes], changed])[by_offset], all_offsets[by_offset], order)


_Keys = list[tuple[int, Any]]


def _number_values(
    values: Sequence[Any], keys: Iterable[tuple[int, Any]] = ()
) -> tuple[_Keys, Mapping[Any, int]]:
    """Return the sorted keys of values, and of further ones, and the code of each value."""
    of_values = {value: key_of(value) for value in set(values) - _FIXED.keys()}
    order = sorted({*keys, *of_values.values()})
    position_of = {key: position for position, key in enumerate(order, FIRST_NUMBER)}
    return order, _FIXED | {value: position_of[key] for value, key in of_values.items()}


def _pack(
    codes: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], order: Sequence[tuple[int, Any]]
) -> bytes:
    """Return the bytes of entries, given the keys of the codes from :data:`FIRST_NUMBER` on."""
    whole, other, strings = (
        [value for kind, value in order if kind == wanted] for wanted in range(3)
    )
    n_codes = FIRST_NUMBER + len(order)
    width = 1 if n_codes <= 1 << 8 else 2 if n_codes <= 1 << 16 else 4
    if np.array_equal(offsets, np.arange(len(codes))):
        offsets = offsets[:0]
    counts = [len(codes), len(offsets), len(whole), len(other), len(strings)]
    return b"".join(
        [
            _HEADER.pack(*counts, width),
            np.array(whole, dtype="<i8").tobytes(),
            np.array(other, dtype="<f8").tobytes(),
            np.cumsum([len(string) for string in strings], dtype="<u4").tobytes(),
            codes.astype(f"<u{width}").tobytes(),
            offsets.astype("<u2").tobytes(),
            *strings,
        ]
    )


def unpack_field(packed: bytes) -> FieldBlock:
    """Read the bytes of :func:`pack_field`.

    Raises:
        ValueError: if :func:`pack_field` cannot have made them.
    """
    if len(packed) < _HEADER.size:
        raise ValueError("it is too short")
    n_entries, n_offsets, n_whole, n_other, n_strings, width = _HEADER.unpack_from(packed)
    if width not in _WIDTHS:
        raise ValueError(f"its codes are {width} bytes wide")
    position = _HEADER.size

    def read(dtype: str, count: int) -> npt.NDArray[Any]:
        nonlocal position
        array = np.frombuffer(packed, dtype=dtype, count=count, offset=position)
        position += array.nbytes
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    whole, other = read("<i8", n_whole), read("<f8", n_other)
    ends, codes = read("<u4", n_strings), read(f"<u{width}", n_entries)
    offsets = read("<u2", n_offsets) if n_offsets else None
    return FieldBlock(codes, offsets, whole, other, Strings(ends, packed[position:]))


def matching_offsets(filter_: Filter, blocks: Mapping[str, FieldBlock], size: int) -> Mask:
    """Return which offsets of a run of `size` match the filter, ``bool[size]``.

    `blocks` has every field of the filter, at least one.

    Raises:
        ValueError: if the filter has a longer string than :mod:`hummingbit.index.filters` allows.
    """
    if isinstance(filter_, Not):
        block = next(iter(blocks.values()))
        has_document = block.at_offsets(np.ones(len(block.codes), dtype=np.bool_), size)
        return has_document & ~matching_offsets(filter_.part, blocks, size)
    if isinstance(filter_, And | Or):
        join = np.logical_and if isinstance(filter_, And) else np.logical_or
        return np.asarray(
            join.reduce([matching_offsets(part, blocks, size) for part in filter_.parts])
        )
    if not isinstance(filter_, IndexableCondition):
        raise ValueError("the values of fields do not decide this condition")  # noqa: TRY004
    block = blocks[filter_.field]
    return block.at_offsets(_in_ranges(_ranges(filter_, block), block), size)


def _in_ranges(ranges: Sequence[tuple[int, int]], block: FieldBlock) -> Mask:
    """Return which entries have a code in one of the ranges, ``bool[n]``."""
    codes = block.codes
    if len(ranges) > MAX_COMPARED:
        table = np.zeros(block.n_codes, dtype=np.bool_)
        for start, end in ranges:
            table[start:end] = True
        return np.asarray(table[codes])
    mask = np.zeros(len(codes), dtype=np.bool_)
    for start, end in ranges:
        mask |= codes == start if end - start == 1 else (codes >= start) & (codes < end)
    return mask


def _entries(offsets: Sequence[int], values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the values that conditions can match, and the offset of each."""
    if _PLAIN.issuperset(map(type, values)):
        return values, offsets
    entry_values: list[Any] = []
    entry_offsets: list[int] = []
    for offset, value in zip(offsets, values, strict=True):
        if type(value) in _PLAIN:
            entry_values.append(value)
            entry_offsets.append(offset)
            continue
        if type(value) is list and value and _NUMBERS_AND_STRINGS.issuperset(map(type, value)):
            entry_values += value
            entry_offsets += [offset] * len(value)
            continue
        scalars = [
            _TRUTHS[scalar] if isinstance(scalar, bool) else scalar for scalar in scalars_of(value)
        ]
        entry_values += scalars or [_NOTHING]
        entry_offsets += [offset] * max(1, len(scalars))
    return entry_values, entry_offsets


def key_of(value: str | float) -> tuple[int, Any]:
    """Return a sort key of a value; codes are in the order of keys."""
    if isinstance(value, str):
        return 2, _bytes_of(value)
    value = json_number(value) if isinstance(value, int) else value
    if isinstance(value, int) or (value.is_integer() and -(2.0**63) <= value < 2.0**63):
        return 0, int(value)
    return 1, value


def _keys_of(values: list[Any]) -> _Keys:
    """Return what :func:`key_of` does for each value, in a third of its time for most types."""
    types = {*map(type, values)}
    if types == {str} and all(map(str.isascii, values)):
        return [(2, value.encode()) for value in values]
    if types == {float}:
        return [(1, value) if value % 1 else key_of(value) for value in values]
    return [*map(key_of, values)]


def _bytes_of(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _ranges(condition: IndexableCondition, block: FieldBlock) -> list[tuple[int, int]]:
    """Return the half-open ranges of codes that match the condition."""
    if isinstance(condition, Exists):
        return [(NO_SCALAR, block.n_codes) if condition.expected else (ABSENT, ABSENT + 1)]
    if isinstance(condition, HasText):
        return _ranges_of_text(condition, block)
    if isinstance(condition, InRange) and condition.is_of_instants:
        tests = [(COMPARE[name], bound) for name, bound in condition.instants.items()]
        return [
            (code, code + 1)
            for code, text in enumerate(block.strings, block.first_string)
            if (time := instant_of(text.decode("utf-8", "replace"))) is not None
            and all(test(time, bound) for test, bound in tests)
        ]
    ranges: list[tuple[int, int]] = []
    if isinstance(condition, InRange):
        for first, values, bound_of in _parts(block):
            bounds = {name: bound_of(bound) for name, bound in condition.bounds.items()}
            if None not in bounds.values():
                start, end = _between(values, bounds)
                ranges.append((first + start, first + end))
    else:
        truths = {TRUE if value else FALSE for value in condition.values if isinstance(value, bool)}
        ranges = [(code, code + 1) for code in truths]
        for first, values, bound_of in _parts(block):
            sought = (bound_of(value) for value in condition.values if not isinstance(value, bool))
            ranges += [(first + at, first + at + 1) for at in _positions_of(values, sought)]
    return [(start, end) for start, end in ranges if start < end]


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _ranges_of_text(condition: HasText, block: FieldBlock) -> list[tuple[int, int]]:
    part, first, strings = _bytes_or_none(condition.part), block.first_string, block.strings
    if condition.is_prefix:
        # No byte of UTF-8 is 0xff.
        start, end = bisect_left(strings, part), bisect_left(strings, part + b"\xff")
        return [(first + start, first + end)] if start < end else []
    ranges: list[tuple[int, int]] = []
    for code, text in enumerate(strings, first):
        if len(text) > MAX_STRING_LENGTH < len(text.decode("utf-8", "surrogatepass")):
            raise ValueError("a packed string is cut, and the filter looks into all of it")
        if part in text:
            ranges.append((code, code + 1))
    return ranges


def _parts(
    block: FieldBlock,
) -> Iterable[tuple[int, Sequence[Any], Callable[[Any], Any]]]:
    """Yield the first code of each kind of values, the values, and a function.

    The function converts a value of a condition for comparison, or returns None for another kind.
    """
    # A buffer yields Python's own numbers, which compare exactly.
    yield FIRST_NUMBER, block.whole.data, _number_or_none
    yield FIRST_NUMBER + len(block.whole), block.other.data, _number_or_none
    yield block.first_string, block.strings, _bytes_or_none


def _number_or_none(value: Any) -> Any:
    return None if isinstance(value, str) else value


def _bytes_or_none(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_STRING_LENGTH:
        raise ValueError("a string of the filter is longer than packed strings")
    return _bytes_of(value) if isinstance(value, str) else None


def _between(values: Sequence[Any], bounds: Mapping[str, Any]) -> tuple[int, int]:
    """Return the start and end of the ascending `values` within the bounds."""
    start, end = 0, len(values)
    for name, bound in bounds.items():
        search = bisect_left if name in {"gte", "lt"} else bisect_right
        position = search(values, bound)
        start, end = (position, end) if name in {"gt", "gte"} else (start, position)
    return start, end


def _positions_of(values: Sequence[Any], sought: Iterable[Any]) -> Iterator[int]:
    """Yield the position among the ascending `values` of each `sought` one, None aside."""
    for value in sought:
        position = len(values) if value is None else bisect_left(values, value)
        if position < len(values) and values[position] == value:
            yield position


# Indexes of payload fields: the values of a field, packed in runs of rows, beside the documents.
#
# A run is a fixed range of :data:`RUN_ROWS` rows, and a row always means the same document. So a
# run is packed once, when its last row has been assigned; a change of payloads packs it again.
# ``covered`` is the last row of the last packed run; for later rows the payloads are read. A
# deletion packs nothing: the entries stay, and no index of codes finds the row. Runs of which more
# than half was deleted are packed again by later writes, two for each run that is added, in turn.
#
# The indexes depend on the payloads only. If a version without them writes to a store, ``covered``
# lags behind and every filter stays right; later writes catch up.
#
# For a field with a dot, earlier versions packed only what nested objects hold. The checksums of
# such fields begin from another number now, so none of their runs is taken for a run with all
# values.


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


def indexed_fields(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the indexed fields, sorted, and the last row that the index of each covers."""
    if not has_table(connection, "fields"):
        return {}
    return dict(connection.execute("SELECT field, covered FROM fields ORDER BY field"))


def make_field_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, which must not exist."""
    for statement in FIELDS_SCHEMA:
        connection.execute(statement)


def set_indexed_fields(connection: sqlite3.Connection, fields: Sequence[str]) -> None:
    """Index these fields and no others from now on; :func:`cover` packs present documents."""
    before = indexed_fields(connection)
    if has_table(connection, "fields") != bool(fields):
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
    forget_runs(connection, [*indexed_fields(connection)])
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
    if ids_of(filter_) is not None:
        return True
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
    ids = ids_of(filter_)
    if ids is not None:
        stored = in_chunks(connection, "SELECT row FROM documents WHERE id IN ", ids)
        some = np.array(sorted({row for (row,) in stored}), dtype=np.int64)
        yield filter_rows(connection, filter_, some[(some > after) & (some <= up_to)])
        return
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
            yield rows if indexed is filter_ else filter_rows(connection, filter_, rows)
        after = max(after, covered)
    yield from _matching_payloads(connection, filter_, after, up_to)


Entries = tuple[Rows, npt.NDArray[np.int64], _Keys]
"""The ascending rows of entries, the codes of their values from 0, and the value of each code."""


def values_between(
    connection: sqlite3.Connection, field: str, after: int, up_to: int
) -> Iterator[Entries]:
    """Yield the values of a field in the rows after `after` and up to `up_to`, a run at a time.

    Rows of deleted documents may be among them.
    """
    covered = min(up_to, indexed_fields(connection).get(field, 0))
    for first in range(after // RUN_ROWS * RUN_ROWS + 1, up_to + 1, RUN_ROWS):
        checkpoint()
        start, end = max(after, first - 1), min(first + RUN_ROWS - 1, up_to)
        runs = _read_run(connection, first, [field]) if end <= covered else []
        if end <= covered and not runs:
            continue  # all of its documents were deleted
        try:
            ((_, packed, mark),) = runs
            block = _parse_run(field, packed, mark)
        except ValueError:
            yield _entries_of(*_values_between(connection, field, start, end))
            continue
        entries = _entries_of_block(block, first)
        yield _selected(entries, (entries[0] > start) & (entries[0] <= end))


def values_of_rows(connection: sqlite3.Connection, field: str, rows: Rows) -> Iterator[Entries]:
    """Yield the values of a field in ascending `rows`, a run at a time."""
    covered = indexed_fields(connection).get(field, 0)
    firsts = (rows - 1) // RUN_ROWS * RUN_ROWS + 1
    starts = np.append(np.flatnonzero(np.diff(firsts, prepend=0)), len(rows)).tolist()
    for start, end in pairwise(starts):
        checkpoint()
        some, first = rows[start:end], int(firsts[start])
        if len(some) < ROWS_OF_PAYLOADS:
            query = "SELECT row, payload FROM documents WHERE row IN "
            yield _entries_of(*_read_values(field, in_chunks(connection, query, some.tolist())))
            continue
        last, entries = int(some[-1]), None
        if last <= covered:
            with suppress(ValueError):  # the run is missing or damaged
                entries = _entries_of_block(_read_block(connection, first, field), first)
        if entries is None:
            entries = _entries_of(*_values_between(connection, field, first - 1, last))
        yield _selected(entries, np.isin(entries[0], some))


def _selected(entries: Entries, kept: Mask) -> Entries:
    return entries[0][kept], entries[1][kept], entries[2]


_TRUTH_KEYS: _Keys = [(-1, 0), (-1, 1)]
ROWS_OF_PAYLOADS = 64
"""From so many rows on, reading all values of their run is faster."""
ROWS_OF_A_VALUE = 512
"""The rows whose values are read as one string."""


def _entries_of_block(block: FieldBlock, first: int) -> Entries:
    """Return the values of a run that begins with the row `first`."""
    offsets = np.arange(len(block.codes)) if block.offsets is None else block.offsets
    entries = first + offsets.astype(np.int64), block.codes.astype(np.int64) - FALSE
    return _selected((*entries, [*_TRUTH_KEYS, *block.keys()]), block.codes > NO_SCALAR)


def _values_between(
    connection: sqlite3.Connection, field: str, after: int, up_to: int
) -> tuple[list[int], list[Any]]:
    """Return the rows after `after` and up to `up_to`, and the value of a field in each."""
    rows: list[int] = []
    values: list[Any] = []
    is_plain = field.isprintable() and not {".", '"', "\\"} & {*field}
    for start in range(after, up_to, ROWS_OF_A_VALUE):
        limits = start, min(start + ROWS_OF_A_VALUE, up_to)
        some = _extracted(connection, field, *limits) if is_plain else None
        if some is None:
            query = "SELECT row, payload FROM documents WHERE row > ? AND row <= ?"
            some = _read_values(field, connection.execute(query, limits))
        rows += some[0]
        values += some[1]
    return rows, values


def _extracted(
    connection: sqlite3.Connection, field: str, after: int, up_to: int
) -> tuple[list[int], list[Any]] | None:
    """Return what :func:`_values_between` does, extracted by SQLite, or None if it cannot.

    It parses a payload in half of the time in which Python makes its objects.
    """
    condition = "FROM documents WHERE row > ? AND row <= ?"
    value = "group_concat(coalesce(payload -> ?, 'null'))"
    query = f"SELECT group_concat(row), {value} {condition}"
    try:
        found = connection.execute(query, (f'$."{field}"', after, up_to)).fetchone()
        rows, values = orjson.loads(f"[{found[0] or ''}]"), orjson.loads(f"[{found[1] or ''}]")
    except (sqlite3.OperationalError, orjson.JSONDecodeError):
        # An earlier version of SQLite, or a number beyond the range of a float.
        return None
    # Without escapes, no string is longer than what is between two quotes.
    has_long = len(found[1] or "") > MAX_STRING_LENGTH and (
        "\\" in found[1] or max(map(len, found[1].split('"'))) > MAX_STRING_LENGTH
    )
    return rows, [*map(packable, values)] if has_long else values


def _read_values(field: str, payloads: Iterable[tuple[int, str]]) -> tuple[list[int], list[Any]]:
    """Return the rows of some payloads, ascending, and the value of a field in each."""
    pairs = sorted(payloads)
    values = [packable(read_field(read_payload(payload), field)) for _, payload in pairs]
    return [row for row, _ in pairs], values


def _entries_of(rows: list[int], values: list[Any]) -> Entries:
    """Return the entries of some ascending rows, each with a value of a field."""
    entry_values, entry_rows = _entries(rows, values)
    distinct = [value for value in dict.fromkeys(entry_values) if value not in _FIXED]
    order = _keys_of(distinct)
    code_of = {**_FIXED, **dict(zip(distinct, count(FIRST_NUMBER), strict=False))}
    codes = np.array([*map(code_of.__getitem__, entry_values)], dtype=np.int64)
    kept = codes > NO_SCALAR
    all_rows = np.array(entry_rows, dtype=np.int64)
    return all_rows[kept], codes[kept] - FALSE, [*_TRUTH_KEYS, *order]


def update_values(
    connection: sqlite3.Connection, field: str, rows: Rows, values: Sequence[Any]
) -> None:
    """Pack other values of an indexed field for some ascending `rows`, whose payloads have them.

    Rows that the index does not cover are left out.
    """
    covered = indexed_fields(connection)[field]
    firsts = (rows - 1) // RUN_ROWS * RUN_ROWS + 1
    for first in np.unique(firsts[rows <= covered]).tolist():
        checkpoint()
        start, end = np.searchsorted(rows, [first, first + RUN_ROWS])
        changed = [*map(packable, values[start:end])]
        try:
            block = _read_block(connection, first, field)
            packed = repack_values(block, rows[start:end] - first, changed)
        except ValueError:
            # The run is damaged or was too large to pack, or a value is a list.
            _pack_run(connection, first, [field])
            continue
        record = (packed, _checksum(field, packed), first, field)
        query = "UPDATE field_runs SET packed = ?, checksum = ? WHERE first_row = ? AND field = ?"
        connection.execute(query, record)


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


def _read_block(connection: sqlite3.Connection, first: int, field: str) -> FieldBlock:
    """Return a packed run of a field; raise ValueError if it is missing or damaged."""
    ((_, packed, mark),) = _read_run(connection, first, [field])
    return _parse_run(field, packed, mark)


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


def filter_rows(connection: sqlite3.Connection, filter_: Filter, rows: Rows) -> Rows:
    """Return those of ascending `rows` whose payloads match a filter."""
    if len(rows) > RUN_ROWS // 2 and rows[-1] - rows[0] < RUN_ROWS:
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
        for position, (field, values) in enumerate(zip(fields, columns, strict=True)):
            if values is None:
                continue
            values.append(value := packable(read_field(payload, field)))
            if type(value) is list:
                costs[position] += cost_of_list(value)
                if costs[position] > MAX_COST:
                    columns[position] = None
    return offsets, columns


def _refresh(connection: sqlite3.Connection, fields: Sequence[str]) -> None:
    """Pack the next runs again if more than half of their documents were deleted."""
    for field in fields:
        query = "SELECT refreshed, covered FROM fields WHERE field = ?"
        position, covered = connection.execute(query, (field,)).fetchone()
        for _ in range(REFRESHED_AT_ONCE):
            first = position % covered + 1
            run = "FROM field_runs WHERE first_row = ? AND field = ?"
            packed = connection.execute(f"SELECT documents {run}", (first, field)).fetchone()
            query = "SELECT count(*) FROM documents WHERE row BETWEEN ? AND ?"
            (remaining,) = connection.execute(query, (first, first + RUN_ROWS - 1)).fetchone()
            if packed is not None and not remaining:
                connection.execute(f"DELETE {run}", (first, field))
            elif packed is not None and 2 * remaining < packed[0]:
                _pack_run(connection, first, [field])
            position = first - 1 + RUN_ROWS
        connection.execute("UPDATE fields SET refreshed = ? WHERE field = ?", (position, field))


# When documents of a store expire, by row, so that those that have are found at once.
#
# The table is derived from the payloads (:mod:`hummingbit.corpus.expiry`). A store has it from the
# first document that expires, and other stores pay one look into SQLite's schema for it. A document
# that has expired is in the file until a write removes it, and no read returns it.


EXPIRIES_SCHEMA = (
    "CREATE TABLE expiries (row INTEGER PRIMARY KEY, at REAL NOT NULL)",
    "CREATE INDEX expiries_by_time ON expiries (at)",
)


def make_expiry_tables(connection: sqlite3.Connection) -> None:
    """Create the table and its index, which must not exist."""
    for statement in EXPIRIES_SCHEMA:
        connection.execute(statement)


def has_expiries(connection: sqlite3.Connection) -> bool:
    """Tell whether the store ever had a document that expires."""
    return has_table(connection, "expiries")


def set_expiries(
    connection: sqlite3.Connection, expiries: Iterable[tuple[int, float | None]]
) -> None:
    """Set when documents expire, by row; None means never. The table must exist."""
    for row, at in expiries:
        if at is None:
            connection.execute("DELETE FROM expiries WHERE row = ?", (row,))
        else:
            connection.execute("INSERT OR REPLACE INTO expiries VALUES (?, ?)", (row, at))


def expired_documents(
    connection: sqlite3.Connection, now: float, limit: int = -1
) -> list[tuple[int, int]]:
    """Return the rows of the first documents that have expired, and the lengths of their codes."""
    query = """
        SELECT row, length(code) FROM expiries JOIN documents USING (row)
        WHERE at <= ? ORDER BY at, row LIMIT ?
    """
    return connection.execute(query, (now, limit)).fetchall()


def count_expired(connection: sqlite3.Connection, now: float) -> int:
    """Return how many documents have expired and are still in the file."""
    query = "SELECT count(*) FROM expiries WHERE at <= ?"
    return int(connection.execute(query, (now,)).fetchone()[0])


def next_expiry(connection: sqlite3.Connection, now: float) -> float:
    """Return when the next document expires after `now`; infinity if none does."""
    query = "SELECT min(at) FROM expiries WHERE at > ?"
    (at,) = connection.execute(query, (now,)).fetchone()
    return math.inf if at is None else float(at)


def unexpired(connection: sqlite3.Connection) -> str:
    """Return what to select from to read the documents that have not expired by now."""
    if not has_expiries(connection):
        return "documents"
    rows = f"SELECT row FROM expiries WHERE at <= {time.time()!r}"  # noqa: S608 - a number
    return f"(SELECT * FROM documents WHERE row NOT IN ({rows}))"  # noqa: S608 - fixed parts


def derive_expiries(connection: sqlite3.Connection) -> None:
    """Write the table anew from the payloads, if there is one."""
    if not has_expiries(connection):
        return
    connection.execute("DELETE FROM expiries")
    query = "SELECT row, payload FROM documents WHERE instr(payload, ?) ORDER BY row"
    stored = connection.execute(query, (EXPIRES_AT,)).fetchall()
    set_expiries(connection, ((row, expiry_of(json.loads(payload))) for row, payload in stored))
