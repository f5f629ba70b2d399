from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit import Collection, SemanticHasher
from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import AnyOf
from hummingbit.index.query_syntax import QueryText, read_query_text
from hummingbit.index.records import Query

TEXTS = [
    "messages that fail go to the dead letter queue",
    "the letter about the dead line never came",
    "a random forest classifier for classes",
    "a random forest regressor for prices",
    "kubernetes restarts pods whose probes fail",
]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    hasher = SemanticHasher(n_bits=16, method="lsh").fit(TEXTS * 10)
    folder: Path = tmp_path_factory.mktemp("syntax")
    collection = Collection.create(folder, "demo", encoder=hasher)
    ids = [str(number) for number in range(len(TEXTS))]
    labels = [{"label": "a" if number % 2 else "b"} for number in range(len(TEXTS))]
    collection.add(TEXTS, ids=ids, payloads=labels)
    collection.backend.set_indexed_fields(["label"])
    return collection


@pytest.mark.parametrize("ranking", ["hybrid", "bm25", "asymmetric", "hamming"])
def test_phrases_exclusions_and_conditions_limit_every_ranking(
    collection: Collection, ranking: str
) -> None:
    def found(query: str, **options: object) -> set[str]:
        return {*collection.search(query, limit=5, ranking=ranking, **options).ids}  # type: ignore[arg-type]

    assert found('"dead letter"') == {"0"}
    assert "3" not in found("random forest -regressor")
    assert "2" in found("random forest -regressor")
    assert "0" not in found('letter -"dead letter"')
    assert found("forest label:a") <= {"1", "3"}
    assert "3" in found("random forest -regressor", syntax="plain")
    assert {"0", "1"} <= found('"dead letter"', syntax="plain")


def test_a_phrase_that_no_document_has_is_not_required(collection: Collection) -> None:
    assert collection.search('"letter dead"', limit=1, ranking="bm25").ids
    assert collection.search("kubern*", limit=5, ranking="bm25").ids == ["4"]


def test_pages_of_a_query_with_a_syntax_continue(collection: Collection) -> None:
    first = collection.search("random forest -kubernetes", limit=1, ranking="hybrid")
    both = collection.search("random forest -kubernetes", limit=2, ranking="hybrid")
    second = collection.search("random forest -kubernetes", limit=1, offset=1, ranking="hybrid")
    assert first.ids + second.ids == both.ids


@pytest.mark.parametrize(
    "text",
    [
        "tar -x",
        "10:30",
        "-only",
        "a - b",
        "non-linear",
        "http://host:80/path",
        'an inch is 1" long',
        "one\n-regressor",
        "x" * 300 + " -word",
    ],
)
def test_what_is_no_syntax_stays_words(text: str) -> None:
    assert read_query_text(text, {"label"}) == QueryText(text)


def test_a_condition_needs_a_known_field() -> None:
    assert read_query_text("error:404 code", {"label"}).filter is None
    read = read_query_text('word label:"two words" year:1990', {"label", "year"})
    assert read.text == "word"
    assert "AnyOf" in repr(read.filter)
    assert read_query_text("word label:x", {"label"}).filter == AnyOf("label", ("x",))


def warned(collection: Collection, query: str, **options: Any) -> list[list[str]]:
    """Return the warnings of a search by the library and by a request."""
    request = collection.backend.answer(Query(text=query), {"limit": 3, **options})
    return [collection.search(query, limit=3, **options).warnings, request.get("warnings", [])]


def test_a_condition_that_is_read_as_words_is_said(collection: Collection) -> None:
    for field in ("colour", "unknown"):
        said = f"'{field}:red' is searched for as words: '{field}' is not an indexed field"
        assert warned(collection, f"random {field}:red") == [[said]] * 2
        assert warned(collection, f"forest -regressor {field}:red label:a") == [[said]] * 2
        assert warned(collection, f"random {field}:red", syntax="plain") == [[]] * 2
    for query in ("random forest label:a", "at 10:30", "see http://host/path", "a: b"):
        assert warned(collection, query) == [[]] * 2
    both = collection.search_many(["random", "random colour:red"], limit=3)
    assert [len(hits.warnings) for hits in both] == [0, 1]
    alike = [collection.search(f"random {word}red", limit=5).ids for word in ("colour:", "colour ")]
    assert alike[0] == alike[1]


def test_a_condition_that_no_document_can_meet_is_said(collection: Collection) -> None:
    collection.backend.set_indexed_fields(["label", "shelf"])
    said = ["filter: no document has the field 'shelf'"]
    assert warned(collection, "random shelf:a") == [said] * 2
    collection.backend.set_indexed_fields(["label"])


@given(st.text(max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    read = read_query_text(text, {"label"})
    assert read.text or not text


def test_the_last_word_is_completed_by_words_of_the_documents(collection: Collection) -> None:
    assert collection.complete("random fore") == ["random forest"]
    assert collection.complete("pod") == ["pods"]
    assert collection.complete("xyz") == []
    with pytest.raises(InputError, match="is 0; it must be from 1 to 100"):
        collection.complete("random", 0)
    with pytest.raises(InputError, match="must end with a word"):
        collection.complete("random ")
