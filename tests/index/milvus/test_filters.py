from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import parse_filter
from hummingbit.index.schema import payload_to_json
from tests.support.oracles.filters import FILTERS, PAYLOADS, passes

pytest.importorskip("pymilvus", reason="pymilvus is not installed")
from hummingbit.index.milvus.filters import filterable

if TYPE_CHECKING:
    from hummingbit.index.backend import CollectionBackend
    from hummingbit.index.milvus.folder import MilvusFolder

ASSORTED: list[dict[str, Any]] = [
    {},
    {"a": None, "b": [None]},
    {"a": 0.1, "b": [0.1, 7]},
    {"a": "x\0y", "b": ["x\0", "x"]},
    {"a": 2**63, "b": [2**63, -(2**63) - 1]},
    {"a": 2**63 - 1, "b": [2**53 + 1]},
    {"a": {"b": [{"b": 1}, 1], "0": 2}},
    {"a": True, "b": [True, 1.0]},
    {"a": [1], "0": 1, "#0": 2},
    {"a": {"b": {}}, "b": []},
    {"a": {"b": {"a": 1, "b": "\U0001f600"}}, "é": -0.0},
    {"a": 5e-324, "b": 1.7976931348623157e308},
    {"a.b": 1, "a": {"b": 2}},
    {"a.b": 3},
    {"a": [{"b": 2}, {"b": [4]}, 5]},
    {"a": {"b": [{"b": 4}]}, "a.b": {"b": 1}},
    {"a.b": [{"b": 6}], 'a"': 1, "b\\": 1, "x/y": 1, "x~y": 1, "a.": 1},
    {"a": {'b"': 1, "": 2}},
]


def can_be_stored(payload: dict[str, Any]) -> bool:
    try:
        filterable(payload)
    except InputError:
        return False
    return True


@pytest.fixture(scope="module")
def fill(milvus_folder: MilvusFolder) -> Callable[[list[dict[str, Any]]], CollectionBackend]:
    collection = milvus_folder.create_collection("filtered", n_bits=8)
    numbers = itertools.count()

    def fill(payloads: list[dict[str, Any]]) -> CollectionBackend:
        ids = [f"p{next(numbers)}" for _ in payloads]
        documents = [
            Document(id=id_, code="00", payload=payload)
            for id_, payload in zip(ids, payloads, strict=True)
        ]
        if len(collection):
            collection.delete([document.id for document in collection.all_documents()])
        collection.upsert(documents)
        return collection

    return fill


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    payloads=st.lists(PAYLOADS.filter(can_be_stored), max_size=12),
    records=st.lists(FILTERS, min_size=1, max_size=4),
)
def test_milvus_finds_what_matches(
    fill: Callable[[list[dict[str, Any]]], CollectionBackend],
    payloads: list[dict[str, Any]],
    records: list[Any],
) -> None:
    payloads = [*ASSORTED, *payloads]
    collection = fill(payloads)
    stored = collection.all_documents()
    read_back = [json.loads(payload_to_json(payload)) for payload in payloads]
    assert [document.payload for document in stored] == read_back
    for record in records:
        filter_ = parse_filter(record)
        expected = [document.id for document in stored if passes(document.payload, record)]
        page = collection.scroll(1000, filter=filter_)
        assert [document.id for document in page.documents] == expected
        assert collection.count(filter_) == len(expected)


@pytest.mark.parametrize(
    "record",
    [
        {"field": "a", "gt": 2**63 - 1},
        {"field": "a", "lte": 2**63 - 1, "gt": 0},
        {"field": "a", "eq": 2**63 - 1},
        {"field": "a", "gte": -(2**63)},
        {"field": "a", "lt": -(2**63)},
        {"field": "b", "in": [2**53 + 1, "x", 1]},
        {"field": "b", "eq": 2**53},
        {"not": {"field": "b", "gt": 0, "lt": 1}},
        {"field": "a.0", "eq": 1},
        {"field": "a.0", "eq": 2},
        {"field": "0", "eq": 1},
        {"field": "#0", "eq": 2},
        {"field": "a", "exists": True},
        *(
            {"field": field, **condition}
            for field in ("a.b", "a.b.b", 'a"', "b\\", "x/y", "x~y", "a.", 'a.b"')
            for condition in ({"exists": True}, {"exists": False}, {"in": [1, 2]}, {"gt": 1})
        ),
        {"not": {"field": "a.b", "eq": 3}},
        {"field": "b", "gt": 2**64},
        {"field": "a.b", "exists": False},
        {"field": "a", "eq": "x\\"},
        {"field": "a", "eq": '" or row > 0 or id == "'},
        {"not": {"field": "missing", "lt": 3}},
        {"field": "é", "eq": 0},
        {"field": "b", "lte": 1.7976931348623157e308, "gte": 1e300},
    ],
)
def test_what_milvus_might_read_otherwise(
    fill: Callable[[list[dict[str, Any]]], CollectionBackend], record: Any
) -> None:
    collection = fill(ASSORTED)
    filter_ = parse_filter(record)
    expected = [at for at, payload in enumerate(ASSORTED) if passes(payload, record)]
    assert collection.count(filter_) == len(expected)
    found = collection.scroll(1000, filter=filter_).documents
    assert [payload_to_json(document.payload) for document in found] == [
        payload_to_json(ASSORTED[at]) for at in expected
    ]


def test_a_number_beyond_floating_point_is_refused() -> None:
    with pytest.raises(InputError, match="payload: holds a number beyond the range of floating"):
        filterable({"a": [{"b": 10**400}]})
