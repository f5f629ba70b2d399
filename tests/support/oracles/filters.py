"""Payloads and filters, with the values that a store is likely to misread, and what a filter means.

:func:`passes` does not split a field into keys: it writes the path of every value of a payload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from hypothesis import strategies as st

NAMES = [
    *(
        "a",
        "b",
        "a b",
        "é",
        "0",
        "#",
        "[1]",
        "a.b",
        "a.a.b",
        'a"',
        "x\n",
        "b\\",
        'a"b',
        "a/b",
        "a.",
    ),
    *(".", ".a", "a..b", "a.b.a", "b.a.b.a", "a.b.a.b.a", 'a.a"', "a.0", "'", "b.a/b"),
]
TIMES = st.sampled_from(
    [
        *("2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01T01:30+02:00", "2024-04-30 23:30:00"),
        *("2024-05-01T00:00:00.000001-00:30", "2024-13-01", "20240501", "2024-05-01T25:00"),
    ]
)
STRINGS = TIMES | st.sampled_from(
    ["", "a", "b", "B", "é", "\U0001f600", "\ue000", "%s", "?1", ":v0", "'"]
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.1, 0.30000000000000004, -0.0, 1.5]),
    st.floats(allow_nan=False, allow_infinity=False),
)
SCALARS = st.one_of(STRINGS, NUMBERS, st.booleans())
STORED = st.one_of(
    SCALARS,
    st.none(),
    st.sampled_from(["a\0", "a\0b", "\\u0000", 2**63, -(2**63) - 1, 2**64 + 1, 10**400]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)
KEYS = st.sampled_from(["a", "b", "a.b", "b.a"])
ODD_KEYS = st.sampled_from(["", "a.", ".a", ".", "0", 'a"', "b\\", "a/b", "a.b.a", "\\", "a\0"])
PAYLOADS = st.dictionaries(
    st.sampled_from(["a", "b", "a b", "é", "0", "#", "[1]", 'a"', "x\n", "'"]) | KEYS | ODD_KEYS,
    st.recursive(
        STORED,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | KEYS | ODD_KEYS, inner),
        max_leaves=6,
    ),
    max_size=4,
)
PRESENCE = ("exists", "is_null", "is_missing", "is_single")
BOUNDS = st.one_of(
    st.fixed_dictionaries({"gt": STRINGS}, optional={"lte": STRINGS}),
    st.fixed_dictionaries({"lt": STRINGS}, optional={"gte": STRINGS}),
    st.fixed_dictionaries({"gte": NUMBERS}, optional={"lt": NUMBERS}),
    st.fixed_dictionaries({"lte": NUMBERS}, optional={"gt": NUMBERS}),
)
CONDITIONS = st.one_of(
    st.fixed_dictionaries({"eq": SCALARS}),
    st.fixed_dictionaries({"in": st.lists(SCALARS, min_size=1, max_size=3)}),
    BOUNDS,
    *(st.fixed_dictionaries({item: st.booleans()}) for item in PRESENCE),
    *(st.fixed_dictionaries({item: STRINGS}) for item in ("prefix", "contains")),
    st.fixed_dictionaries({"gte": TIMES}, optional={"lt": TIMES}),
)
LEAVES = st.builds(
    lambda field, condition: {"field": field, **condition}, st.sampled_from(NAMES), CONDITIONS
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"and": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"or": parts}),
        inner.map(lambda part: {"not": part}),
    ),
    max_leaves=4,
)


def passes(payload: Mapping[str, Any], record: dict[str, Any]) -> bool:
    """Tell whether a payload passes the filter that a decoded JSON object describes."""
    if "and" in record:
        return all(passes(payload, part) for part in record["and"])
    if "or" in record:
        return any(passes(payload, part) for part in record["or"])
    if "not" in record:
        return not passes(payload, record["not"])
    return _holds(payload, record)


def _holds(payload: Mapping[str, Any], record: dict[str, Any]) -> bool:
    """Tell whether a condition on a field holds."""
    held = [value for path, value in _paths("", payload) if path == f".{record['field']}"]
    presence = {
        "exists": any(value is not None for value in held),
        "is_null": any(value is None for value in held),
        "is_missing": not held,
        "is_single": _is_single(payload, record["field"]),
    }
    if asked := presence.keys() & record.keys():
        return all(presence[name] == record[name] for name in asked)
    elements = [item for value in held for item in (value if isinstance(value, list) else [value])]
    if "eq" in record or "in" in record:
        wanted = record.get("in", [record.get("eq")])
        return any(_are_equal(element, other) for element in elements for other in wanted)
    return _is_in_range(elements, record)


def _are_equal(one: Any, other: Any) -> bool:
    """Tell whether two values are equal; dates and times are by their instants."""
    times = _time(one), _time(other)
    return _rank(one) == _rank(other) if None in times else times[0] == times[1]


def _is_single(payload: Mapping[str, Any], field: str) -> bool:
    """Tell whether at most one path has the field, and no list or object is there or before it."""
    values = [
        (path, value)
        for path, value in _whole_paths(payload)
        if ".".join(name for name in path if isinstance(name, str)) == field
        and isinstance(path[-1], str)
    ]
    return all(
        len(values) == 1
        and not isinstance(value, list | dict)
        and not any(isinstance(name, int) for name in path)
        for path, value in values
    )


def _whole_paths(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and the value of everything inside, the positions in lists included."""
    if isinstance(value, Mapping):
        members: list[tuple[str | int, Any]] = [*value.items()]
    else:
        members = [
            (at, element) for at, element in enumerate(value) if isinstance(element, Mapping)
        ]
    for key, inner in members:
        yield (*path, key), inner
        if isinstance(inner, Mapping | list):
            yield from _whole_paths(inner, (*path, key))


