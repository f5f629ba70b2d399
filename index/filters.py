"""Conditions on payloads, as they appear in requests and on the command line.

::

    {"field": "label", "eq": "sports"}          {"field": "label", "in": ["sports", "health"]}
    {"field": "year", "gte": 1990, "lt": 2000}  {"field": "author.name", "exists": true}
    {"and": [...]}                              {"or": [...]}              {"not": {...}}

``author.name`` is the key ``author.name`` and the key ``name`` of the object, or of each object in
the list, that ``author`` holds; if a payload has several of these, the condition matches if any
does. If the field holds a list, the condition matches if any element does; an object matches
nothing, and null counts as absent. Strings, numbers and booleans are never equal to one another; 1
and 1.0 are equal. A range is over numbers or over strings (by code point) and ignores values of the
other kind.

:meth:`Filter.matches` defines what a filter means; the translations of the stores are tested
against it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

BOUNDS = ("gt", "gte", "lt", "lte")
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field holds one of `values`; ``eq`` has one value."""

    field: str
    values: tuple[Scalar, ...]

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        accepted = {(kind_of(value), value) for value in self.values}
        return any((kind_of(value), value) in accepted for value in _scalars(payload, self.field))


@dataclass(frozen=True, slots=True)
class InRange:
    """The field holds a value within the bounds that are not None, all numbers or all strings."""

    field: str
    gt: str | float | None = None
    gte: str | float | None = None
    lt: str | float | None = None
    lte: str | float | None = None

    @property
    def bounds(self) -> dict[str, str | float]:
        """The bounds that are not None, by name."""
        bounds = {name: getattr(self, name) for name in BOUNDS}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        kind = kind_of(next(iter(self.bounds.values())))
        values = [one for one in _scalars(payload, self.field) if kind_of(one) == kind]
        tests = [(_COMPARE[name], bound) for name, bound in self.bounds.items()]
        return any(all(test(one, bound) for test, bound in tests) for one in values)


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is present and not null; or, unless `expected`, it is absent or null."""

    field: str
    expected: bool = True

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return (read_field(payload, self.field) is not None) == self.expected


@dataclass(frozen=True, slots=True)
class And:
    """Every part matches."""

    parts: tuple[Filter, ...]

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return all(part.matches(payload) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches."""

    parts: tuple[Filter, ...]

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return any(part.matches(payload) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match, for example because its field is absent."""

    part: Filter

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return not self.part.matches(payload)


Filter = AnyOf | InRange | Exists | And | Or | Not


def filter_to_json(filter_: Filter) -> str:
    """Return a filter as JSON that :func:`parse_filter` reads; equal filters give equal text."""
    return json.dumps(_to_object(filter_), ensure_ascii=False, sort_keys=True)


def _to_object(filter_: Filter) -> dict[str, Any]:
    if isinstance(filter_, Not):
        return {"not": _to_object(filter_.part)}
    if isinstance(filter_, And | Or):
        name = "and" if isinstance(filter_, And) else "or"
        return {name: [_to_object(part) for part in filter_.parts]}
    condition: Mapping[str, Any]
    if isinstance(filter_, AnyOf):
        single = len(filter_.values) == 1
        condition = {"eq": filter_.values[0]} if single else {"in": list(filter_.values)}
    else:
        condition = {"exists": filter_.expected} if isinstance(filter_, Exists) else filter_.bounds
    return {"field": filter_.field, **condition}


def fields_of(filter_: Filter) -> frozenset[str]:
    """Return the fields that a filter uses."""
    if isinstance(filter_, Not):
        return fields_of(filter_.part)
    if isinstance(filter_, And | Or):
        return frozenset().union(*map(fields_of, filter_.parts))
    return frozenset({filter_.field})


def implied_filter(filter_: Filter, fields: Collection[str]) -> Filter | None:
    """Return a filter over `fields` only that matches whatever `filter_` matches, or None.

    If `filter_` uses no other field, it is returned itself, not a copy.
    """
    if fields_of(filter_) <= set(fields):
        return filter_
    if not isinstance(filter_, And | Or):
        return None
    parts = [implied_filter(part, fields) for part in filter_.parts]
    known = tuple(part for part in parts if part is not None)
    if isinstance(filter_, Or):
        return Or(known) if len(known) == len(parts) else None
    return And(known) if known else None


def kind_of(value: Scalar) -> type:
    """Return the kind of a value: bool, str, or float for every number."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


def read_payload(stored: str) -> Any:
    """Parse a payload for filters: an integer beyond 64 bits may become a float."""
    try:
        return orjson.loads(stored)
    except orjson.JSONDecodeError:
        # Python also reads numbers beyond the range of a float.
        return json.loads(stored)


def read_field(payload: Mapping[str, Any], field: str) -> Any:
    """Return the value of a payload's field, or None.

    If several places of the payload have the field, it is one list of all their values; the
    elements of lists among these are its elements.
    """
    if "." not in field:
        return payload.get(field)
    values = [one for one in _values_at(payload, field.split(".")) if one is not None]
    if len(values) < 2:
        return values[0] if values else None
    return [*chain.from_iterable(map(_elements, values))]


def _values_at(value: Any, names: Sequence[str]) -> Iterator[Any]:
    """Yield what `names` reach from a value, however dots divide them into keys."""
    if not names:
        yield value
    elif isinstance(value, Mapping):
        for end in range(1, len(names) + 1):
            key = ".".join(names[:end])
            if key in value:
                yield from _values_at(value[key], names[end:])
    elif isinstance(value, list | tuple):
        for one in value:
            if isinstance(one, Mapping):
                yield from _values_at(one, names)


def _scalars(payload: Mapping[str, Any], field: str) -> Iterable[Scalar]:
    """Yield the values in the field that a condition can match."""
    return scalars_of(read_field(payload, field))


def scalars_of(value: Any) -> Iterable[Scalar]:
    """Yield the values that a condition can match if a field holds `value`."""
    for one in _elements(value):
        if isinstance(one, int) and not isinstance(one, bool):
            yield json_number(one)
        elif isinstance(one, str | int | float):
            yield one


def _elements(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def json_number(value: str | int) -> int | float:
    """Return a number as filters compare it: integers beyond 64 bits as the nearest float."""
    number: int | float = json.loads(value) if isinstance(value, str) else value
    if isinstance(number, float) or -(2**63) <= number < 2**63:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
