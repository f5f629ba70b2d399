"""How often the values of payload fields occur, the order of documents by fields, and groups."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.errors import InputError, abbreviate
from hummingbit.index.engines.protocol import Rows, positions_of
from hummingbit.index.filters import BOUNDS, InRange, Scalar, check_field, parse_filter
from hummingbit.index.names import DEFAULT_BUCKETS
from hummingbit.index.passages import CodeColumn
from hummingbit.index.rankings import RankedRows, Ranking
from hummingbit.index.records import EncodedQueries
from hummingbit.index.store.columns import Column, Mask, SortKey

MAX_FACETS = 16
MAX_BUCKETS = 10_000
Counts = npt.NDArray[np.int64]
CALENDAR: Mapping[str, tuple[str, int, int]] = {
    "minute": ("m", 1, 0),
    "hour": ("h", 1, 0),
    "day": ("D", 1, 0),
    # 1970 began on a Thursday, three days after a Monday.
    "week": ("D", 7, 3),
    "month": ("M", 1, 0),
    "quarter": ("M", 3, 0),
    "year": ("Y", 1, 0),
}
"""The unit of numpy, how many of it an interval has, and where the first one begins."""


@dataclass(frozen=True, slots=True)
class Facet:
    """Which values of a field to count: each, or those in intervals or ranges.

    Without an interval or ranges, the `limit` most frequent values are counted. `interval` makes a
    histogram of numbers, `calendar_interval` one of dates and times, in UTC.
    """

    field: str
    limit: int = DEFAULT_BUCKETS
    interval: float | None = None
    calendar_interval: str | None = None
    ranges: tuple[InRange, ...] | None = None

    def __post_init__(self) -> None:
        check_field(self.field, "facets")
        if not 1 <= self.limit <= MAX_BUCKETS:
            message = f"limit is {self.limit}; it must be from 1 to {MAX_BUCKETS:,}"
            raise InputError("facets", message)
        kinds = [self.interval, self.calendar_interval, self.ranges]
        if sum(kind is not None for kind in kinds) > 1:
            message = "have several of interval, calendar_interval and ranges; use one"
            raise InputError("facets", message)
        if self.interval is not None and not 0 < self.interval < math.inf:
            raise InputError("facets", f"interval is {self.interval:g}; it must be above 0")
        if self.calendar_interval is not None and self.calendar_interval not in CALENDAR:
            known = ", ".join(CALENDAR)
            value = f"calendar_interval is {self.calendar_interval[:40]!r}"
            raise InputError("facets", f"{value}; it must be one of {known}")

    @classmethod
    def of(cls, value: Facet | str | Mapping[str, Any]) -> Facet:
        """Return a facet: a field's name, or a mapping with the fields of this class.

        Raises:
            InputError: if it is neither.
        """
        if isinstance(value, Facet):
            return value
        if isinstance(value, str):
            return cls(value)
        if not isinstance(value, Mapping) or "field" not in value:
            raise InputError("facets", f"has {abbreviate(value)}; a facet must have a field")
        given = {name: member for name, member in value.items() if member is not None}
        unknown = given.keys() - set(cls.__dataclass_fields__)
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise InputError("facets", f"has {min(unknown)!r}; a facet can have {known}")
        if "ranges" in given:
            given["ranges"] = _parse_ranges(value["field"], given["ranges"])
        for name, kinds in (("limit", int), ("interval", (int, float)), ("calendar_interval", str)):
            if name in given and (
                isinstance(given[name], bool) or not isinstance(given[name], kinds)
            ):
                raise InputError("facets", f"{name} is {abbreviate(given[name])}")
        return cls(**given)


def facet_to_json(facet: Facet) -> dict[str, Any]:
    """Return a facet as a request has it."""
    fields = {name: getattr(facet, name) for name in Facet.__dataclass_fields__}
    if facet.ranges is not None:
        fields["ranges"] = [range_.bounds for range_ in facet.ranges]
    return {name: value for name, value in fields.items() if value is not None}


def parse_facets(value: object) -> tuple[Facet, ...]:
    """Return the facets of a list, or of a single one.

    Raises:
        InputError: if one is invalid, or there are too many.
    """
    given = _given(value, "facets", Facet)
    if not 1 <= len(given) <= MAX_FACETS:
        raise InputError("facets", f"has {len(given)} facets; it must have 1 to {MAX_FACETS}")
    return tuple(map(Facet.of, given))


def _given(value: object, name: str, kind: type) -> list[Any]:
    """Return the members of a list, or a single one, each of that kind, a string or a mapping."""
    given: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    if not all(isinstance(member, str | Mapping | kind) for member in given):
        members = "facets" if name == "facets" else "fields"
        raise InputError(name, f"is {abbreviate(value)}; it must be a list of {members}")
    return given


def _parse_ranges(field: str, ranges: object) -> tuple[InRange, ...]:
    if not isinstance(ranges, list | tuple) or not 0 < len(ranges) <= MAX_BUCKETS:
        raise InputError("facets", f"ranges is {abbreviate(ranges)}; it must be a list of ranges")
    parsed: list[InRange] = []
    for range_ in ranges:
        pairs = range_.items() if isinstance(range_, Mapping) else ()
        bounds = {name: bound for name, bound in pairs if bound is not None}
        if not bounds or not bounds.keys() <= set(BOUNDS):
            message = f"a range must have some of {', '.join(BOUNDS)}"
            raise InputError("facets", f"ranges has {abbreviate(range_)}; {message}")
        try:
            condition = parse_filter({"field": field, **bounds})
        except InputError as error:
            raise InputError("facets", f"ranges {error.reason}") from None
        assert isinstance(condition, InRange)  # noqa: S101 - it has bounds only
        parsed.append(condition)
    return tuple(parsed)


class FacetResult(NamedTuple):
    """The counts of one facet.

    `buckets` have a `count` of documents each and a `value`, a start `from` and an end `to`, or the
    bounds of a range. Values come by count, then in their order; intervals ascend, without empty
    ones. `documents` have a value in the field, and `missing` have none. `distinct` is the number
    of different values.
    """

    field: str
    buckets: list[dict[str, Any]]
    documents: int
    missing: int
    distinct: int


class Facets(NamedTuple):
    """The counts of all facets over `documents`, as of a generation."""

    facets: list[FacetResult]
    documents: int
    generation: int


def count_facet(facet: Facet, column: Column, selected: Mask) -> FacetResult:
    """Count the values of the `selected` rows, ``bool[last_row + 1]``, exactly."""
    of_cells = column.count_cells(selected)
    counts = column.count_values(of_cells)
    if facet.interval is not None:
        buckets = _histogram(facet.interval, column, of_cells)
    elif facet.calendar_interval is not None:
        buckets = _calendar(facet.calendar_interval, column, of_cells)
    elif facet.ranges is not None:
        buckets = [_range(range_, column, of_cells) for range_ in facet.ranges]
    else:
        buckets = _most_frequent(facet.limit, column, of_cells, counts)
    documents, total = column.count_documents(of_cells), int(of_cells.sum())
    distinct = int(np.count_nonzero(counts))
    return FacetResult(facet.field, buckets, documents, total - documents, distinct)


def _most_frequent(
    limit: int, column: Column, of_cells: Counts, counts: Counts
) -> list[dict[str, Any]]:
    """Return the most frequent values; equal ones are in their order, which is that of codes."""
    codes = np.flatnonzero(counts)
    if len(codes) > limit:
        least = np.partition(counts[codes], len(codes) - limit)[len(codes) - limit]
        above, at = codes[counts[codes] > least], codes[counts[codes] == least]
        codes = np.concatenate([above, at[: limit - len(above)]])
    codes = codes[np.lexsort((codes, -counts[codes]))]
    value_of = column.shown_values(of_cells)
    return [{"value": value_of(code), "count": int(counts[code])} for code in codes.tolist()]


def _histogram(interval: float, column: Column, of_cells: Counts) -> list[dict[str, Any]]:
    def start_of(bucket: float) -> float:
        start = bucket * interval
        return int(start) if start.is_integer() else start

    numbers = np.floor(column.values.as_numbers / interval)
    return _count_intervals(numbers, column, of_cells, start_of)


def _calendar(interval: str, column: Column, of_cells: Counts) -> list[dict[str, Any]]:
    unit, n_units, first = CALENDAR[interval]
    values = column.values
    times = values.instants.astype("datetime64[us]").astype(f"datetime64[{unit}]").astype(np.int64)
    starts = np.full(len(values), np.nan)
    starts[values.first_time : values.first_string] = np.floor((times + first) / n_units)

    def start_of(bucket: float) -> str:
        units = np.array([int(bucket) * n_units - first]).astype(f"datetime64[{unit}]")
        return f"{np.datetime_as_string(units.astype('datetime64[s]'))[0]}Z"

    return _count_intervals(starts, column, of_cells, start_of)


def _count_intervals(
    bucket_of: npt.NDArray[np.float64],
    column: Column,
    of_cells: Counts,
    start_of: Callable[[float], object],
) -> list[dict[str, Any]]:
    """Return the intervals, ascending, and how many documents have a value in each.

    `bucket_of` has the number of the interval of each code, or NaN.
    """
    has_bucket = ~np.isnan(bucket_of)
    buckets, position_of = np.unique(bucket_of[has_bucket], return_inverse=True)
    positions = np.full(len(bucket_of), -1, dtype=np.int64)
    positions[has_bucket] = position_of
    counts = column.count_by(positions, of_cells, len(buckets))
    filled = np.flatnonzero(counts)
    if len(filled) > MAX_BUCKETS:
        message = f"make {len(filled):,} intervals; at most {MAX_BUCKETS:,} are allowed"
        raise InputError("facets", message)
    return [
        {"from": start_of(bucket), "to": start_of(bucket + 1), "count": count}
        for bucket, count in zip(buckets[filled].tolist(), counts[filled].tolist(), strict=True)
    ]


def _range(condition: InRange, column: Column, of_cells: Counts) -> dict[str, Any]:
    inside = np.where(column.values.accepts(condition), 0, -1)
    return {**condition.bounds, "count": int(column.count_by(inside, of_cells, 1)[0])}


# The order of documents by fields.
#
# Values are in the order booleans, numbers, dates and times (by instants), other strings (by code
# point). A document with several values has its least one, or in descending order its greatest.
# Documents without a value come last in either order, and equal ones in the order of insertion.


MAX_SORTED = 8


@dataclass(frozen=True, slots=True)
class SortField:
    """A field to sort by."""

    field: str
    order: Literal["asc", "desc"] = "asc"

    def __post_init__(self) -> None:
        check_field(self.field, "sort")
        if self.order not in {"asc", "desc"}:
            raise InputError("sort", f"order is {abbreviate(self.order)}; it must be asc or desc")

    @property
    def descending(self) -> bool:
        """Whether the greatest value comes first."""
        return self.order == "desc"


def parse_sort(value: object) -> tuple[SortField, ...]:
    """Return the fields to sort by: names, ``name:desc``, or mappings with `field` and `order`.

    Raises:
        InputError: if one is invalid, or there are too many.
    """
    given = _given(value, "sort", SortField)
    if len(given) > MAX_SORTED:
        raise InputError("sort", f"has {len(given)} fields; it must have at most {MAX_SORTED}")
    return tuple(map(_sort_field, given))


def _sort_field(value: Any) -> SortField:
    if isinstance(value, SortField):
        return value
    if isinstance(value, str):
        field, colon, order = value.rpartition(":")
        if colon and order in {"asc", "desc"}:
            return SortField(field, "desc" if order == "desc" else "asc")
        return SortField(value)
    if not isinstance(value, Mapping) or not {"field"} <= value.keys() <= {"field", "order"}:
        raise InputError("sort", f"has {abbreviate(value)}; it must have field, and may have order")
    return SortField(value["field"], value.get("order") or "asc")


_SIGNED = re.compile(r"([+-])\s*(.+)")
_WITH_WORD = re.compile(r"(.+?)\s*[\s:=,]\s*(asc|desc)(?:ending)?", re.IGNORECASE)


def check_is_no_order(field: str) -> None:
    """Raise InputError if a field, which no document has, is written as others write an order."""
    name, order = "", "asc"
    if match := _SIGNED.fullmatch(field):
        name, order = match[2], "desc" if match[1] == "-" else "asc"
    elif match := _WITH_WORD.fullmatch(field):
        name, order = match[1], match[2].lower()
    if name:
        hint = f"to sort by {name!r}, give '{name}:{order}', or its field and the order {order!r}"
        raise InputError("sort", f"has {abbreviate(field)}, a field that no document has; {hint}")


class SortPosition(NamedTuple):
    """The end of a page: the values of its last document and its row."""

    keys: list[SortKey | None]
    row: int
    last_row: int
    """The last row that had been assigned when the first page was made."""

    def to_bytes(self) -> bytes:
        """Return the position as JSON."""
        return json.dumps(self, ensure_ascii=False).encode("utf-8", "surrogatepass")

    @classmethod
    def of_bytes(cls, packed: bytes) -> SortPosition:
        """Read the bytes of :meth:`to_bytes`."""
        keys, row, last_row = json.loads(packed)
        return cls([None if key is None else _key_of(*key) for key in keys], row, last_row)


def _key_of(kind: int, value: Any) -> SortKey:
    return kind, tuple(value) if isinstance(value, list) else value


def sorted_rows(
    sort: Sequence[SortField],
    columns: Sequence[Column],
    selected: Mask,
    limit: int,
    after: SortPosition | None,
) -> Rows:
    """Return the first `limit` of the `selected` rows in the order of `sort`, after a position."""
    rows = np.flatnonzero(selected if after is None else selected[: after.last_row + 1])
    pairs = [*zip(sort, columns, strict=True)]
    keys = [column.positions(rows, descending=field.descending) for field, column in pairs]
    if after is not None:
        later, equal = np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.bool_)
        for (field, column), key, value in zip(pairs, keys, after.keys, strict=True):
            position = column.position_of(value, descending=field.descending)
            later |= equal & (key > position)
            equal &= key == position
        later |= equal & (rows > after.row)
        rows, keys = rows[later], [key[later] for key in keys]
    if len(rows) > limit:
        least = np.partition(keys[0], limit - 1)[limit - 1]
        first = keys[0] <= least
        rows, keys = rows[first], [key[first] for key in keys]
    return np.asarray(rows[np.lexsort((rows, *reversed(keys)))[:limit]])


def position_at(
    sort: Sequence[SortField], columns: Sequence[Column], row: int, last_row: int
) -> SortPosition:
    """Return the position of a document, after which the next page begins."""
    keys: list[SortKey | None] = []
    for field, column in zip(sort, columns, strict=True):
        (position,) = column.positions(np.array([row]), descending=field.descending).tolist()
        keys.append(column.key_at(position, descending=field.descending))
    return SortPosition(keys, row, last_row)


# Groups of hits that share a value of a field.
#
# Groups are in the order of their best hits, and so are the hits of a group. A document with
# several values is in the group of each; one without a value is in none. The ranking is read from
# the best until there are enough groups, and some way farther for the other hits of these groups.
# What is still missing is ranked among their own documents.


HITS_A_GROUP = 4
MIN_RANKED = 40
MAX_RANKED = 2_000


class RankedGroups(NamedTuple):
    """The best groups of a query: the value and the number of hits of each, and all hits."""

    values: list[Scalar]
    sizes: list[int]
    ranked: RankedRows
    """The hits of the first group, best first, then those of the second, and so on."""


def rank_groups(  # noqa: PLR0917 - what is ranked, by what, and how much of it
    ranking: Ranking,
    query: EncodedQueries,
    column: Column,
    code_column: CodeColumn,
    allowed: Rows | None,
    limit: int,
    size: int,
) -> RankedGroups:
    """Return the `limit` best groups of one query, each with its `size` best hits, exactly.

    `allowed` limits the rows of documents, as in :meth:`hummingbit.index.rankings.Ranking.rank`.
    """
    if not len(query):
        nothing = np.empty(0, dtype=np.int64)
        return RankedGroups([], [], RankedRows(nothing, nothing))
    has_large_groups = column.sizes.sum() > MAX_RANKED * np.count_nonzero(column.sizes)
    count = max(MIN_RANKED, HITS_A_GROUP * limit * (size if has_large_groups else 1))
    while True:
        (ranked,) = ranking.rank(query, count, allowed)
        positions = _by_group(ranked, column, code_column, limit, size)
        is_all = len(ranked.rows) < count
        short = [] if is_all else [code for code, some in positions.items() if len(some) < size]
        if is_all or (
            len(positions) == limit and (not short or count >= _worth_ranking(short, column))
        ):
            break
        count *= HITS_A_GROUP
    rows, scores = ranked.rows, ranked.scores
    if short:
        members = column.rows_with(short)
        if allowed is not None:
            members = allowed[positions_of(allowed, members)]
        count = HITS_A_GROUP * size * len(short)
        while True:
            (inner,) = ranking.rank(query, max(1, min(count, len(members))), members)
            found_of = _by_group(inner, column, code_column, len(short), size, set(short))
            if count >= len(members) or all(len(found_of.get(code, ())) == size for code in short):
                break
            count *= HITS_A_GROUP
        rows, scores = np.concatenate([rows, inner.rows]), np.concatenate([scores, inner.scores])
        first = len(ranked.rows)
        positions |= {code: [first + position for position in found_of[code]] for code in short}
    order = [*chain.from_iterable(positions.values())]
    return RankedGroups(
        [
            column.value_at(int(code_column.document_row(rows[found[0]])), code)
            for code, found in positions.items()
        ],
        [*map(len, positions.values())],
        RankedRows(rows[order], scores[order], ranked.scoring),
    )


def _worth_ranking(short: Sequence[int], column: Column) -> int:
    """Return how many hits to rank before what groups lack is ranked among their own documents.

    A small group rarely has further hits near the best, and few documents are soon ranked.
    """
    return MAX_RANKED if column.sizes[[*short]].sum() > MAX_RANKED else 0


def _by_group(  # noqa: PLR0917 - as rank_groups
    ranked: RankedRows,
    column: Column,
    code_column: CodeColumn,
    limit: int,
    size: int,
    only: Iterable[int] = (),
) -> dict[int, list[int]]:
    """Return the positions of the hits of the first `limit` groups, at most `size` for each."""
    positions: dict[int, list[int]] = {}
    entries = column.entries_of(code_column.document_row(ranked.rows))
    for position, code in zip(*entries, strict=True):
        some = positions.get(code)
        if some is not None:
            if len(some) < size and some[-1] != position:
                some.append(position)
        elif len(positions) < limit and (not only or code in only):
            positions[code] = [position]
    return positions
