"""The values of one payload field in a run of documents, packed so that numpy evaluates filters.

Each distinct value has a number, its *code*, and codes ascend as values do::

    0 absent or null    1 nothing that a condition can hold for: an object, an empty list
    2 false    3 true    then whole numbers, then other numbers, then strings by code point

The values of a document are *entries*: its offset in the run and a code, one entry for each element
of a list. So every condition selects a few ranges of codes. Whole numbers within 64 bits are kept
apart from the others, because no float holds all of them; 1 and 1.0 have one code. Of a string no
more is kept than tells it from the longest that a filter may name.
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
# A truth value equals a number in Python, so something else stands for it.
_FALSE, _TRUE, _NOTHING = object(), object(), object()
_TRUTHS = {False: _FALSE, True: _TRUE}
_FIXED: dict[Any, int] = {None: ABSENT, _NOTHING: NO_SCALAR, _FALSE: FALSE, _TRUE: TRUE}
_PLAIN = frozenset({str, int, float, type(None)})
# So many ranges of codes are compared with each code; where there are more, a table is looked up.
MAX_COMPARED = 4
# What an entry takes while it is packed, in bytes, besides a string.
COST = 128

Mask = npt.NDArray[np.bool_]


class Strings(Sequence[bytes]):
    """Strings in UTF-8, whose order is that of their code points, one after another."""

    def __init__(self, ends: npt.NDArray[np.uint32], data: bytes) -> None:
        self._ends = ends.data
        self._data = data

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, place: Any) -> Any:
        start = self._ends[place - 1] if place else 0
        return self._data[start : self._ends[place]]


class FieldBlock(NamedTuple):
    """The entries of a field, ascending by offset, and the values that codes mean."""

    codes: npt.NDArray[Any]
    offsets: npt.NDArray[np.uint16] | None
    """None where there is one entry for each offset from 0."""
    whole: npt.NDArray[np.int64]
    other: npt.NDArray[np.float64]
    strings: Strings

    @property
    def n_codes(self) -> int:
        """The number of codes, those of absent values included."""
        return FIRST_NUMBER + len(self.whole) + len(self.other) + len(self.strings)

    def entries(self) -> Iterator[tuple[int, Any]]:
        """Yield the offset of each entry and what stands for its value."""
        values = [*range(FIRST_NUMBER)]
        named = [*map(repr, [*self.whole.tolist(), *self.other.tolist(), *self.strings])]
        places = range(len(self.codes)) if self.offsets is None else self.offsets.tolist()
        for place, code in zip(places, self.codes.tolist(), strict=True):
            yield place, values[code] if code < FIRST_NUMBER else named[code - FIRST_NUMBER]

    def spread(self, chosen: Mask, size: int) -> Mask:
        """Return at which offsets of a run of `size` one of the `chosen` entries is."""
        if self.offsets is None and len(chosen) == size:
            return chosen
        spread = np.zeros(size, dtype=np.bool_)
        if self.offsets is None:
            spread[: len(chosen)] = chosen
        else:
            spread[self.offsets[chosen]] = True
        return spread


def packable(value: Any) -> Any:
    """Return what is packed of a value: long strings without what no condition looks at.

    A run of long texts would else be larger than a value in SQLite may be.
    """
    if type(value) is str:
        return value[: MAX_STRING_LENGTH + 1]
    if type(value) is list:
        return [packable(one) if type(one) is str else one for one in value]
    return value


def cost_of_list(value: Sequence[Any]) -> int:
    """Return about how many bytes of memory a :func:`packable` list takes while it is packed."""
    return sum(COST + 4 * len(one) if type(one) is str else COST for one in value)


def pack_field(offsets: Sequence[int], values: Sequence[Any]) -> bytes:
    """Pack what the field holds in each document: what is :func:`packable`, None if it is absent.

    `offsets` are the documents' places in their run, ascending and below 65,536. Equal arguments
    give equal bytes.
    """
    held, places = values, offsets
    if not _PLAIN.issuperset(map(type, values)):
        held, places = _entries(offsets, values)
    distinct = set(held) - _FIXED.keys()
    key_of = {value: _key(value) for value in distinct}
    order = sorted(set(key_of.values()))
    place_of = {key: place for place, key in enumerate(order, FIRST_NUMBER)}
    code_of = _FIXED | {value: place_of[key] for value, key in key_of.items()}
    whole, other, strings = ([value for kind, value in order if kind == one] for one in range(3))
    n_codes = FIRST_NUMBER + len(order)
    width = 1 if n_codes <= 1 << 8 else 2 if n_codes <= 1 << 16 else 4
    if list(places) == list(range(len(held))):
        places = []
    return b"".join(
        [
            _HEADER.pack(len(held), len(places), len(whole), len(other), len(strings), width),
            np.array(whole, dtype="<i8").tobytes(),
            np.array(other, dtype="<f8").tobytes(),
            np.cumsum([len(one) for one in strings], dtype="<u4").tobytes(),
            np.array([code_of[value] for value in held], dtype=f"<u{width}").tobytes(),
            np.array(places, dtype="<u2").tobytes(),
            *strings,
        ]
    )


def unpack_field(packed: bytes) -> FieldBlock:
    """Read what :func:`pack_field` made.

    Raises:
        ValueError: if it is nothing that :func:`pack_field` makes.
    """
    if len(packed) < _HEADER.size:
        raise ValueError("it is too short")
    n_entries, n_places, n_whole, n_other, n_strings, width = _HEADER.unpack_from(packed)
    if width not in _WIDTHS:
        raise ValueError(f"its codes are {width} bytes wide")
    place = _HEADER.size

    def read(dtype: str, count: int) -> npt.NDArray[Any]:
        nonlocal place
        found = np.frombuffer(packed, dtype=dtype, count=count, offset=place)
        place += found.nbytes
        return found.astype(found.dtype.newbyteorder("="), copy=False)

    whole, other = read("<i8", n_whole), read("<f8", n_other)
    ends, codes = read("<u4", n_strings), read(f"<u{width}", n_entries)
    offsets = read("<u2", n_places) if n_places else None
    return FieldBlock(codes, offsets, whole, other, Strings(ends, packed[place:]))


def matching_offsets(filter_: Filter, blocks: Mapping[str, FieldBlock], size: int) -> Mask:
    """Return for which offsets of a run of `size` the filter holds, ``bool[size]``.

    `blocks` has every field that the filter names, at least one.

    Raises:
        ValueError: if the filter names a longer string than :mod:`index.filter_parser` takes.
    """
    if isinstance(filter_, Not):
        some = next(iter(blocks.values()))
        there = some.spread(np.ones(len(some.codes), dtype=np.bool_), size)
        return there & ~matching_offsets(filter_.part, blocks, size)
    if isinstance(filter_, And | Or):
        join = np.logical_and if isinstance(filter_, And) else np.logical_or
        return np.asarray(
            join.reduce([matching_offsets(part, blocks, size) for part in filter_.parts])
        )
    block = blocks[filter_.field]
    return block.spread(_chosen(_ranges(filter_, block), block), size)


def _chosen(ranges: Sequence[tuple[int, int]], block: FieldBlock) -> Mask:
    """Return which entries have a code within one of the ranges, ``bool[n]``."""
    codes = block.codes
    if len(ranges) > MAX_COMPARED:
        table = np.zeros(block.n_codes, dtype=np.bool_)
        for start, end in ranges:
            table[start:end] = True
        return np.asarray(table[codes])
    chosen = np.zeros(len(codes), dtype=np.bool_)
    for start, end in ranges:
        chosen |= codes == start if end - start == 1 else (codes >= start) & (codes < end)
    return chosen


def _entries(offsets: Sequence[int], values: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the values that conditions can hold for, and the offset of each."""
    held: list[Any] = []
    places: list[int] = []
    for offset, value in zip(offsets, values, strict=True):
        if type(value) in _PLAIN:
            held.append(value)
            places.append(offset)
            continue
        scalars = [_TRUTHS[one] if isinstance(one, bool) else one for one in scalars_of(value)]
        held += scalars or [_NOTHING]
        places += [offset] * max(1, len(scalars))
    return held, places


