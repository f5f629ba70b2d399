"""Parses filters from untrusted JSON, in the forms that :mod:`index.filters` lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from foundation.errors import InputError, abbreviate
from index.filters import (
    BOUNDS,
    And,
    AnyOf,
    Exists,
    Filter,
    InRange,
    Not,
    Or,
    Scalar,
    json_number,
    kind_of,
)

MAX_DEPTH = 8
MAX_PARTS = 128
MAX_VALUES = 1000
MAX_FIELD_LENGTH = 256
MAX_STRING_LENGTH = 4096
MAX_INDEXED_FIELDS = 16
CONDITIONS = ("eq", "in", *BOUNDS, "exists")
FORMS = 'it must be {"field": ..., "eq"|"in"|"gt"|"gte"|"lt"|"lte"|"exists": ...}, and, or, not'


def parse_filter(value: object) -> Filter:
    """Return the filter that a decoded JSON object describes.

    Raises:
        InputError: for the field ``filter``; it says where the error is and what would be right.
    """
    return _Parser().parse(value, "", 1)


def check_indexed_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the fields to index, sorted and without duplicates.

    Raises:
        InputError: for ``indexed_fields``, if there are too many or one cannot be used in a filter.
    """
    distinct = tuple(sorted(set(fields)))
    if len(distinct) > MAX_INDEXED_FIELDS:
        message = f"has {len(distinct)} fields; it must have at most {MAX_INDEXED_FIELDS}"
        raise InputError("indexed_fields", message)
    for field in distinct:
        try:
            _parse_field(field, "")
        except InputError as error:
            raise InputError("indexed_fields", error.reason.strip()) from None
    return distinct


class _Parser:
    """Parses one filter and counts its parts and values."""

    def __init__(self) -> None:
        self._parts = 0
        self._values = 0

    def parse(self, value: object, place: str, depth: int) -> Filter:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InputError("filter", f"has more than {MAX_PARTS} parts; use fewer")
        if depth > MAX_DEPTH:
            raise _wrong(place, f"is nested deeper than {MAX_DEPTH} levels; use fewer")
        if not isinstance(value, Mapping):
            raise _wrong(place, f"is {abbreviate(value)}; {FORMS}")
        if "field" in value:
            return self._condition(value, place)
        if len(value) != 1 or next(iter(value)) not in ("and", "or", "not"):
            raise _wrong(place, f"is {abbreviate(dict(value))}; {FORMS}")
        ((name, inner),) = value.items()
        if name == "not":
            return Not(self.parse(inner, _inside(place, "not"), depth + 1))
        if not isinstance(inner, list) or not inner:
            raise _wrong(
                _inside(place, name), f"is {abbreviate(inner)}; it must be a list of filters"
            )
        parts = tuple(
            self.parse(part, _inside(place, f"{name}[{at}]"), depth + 1)
            for at, part in enumerate(inner)
        )
        return And(parts) if name == "and" else Or(parts)

    def _condition(self, value: Mapping[str, Any], place: str) -> Filter:
        field = _parse_field(value["field"], _inside(place, "field"))
        names = [str(name) for name in value if name != "field"]
        unknown = [name for name in names if name not in CONDITIONS]
        if unknown:
            known = ", ".join(CONDITIONS)
            raise _wrong(place, f"has the key {unknown[0][:60]!r}; the conditions are {known}")
        if names and set(names) <= set(BOUNDS):
            return self._range(field, {name: value[name] for name in names}, place)
        if len(names) != 1:
            present = " and ".join(names) or "none"
            message = f"must have one condition, or the bounds of one range; it has {present}"
            raise _wrong(place, message)
        (name,) = names
        if name == "exists":
            if not isinstance(value[name], bool):
                raise _wrong(
                    _inside(place, "exists"),
                    f"is {abbreviate(value[name])}; it must be true or false",
                )
            return Exists(field, value[name])
        values = [value[name]] if name == "eq" else value[name]
        if not isinstance(values, list) or not values:
            raise _wrong(
                _inside(place, "in"), f"is {abbreviate(values)}; it must be a list with a value"
            )
        self._values += len(values)
        if self._values > MAX_VALUES:
            raise InputError("filter", f"has more than {MAX_VALUES} values; use fewer")
        return AnyOf(field, tuple(_parse_scalar(one, _inside(place, name)) for one in values))

    def _range(self, field: str, bounds: dict[str, Any], place: str) -> InRange:
        if len({"gt", "gte"} & set(bounds)) > 1 or len({"lt", "lte"} & set(bounds)) > 1:
            raise _wrong(place, "has two bounds on one side; use gt or gte, and lt or lte")
        parsed = {name: _parse_scalar(one, _inside(place, name)) for name, one in bounds.items()}
        kinds = {kind_of(one) for one in parsed.values()}
        if len(kinds) > 1 or bool in kinds:
            values = abbreviate(list(bounds.values()))
            raise _wrong(place, f"has the bounds {values}; they must be all numbers or all strings")
        return InRange(field, **parsed)


def _parse_field(value: object, place: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_FIELD_LENGTH:
        raise _wrong(
            place, f"is {abbreviate(value)}; it must be 1 to {MAX_FIELD_LENGTH} characters long"
        )
    if "\0" in value:
        raise _wrong(place, f"is {abbreviate(value)}; it must not contain NUL")
    _check_unicode(value, place)
    return value


def _parse_scalar(value: object, place: str) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        number = json_number(value) if isinstance(value, int) else value
        if not math.isfinite(number):
            raise _wrong(place, f"is {abbreviate(value)}; a number must be below 1.8e308")
        return number
    if not isinstance(value, str):
        raise _wrong(place, f"is {abbreviate(value)}; it must be a string, a number, true or false")
    if len(value) > MAX_STRING_LENGTH or "\0" in value:
        rule = f"at most {MAX_STRING_LENGTH} characters, none of them NUL"
        raise _wrong(place, f"is {abbreviate(value)}; a string must have {rule}")
    _check_unicode(value, place)
    return value


def _check_unicode(value: str, place: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(
            place, f"is {abbreviate(value)}; it must not contain a lone surrogate"
        ) from None


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _wrong(place: str, message: str) -> InputError:
    return InputError("filter", f"{place} {message}" if place else message)
