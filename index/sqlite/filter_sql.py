"""Translates filters to SQL conditions on stored payloads.

Names and values are parameters, never part of the statement. SQLite's reading of JSON differs from
the meaning of a filter in three cases, which Python evaluates: SQLite reads some decimal fractions
with a different last bit, rounds integers beyond 64 bits, and ends a string at a NUL.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from index.engines.protocol import Rows
from index.filters import And, AnyOf, Exists, Filter, InRange, Not, Or, json_number

_HAS_NUL = r"instr(payload, '\u0000')"
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def matching_between(
    connection: sqlite3.Connection, filters: Sequence[Filter], after: int, up_to: int
) -> list[Rows]:
    """Return, for each filter, the rows after `after` and up to `up_to` that match it.

    Each payload is read once for all filters. All rows come in one value, because fetching single
    rows would take and release Python's lock for each.
    """
    translation = _Translation(shared=len(filters) > 1)
    conditions = [translation.root_condition(filter_) for filter_ in filters]
    translation.register_functions(connection)
    columns = ", ".join(f"group_concat(CASE WHEN {one} THEN row END)" for one in conditions)
    source = "documents WHERE row > :after AND row <= :up_to"
    query = f"SELECT {columns} FROM {source}"  # noqa: S608 - made of fixed parts
    if len(filters) > 1:
        # Materialized, so that a field of several filters is extracted once.
        first = f"SELECT {translation.columns()} FROM {source}"  # noqa: S608
        query = f"WITH read AS MATERIALIZED ({first}) SELECT {columns} FROM read"  # noqa: S608
    values = {**translation.parameters, "after": after, "up_to": up_to}
    return [_rows(text) for text in connection.execute(query, values).fetchone()]


def where(connection: sqlite3.Connection, filter_: Filter) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``payload`` and its parameters, for statements of `connection`.

    The connection can evaluate only one filter at a time.
    """
    translation = _Translation()
    condition = translation.root_condition(filter_)
    translation.register_functions(connection)
    return condition, translation.parameters


def _rows(text: str | None) -> Rows:
    rows = np.fromstring(text or "", dtype=np.int64, sep=",")
    rows.sort()
    return rows


class _Place(NamedTuple):
    """The SQL expressions of a field: its path, its JSON type, and its value."""

    path: str
    kind: str
    value: str


class _Translation:
    """Collects the parameters of one statement, and the parts that Python may have to evaluate.

    If `shared`, conditions test the columns of :meth:`columns` instead of the payload itself.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.parameters: dict[str, Any] = {}
        self._shared = shared
        self._parts: list[Filter] = []
        self._places: dict[str, _Place] = {}

    def columns(self) -> str:
        """Return the columns to read of each document: every field of the filters, once."""
        columns = ["row", "payload", f"{_HAS_NUL} AS has_nul"]
        for place in self._places.values():
            columns += [f"json_type(payload, {place.path}) AS {place.kind}"]
            columns += [f"json_extract(payload, {place.path}) AS {place.value}"]
        return ", ".join(columns)

    def register_functions(self, connection: sqlite3.Connection) -> None:
        """Register the SQL functions that evaluate parts in Python, for one translation."""
        parts = self._parts

        def matches(part: int, payload: str) -> bool:
            return parts[part].matches(json.loads(payload))

        connection.create_function("matches", 2, matches, deterministic=True)
        connection.create_function("json_number", 1, json_number, deterministic=True)

    def root_condition(self, filter_: Filter) -> str:
        """Translate a whole filter."""
        number = len(self._parts)
        self._parts.append(filter_)
        condition = self.condition(filter_)
        has_nul = "has_nul" if self._shared else _HAS_NUL
        return f"CASE WHEN {has_nul} THEN matches({number}, payload) ELSE {condition} END"

    def condition(self, filter_: Filter) -> str:
        """Translate a part of a filter, for payloads without NUL."""
        if isinstance(filter_, Not):
            return f"NOT {self.condition(filter_.part)}"
        if isinstance(filter_, And | Or):
            word = " AND " if isinstance(filter_, And) else " OR "
            return f"({word.join(self.condition(part) for part in filter_.parts)})"
        place = self._place(filter_.field)
        if isinstance(filter_, Exists):
            sign = "<>" if filter_.expected else "="
            return f"coalesce({place.kind}, 'null') {sign} 'null'"
        self._parts.append(filter_)
        tests = self._tests(filter_)
        return _scalar_or_list_condition(place, tests, len(self._parts) - 1)

    def _place(self, field: str) -> _Place:
        if field not in self._places:
            path = self._parameter("".join(f'."{name}"' for name in field.split(".")), "$")
            place = _Place(path, f"json_type(payload, {path})", f"json_extract(payload, {path})")
            if self._shared:
                number = len(self._places)
                place = _Place(path, f"kind{number}", f"value{number}")
            self._places[field] = place
        return self._places[field]

    def _tests(self, filter_: AnyOf | InRange) -> Mapping[str, str]:
        """Return, by JSON type, a test of a value, which ``%s`` stands for."""
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


def _scalar_or_list_condition(place: _Place, tests: Mapping[str, str], part: int) -> str:
    path, value = place.path, place.value
    exact = f"CASE typeof({value}) WHEN 'integer' THEN {value} ELSE json_number(payload -> {path})"
    scalar = _by_type(tests, value, f"({exact} END)")
    element = _by_type(tests, "each.value", "each.value", f"matches({part}, payload)")
    elements = f"FROM json_each(payload, {path}) AS each WHERE CASE each.type {element} ELSE 0 END"
    any_element = f"EXISTS (SELECT 1 {elements})"
    return f"CASE {place.kind} WHEN 'array' THEN {any_element} {scalar} ELSE 0 END"


def _by_type(tests: Mapping[str, str], value: str, number: str, inexact: str | None = None) -> str:
    """Return the ``WHEN`` clauses that test a value by its type."""
    clauses: list[str] = []
    for kind, test in tests.items():
        if kind != "number":
            clauses.append(f"WHEN '{kind}' THEN {_substitute(test, value)}")
            continue
        tested = _substitute(test, number)
        if inexact is not None:
            whole = f"CASE typeof({number}) WHEN 'integer' THEN {tested} ELSE {inexact} END"
            clauses += [f"WHEN 'integer' THEN {whole}", f"WHEN 'real' THEN {inexact}"]
        else:
            clauses += [f"WHEN 'integer' THEN {tested}", f"WHEN 'real' THEN {tested}"]
    return " ".join(clauses)


def _substitute(test: str, value: str) -> str:
    return f"({test.replace('%s', value)})"
