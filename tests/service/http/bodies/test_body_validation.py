from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from hummingbit.service.http.bodies import MAX_ERRORS, validate
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.schemas.collections import (
    CreateCollection,
    DeleteRequest,
    UpsertDocuments,
)
from hummingbit.service.schemas.jobs import EvaluateRequest
from hummingbit.service.schemas.search import SearchBatch, SearchRequest

MOST = {"documents": 10_000, "searches": 1_000, "inputs": 1_000, "queries": 10_000}


class Watched(list[Any]):
    """A list that tells how many of its entries were looked at."""

    seen = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.seen += len(found) if isinstance(place, slice) else 1
        return found

    def __iter__(self) -> Any:
        self.seen += len(self)
        return super().__iter__()


def errors_of(model: Any, given: Any) -> list[dict[str, str]]:
    with pytest.raises(ProblemError) as raised:
        validate(model, given, MOST)
    assert raised.value.status_code == 422
    return [dict(error) for error in raised.value.errors]


@pytest.mark.parametrize(
    ("model", "field"),
    [(EvaluateRequest, "queries"), (SearchBatch, "searches"), (UpsertDocuments, "documents")],
)
def test_lists_are_counted_before_their_entries_are_looked_at(model: Any, field: str) -> None:
    entries = Watched([0] * (MOST[field] + 1))
    (error,) = errors_of(model, {field: entries})
    assert error["pointer"] == f"/{field}"
    assert "entries; at most" in error["message"]
    assert entries.seen == 0


def test_validation_ends_with_the_first_invalid_entry() -> None:
    errors = errors_of(SearchBatch, {"searches": [{"text": "a"}, *[0] * 900]})
    assert [error["pointer"] for error in errors] == ["/searches/1"]


@pytest.mark.parametrize(
    ("model", "given", "pointer", "count"),
    [
        (SearchRequest, {"vector": [""] * 100_000}, "/vector/0", 1),
        (DeleteRequest, {"ids": [0] * 9_000}, "/ids/0", 1),
        (SearchRequest, {str(i): 0 for i in range(100_000)}, "/0", MAX_ERRORS),
        (
            EvaluateRequest,
            {
                "queries": [{"text": "a"}],
                "qrels": {"q": {"a": 1, **{str(i): "1" for i in range(100_000)}}},
            },
            "/qrels/q/0",
            1,
        ),
        (EvaluateRequest, {"queries": [], "qrels": dict.fromkeys("abc", 0)}, "/queries", 2),
    ],
)
def test_many_errors_are_few(model: Any, given: Any, pointer: str, count: int) -> None:
    errors = errors_of(model, given)
    assert len(errors) == count
    assert errors[0]["pointer"] == pointer


@pytest.mark.parametrize("inside", [False, True])
def test_of_unknown_fields_the_first_are_named(inside: bool) -> None:
    given: dict[str, Any] = {f"no{i}": 0 for i in range(100_000)} | {"vector": "x"}
    model: Any = SearchRequest
    if inside:
        model, given = UpsertDocuments, {"documents": [{"id": "a"}, given | {"id": "b"}]}
    tracemalloc.start()
    errors = errors_of(model, given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # An error takes some hundreds of bytes.
    assert peak < 10_000_000
    place = "/documents/1" if inside else ""
    assert len(errors) == MAX_ERRORS
    assert f"{place}/no0" in [error["pointer"] for error in errors]


@pytest.mark.parametrize(
    ("model", "given", "pointer", "hint"),
    [
        (SearchRequest, {"txt": "a"}, "/txt", "; did you mean text?"),
        (SearchRequest, {"withPayload": True}, "/withPayload", "; did you mean with_payload?"),
        (SearchRequest, {"hybrid": {"code": 1.0}}, "/hybrid/code", "; did you mean codes?"),
        (
            SearchRequest,
            {"hybrid": {"x": 1}},
            "/hybrid/x",
            "; the fields here are codes",
        ),
        (DeleteRequest, {"query": "a"}, "/query", "; the fields here are ids"),
        (SearchBatch, {"searches": [{"texts": "a"}]}, "/searches/0/texts", "; did you mean text?"),
        (
            UpsertDocuments,
            {"documents": [{"id": "a", "text": "a", "playload": {}}]},
            "/documents/0/playload",
            "; did you mean payload?",
        ),
    ],
)
def test_an_unknown_field_is_refused_with_the_one_that_was_meant(
    model: Any, given: Any, pointer: str, hint: str
) -> None:
    messages = {error["pointer"]: error["message"] for error in errors_of(model, given)}
    assert messages[pointer].startswith(f"is not a field of this request{hint}")


def test_long_names_are_compared_with_no_field() -> None:
    # Comparing a name takes time in proportion to its length.
    errors = errors_of(SearchRequest, {"text" * 100_000 + str(i): 0 for i in range(MAX_ERRORS)})
    assert len(errors) == MAX_ERRORS
    assert all("; the fields here are text, vector, " in error["message"] for error in errors)
    assert all(len(error["message"]) < 400 for error in errors)


@pytest.mark.parametrize(
    ("model", "given", "pointer", "message"),
    [
        (CreateCollection, {"passages": {"words": 3}}, "/passages/words", "is 3; it should be "),
        (
            CreateCollection,
            {"passages": {"wrds": 9}},
            "/passages/wrds",
            "is not a field of this request; did you mean words?",
        ),
        (
            CreateCollection,
            {"passages": "no"},
            "/passages",
            "is 'no'; it must be an object or 'auto' or true or false",
        ),
        (
            SearchRequest,
            {"code": {"foo": [1]}},
            "/code/foo",
            "is 'foo'; it should be 'ubinary' or 'binary' or 'base64'",
        ),
        (SearchRequest, {"code": 5}, "/code", "is 5; it must be a string or an object"),
        (SearchRequest, {"with_payload": ["a", 1]}, "/with_payload/1", "is 1; it must be a string"),
        (
            SearchRequest,
            {"with_payload": "yes"},
            "/with_payload",
            "is 'yes'; it must be true or false or a list",
        ),
        (
            SearchRequest,
            {"facets": [{"field": "year", "ranges": [{"gt": [1]}]}]},
            "/facets/0/ranges/0/gt",
            "is a list; it must be a number or a string",
        ),
        (
            UpsertDocuments,
            {"documents": []},
            "/documents",
            "has 0 entries; it must have at least 1",
        ),
    ],
)
def test_a_value_of_several_types_has_one_error_that_points_into_the_body(
    model: Any, given: Any, pointer: str, message: str
) -> None:
    (error,) = errors_of(model, given)
    assert error["pointer"] == pointer
    assert error["message"].startswith(message)
