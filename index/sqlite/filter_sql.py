"""Translates filters to SQL conditions on stored payloads.

Names and values are parameters, never part of the statement. Python evaluates what SQLite's reading
of JSON gets wrong: SQLite reads some decimal fractions with a different last bit, rounds integers
beyond 64 bits, ends a string at a NUL, and some of its versions do not find a key that JSON writes
with a backslash.

The field ``a.b`` is looked up in two places, the key ``a.b`` and the key ``b`` of the object ``a``.
If a payload may have it elsewhere, such as in a list of objects, Python evaluates the condition.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from index.engines.protocol import Rows
from index.filters import And, AnyOf, Exists, Filter, InRange, Not, Or, json_number

_HAS_NUL = r"instr(payload, '\u0000')"
# The characters that JSON writes with a backslash.
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
# A field of more names is looked up nested by Python only, so that conditions stay short.
MAX_NAMES_IN_SQL = 4
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
    """The SQL expressions of a place in the payload: its path, its JSON type, and its value."""

    path: str
    kind: str
    value: str


class _Field(NamedTuple):
    """The places of a field, and a condition: whether a payload may have it elsewhere as well."""

    places: tuple[_Place, ...]
    elsewhere: str


class _Translation:
    """Collects the parameters of one statement, and the parts that Python may have to evaluate.

    If `shared`, conditions test the columns of :meth:`columns` instead of the payload itself.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.parameters: dict[str, Any] = {}
        self._shared = shared
        self._parts: list[Filter] = []
        self._fields: dict[str, _Field] = {}
        self._columns = ["row", "payload", f"{_HAS_NUL} AS has_nul"]

    def columns(self) -> str:
        """Return the columns to read of each document: every field of the filters, once."""
        return ", ".join(self._columns)

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
        field = self._field(filter_.field)
        number = len(self._parts)
        self._parts.append(filter_)
        if isinstance(filter_, Exists):
            anywhere = [f"coalesce({place.kind}, 'null') <> 'null'" for place in field.places]
        else:
            tests = self._tests(filter_)
            anywhere = [_scalar_or_list_condition(place, tests, number) for place in field.places]
        condition = f"({' OR '.join(anywhere) or '0'})"
        if isinstance(filter_, Exists) and not filter_.expected:
            condition = f"NOT {condition}"
        if field.elsewhere:
            inexact = f"matches({number}, payload)"
            condition = f"CASE WHEN {field.elsewhere} THEN {inexact} ELSE {condition} END"
        return condition

    def _field(self, field: str) -> _Field:
        if field not in self._fields:
            if _ESCAPED.search(field):
                # JSON writes a backslash into every such key.
                self._fields[field] = _Field((), r"instr(payload, '\') > 0")
            elif "." not in field:
                self._fields[field] = _Field((self._place(field),), "")
            else:
                self._fields[field] = self._dotted_field(field.split("."))
        return self._fields[field]

    def _dotted_field(self, names: Sequence[str]) -> _Field:
        whole, n_names = self._place(".".join(names)), len(names)
        elsewhere: list[str] = []
        if not all(names) or n_names > MAX_NAMES_IN_SQL:
            # It begins with a key of the payload that is not the whole name.
            keys = [".".join(names[:end]) for end in range(1, n_names)]
            elsewhere = [f"{self._kind(key)} IN ('object', 'array')" for key in keys if key]
            if not names[0]:
                elsewhere.append("""instr(payload, '"":') > 0""")
            places: tuple[_Place, ...] = (whole,)
        else:
            places = (whole, self._place(*names))
            # It leaves the nested place by a list, or by a key of several names.
            for start in range(n_names):
                for end in range(start + 1, n_names + (start > 0)):
                    kind = self._kind(*names[:start], ".".join(names[start:end]))
                    if end == start + 1 < n_names:
                        elsewhere.append(f"{kind} = 'array'")
                    elif end < n_names:
                        elsewhere.append(f"{kind} IN ('object', 'array')")
                    elif end > start + 1:
                        elsewhere.append(f"{kind} IS NOT NULL")
        condition = f"({' OR '.join(elsewhere)})"
        if not self._shared:
            return _Field(places, condition)
        name = f"elsewhere{len(self._columns)}"
        self._columns.append(f"{condition} AS {name}")
        return _Field(places, name)

    def _kind(self, *keys: str) -> str:
        return f"json_type(payload, {self._path(keys)})"

    def _place(self, *keys: str) -> _Place:
        path = self._path(keys)
        kind, value = f"json_type(payload, {path})", f"json_extract(payload, {path})"
        if not self._shared:
            return _Place(path, kind, value)
        number = len(self._columns)
        self._columns += [f"{kind} AS kind{number}", f"{value} AS value{number}"]
        return _Place(path, f"kind{number}", f"value{number}")

    def _path(self, keys: Sequence[str]) -> str:
        return self._parameter("".join(f'."{key}"' for key in keys), "$")

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
