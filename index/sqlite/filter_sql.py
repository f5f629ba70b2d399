"""Filters as SQLite evaluates them over stored payloads.

Names and values are parameters, never part of the statement. SQLite's reading of JSON differs from
the meaning of a filter in three places, which are left to Python: it reads some decimal fractions
with another last bit, rounds whole numbers beyond 64 bits, and ends a string at a NUL.
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
    """Return, for each filter, the rows above `after` and up to `up_to` for which it holds.

    Each payload is read once for all filters, and the rows come in one piece: a row at a time would
    take and give Python's lock for each.
    """
    translation = _Translation(shared=len(filters) > 1)
    conditions = [translation.whole(filter_) for filter_ in filters]
    translation.offer(connection)
    columns = ", ".join(f"group_concat(CASE WHEN {one} THEN row END)" for one in conditions)
    read = "documents WHERE row > :after AND row <= :up_to"
    query = f"SELECT {columns} FROM {read}"  # noqa: S608 - made here of fixed parts
    if len(filters) > 1:
        # Materialized, so that a field that many filters name is looked up once.
        first = f"SELECT {translation.columns()} FROM {read}"  # noqa: S608
        query = f"WITH read AS MATERIALIZED ({first}) SELECT {columns} FROM read"  # noqa: S608
    values = {**translation.parameters, "after": after, "up_to": up_to}
    return [_rows(text) for text in connection.execute(query, values).fetchone()]


def where(connection: sqlite3.Connection, filter_: Filter) -> tuple[str, dict[str, Any]]:
    """Return a condition on ``payload`` and its parameters, for statements of `connection`.

    The connection can evaluate one filter at a time.
    """
    translation = _Translation()
    condition = translation.whole(filter_)
    translation.offer(connection)
    return condition, translation.parameters


def _rows(text: str | None) -> Rows:
    rows = np.fromstring(text or "", dtype=np.int64, sep=",")
    rows.sort()
    return rows


class _Place(NamedTuple):
    """Where a field is, as expressions: its path, the type that JSON gives it, its value."""

    path: str
    kind: str
    value: str


class _Translation:
    """Collects the parameters of one statement, and the parts that it may ask Python for.

    Where filters are `shared`, they test the columns that :meth:`columns` says are to be read of
    the documents, and not the payload itself.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.parameters: dict[str, Any] = {}
        self._shared = shared
        self._parts: list[Filter] = []
        self._places: dict[str, _Place] = {}

    def columns(self) -> str:
        """Return what is to be read of each document: the fields that filters name, once each."""
        columns = ["row", "payload", f"{_HAS_NUL} AS has_nul"]
        for place in self._places.values():
            columns += [f"json_type(payload, {place.path}) AS {place.kind}"]
            columns += [f"json_extract(payload, {place.path}) AS {place.value}"]
        return ", ".join(columns)

    def offer(self, connection: sqlite3.Connection) -> None:
        """Let statements of a connection ask Python for the parts; one translation at a time."""
        parts = self._parts

        def holds(part: int, payload: str) -> bool:
            return parts[part].matches(json.loads(payload))

        connection.create_function("holds", 2, holds, deterministic=True)
        connection.create_function("json_number", 1, json_number, deterministic=True)

    def whole(self, filter_: Filter) -> str:
        """Translate a filter that is no part of another."""
        number = len(self._parts)
        self._parts.append(filter_)
        condition = self.of(filter_)
        has_nul = "has_nul" if self._shared else _HAS_NUL
        return f"CASE WHEN {has_nul} THEN holds({number}, payload) ELSE {condition} END"

    def of(self, filter_: Filter) -> str:
        if isinstance(filter_, Not):
            return f"NOT {self.of(filter_.part)}"
        if isinstance(filter_, And | Or):
            word = " AND " if isinstance(filter_, And) else " OR "
            return f"({word.join(self.of(part) for part in filter_.parts)})"
        place = self._place(filter_.field)
        if isinstance(filter_, Exists):
            sign = "<>" if filter_.expected else "="
            return f"coalesce({place.kind}, 'null') {sign} 'null'"
        self._parts.append(filter_)
        tests = self._tests(filter_)
        return _over_one_or_many(place, tests, len(self._parts) - 1)

    def _place(self, field: str) -> _Place:
        if field not in self._places:
            path = self._parameter("".join(f'."{name}"' for name in field.split(".")), "$")
            read = _Place(path, f"json_type(payload, {path})", f"json_extract(payload, {path})")
            if self._shared:
                number = len(self._places)
                read = _Place(path, f"kind{number}", f"value{number}")
            self._places[field] = read
        return self._places[field]

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


def _over_one_or_many(place: _Place, tests: Mapping[str, str], part: int) -> str:
    path, value = place.path, place.value
    exact = f"CASE typeof({value}) WHEN 'integer' THEN {value} ELSE json_number(payload -> {path})"
    one = _by_type(tests, value, f"({exact} END)")
    many = _by_type(tests, "each.value", "each.value", f"holds({part}, payload)")
    elements = f"FROM json_each(payload, {path}) AS each WHERE CASE each.type {many} ELSE 0 END"
    any_element = f"EXISTS (SELECT 1 {elements})"
    return f"CASE {place.kind} WHEN 'array' THEN {any_element} {one} ELSE 0 END"


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
