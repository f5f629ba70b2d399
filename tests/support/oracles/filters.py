"""Payloads and filters, with the values that a store is likely to misread, and what a filter means.

:func:`passes` does not split a field into keys: it writes the path of every value of a payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
STRINGS = st.sampled_from(["", "a", "b", "B", "é", "\U0001f600", "\ue000", "%s", "?1", ":v0", "'"])
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
    st.fixed_dictionaries({"exists": st.booleans()}),
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
    held = [value for path, value in _paths("", payload) if path == f".{record['field']}"]
    if "exists" in record:
        return bool(any(value is not None for value in held) == record["exists"])
    elements = [one for value in held for one in (value if isinstance(value, list) else [value])]
    if "eq" in record or "in" in record:
        wanted = record.get("in", [record.get("eq")])
        return any(_rank(one) == _rank(other) for one in elements for other in wanted)
    return any(
        all(_in_order(one, name, bound) for name, bound in record.items() if name != "field")
        for one in elements
    )


def _paths(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of everything in an object; objects in a list have its path."""
    for key, inner in value.items():
        inside = f"{path}.{key}"
        yield inside, inner
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                yield from _paths(inside, one)


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
