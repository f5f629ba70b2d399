"""Payloads and filters, with the values that a store is likely to misread."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ("a", "b", "a b", "é", "0", "#", "[1]", "a.b", "a.a.b")
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
PAYLOADS = st.dictionaries(
    st.sampled_from(["a", "b", "a b", "é", "0", "#", "[1]", 'a"', "x\n"]),
    st.recursive(
        STORED,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
        max_leaves=5,
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