def _key(value: str | float) -> tuple[int, Any]:
    """Return what stands for a value: the order of keys is that of codes."""
    if isinstance(value, str):
        return 2, _bytes_of(value)
    value = json_number(value) if isinstance(value, int) else value
    return (0, int(value)) if _is_whole(value) else (1, value)


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or (value.is_integer() and -(2.0**63) <= value < 2.0**63)


def _bytes_of(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _ranges(condition: AnyOf | InRange | Exists, block: FieldBlock) -> list[tuple[int, int]]:
    """Return the ranges of codes, each up to a code that is not in it, that the condition takes."""
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
            wanted = (bound_of(one) for one in condition.values if not isinstance(one, bool))
            for place in _places(values, [one for one in wanted if one is not None]):
                ranges.append((first + place, first + place + 1))
    return [(start, end) for start, end in ranges if start < end]


def _parts(
    block: FieldBlock,
) -> Iterable[tuple[int, Sequence[Any], Callable[[Any], Any]]]:
    """Yield the first code of each kind of values, these, and what compares with them."""
    numbers = FIRST_NUMBER + len(block.whole)
    # What a buffer gives are Python's own numbers, which compare exactly.
    yield FIRST_NUMBER, block.whole.data, _number_or_none
    yield numbers, block.other.data, _number_or_none
    yield numbers + len(block.other), block.strings, _bytes_or_none


def _number_or_none(value: Any) -> Any:
    return None if isinstance(value, str) else value


def _bytes_or_none(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_STRING_LENGTH:
        raise ValueError("a string is longer than what is packed of one")
    return _bytes_of(value) if isinstance(value, str) else None


def _between(values: Sequence[Any], bounds: Mapping[str, Any]) -> tuple[int, int]:
    """Return where the ascending `values` within the bounds begin and end."""
    start, end = 0, len(values)
    for name, bound in bounds.items():
        search = bisect_left if name in {"gte", "lt"} else bisect_right
        place = search(values, bound)
        start, end = (place, end) if name in {"gt", "gte"} else (start, place)
    return start, end


def _places(values: Sequence[Any], wanted: Sequence[Any]) -> Iterator[int]:
    """Yield the place of each of the ascending `values` that is `wanted`."""
    for one in wanted:
        place = bisect_left(values, one)
        if place < len(values) and values[place] == one:
            yield place
