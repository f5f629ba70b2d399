"""The values of one payload field in a run of documents, packed so that numpy evaluates filters.

Each distinct value has a number, its *code*, and codes ascend as values do::

    0 absent or null    1 a value that no condition matches: an object, an empty list
    2 false    3 true    then integers, then other numbers, then strings by code point

The values of a document are *entries*: its offset in the run and a code, one entry for each element
of a list. So every condition selects a few ranges of codes. Integers within 64 bits are separate
from other numbers, because not every integer is a float; 1 and 1.0 have the same code. A string is
cut just above the length of the longest string in a filter.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from index.filter_parser import MAX_STRING_LENGTH
from index.filters import And, AnyOf, Exists, Filter, InRange, Not, Or, json_number, scalars_of

ABSENT, NO_SCALAR, FALSE, TRUE, FIRST_NUMBER = range(5)
_HEADER = struct.Struct("<6I")
_WIDTHS = (1, 2, 4)
# A boolean equals a number in Python, so an object of its own represents it.
_FALSE, _TRUE, _NOTHING = object(), object(), object()
_TRUTHS = {False: _FALSE, True: _TRUE}
_FIXED: dict[Any, int] = {None: ABSENT, _NOTHING: NO_SCALAR, _FALSE: FALSE, _TRUE: TRUE}
_PLAIN = frozenset({str, int, float, type(None)})
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

    def __getitem__(self, place: Any) -> Any:
        start = self._ends[place - 1] if place else 0
        return self._data[start : self._ends[place]]


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
        return FIRST_NUMBER + len(self.whole) + len(self.other) + len(self.strings)

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
        return [packable(one) if type(one) is str else one for one in value]
    return value


def cost_of_list(value: Sequence[Any]) -> int:
    """Return roughly the bytes of memory that a :func:`packable` list takes while it is packed."""
    return sum(COST + 4 * len(one) if type(one) is str else COST for one in value)


def pack_field(offsets: Sequence[int], values: Sequence[Any]) -> bytes:
    """Pack the :func:`packable` values of a field in some documents; None if it is absent.

    `offsets` are the positions of the documents in their run, ascending and below 65,536. Equal
    arguments give equal bytes.
    """
    entry_values, entry_offsets = values, offsets
    if not _PLAIN.issuperset(map(type, values)):
        entry_values, entry_offsets = _entries(offsets, values)
    distinct = set(entry_values) - _FIXED.keys()
    key_of = {value: _key(value) for value in distinct}
    order = sorted(set(key_of.values()))
    place_of = {key: place for place, key in enumerate(order, FIRST_NUMBER)}
    code_of = _FIXED | {value: place_of[key] for value, key in key_of.items()}
    whole, other, strings = ([value for kind, value in order if kind == one] for one in range(3))
    n_codes = FIRST_NUMBER + len(order)
    width = 1 if n_codes <= 1 << 8 else 2 if n_codes <= 1 << 16 else 4
    if list(entry_offsets) == list(range(len(entry_values))):
        entry_offsets = []
    counts = [*map(len, (entry_values, entry_offsets, whole, other, strings))]
    return b"".join(
        [
            _HEADER.pack(*counts, width),
            np.array(whole, dtype="<i8").tobytes(),
            np.array(other, dtype="<f8").tobytes(),
            np.cumsum([len(one) for one in strings], dtype="<u4").tobytes(),
            np.array([code_of[value] for value in entry_values], dtype=f"<u{width}").tobytes(),
            np.array(entry_offsets, dtype="<u2").tobytes(),
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
        ValueError: if the filter has a longer string than :mod:`index.filter_parser` allows.
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


def _entries(offsets: Sequence[int], values: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the values that conditions can match, and the offset of each."""
    entry_values: list[Any] = []
    entry_offsets: list[int] = []
    for offset, value in zip(offsets, values, strict=True):
        if type(value) in _PLAIN:
            entry_values.append(value)
            entry_offsets.append(offset)
            continue
        scalars = [_TRUTHS[one] if isinstance(one, bool) else one for one in scalars_of(value)]
        entry_values += scalars or [_NOTHING]
        entry_offsets += [offset] * max(1, len(scalars))
    return entry_values, entry_offsets


def _key(value: str | float) -> tuple[int, Any]:
    """Return a sort key of a value; codes are in the order of keys."""
    if isinstance(value, str):
        return 2, _bytes_of(value)
    value = json_number(value) if isinstance(value, int) else value
    return (0, int(value)) if _is_whole(value) else (1, value)


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or (value.is_integer() and -(2.0**63) <= value < 2.0**63)


def _bytes_of(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _ranges(condition: AnyOf | InRange | Exists, block: FieldBlock) -> list[tuple[int, int]]:
    """Return the half-open ranges of codes that match the condition."""
    if isinstance(condition, Exists):
        return [(NO_SCALAR, block.n_codes) if condition.expected else (ABSENT, ABSENT + 1)]
    ranges: list[tuple[int, int]] = []
    if isinstance(condition, InRange):
        for first, values, bound_of in _parts(block):
            bounds = {name: bound_of(one) for name, one in condition.bounds.items()}
            if None not in bounds.values():
                start, end = _between(values, bounds)
                ranges.append((first + start, first + end))
    else:
        truths = {TRUE if one else FALSE for one in condition.values if isinstance(one, bool)}
        ranges = [(code, code + 1) for code in truths]
        for first, values, bound_of in _parts(block):
            bounds_ = (bound_of(one) for one in condition.values if not isinstance(one, bool))
            for place in _places(values, [one for one in bounds_ if one is not None]):
                ranges.append((first + place, first + place + 1))
    return [(start, end) for start, end in ranges if start < end]


def _parts(
    block: FieldBlock,
) -> Iterable[tuple[int, Sequence[Any], Callable[[Any], Any]]]:
    """Yield the first code of each kind of values, the values, and a function.

    The function converts a value of a condition for comparison, or returns None for another kind.
    """
    numbers = FIRST_NUMBER + len(block.whole)
    # A buffer yields Python's own numbers, which compare exactly.
    yield FIRST_NUMBER, block.whole.data, _number_or_none
    yield numbers, block.other.data, _number_or_none
    yield numbers + len(block.other), block.strings, _bytes_or_none


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
        place = search(values, bound)
        start, end = (place, end) if name in {"gt", "gte"} else (start, place)
    return start, end


def _places(values: Sequence[Any], sought: Sequence[Any]) -> Iterator[int]:
    """Yield the position among the ascending `values` of each `sought` value that is there."""
    for value in sought:
        place = bisect_left(values, value)
        if place < len(values) and values[place] == value:
            yield place
