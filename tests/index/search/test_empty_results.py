from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index import search
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.filters import parse_filter
from hummingbit.index.search import SAMPLE, absent_fields, explain_empty, explain_no_hits
from tests.support.encoders import random_texts, text_encoder

PAYLOADS: list[dict[str, Any]] = [
    {"price": "6.24", "year": 1999, "sold": True, "maker": {"name": "Ada"}, "mixed": 3},
    {"price": "19.90", "year": 2003, "sold": False, "mixed": "three", "tags": ["a", "b"]},
]


def explain(condition: object, payloads: list[dict[str, Any]] = PAYLOADS) -> list[str]:
    return explain_empty(parse_filter(condition), payloads, are_all=True)


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
        (
            {"field": "price", "gte": "2015-01-01"},
            'filter: \'price\' holds strings such as "6.24"; "2015-01-01" finds dates and times of',
        ),
        ({"and": [{"or": [{"field": "x", "eq": 1}]}]}, "filter: no document has the field 'x'"),
        ({"field": "price", "eq": "7"}, "filter: no document has \"7\" in 'price'"),
        (
            {"field": "maker.name", "eq": "Adda"},
            "filter: no document has \"Adda\" in 'maker.name'; similar: 'Ada'",
        ),
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
        {"field": "year", "in": [1998, 2002]},
        {"field": "price", "eq": "2015-01-01"},
        {"field": "mixed", "lt": "a"},
        {"field": "sold", "in": ["yes", True]},
        {"field": "mixed", "gte": 5},
        {"not": {"field": "year", "exists": True}},
        {"field": "absent", "exists": True},
    ],
)
def test_a_condition_that_only_happens_to_match_nothing_is_not(condition: dict[str, Any]) -> None:
    assert explain(condition) == []


SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "1"]))


@given(st.lists(SCALARS), SCALARS)
def test_kinds_and_texts_that_no_document_has_are_explained(held: list[Any], value: Any) -> None:
    found = explain({"field": "x", "eq": value}, [{"x": item} for item in held])
    of_kind = [item for item in held if type(item) is type(value)]
    can_match = value in of_kind if isinstance(value, str) else bool(of_kind)
    assert bool(found) == (bool(held) and not can_match)


def test_only_the_first_documents_are_looked_at_and_the_sentences_say_so(tmp_path: Path) -> None:
    documents = [
        Document(id=f"d{at}", code="00ff", payload={"year": at} if at < SAMPLE else {"late": at})
        for at in range(SAMPLE + 1)
    ]
    late = parse_filter({"field": "late", "eq": 7})
    year = parse_filter({"field": "year", "eq": "7"})
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("c", n_bits=16)
        assert explain_no_hits(collection, late) == []
        assert absent_fields(collection, ["late"]) == []
        collection.upsert(documents[:SAMPLE])
        assert explain_no_hits(collection, None) == []
        assert explain_no_hits(collection, late) == ["filter: no document has the field 'late'"]
        assert absent_fields(collection, ["late", "year"]) == ["no document has the field 'late'"]
        collection.upsert(documents[SAMPLE:])
        absent = "none of the first 100 documents has the field 'late'"
        assert absent_fields(collection, ["late", "year"]) == [absent]
        assert explain_no_hits(collection, late) == [f"filter: {absent}"]
        assert explain_no_hits(collection, year) == [
            "filter: 'year' holds numbers in the first 100 documents; \"7\" finds strings only"
        ]


def test_of_long_texts_fewer_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_CHARACTERS", 100)
    write_artifact(tmp_path / "encoders" / "words", text_encoder(), random_texts(40))
    documents = [Document(id=str(at), text="jam and bread", payload={}) for at in range(120)]
    with DataFolder(tmp_path, writable=True) as folder:
        collection = folder.create_collection("c", encoder="words")
        collection.upsert(documents)
        few = "none of the first 50 documents has the field 'late'"
        assert absent_fields(collection, ["late"]) == [few]
