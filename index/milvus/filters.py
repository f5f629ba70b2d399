"""Filters as expressions of Milvus, and payloads in the form that these expressions read.

Milvus compares values of a JSON field by its own rules, some of which changed between versions. So
payloads are stored in a form for which they agree with
:meth:`hummingbit.index.filters.Filter.matches`: without nulls, which count as absent; with integers
as integers, whether written 1 or 1.0; and without names that could be the position of an element in
a list.

Milvus cannot express that *some* element of a list is in a range, cannot look into objects in a
list, compares integers beyond 2^53 as floating point, and finds no key with a quotation mark or a
backslash. Documents for which this might matter are read and tested here, and the expression lists
the rows of those that match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import (
    And,
    AnyOf,
    Exists,
    FieldCondition,
    Filter,
    HasId,
    InRange,
    IsMissing,
    IsNull,
    IsSingle,
    Not,
    Or,
    Scalar,
    instant_of,
    json_number,
)

OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
# From here on, floating point cannot represent every integer.
HUGE = 2**53
# Milvus does not find keys with one of these characters. It refuses to look for the empty key.
_UNSAFE = re.compile(r'["\\/~\x00-\x1f]')
# Of a field of more names, Milvus looks up the whole name only.
MAX_NAMES = 4
Condition = FieldCondition
FindRows = Callable[[str, Condition], Sequence[int]]
"""Returns the rows of the documents that match an expression and also a condition."""


def check_fields_on_milvus(fields: Sequence[str]) -> None:
    """Raise an InputError if `fields` is not empty, because Milvus evaluates filters itself."""
    if fields:
        message = f"has {fields[0][:80]!r}; a collection on Milvus has no indexes of fields"
        raise InputError("indexed_fields", message)


def filterable(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload in the form that :func:`expression` needs.

    Raises:
        InputError: if it holds an integer beyond the range of floating point.
    """
    return {_name(key): _value(value) for key, value in payload.items() if value is not None}


def expression(filter_: Filter, find_rows: FindRows) -> str:
    """Return the expression of Milvus for a filter."""
    if isinstance(filter_, Not):
        return f"(not {expression(filter_.part, find_rows)})"
    if isinstance(filter_, And | Or):
        word = " and " if isinstance(filter_, And) else " or "
        return f"({word.join(expression(part, find_rows) for part in filter_.parts)})"
    if isinstance(filter_, HasId):
        return f"(id in [{', '.join(map(quote, filter_.ids))}])"
    if isinstance(filter_, IsNull | IsMissing):
        # Payloads are kept without nulls in the form that expressions read.
        return f"(row in {list(find_rows('', filter_))})"
    if isinstance(filter_, IsSingle):
        rows = find_rows(_maybe_several(filter_.field), IsSingle(filter_.field, expected=False))
        return f"({'not ' if filter_.expected else ''}(row in {list(rows)}))"
    return _anywhere(filter_, find_rows)


def _maybe_several(field: str) -> str:
    """Return an expression that holds wherever a field may be in several places, or no scalar."""
    names = field.split(".")
    if len(names) > 1 or _UNSAFE.search(field) or not names[0]:
        return ""  # a null beside a value is a place, too, and is not kept
    path = _path(names)
    scalar = f'({path} >= "") or ({path} in [true, false]) or ({path} > -1) or ({path} < 1)'
    return f"((exists {path}) and (not ({scalar})))"


def _anywhere(condition: Condition, find_rows: FindRows) -> str:
    """Return the expression of a condition, wherever a payload has the field."""
    if isinstance(condition, Exists) and not condition.expected:
        return f"(not {_anywhere(Exists(condition.field), find_rows)})"
    names = condition.field.split(".")
    if _UNSAFE.search(condition.field) or not names[0]:
        return f"(row in {list(find_rows('', condition))})"
    if len(names) == 1:
        return _at(_path(names), condition, find_rows)
    paths = [_path([condition.field])]
    if len(names) <= MAX_NAMES and all(names):
        paths.append(_path(names))
        divisions = [*_divisions(names)]
        lists = {_path(keys[:end]) for keys in divisions for end in range(1, len(keys))}
        others = sorted({*map(_path, divisions)} - {*paths}) + [f"{path}[0]" for path in lists]
    else:
        # It begins with a key of the payload that is not the whole name.
        keys = [".".join(names[:end]) for end in range(1, len(names))]
        others = [_path([key]) for key in keys]
    parts = [_at(path, condition, find_rows) for path in paths]
    elsewhere = " or ".join(f"(exists {path})" for path in others)
    if rows := find_rows(f"({elsewhere})", condition):
        parts.append(f"(row in {list(rows)})")
    return f"({' or '.join(parts)})"


