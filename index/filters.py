"""Conditions on payloads, as requests and the command line write them.

::

    {"field": "label", "eq": "sports"}          {"field": "label", "in": ["sports", "health"]}
    {"field": "year", "gte": 1990, "lt": 2000}  {"field": "author.name", "exists": true}
    {"and": [...]}                              {"or": [...]}              {"not": {...}}

A field is a path of names separated by dots, which reach into nested objects. Where the field holds
a list, the condition holds if it does for any element; an object matches nothing, and null counts
as absent. Strings, numbers and truth values never equal one another; 1 and 1.0 are equal. A range
is over numbers or over strings (by code point) and passes over values of the other kind.

:meth:`Filter.matches` is what a filter means; the stores' translations are tested against it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from index.errors import InputError

MAX_DEPTH = 8
MAX_PARTS = 128
MAX_VALUES = 1000
MAX_FIELD_LENGTH = 256
MAX_STRING_LENGTH = 4096
BOUNDS = ("gt", "gte", "lt", "lte")
CONDITIONS = ("eq", "in", *BOUNDS, "exists")
FORMS = 'it must be {"field": ..., "eq"|"in"|"gt"|"gte"|"lt"|"lte"|"exists": ...}, and, or, not'

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field holds one of `values`: of ``eq`` there is one."""

    field: str
    values: tuple[Scalar, ...]

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        wanted = {(_kind(value), value) for value in self.values}
        return any((_kind(value), value) in wanted for value in _scalars(payload, self.field))


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
        """The bounds that are given, by their names."""
        given = {name: getattr(self, name) for name in BOUNDS}
        return {name: bound for name, bound in given.items() if bound is not None}

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        kind = _kind(next(iter(self.bounds.values())))
        values = [one for one in _scalars(payload, self.field) if _kind(one) == kind]
        tests = [(_COMPARE[name], bound) for name, bound in self.bounds.items()]
        return any(all(test(one, bound) for test, bound in tests) for one in values)


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is there and not null; or, where not `wanted`, it is absent or null."""

    field: str
    wanted: bool = True

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return (_reach(payload, self.field) is not None) == self.wanted


@dataclass(frozen=True, slots=True)
class And:
    """Every part holds."""

    parts: tuple[Filter, ...]

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return all(part.matches(payload) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    parts: tuple[Filter, ...]

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return any(part.matches(payload) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold; so also where its field is absent."""

    part: Filter

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether the filter holds for a payload."""
        return not self.part.matches(payload)


Filter = AnyOf | InRange | Exists | And | Or | Not


def parse_filter(value: object) -> Filter:
    """Make a filter of a decoded JSON object as the head of this module shows.

    Raises:
        InputError: for the field ``filter``, saying where in it what is wrong, and what would be
            right.
    """
    return _Parser().parse(value, "filter", 1)


def filter_to_json(filter_: Filter) -> str:
    """Write a filter as JSON that :func:`parse_filter` reads; equal filters give equal text."""
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
        condition = {"exists": filter_.wanted} if isinstance(filter_, Exists) else filter_.bounds
    return {"field": filter_.field, **condition}


class _Parser:
    """Counts the parts and values of one filter while it is read."""

    def __init__(self) -> None:
        self._parts = 0
        self._values = 0

    def parse(self, value: object, place: str, depth: int) -> Filter:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InputError("filter", f"has more than {MAX_PARTS} parts; give fewer")
        if depth > MAX_DEPTH:
            raise _wrong(place, f"lies deeper than {MAX_DEPTH} levels; use fewer")
        if not isinstance(value, Mapping):
            raise _wrong(place, f"is {_show(value)}; {FORMS}")
        if "field" in value:
            return self._condition(value, place)
        if len(value) != 1 or next(iter(value)) not in ("and", "or", "not"):
            raise _wrong(place, f"is {_show(dict(value))}; {FORMS}")
        ((name, inner),) = value.items()
        if name == "not":
            return Not(self.parse(inner, f"{place}.not", depth + 1))
        if not isinstance(inner, list) or not inner:
            raise _wrong(f"{place}.{name}", f"is {_show(inner)}; it must be a list of filters")
        parts = tuple(
            self.parse(part, f"{place}.{name}[{at}]", depth + 1) for at, part in enumerate(inner)
        )
        return And(parts) if name == "and" else Or(parts)

    def _condition(self, value: Mapping[str, Any], place: str) -> Filter:
        field = _parse_field(value["field"], f"{place}.field")
        names = [str(name) for name in value if name != "field"]
        unknown = [name for name in names if name not in CONDITIONS]
        if unknown:
            known = ", ".join(CONDITIONS)
            raise _wrong(place, f"has {unknown[0][:60]!a}; the conditions are {known}")
        if names and set(names) <= set(BOUNDS):
            return self._range(field, {name: value[name] for name in names}, place)
        if len(names) != 1:
            found = " and ".join(names) or "none"
            raise _wrong(place, f"must have one condition, or bounds of a range; has {found}")
        (name,) = names
        if name == "exists":
            if not isinstance(value[name], bool):
                raise _wrong(
                    f"{place}.exists", f"is {_show(value[name])}; it must be true or false"
                )
            return Exists(field, value[name])
        given = [value[name]] if name == "eq" else value[name]
        if not isinstance(given, list) or not given:
            raise _wrong(f"{place}.in", f"is {_show(given)}; it must be a list of values")
        self._values += len(given)
        if self._values > MAX_VALUES:
            raise InputError("filter", f"has more than {MAX_VALUES} values; give fewer")
        return AnyOf(field, tuple(_parse_scalar(one, f"{place}.{name}") for one in given))

    def _range(self, field: str, bounds: dict[str, Any], place: str) -> InRange:
        if len({"gt", "gte"} & set(bounds)) > 1 or len({"lt", "lte"} & set(bounds)) > 1:
            raise _wrong(place, "bounds one side twice; give one of gt and gte, of lt and lte")
        parsed = {name: _parse_scalar(one, f"{place}.{name}") for name, one in bounds.items()}
        kinds = {_kind(one) for one in parsed.values()}
        if len(kinds) > 1 or bool in kinds:
            shown = _show(list(bounds.values()))
            raise _wrong(place, f"has the bounds {shown}; they must be all numbers or all strings")
        return InRange(field, **parsed)


def _parse_field(value: object, place: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_FIELD_LENGTH:
        raise _wrong(
            place, f"is {_show(value)}; it must be 1 to {MAX_FIELD_LENGTH} characters long"
        )
    # What JSON writes with a backslash, so that a name reads the same in a stored payload.
    if not all(value.split(".")) or any(c in '"\\' or c < " " for c in value):
        rule = 'names separated by dots, without ", \\ and control characters'
        raise _wrong(place, f"is {_show(value)}; it must be {rule}")
    _check_unicode(value, place)
    return value


def _parse_scalar(value: object, place: str) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if not (math.isfinite(value) if isinstance(value, float) else -(2**63) <= value < 2**63):
            raise _wrong(place, f"is {_show(value)}; numbers must be finite and fit 64 bits")
        return value
    if not isinstance(value, str):
        raise _wrong(place, f"is {_show(value)}; it must be a string, a number, true or false")
    if len(value) > MAX_STRING_LENGTH or "\0" in value:
        rule = f"at most {MAX_STRING_LENGTH} characters, none of them NUL"
        raise _wrong(place, f"is {_show(value)}; a string must have {rule}")
    _check_unicode(value, place)
    return value


def _check_unicode(value: str, place: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(place, f"is {_show(value)}, which holds a lone surrogate") from None


def _wrong(place: str, message: str) -> InputError:
    within = place.removeprefix("filter").removeprefix(".")
    return InputError("filter", f"{within} {message}" if within else message)


def _show(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _kind(value: Scalar) -> type:
    """Return which of the three kinds of values this is."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


def _reach(payload: Mapping[str, Any], field: str) -> Any:
    """Return what the payload holds in the field, or None."""
    value: Any = payload
    for name in field.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _scalars(payload: Mapping[str, Any], field: str) -> Iterable[Scalar]:
    """Yield the values in the field that a condition can hold for."""
    value = _reach(payload, field)
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, int) and not isinstance(one, bool):
            yield json_number(one)
        elif isinstance(one, str | int | float):
            yield one


def json_number(value: str | int) -> int | float:
    """Return a number as filters compare it: whole numbers beyond 64 bits as the nearest float."""
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
