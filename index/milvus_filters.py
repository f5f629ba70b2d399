"""Filters as Milvus takes them, and payloads in the form that those expressions read.

Milvus compares what lies in a JSON field by rules of its own, some of which changed between its
versions. A payload is therefore stored in a form in which they cannot differ from what
:meth:`index.filters.Filter.matches` says: without nulls, which count as absent; whole numbers as
whole numbers, be they written 1 or 1.0; and no name that could be taken for a place in a list.

What Milvus cannot say is that *some* element of a list lies in a range. The documents whose field
holds a list are asked for and judged here, and the expression names their rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from index.errors import InputError
from index.filters import And, AnyOf, Exists, Filter, InRange, Not, Or, Scalar, json_number

OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
NOTHING = "row < 0"
ListsIn = Callable[[str, InRange], Sequence[int]]
"""Given an expression, returns the rows of the documents it holds for and the range as well."""


def filterable(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload in the form that :func:`expression` is about.

    Raises:
        InputError: if it holds a whole number beyond the range of floating point.
    """
    return {_name(key): _value(one) for key, one in payload.items() if one is not None}


def expression(filter_: Filter, lists_in: ListsIn) -> str:
    """Return what Milvus is to be asked for the documents that a filter holds for."""
    if isinstance(filter_, Not):
        return f"(not {expression(filter_.part, lists_in)})"
    if isinstance(filter_, And | Or):
        word = " and " if isinstance(filter_, And) else " or "
        return f"({word.join(expression(part, lists_in) for part in filter_.parts)})"
    path = _path(filter_.field)
    if isinstance(filter_, Exists):
        return f"(exists {path})" if filter_.wanted else f"(not (exists {path}))"
    # Without the field there is no value whose comparison could be neither true nor false.
    condition = _any_of(path, filter_) if isinstance(filter_, AnyOf) else _range(path, filter_)
    condition = f"((exists {path}) and ({condition}))"
    if isinstance(filter_, InRange):
        rows = lists_in(f"(exists {path}[0])", filter_)
        if rows:
            return f"({condition} or (row in {list(rows)}))"
    return condition


def quoted(text: str) -> str:
    """Write a string as a literal of an expression."""
    return json.dumps(text, ensure_ascii=False)


def _any_of(path: str, wanted: AnyOf) -> str:
    values = [_number(one) for one in wanted.values]
    # All values that follow `in` must be of one kind.
    kinds = {type(one): [other for other in values if type(other) is type(one)] for one in values}
    parts = [f"({path} in {_literals(same)})" for same in kinds.values()]
    return " or ".join([*parts, f"json_contains_any({path}, {_literals(values)})"])


def _range(path: str, wanted: InRange) -> str:
    parts = [
        f"({path} {OPERATORS[name]} {_literal(_number(bound))})"
        for name, bound in wanted.bounds.items()
    ]
    return " and ".join(parts)


def _path(field: str) -> str:
    return "payload" + "".join(f"[{quoted(_name(name))}]" for name in field.split("."))


def _literals(values: Sequence[Scalar]) -> str:
    return f"[{', '.join(map(_literal, values))}]"


def _literal(value: Scalar) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def _name(name: str) -> str:
    """Mark a name that Milvus would also take for the place of an element in a list."""
    return f"#{name}" if name.isdigit() or name.startswith("#") else name


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return filterable(value)
    if isinstance(value, list | tuple):
        return [_value(one) for one in value if one is not None]
    return _number(value)


def _number(value: Any) -> Any:
    """Return a number as a whole number where it is one that fits 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    number = json_number(value) if isinstance(value, int) else value
    if isinstance(number, float):
        if abs(number) == float("inf"):
            raise InputError("payload", "holds a number beyond the range of floating point")
        if number.is_integer() and -(2.0**63) <= number < 2.0**63:
            return int(number)
    return number
