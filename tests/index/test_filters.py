from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import filter_to_json, parse_filter
from hummingbit.index.schema import payload_to_json
from tests.support.columns import rows_in_columns
from tests.support.oracles.filters import FILTERS, PAYLOADS, passes


@given(st.lists(PAYLOADS, max_size=8), FILTERS)
@example([{"a": 0.1}, {"a": [0.1]}, {"a": 5e-324}], {"field": "a", "eq": 0.1})
@example([{"a": "x\0y"}, {"a": "x"}, {"a": ["x\0"]}], {"field": "a", "eq": "x"})
@example([{"a": 2**63}, {"a": [2**63]}], {"field": "a", "gt": 2**63 - 1})
@example([{"a": {"b": [{"b": 1}, 1]}}], {"field": "a.b", "eq": 1})
@example([{"a.b": 1}, {"a": {"b": 1}}, {"a.b": 1, "a": {"b": 2}}], {"field": "a.b", "eq": 1})
@example([{"a.b": 1}, {"a.b": None}, {"a": 1}], {"not": {"field": "a.b", "exists": True}})
@example([{"a": [{"b": 1}, {"b": 2}, 3]}, {"a": [{"b": [2]}]}], {"field": "a.b", "eq": 2})
@example([{'a"b': 1}, {"a": 1}], {"field": 'a"b', "eq": 1})
@example([{"b\\": 1}, {"b": 1}], {"not": {"field": "b\\", "eq": 1}})
@example([{"a": {'a"': 1}}, {"x\n": 1}], {"field": 'a.a"', "gt": 0})
@example([{"a.b": {"a": 1}}, {"a": {"b.a": 1}}, {"b": 1}], {"field": "a.b.a", "eq": 1})
@example([{"a.": 1}, {"a": {"": 1}}, {"a": 1}], {"field": "a.", "eq": 1})
@example([{"b": {"a.b": [{"a": 1}]}}, {"b": 1}], {"field": "b.a.b.a", "eq": 1})
@example([{"a": 2**64}, {"a": 2.0**64}, {"a": 2**63}], {"field": "a", "eq": 2**64})
@example([{"a": True}, {"a": 1}, {"a": 1.0}], {"field": "a", "in": [1]})
@example([{"a": "x"}, {"a": ["x"]}, {"a": {}}, {}], {"field": "a", "is_single": True})
@example([{"a": True}, {"a": 1}, {"a": 1.0}, {"a": [False, 0]}], {"field": "a", "eq": 1})
@example([{"a": 2**53 + 1}, {"a": 2.0**53}], {"field": "a", "eq": 2**53 + 1})
@example([{"a": 2**53 + 1}, {"a": 0.5}, {"a": 10**400}], {"field": "a", "gt": 2**53})
@example([{"a": -0.0}, {"a": 0}, {"a": 10**400}], {"field": "a", "gte": 0})
@example([{"a": "é\0"}, {"a": "\U0001f600"}, {"a": "\ue000"}], {"field": "a", "gt": "\ue000"})
@example([{"a": "2024-05-01"}, {"a": "x"}], {"field": "a", "gt": "2024"})
@example(
    [{"a": "2024-05-01T00:00:00Z"}, {"a": ["2024-05-01"]}, {"a": "2024-05-02"}],
    {"field": "a", "eq": "2024-05-01T02:00+02:00"},
)
@example(
    [{"a.b": 1}, {"a": {"b": 1}}, {"a.b": 1, "a": {"b": None}}, {"a": [{"b": 1}]}, {"a": [2]}],
    {"field": "a.b", "is_single": True},
)
def test_columns_have_what_matches(payloads: list[dict[str, Any]], record: Any) -> None:
    filter_ = parse_filter(record)
    read_back = [json.loads(payload_to_json(payload)) for payload in payloads]
    expected = [row for row, payload in enumerate(read_back, 1) if passes(payload, record)]
    assert [row for row, item in enumerate(read_back, 1) if filter_.matches(item)] == expected
    assert rows_in_columns(payloads, filter_) == expected


@given(FILTERS)
def test_a_filter_is_written_as_it_is_read(record: Any) -> None:
    filter_ = parse_filter(record)
    written = filter_to_json(filter_)
    assert filter_to_json(parse_filter(json.loads(written))) == written


PAYLOAD = {
    "label": "sports",
    "labels": ["sports", "health", 3],
    "year": 1999,
    "score": 0.5,
    "open": True,
    "nothing": None,
    "empty": [],
    "author": {"name": "Ann", "tags": ["x"]},
    "nested": [[1], {"a": 1}],
    "authors": [{"name": "Ann"}, {"name": "Bo"}],
    "page.count": 120,
    "page": {"count": 12},
    'the "price"': 7,
    "No.": 8,
}