def _divisions(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every way in which dots can divide a field into keys."""
    for end in range(1, len(names)):
        for rest in _divisions(names[end:]):
            yield ".".join(names[:end]), *rest
    yield (".".join(names),)


def _at(path: str, condition: Condition, find_rows: FindRows) -> str:
    """Return the expression of a condition on one path of the payload."""
    if isinstance(condition, Exists):
        return f"(exists {path})"
    if isinstance(condition, AnyOf):
        return _any_of(path, condition, find_rows)
    if isinstance(condition, InRange) and not condition.is_of_instants:
        return _range(path, condition, find_rows)
    return _either(path, "", find_rows(f"(exists {path})", condition))


def quote(text: str) -> str:
    """Return a string as a literal of an expression."""
    return json.dumps(text, ensure_ascii=False)


def _any_of(path: str, condition: AnyOf, find_rows: FindRows) -> str:
    values = [_number(value) for value in condition.values if not _is_huge(value)]
    # All values that follow `in` must be of one kind.
    kinds = {
        type(value): [other for other in values if type(other) is type(value)] for value in values
    }
    parts = [f"({path} in {_literals(same)})" for same in kinds.values()]
    if values:
        parts.append(f"json_contains_any({path}, {_literals(values)})")
    rows: list[int] = []
    if huge := tuple(value for value in condition.values if _is_huge(value)):
        doubtful = f"({_huge_in(path)} or (exists {path}[0]))"
        rows += find_rows(doubtful, AnyOf(condition.field, huge))
    if times := tuple(value for value in condition.values if instant_of(value) is not None):
        # They equal other strings of the same instant.
        rows += find_rows(f"(exists {path})", AnyOf(condition.field, times))
    return _either(path, " or ".join(parts), rows)


def _range(path: str, condition: InRange, find_rows: FindRows) -> str:
    doubtful, parts = f"(exists {path}[0])", []
    for name, bound in condition.bounds.items():
        if not _is_huge(bound):
            parts.append(f"({path} {OPERATORS[name]} {_literal(_number(bound))})")
    if len(parts) < len(condition.bounds):
        doubtful = f"({_huge_in(path)} or {doubtful})"
        parts.append(f"({path} > {-HUGE}) and ({path} < {HUGE})")
        if not all(_is_beyond(name, bound) for name, bound in condition.bounds.items()):
            parts = []
    return _either(path, " and ".join(parts), find_rows(doubtful, condition))


def _is_beyond(name: str, bound: str | float) -> bool:
    """Tell whether a bound allows numbers that are not huge."""
    return not _is_huge(bound) or (float(bound) > 0) == name.startswith("l")


def _either(path: str, condition: str, rows: Sequence[int]) -> str:
    # The test for existence keeps comparisons with a missing field from being undefined.
    parts = [f"((exists {path}) and ({condition}))"] if condition else []
    if rows or not condition:
        parts.append(f"(row in {list(rows)})")
    return f"({' or '.join(parts)})"


def _huge_in(path: str) -> str:
    return f"({path} >= {HUGE}) or ({path} <= {-HUGE})"


def _is_huge(value: Scalar) -> bool:
    return not isinstance(value, str) and abs(value) >= HUGE


def _path(keys: Sequence[str]) -> str:
    return "payload" + "".join(f"[{quote(_name(key))}]" for key in keys)


def _literals(values: Sequence[Scalar]) -> str:
    return f"[{', '.join(map(_literal, values))}]"


def _literal(value: Scalar) -> str:
    return quote(value) if isinstance(value, str) else json.dumps(value)


def _name(name: str) -> str:
    """Mark a name that Milvus would also take for the position of an element in a list."""
    return f"#{name}" if name.isdigit() or name.startswith("#") else name


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return filterable(value)
    if isinstance(value, list | tuple):
        return [_value(item) for item in value if item is not None]
    return _number(value)


def _number(value: Any) -> Any:
    """Return a number as an integer if its value is an integer that fits 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    number = json_number(value) if isinstance(value, int) else value
    if isinstance(number, float):
        if abs(number) == float("inf"):
            raise InputError("payload", "holds a number beyond the range of floating point")
        if number.is_integer() and -(2.0**63) <= number < 2.0**63:
            return int(number)
    return number
