"""Filters as SQLite evaluates them over stored payloads.

Names and values are parameters, never part of the statement. SQLite's reading of JSON differs from
the meaning of a filter in three places, which are left to Python: it reads some decimal fractions
with another last bit, rounds whole numbers beyond 64 bits, and ends a string at a NUL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from index.engines.protocol import Rows
from index.filters import And, AnyOf, Exists, Filter, InRange, Not, Or, json_number

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def matching_rows(connection: sqlite3.Connection, filter_: Filter, after: int = 0) -> Rows:
    """Return the rows above `after` of the documents for which the filter holds, ascending."""
    condition, values = where(connection, filter_)
    query = f"SELECT row FROM documents WHERE row > :after AND {condition} ORDER BY row"  # noqa: S608 - made here of fixed parts
    found = connection.execute(query, {**values, "after": after})
    return np.fromiter((row for (row,) in found), dtype=np.int64)


def matching_between(
    connection: sqlite3.Connection, filters: Sequence[Filter], after: int, up_to: int
) -> list[Rows]:
    """Return, for each filter, the rows above `after` and up to `up_to` for which it holds.

    Each payload is read once for all filters, and the rows come in one piece: a row at a time would
    take and give Python's lock for each.
    """
    conditions, values = wheres(connection, filters)
    columns = ", ".join(f"group_concat(CASE WHEN {one} THEN row END)" for one in conditions)
    query = f"SELECT {columns} FROM documents WHERE row > :after AND row <= :up_to"  # noqa: S608 - made here of fixed parts
    found = connection.execute(query, {**values, "after": after, "up_to": up_to}).fetchone()
    return [_rows(text) for text in found]


def where(connection: sqlite3.Connection, filter_: Filter) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``payload`` and its parameters, for statements of `connection`.

    The connection can evaluate the filters of one call at a time.
    """
    (condition,), values = wheres(connection, [filter_])
    return condition, values


def wheres(
    connection: sqlite3.Connection, filters: Sequence[Filter]
) -> tuple[list[str], dict[str, Any]]:
    """Do as :func:`where` for several filters, whose parameters have different names."""
    translation = _Translation()
    conditions = [translation.whole(filter_) for filter_ in filters]
    parts = translation.parts

    def holds(part: int, payload: str) -> bool:
        return parts[part].matches(json.loads(payload))

    connection.create_function("holds", 2, holds, deterministic=True)
    connection.create_function("json_number", 1, json_number, deterministic=True)
    return conditions, translation.parameters


def _rows(text: str | None) -> Rows:
    rows = np.fromstring(text or "", dtype=np.int64, sep=",")
    rows.sort()
    return rows


class _Translation:
    """Collects the parameters of one statement, and the parts that it may ask Python for."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self.parts: list[Filter] = []

    def whole(self, filter_: Filter) -> str:
        """Translate a filter that is no part of another."""
        number = len(self.parts)
        self.parts.append(filter_)
        condition = self.of(filter_)
        ours = rf"instr(payload, '\u0000') THEN holds({number}, payload)"
        return f"CASE WHEN {ours} ELSE {condition} END"

    def of(self, filter_: Filter) -> str:
        if isinstance(filter_, Not):
            return f"NOT {self.of(filter_.part)}"
        if isinstance(filter_, And | Or):
            word = " AND " if isinstance(filter_, And) else " OR "
            return f"({word.join(self.of(part) for part in filter_.parts)})"
        path = self._parameter("".join(f'."{name}"' for name in filter_.field.split(".")), "$")
        if isinstance(filter_, Exists):
            sign = "<>" if filter_.wanted else "="
            return f"coalesce(json_type(payload, {path}), 'null') {sign} 'null'"
        self.parts.append(filter_)
        tests = self._tests(filter_)
        return _over_one_or_many(path, tests, len(self.parts) - 1)

    def _tests(self, filter_: AnyOf | InRange) -> Mapping[str, str]:
        """Return, by the type that JSON gives a value, a test with ``%s`` in its place."""
        if isinstance(filter_, InRange):
            texts = any(isinstance(one, str) for one in filter_.bounds.values())
            bounds = {_SIGNS[name]: one for name, one in filter_.bounds.items()}
            test = " AND ".join(f"%s {sign} {self._parameter(one)}" for sign, one in bounds.items())
            return {"text": test} if texts else {"number": test}
        strings = [one for one in filter_.values if isinstance(one, str)]
        truths = [one for one in filter_.values if isinstance(one, bool)]
        numbers = [one for one in filter_.values if not isinstance(one, str | bool)]
        tests = {json.dumps(one): "1" for one in truths}
        for kind, some in (("text", strings), ("number", numbers)):
            if some:
                tests[kind] = f"%s IN ({', '.join(self._parameter(one) for one in some)})"
        return tests

    def _parameter(self, value: Any, prefix: str = "") -> str:
        name = f"v{len(self.parameters)}"
        self.parameters[name] = prefix + value if prefix else value
        return f":{name}"


def _over_one_or_many(path: str, tests: Mapping[str, str], part: int) -> str:
    value = f"json_extract(payload, {path})"
    exact = f"CASE typeof({value}) WHEN 'integer' THEN {value} ELSE json_number(payload -> {path})"
    one = _by_type(tests, value, f"({exact} END)")
    many = _by_type(tests, "each.value", "each.value", f"holds({part}, payload)")
    elements = f"FROM json_each(payload, {path}) AS each WHERE CASE each.type {many} ELSE 0 END"
    any_element = f"EXISTS (SELECT 1 {elements})"
    return f"CASE json_type(payload, {path}) WHEN 'array' THEN {any_element} {one} ELSE 0 END"


def _by_type(tests: Mapping[str, str], value: str, number: str, inexact: str | None = None) -> str:
    """Return the ``WHEN`` clauses that test a value of each type."""
    clauses: list[str] = []
    for kind, test in tests.items():
        if kind != "number":
            clauses.append(f"WHEN '{kind}' THEN {_filled(test, value)}")
            continue
        tested = _filled(test, number)
        if inexact is not None:
            whole = f"CASE typeof({number}) WHEN 'integer' THEN {tested} ELSE {inexact} END"
            clauses += [f"WHEN 'integer' THEN {whole}", f"WHEN 'real' THEN {inexact}"]
        else:
            clauses += [f"WHEN 'integer' THEN {tested}", f"WHEN 'real' THEN {tested}"]
    return " ".join(clauses)


def _filled(test: str, value: str) -> str:
    return f"({test.replace('%s', value)})"