@pytest.mark.parametrize(
    ("record", "holds"),
    [
        ({"field": "label", "eq": "sports"}, True),
        ({"field": "label", "eq": "Sports"}, False),
        ({"field": "labels", "eq": "health"}, True),
        ({"field": "labels", "in": [4, 3]}, True),
        ({"field": "labels", "gt": "h"}, True),
        ({"field": "year", "gte": 1999, "lt": 2000}, True),
        ({"field": "year", "gt": 1999}, False),
        ({"field": "year", "eq": 1999.0}, True),
        ({"field": "year", "eq": "1999"}, False),
        ({"field": "year", "gt": "1"}, False),
        ({"field": "open", "eq": True}, True),
        ({"field": "open", "eq": 1}, False),
        ({"field": "open", "gte": 1}, False),
        ({"field": "nothing", "exists": True}, False),
        ({"field": "nothing", "exists": False}, True),
        ({"field": "empty", "exists": True}, True),
        ({"field": "absent", "exists": False}, True),
        ({"field": "label", "is_single": True}, True),
        ({"field": "absent", "is_single": True}, True),
        ({"field": "labels", "is_single": True}, False),
        ({"field": "author", "is_single": True}, False),
        ({"field": "authors.name", "is_single": False}, True),
        ({"field": "page.count", "is_single": True}, False),
        ({"field": "author.name", "is_single": True}, True),
        ({"not": {"field": "absent", "eq": 1}}, True),
        ({"field": "author.name", "eq": "Ann"}, True),
        ({"field": "author", "exists": True}, True),
        ({"field": "author", "eq": "Ann"}, False),
        ({"field": "author.tags", "eq": "x"}, True),
        ({"field": "label.name", "exists": True}, False),
        ({"field": "nested", "eq": 1}, False),
        ({"field": "nested.a", "eq": 1}, True),
        ({"field": "authors.name", "eq": "Bo"}, True),
        ({"field": "authors.name", "eq": "Cy"}, False),
        ({"field": "page.count", "gt": 100}, True),
        ({"field": "page.count", "lt": 100}, True),
        ({"field": 'the "price"', "eq": 7}, True),
        ({"not": {"field": "No.", "eq": 8}}, False),
        ({"and": [{"field": "year", "lt": 2000}, {"field": "score", "gt": 0.4}]}, True),
        ({"or": [{"field": "year", "lt": 1990}, {"field": "score", "gt": 0.5}]}, False),
    ],
)
def test_what_a_filter_means(record: Any, holds: bool) -> None:
    filter_ = parse_filter(record)
    assert filter_.matches(PAYLOAD) == holds
    assert rows_in_columns([PAYLOAD], filter_) == [1] * holds


def deep(levels: int) -> dict[str, Any]:
    record: dict[str, Any] = {"field": "a", "eq": 1}
    for _ in range(levels):
        record = {"not": record}
    return record


def bad_filters() -> Iterator[tuple[Any, str]]:
    form = "it must be {"
    yield 3, f"filter: is 3; {form}"
    yield [], f"filter: is []; {form}"
    yield {}, f"filter: is {{}}; {form}"
    yield {"nor": []}, f"{{'nor': []}}; {form}"
    yield (
        {"nor": []},
        '"exists"|"is_null"|"is_missing"|"is_single": ...}, has_id, and, or, not',
    )
    yield {"and": [], "or": []}, form
    yield {"and": []}, "filter: and is []; it must be a list of filters, at least one"
    yield (
        {"or": {"field": "a"}},
        "filter: or is {'field': 'a'}; it must be a list of filters, at least one",
    )
    yield {"and": [{"field": "a", "eq": 1}, {"or": [7]}]}, "filter: and[1].or[0] is 7; "
    yield {"field": "a"}, "filter: must have one condition, or the bounds of one range; it has none"
    yield {"field": "a", "eq": 1, "in": [1]}, "has eq and in"
    yield {"field": "a", "eq": 1, "lt": 2}, "has eq and lt"
    yield {"field": "a", "like": "x"}, "filter: has the key 'like'; the conditions are eq, in, gt"
    yield {"not": {"field": "", "eq": 1}}, "filter: not.field is ''; it must be 1 to 256 characters"
    yield {"field": "a\0b", "eq": 1}, "filter: field is 'a\\x00b'; it must not contain NUL"
    yield {"field": "\ud800", "eq": 1}, "lone surrogate"
    yield {"field": "a", "eq": None}, "filter: eq is None; it must be a string, a number, true or"
    yield {"field": "a", "eq": None}, "true or false; is_null and is_missing find what has no value"
    yield {"field": "a", "eq": [1]}, "filter: eq is [1]; it must be a string"
    yield {"field": "a", "eq": "x\0"}, "none of them NUL"
    yield {"field": "a", "eq": "x" * 5000}, "at most 4096 characters"
    yield {"field": "a", "eq": float("nan")}, "filter: eq is nan; a number must be below 1.8e308"
    yield {"field": "a", "gt": 10**400}, "a number must be below 1.8e308"
    yield {"field": "a", "in": []}, "filter: in is []; it must be a list with a value"
    yield {"field": "a", "in": "x"}, "filter: in is 'x'; it must be a list with a value"
    yield {"field": "a", "in": list(range(1001))}, "has more than 1000 values"
    yield {"field": "a", "gt": 1, "lt": "x"}, "they must be all numbers or all strings"
    yield {"field": "a", "gt": True}, "they must be all numbers or all strings"
    yield {"field": "a", "gt": 1, "gte": 1}, "has two bounds on one side"
    yield {"field": "a", "exists": 1}, "filter: exists is 1; it must be true or false"
    yield deep(8), "is nested deeper than 8 levels"
    yield {"or": [{"field": "a", "eq": 1}] * 128}, "has more than 128 parts"


@pytest.mark.parametrize(("record", "message"), list(bad_filters()))
def test_what_is_no_filter_is_refused(record: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_filter(record)
    assert message in str(caught.value)
    assert caught.value.field == "filter"


def test_the_largest_filters_are_evaluated() -> None:
    wide = parse_filter({"or": [{"field": f"f{i}", "eq": i} for i in range(127)]})
    assert rows_in_columns([{"f126": 126}, {"f126": 1}], wide) == [1]
    many = parse_filter({"field": "a", "in": list(range(1000))})
    assert rows_in_columns([{"a": 999}, {"a": [1000]}], many) == [1]
    assert rows_in_columns([{"a": 1}, {"a": 2}], parse_filter(deep(7))) == [2]