def _is_in_range(elements: list[Any], record: dict[str, Any]) -> bool:
    """Tell whether one of the elements has a part, or is in a range."""
    strings = [element for element in elements if isinstance(element, str)]
    if "prefix" in record:
        return any(string[: len(record["prefix"])] == record["prefix"] for string in strings)
    if "contains" in record:
        return any(string.find(record["contains"]) >= 0 for string in strings)
    bounds = {name: bound for name, bound in record.items() if name != "field"}
    if all(_time(bound) is not None for bound in bounds.values()):
        return any(
            all(_in_order(_time(string), name, _time(bound)) for name, bound in bounds.items())
            for string in strings
            if _time(string) is not None
        )
    return any(
        all(_in_order(element, name, bound) for name, bound in bounds.items())
        for element in elements
    )


def _time(value: Any) -> float | None:
    """Return the seconds since 1970 of a date or time, as pandas reads it."""
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\d", value):
        return None
    try:
        time = pd.Timestamp(value)
    except ValueError:
        return None
    return float((time.tz_localize("UTC") if time.tzinfo is None else time).timestamp())


def _paths(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of everything in an object; objects in a list have its path."""
    for key, inner in value.items():
        inside = f"{path}.{key}"
        yield inside, inner
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, dict):
                yield from _paths(inside, item)


def _in_order(one: Any, name: str, bound: Any) -> bool:
    (kind, value), (wanted, limit) = _rank(one), _rank(bound)
    if kind != wanted:
        return False
    return bool(
        value > limit or (value == limit and name.endswith("e"))
        if name.startswith("g")
        else value < limit or (value == limit and name.endswith("e"))
    )


def _rank(value: Any) -> tuple[str, Any]:
    """Return the kind of a value and what is compared of it."""
    if isinstance(value, bool | str):
        return type(value).__name__, value
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        try:
            return "number", float(value)
        except OverflowError:
            return "number", float("inf") if value > 0 else -float("inf")
    return ("number", value) if isinstance(value, int | float) else ("none", object())
