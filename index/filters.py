"""Conditions on payloads, as they appear in requests and on the command line."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any

import orjson

from hummingbit.foundation.errors import InputError, abbreviate

# Conditions on payloads, as they appear in requests and on the command line.
#
# ::
#
#     {"field": "label", "eq": "sports"}          {"field": "label", "in": ["sports", "health"]}
#     {"field": "year", "gte": 1990, "lt": 2000}  {"field": "author.name", "exists": true}
#     {"field": "sku", "prefix": "HB-"}           {"field": "title", "contains": "moon"}
#     {"field": "due", "is_null": true}           {"field": "due", "is_missing": true}
#     {"field": "tenant", "is_single": true}
#     {"field": "sent", "gte": "2024-05-01T00:00:00+02:00"}    {"has_id": ["a", "b"]}
#     {"and": [...]}                              {"or": [...]}              {"not": {...}}
#
# ``author.name`` is the key ``author.name`` and the key ``name`` of the object, or of each object
# in the list, that ``author`` holds; if a payload has several of these, the condition matches if
# any does. If the field holds a list, the condition matches if any element does; an object matches
# nothing, and null counts as absent. Strings, numbers and booleans are never equal to one another;
# 1 and 1.0 are equal. A range is over numbers or over strings (by code point) and ignores values of
# the other kind. If all bounds are dates or times of ISO 8601 (:func:`instant_of`), it is over
# instants, and strings that are none are ignored. ``prefix`` and ``contains`` tell upper from lower
# case. ``is_null`` asks for a null where the field is, and ``is_missing`` whether there is no value
# at all, not even null. ``is_single`` asks whether the field has at most one place in the payload,
# with no list on the way, and holds no list and no object there. ``has_id`` names documents. Names
# follow Qdrant where it has the condition.
#
# :meth:`Filter.matches` defines what a filter means; the translations of the stores are tested
# against it.


BOUNDS = ("gt", "gte", "lt", "lte")
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """The field holds one of `values`; ``eq`` has one value."""

    field: str
    values: tuple[Scalar, ...]

    def __eq__(self, other: object) -> bool:
        # To Python, True equals 1.
        return isinstance(other, AnyOf) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash((self.field, self.values))

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        accepted = set(map(_identity, self.values))
        return any(_identity(value) in accepted for value in _scalars(payload, self.field))


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

    @property
    def is_of_instants(self) -> bool:
        """Whether all bounds are dates or times, so that instants are compared."""
        return all(instant_of(bound) is not None for bound in self.bounds.values())

    @property
    def instants(self) -> dict[str, int]:
        """The bounds of a range of instants, in microseconds."""
        return {name: instant_of(bound) or 0 for name, bound in self.bounds.items()}

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        if self.is_of_instants:
            bounds = self.instants
            times = [instant_of(scalar) for scalar in _scalars(payload, self.field)]
            return any(
                time is not None
                and all(COMPARE[name](time, bound) for name, bound in bounds.items())
                for time in times
            )
        kind = kind_of(next(iter(self.bounds.values())))
        values = [scalar for scalar in _scalars(payload, self.field) if kind_of(scalar) == kind]
        tests = [(COMPARE[name], bound) for name, bound in self.bounds.items()]
        return any(all(test(value, bound) for test, bound in tests) for value in values)


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is present and not null; or, unless `expected`, it is absent or null."""

    field: str
    expected: bool = True

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        return (read_field(payload, self.field) is not None) == self.expected


@dataclass(frozen=True, slots=True)
class HasText:
    """The field holds a string with a part, at its beginning if `is_prefix`."""

    field: str
    part: str
    is_prefix: bool = False

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        strings = (scalar for scalar in _scalars(payload, self.field) if isinstance(scalar, str))
        return any(map(self.accepts, strings))

    def accepts(self, string: str) -> bool:
        """Tell whether a string has the part."""
        return string.startswith(self.part) if self.is_prefix else self.part in string


@dataclass(frozen=True, slots=True)
class IsNull:
    """The field is present and null somewhere; or, unless `expected`, it is not."""

    field: str
    expected: bool = True

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        return any(value is None for value in held_values(payload, self.field)) == self.expected


