from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.commands.collections.empty_filter import explain_empty
from index.filter_parser import parse_filter
from index.filters import Filter

PAYLOADS: list[dict[str, Any]] = [
    {"price": "6.24", "year": 1999, "sold": True, "maker": {"name": "Ada"}, "mixed": 3},
    {"price": "19.90", "year": 2003, "sold": False, "mixed": "three", "tags": ["a", "b"]},
]


def explain(condition: object, payloads: list[dict[str, Any]] = PAYLOADS) -> list[str]:
    def count(filter_: Filter) -> int:
        return sum(map(filter_.matches, payloads))

    return list(explain_empty(parse_filter(condition), count))


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ({"field": "Price", "gte": 5}, "filter: no document has the field 'Price'"),
        ({"field": "price", "gte": 5}, "filter: 'price' holds strings; 5 finds numbers only"),
        (
            {"field": "year", "eq": "1999"},
            "filter: 'year' holds numbers; \"1999\" finds strings only",
        ),
        ({"field": "sold", "in": ["yes", 1]}, "filter: 'sold' holds booleans; \"yes\" finds"),
        ({"field": "mixed", "eq": True}, "filter: 'mixed' holds strings and numbers; true finds"),
        (
            {"field": "maker", "eq": "Ada"},
            "filter: 'maker' holds objects; \"Ada\" finds strings only",
        ),
        ({"field": "tags", "lt": 3}, "filter: 'tags' holds strings; 3 finds numbers only"),
        ({"and": [{"or": [{"field": "x", "eq": 1}]}]}, "filter: no document has the field 'x'"),
    ],
)
def test_a_condition_that_no_document_can_meet_is_explained(
    condition: dict[str, Any], sentence: str
) -> None:
    (found,) = explain(condition)
    assert found.startswith(sentence)


@pytest.mark.parametrize(
    "condition",
    [
        {"field": "year", "gt": 2100},
        {"field": "price", "eq": "7"},
        {"field": "sold", "in": ["yes", True]},
        {"field": "maker.name", "eq": "Eve"},
        {"field": "mixed", "gte": 5},
        {"not": {"field": "year", "exists": True}},
        {"field": "absent", "exists": True},
    ],
)
def test_a_condition_that_only_happens_to_match_nothing_is_not(condition: dict[str, Any]) -> None:
    assert explain(condition) == []


SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "1"]))


@given(st.lists(SCALARS), SCALARS)
def test_the_sentence_is_about_the_kinds_of_the_values(held: list[Any], value: Any) -> None:
    kinds = {type(one) for one in held}
    found = explain({"field": "x", "eq": value}, [{"x": one} for one in held])
    assert bool(found) == (type(value) not in kinds)
