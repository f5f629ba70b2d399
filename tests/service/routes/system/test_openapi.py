from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import CONDITIONS, PRESENCE, parse_filter
from hummingbit.service.schemas.common import FILTER_OBJECT


@pytest.fixture(scope="module")
def description(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_what_can_be_done_in_the_background_says_how(description: dict[str, Any]) -> None:
    named = set()
    for name, operation in operations(description):
        asked = [parameter["name"] for parameter in operation.get("parameters", ())]
        if "Prefer" in asked:
            named.add(name.rpartition("/")[2])
            assert "Location" in operation["responses"]["202"]["headers"]
    assert named == {
        "documents:bulk",
        "evaluate",
        "snapshots",
        "snapshots:upload",
        "verify",
        "compact",
        "index-fields",
    }


def test_every_answer_that_asks_for_patience_says_how_much(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        for status in {"429", "503"} & set(operation["responses"]):
            assert "Retry-After" in operation["responses"][status]["headers"], name


def test_every_operation_says_what_it_does(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        assert operation["description"], name


def test_every_operation_has_a_short_name_of_its_own(description: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(description)]
    assert len(set(names)) == len(names)
    for name in names:
        # What a generator makes a function of: words, not a path or a method.
        assert re.fullmatch(r"[a-z]+(_[a-z0-9]+){0,4}", name), name
        assert not re.match("(put|post|patch)_(?!labels|judgements)", name), name


def test_every_operation_has_one_tag_that_is_declared(description: dict[str, Any]) -> None:
    declared = {tag["name"]: tag["description"] for tag in description["tags"]}
    used = set()
    for name, operation in operations(description):
        (tag,) = operation["tags"]
        assert tag in declared, name
        used.add(tag)
    assert used == declared.keys()


def test_every_reference_has_a_target_and_every_list_says_what_it_holds(
    description: dict[str, Any],
) -> None:
    schemas = description["components"]["schemas"]
    for part in parts(description):
        if "$ref" in part:
            assert part["$ref"].removeprefix("#/components/schemas/") in schemas
        if part.get("type") == "array":
            assert "items" in part


def test_every_filter_of_a_body_has_the_schema_of_filters(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    for name in ("SearchRequest", "SearchBatch", "ScrollRequest", "CountRequest", "DeleteRequest"):
        choices = schemas[name]["properties"]["filter"]["anyOf"]
        assert choices == [{"$ref": "#/components/schemas/Filter"}, {"type": "null"}]
    assert FILTER_OBJECT not in list(parts(description))


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object inside a JSON value."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from parts(inner)


@pytest.fixture(scope="module")
def filter_validator(description: dict[str, Any]) -> Draft202012Validator:
    schema = {"$ref": "#/components/schemas/Filter", "components": description["components"]}
    return Draft202012Validator(schema)


SCALARS = st.one_of(st.text(max_size=3), st.integers(), st.floats(allow_nan=False), st.booleans())
CONDITION_VALUES = {
    "in": st.lists(SCALARS, max_size=2),
    **{name: st.booleans() for name in PRESENCE},
    **{name: st.text(max_size=3) for name in ("prefix", "contains")},
}
CONDITION_OBJECTS = st.builds(
    lambda field, conditions: {"field": field, **conditions},
    st.sampled_from(["a", "b.c", ""]),
    st.sampled_from(CONDITIONS).flatmap(
        lambda name: st.fixed_dictionaries({name: CONDITION_VALUES.get(name, SCALARS)})
    ),
)
HAS_ID = st.fixed_dictionaries({"has_id": st.lists(st.text(max_size=3), max_size=2)})
FILTERS = st.recursive(
    CONDITION_OBJECTS | HAS_ID,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(inner, max_size=2)}),
        st.fixed_dictionaries({"or": st.lists(inner, max_size=2)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)


@given(filter_=FILTERS)
def test_the_schema_takes_every_filter_that_the_service_takes(
    filter_validator: Draft202012Validator, filter_: Any
) -> None:
    try:
        parse_filter(filter_)
    except InputError:
        return
    filter_validator.validate(filter_)


@pytest.mark.parametrize(
    "filter_",
    [
        {},
        {"field": "a"},
        {"field": "a", "equals": 1},
        {"field": "a", "in": "b"},
        {"field": "a", "in": []},
        {"field": "a", "eq": {"b": 1}},
        {"field": "a", "exists": 1},
        {"and": {"field": "a", "eq": 1}},
        {"and": []},
        {"not": [{"field": "a", "eq": 1}]},
        {"and": [{"field": "a", "eq": 1}], "or": [{"field": "a", "eq": 1}]},
    ],
)
def test_neither_the_schema_nor_the_service_takes_what_is_no_filter(
    filter_validator: Draft202012Validator, filter_: Any
) -> None:
    assert not filter_validator.is_valid(filter_)
    with pytest.raises(InputError):
        parse_filter(filter_)