@dataclass(frozen=True, slots=True)
class IsMissing:
    """The payload has no such field, not even null; or, unless `expected`, it has one."""

    field: str
    expected: bool = True

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        return (not held_values(payload, self.field)) == self.expected


@dataclass(frozen=True, slots=True)
class IsSingle:
    """The field is nowhere, or in one place that holds no list and no object; or the opposite."""

    field: str
    expected: bool = True

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for a payload."""
        return is_single(payload, self.field) == self.expected


@dataclass(frozen=True, slots=True)
class HasId:
    """The document has one of the ids."""

    ids: tuple[str, ...]

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:  # noqa: ARG002
        """Tell whether the filter holds for the document `id_`."""
        return id_ in self.ids


@dataclass(frozen=True, slots=True)
class And:
    """Every part matches."""

    parts: tuple[Filter, ...]

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:
        """Tell whether the filter holds for a payload, and for the document `id_`."""
        return all(part.matches(payload, id_) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches."""

    parts: tuple[Filter, ...]

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:
        """Tell whether the filter holds for a payload, and for the document `id_`."""
        return any(part.matches(payload, id_) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match, for example because its field is absent."""

    part: Filter

    def matches(self, payload: Mapping[str, Any], id_: str | None = None) -> bool:
        """Tell whether the filter holds for a payload, and for the document `id_`."""
        return not self.part.matches(payload, id_)


FieldCondition = AnyOf | InRange | Exists | HasText | IsNull | IsMissing | IsSingle
"""A condition on a field of the payload."""
Filter = FieldCondition | HasId | And | Or | Not


def filter_to_json(filter_: Filter) -> str:
    """Return a filter as JSON that :func:`parse_filter` reads; equal filters give equal text."""
    return json.dumps(_to_object(filter_), ensure_ascii=False, sort_keys=True)


def _to_object(filter_: Filter) -> dict[str, Any]:
    if isinstance(filter_, Not):
        return {"not": _to_object(filter_.part)}
    if isinstance(filter_, And | Or):
        name = "and" if isinstance(filter_, And) else "or"
        return {name: [_to_object(part) for part in filter_.parts]}
    if isinstance(filter_, HasId):
        return {"has_id": list(filter_.ids)}
    condition: Mapping[str, Any]
    if isinstance(filter_, AnyOf):
        single = len(filter_.values) == 1
        condition = {"eq": filter_.values[0]} if single else {"in": list(filter_.values)}
    elif isinstance(filter_, HasText):
        condition = {"prefix" if filter_.is_prefix else "contains": filter_.part}
    elif isinstance(filter_, InRange):
        condition = filter_.bounds
    else:
        condition = {PRESENCE_NAMES[type(filter_)]: filter_.expected}
    return {"field": filter_.field, **condition}


def leaves_of(filter_: Filter) -> Iterator[FieldCondition | HasId]:
    """Yield the conditions that a filter combines."""
    if isinstance(filter_, And | Or):
        yield from chain.from_iterable(map(leaves_of, filter_.parts))
    elif isinstance(filter_, Not):
        yield from leaves_of(filter_.part)
    else:
        yield filter_


def fields_of(filter_: Filter) -> frozenset[str]:
    """Return the fields that a filter uses."""
    return frozenset(leaf.field for leaf in leaves_of(filter_) if not isinstance(leaf, HasId))


def with_ids_of(filter_: Filter, known: Collection[str]) -> Filter:
    """Return a filter that names only those of its ids that are `known`."""
    if isinstance(filter_, And | Or):
        return replace(filter_, parts=tuple(with_ids_of(part, known) for part in filter_.parts))
    if isinstance(filter_, Not):
        return Not(with_ids_of(filter_.part, known))
    if isinstance(filter_, HasId):
        return HasId(tuple(id_ for id_ in filter_.ids if id_ in known))
    return filter_


def ids_of(filter_: Filter) -> tuple[str, ...] | None:
    """Return ids among which are those of all documents that match, or None for any ids."""
    if isinstance(filter_, HasId):
        return filter_.ids
    if isinstance(filter_, And):
        return next((ids for ids in map(ids_of, filter_.parts) if ids is not None), None)
    return None


def _identity(value: Scalar) -> tuple[type, Scalar]:
    """Return what two values have in common exactly if they are equal: times by their instants."""
    instant = instant_of(value)
    return (kind_of(value), value) if instant is None else (datetime, instant)


def is_single(payload: Mapping[str, Any], field: str) -> bool:
    """Tell whether a field is nowhere, or in one place that holds no list and no object."""
    held = held_values(payload, field, lists=True)
    return not held or (len(held) == 1 and not isinstance(held[0], Mapping | list | tuple))


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
    values = [scalar for scalar in _values_at(payload, field.split(".")) if scalar is not None]
    if len(values) < 2:
        return values[0] if values else None
    return [*chain.from_iterable(map(_elements, values))]


def held_values(payload: Mapping[str, Any], field: str, *, lists: bool = False) -> list[Any]:
    """Return what every place of the field in a payload holds, null included.

    If `lists`, a list that has the field in its objects is one place, which holds the list.
    """
    if "." not in field:
        return [payload[field]] if field in payload else []
    return [*_values_at(payload, field.split("."), lists=lists)]


def _values_at(value: Any, names: Sequence[str], *, lists: bool = False) -> Iterator[Any]:
    """Yield what `names` reach from a value, however dots divide them into keys."""
    if not names:
        yield value
    elif isinstance(value, Mapping):
        for end in range(1, len(names) + 1):
            key = ".".join(names[:end])
            if key in value:
                yield from _values_at(value[key], names[end:], lists=lists)
    elif isinstance(value, list | tuple):
        objects = (element for element in value if isinstance(element, Mapping))
        values = chain.from_iterable(_values_at(element, names) for element in objects)
        if not lists:
            yield from values
        elif next(values, _NOWHERE) is not _NOWHERE:
            yield value


_NOWHERE = object()


def _scalars(payload: Mapping[str, Any], field: str) -> Iterable[Scalar]:
    """Yield the values in the field that a condition can match."""
    return scalars_of(read_field(payload, field))


def scalars_of(value: Any) -> Iterable[Scalar]:
    """Yield the values that a condition can match if a field holds `value`."""
    for element in _elements(value):
        if isinstance(element, int) and not isinstance(element, bool):
            yield json_number(element)
        elif isinstance(element, str | int | float):
            yield element


# Basic formats such as 20240501 are left out: they are more often numbers of something else.
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=1 << 16)
def _instant_of_text(text: str) -> int | None:
    if not _INSTANT.fullmatch(text):
        return None
    try:
        time = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // _MICROSECOND


def instant_of(value: object) -> int | None:
    """Return the microseconds since 1970 of a date or time of ISO 8601; None of anything else.

    It is written ``2024-05-01``, or with a time ``2024-05-01T10:30:00.5+02:00``, of which seconds,
    their fraction and the zone may be missing. A date stands for its first instant, and what has
    no zone is in UTC. Digits beyond microseconds are cut.
    """
    if not isinstance(value, str) or not 10 <= len(value) <= 35 or value[4::3][:2] != "--":
        return None
    return _instant_of_text(value)


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


PRESENCE: dict[str, type[Exists | IsNull | IsMissing | IsSingle]] = {
    "exists": Exists,
    "is_null": IsNull,
    "is_missing": IsMissing,
    "is_single": IsSingle,
}
"""The conditions on whether, and how often, a field is there, by their names in requests."""
PRESENCE_NAMES: dict[type, str] = {kind: name for name, kind in PRESENCE.items()}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


# Parses filters from untrusted JSON, in the forms that :mod:`hummingbit.index.filters` lists.


MAX_DEPTH = 8
MAX_PARTS = 128
MAX_VALUES = 1000
MAX_FIELD_LENGTH = 256
MAX_STRING_LENGTH = 4096
MAX_INDEXED_FIELDS = 16
_SCALAR = {"type": ["string", "number", "boolean"]}
_CONDITION_SCHEMAS: dict[str, Any] = {
    "eq": _SCALAR,
    "in": {"type": "array", "items": _SCALAR, "minItems": 1},
    **{bound: {"type": ["string", "number"]} for bound in BOUNDS},
    **{name: {"type": "string"} for name in ("prefix", "contains")},
    **{name: {"type": "boolean"} for name in PRESENCE},
}
CONDITIONS = tuple(_CONDITION_SCHEMAS)
_NAMED = "|".join(f'"{name}"' for name in CONDITIONS)
FORMS = f'it must be {{"field": ..., {_NAMED}: ...}}, has_id, and, or, not'


def filter_schemas(reference: str) -> dict[str, Any]:
    """Return JSON schemas of filters by name; ``Filter`` is that of a whole filter.

    Whatever :func:`parse_filter` takes is valid. Limits and the rules between conditions, such as
    that only bounds stand beside one another, are not in the schemas.

    Args:
        reference: how one schema refers to another, with ``{model}`` for its name.
    """
    names = ("Condition", "AndFilter", "OrFilter", "NotFilter", "IdFilter")
    whole = {"$ref": reference.format(model="Filter")}
    several = {"type": "array", "items": whole, "minItems": 1}
    operators = {
        "AndFilter": ("and", several),
        "OrFilter": ("or", several),
        "NotFilter": ("not", whole),
        "IdFilter": ("has_id", {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    }
    return {
        "Filter": {
            "title": "Filter",
            "description": "Which documents a search may find, by their payloads.",
            "anyOf": [{"$ref": reference.format(model=name)} for name in names],
        },
        "Condition": {
            "title": "Condition",
            "description": "A condition on a payload field, or the bounds of a range.",
            "type": "object",
            "properties": {
                "field": {"type": "string", "minLength": 1, "maxLength": MAX_FIELD_LENGTH},
                **_CONDITION_SCHEMAS,
            },
            "required": ["field"],
            "minProperties": 2,
            "additionalProperties": False,
        },
        **{
            name: {
                "title": name,
                "type": "object",
                "properties": {operator_: inner},
                "required": [operator_],
                "additionalProperties": False,
            }
            for name, (operator_, inner) in operators.items()
        },
    }


def as_filter(value: Filter | Mapping[str, Any]) -> Filter:
    """Return a filter, or what :func:`parse_filter` makes of its JSON."""
    return value if isinstance(value, Filter) else parse_filter(value)


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


def check_field(field: object, name: str) -> None:
    """Raise InputError for `name` unless a filter could use the field."""
    try:
        _parse_field(field, "field")
    except InputError as error:
        raise InputError(name, error.reason) from None


class _Parser:
    """Parses one filter and counts its parts and values."""

    def __init__(self) -> None:
        self._parts = 0
        self._values = 0

    def parse(self, value: object, location: str, depth: int) -> Filter:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InputError("filter", f"has more than {MAX_PARTS} parts; use fewer")
        if depth > MAX_DEPTH:
            raise _wrong(location, f"is nested deeper than {MAX_DEPTH} levels; use fewer")
        if not isinstance(value, Mapping):
            raise _unfit(value, location, FORMS)
        if "field" in value:
            return self._condition(value, location)
        if len(value) != 1 or next(iter(value)) not in ("and", "or", "not", "has_id"):
            raise _unfit(dict(value), location, FORMS)
        ((name, inner),) = value.items()
        if name == "has_id":
            return self._has_id(inner, _inside(location, name))
        if name == "not":
            return Not(self.parse(inner, _inside(location, "not"), depth + 1))
        if not isinstance(inner, list) or not inner:
            raise _unfit(
                inner, _inside(location, name), "it must be a list of filters, at least one"
            )
        parts = tuple(
            self.parse(part, _inside(location, f"{name}[{at}]"), depth + 1)
            for at, part in enumerate(inner)
        )
        return And(parts) if name == "and" else Or(parts)

    def _condition(self, value: Mapping[str, Any], location: str) -> Filter:
        field = _parse_field(value["field"], _inside(location, "field"))
        names = [str(name) for name in value if name != "field"]
        unknown = [name for name in names if name not in CONDITIONS]
        if unknown:
            known = ", ".join(CONDITIONS)
            raise _wrong(location, f"has the key {unknown[0][:60]!r}; the conditions are {known}")
        if names and set(names) <= set(BOUNDS):
            return self._range(field, {name: value[name] for name in names}, location)
        if len(names) != 1:
            present = " and ".join(names) or "none"
            message = f"must have one condition, or the bounds of one range; it has {present}"
            raise _wrong(location, message)
        (name,) = names
        content, location = value[name], _inside(location, name)
        if name in PRESENCE:
            if not isinstance(content, bool):
                raise _unfit(content, location, "it must be true or false")
            return PRESENCE[name](field, content)
        if name in {"prefix", "contains"}:
            part = _parse_scalar(content, location)
            if not isinstance(part, str):
                raise _unfit(content, location, "it must be a string")
            return HasText(field, part, is_prefix=name == "prefix")
        values = [content] if name == "eq" else content
        if not isinstance(values, list) or not values:
            raise _unfit(values, location, "it must be a list with a value")
        self._count_values(values)
        return AnyOf(field, tuple(_parse_scalar(value, location) for value in values))

    def _has_id(self, ids: object, location: str) -> HasId:
        if isinstance(ids, str):
            ids = [ids]
        if not isinstance(ids, list) or not ids or not all(isinstance(id_, str) for id_ in ids):
            raise _unfit(ids, location, "it must be a list of ids, at least one")
        self._count_values(ids)
        for id_ in ids:
            _check_unicode(id_, location)
        return HasId(tuple(ids))

    def _count_values(self, values: Sequence[object]) -> None:
        self._values += len(values)
        if self._values > MAX_VALUES:
            raise InputError("filter", f"has more than {MAX_VALUES} values; use fewer")

    def _range(self, field: str, bounds: dict[str, Any], location: str) -> InRange:
        if len({"gt", "gte"} & set(bounds)) > 1 or len({"lt", "lte"} & set(bounds)) > 1:
            raise _wrong(location, "has two bounds on one side; use gt or gte, and lt or lte")
        parsed = {
            name: _parse_scalar(bound, _inside(location, name)) for name, bound in bounds.items()
        }
        kinds = {kind_of(bound) for bound in parsed.values()}
        if len(kinds) > 1 or bool in kinds:
            rule = "they must be all numbers or all strings"
            raise _wrong(location, f"has the bounds {abbreviate([*bounds.values()])}; {rule}")
        return InRange(field, **parsed)


def _parse_field(value: object, location: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_FIELD_LENGTH:
        raise _unfit(value, location, f"it must be 1 to {MAX_FIELD_LENGTH} characters long")
    if "\0" in value:
        raise _unfit(value, location, "it must not contain NUL")
    _check_unicode(value, location)
    return value


def _parse_scalar(value: object, location: str) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        number = json_number(value) if isinstance(value, int) else value
        if not math.isfinite(number):
            raise _unfit(value, location, "a number must be below 1.8e308")
        return number
    if not isinstance(value, str):
        hint = "; is_null and is_missing find what has no value" if value is None else ""
        raise _unfit(value, location, f"it must be a string, a number, true or false{hint}")
    if len(value) > MAX_STRING_LENGTH or "\0" in value:
        rule = f"a string must have at most {MAX_STRING_LENGTH} characters, none of them NUL"
        raise _unfit(value, location, rule)
    _check_unicode(value, location)
    return value


def _check_unicode(value: str, location: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _unfit(value, location, "it must not contain a lone surrogate") from None


def _inside(location: str, name: str) -> str:
    return f"{location}.{name}" if location else name


def _unfit(value: object, location: str, rule: str) -> InputError:
    return _wrong(location, f"is {abbreviate(value)}; {rule}")


def _wrong(location: str, message: str) -> InputError:
    return InputError("filter", f"{location} {message}" if location else message)
