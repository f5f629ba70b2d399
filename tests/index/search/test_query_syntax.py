from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit import Collection, SemanticHasher
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.foundation.errors import InputError
from hummingbit.index.filters import AnyOf, parse_filter
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
    assert "3" not in found("random forest NOT regressor")
    assert "0" not in found('letter NOT "dead letter"')
    assert "3" in found("RANDOM FOREST NOT REGRESSOR")
    assert "3" in found("random forest NOT REGRESSOR")
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
    assert read_query_text(text, {"label"}.__contains__) == QueryText(text)


def test_a_condition_needs_a_field_that_documents_have() -> None:
    has_label = {"label", "year"}.__contains__
    assert read_query_text("error:404 code", has_label).filter is None
    read = read_query_text('word label:"two words" year:1990', has_label)
    assert read.text == "word"
    assert "AnyOf" in repr(read.filter)
    assert read_query_text('word label:"x"', has_label).filter == AnyOf("label", ("x",))


PAYLOADS: list[dict[str, Any]] = [
    {"brand": "Sony", "price": 49.5, "released": "2024-09-08", "customer": {"plan": "pro"}},
    {"brand": "Acme", "price": 12, "released": "2024-09-08T10:30:00Z", "label": "toys"},
    {"brand": "SONY", "price": 499, "released": "2023-12-31", "labels": ["toys", "phones"]},
    {"brand": "Bosch Pro", "price": 10, "released": "2024-10-01", "due": None, "year": 2024},
    {
        "brand": "Bosch",
        "first-name": "HB-0840",
        "is_new": True,
        "due": "soon",
        "order no. (old)": 17,
    },
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Return a collection without indexed fields."""
    collection = Collection.create(tmp_path_factory.mktemp("shop"), "shop", encoder=None)
    texts = [f"drill number {number}" for number in "one two three four five".split()]
    collection.add(texts, ids=[*"01234"], payloads=PAYLOADS)
    return collection


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("brand:Sony", "02"),
        ("brand:sony", "02"),
        ('brand:"Sony"', "0"),
        ('brand:"Bosch Pro"', "3"),
        ("brand:bosch*", ""),
        ("brand:Bosch*", "34"),
        ("-brand:sony", "134"),
        ("label:toys", "12"),
        ("customer.plan:pro", "0"),
        ("first-name:HB-*", "4"),
        ("is_new:true", "4"),
        ("due:*", "4"),
        ("price:<50", "013"),
        ("price:>=49.5", "02"),
        ("price:=12", "1"),
        ("price:[10 TO 50]", "013"),
        ("price:{10 TO 50]", "01"),
        ("price:[* TO 12]", "13"),
        ("price:10..50", "013"),
        ("price:49.5..", "02"),
        ("price:..12", "13"),
        ("released:2024-09-08", "01"),
        ("released:2024-09", "01"),
        ("released:2024", "013"),
        ("released:>2024-09-08", "3"),
        ("released:<=2024-09-08", "012"),
        ("released:2024-09-01..2024-09-08", "01"),
        ("released:>2024-09-08T09:00:00Z", "13"),
        ("released:>2023", "013"),
        ("year:2024", "3"),
        ("year:>2023", "3"),
        ("brand:[A TO C]", "134"),
        ("price:<50 -brand:Sony released:2024-10-01", "3"),
        ("id:3", "3"),
        ('id:"3" OR id:4', "34"),
        ("-id:3 price:<50", "01"),
        ("brand:Acme OR brand:Bosch", "14"),
        ("brand:Acme OR brand:Bosch OR price:499", "124"),
        ("brand:Sony AND price:<50 OR -price:*", "0"),
        ("price:10..50 brand:Acme OR label:phones", "1"),
        ("NOT brand:sony", "134"),
        ("price:<50 AND NOT brand:Sony", "13"),
        ("NOT customer.plan:pro NOT label:toys", "34"),
        ('"order no. (old)":17', "4"),
        ('-"order no. (old)":17 price:<50', "013"),
    ],
)
@pytest.mark.parametrize("ranking", ["bm25", None])
def test_a_condition_can_be_on_any_field_alone_or_beside_words(
    shop: Collection, condition: str, ids: str, ranking: str | None
) -> None:
    for text in (condition, f"drill {condition}", f"{condition} drill"):
        hits = shop.search(text, ranking=ranking)
        assert sorted(hits.ids) == [*ids], text
        assert hits.warnings == []


@pytest.mark.parametrize("ranking", ["hamming", "asymmetric", "hybrid", "bm25"])
def test_conditions_alone_list_documents_in_their_order(
    collection: Collection, ranking: str
) -> None:
    first = collection.search("label:b", limit=2, ranking=ranking)
    assert first.ids == ["0", "2"]
    assert [hit.score for hit in first] == [1.0, 1.0]
    assert first.recognized_terms is None
    assert collection.search("label:b", limit=2, offset=2, ranking=ranking).ids == ["4"]
    both = collection.search_many(["label:a", "random forest label:b"], limit=3, ranking=ranking)
    assert both[0].ids == ["1", "3"]
    assert both[1].ids[0] == "2"


def test_too_many_fields_are_words(shop: Collection) -> None:
    fields = " ".join(f"field{number}:x" for number in range(20))
    hits = shop.search(f"drill {fields}")
    assert len(hits.warnings) == 20
    assert "at most 8 fields" in hits.warnings[-1]


def test_a_field_is_known_once_a_document_has_it(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path, "later", encoder=None)
    collection.add(["a drill", "another drill"], ids=["a", "b"])
    assert sorted(collection.search("drill colour:red").ids) == ["a", "b"]
    collection.add(["a red drill"], ids=["c"], payloads=[{"colour": "red"}])
    assert collection.search("drill colour:red").ids == ["c"]
    collection.delete(["c"])
    assert sorted(collection.search("drill colour:red").ids) == ["a", "b"]


def warned(collection: Collection, query: str, **options: Any) -> list[list[str]]:
    """Return the warnings of a search by the library and by a request."""
    request = collection.backend.answer(Query(text=query), {"limit": 3, **options})
    return [collection.search(query, limit=3, **options).warnings, request.get("warnings", [])]


def test_a_condition_that_is_read_as_words_is_said(collection: Collection) -> None:
    for field in ("colour", "unknown"):
        said = f"'{field}:red' is searched for as words: no document has the field '{field}'"
        assert warned(collection, f"random {field}:red") == [[said]] * 2
        assert warned(collection, f"forest -regressor {field}:red label:a") == [[said]] * 2
        assert warned(collection, f"random {field}:red", syntax="plain") == [[]] * 2
    for query in ("random forest label:a", "at 10:30", "see http://host/path", "a: b"):
        assert warned(collection, query) == [[]] * 2
    both = collection.search_many(["random", "random colour:red"], limit=3)
    assert [len(hits.warnings) for hits in both] == [0, 1]
    alike = [collection.search(f"random {word}red", limit=5).ids for word in ("colour:", "colour ")]
    assert alike[0] == alike[1]


def test_an_id_that_is_searched_for_as_a_word_is_said(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path, "tickets", encoder=None)
    collection.add(["printer jams", "as INC41 says, it jams"], ids=["INC40", "INC41"])

    def said(text: str) -> object:
        return collection.backend.answer(Query(text=text), {"limit": 3}).get("warnings")

    hint = "'INC40' is the id of a document, and ids are not searched; id:INC40 finds it"
    assert said("INC40") == [hint]
    assert said("INC41") is None  # found by its text
    assert said("INC42") is said("printer") is said("id:INC40") is said("INC40 printer") is None


def test_a_facet_that_no_document_has_is_said_beside_hits(shop: Collection) -> None:
    def said(*fields: str) -> object:
        facets = [{"field": field} for field in fields]
        answer = shop.backend.answer(Query(text="drill"), {"limit": 3, "facets": facets})
        assert answer["hits"]
        return answer.get("warnings")

    assert said("brand", "colour") == ["facets: no document has the field 'colour'"]
    assert said("due") is None


def test_a_condition_that_no_document_can_meet_is_said(collection: Collection) -> None:
    collection.backend.set_indexed_fields(["label", "shelf"])
    said = ["filter: no document has the field 'shelf'"]
    assert warned(collection, "random shelf:a") == [said] * 2
    collection.backend.set_indexed_fields(["label"])


def test_a_bound_that_may_be_a_number_or_a_year_is_explained_once(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path, "bills", encoder=None)
    collection.add(["a drill"], payloads=[{"cost": "12,50 €", "sold": "2024-05-01"}])
    said = ["filter: 'cost' holds strings; 1000 finds numbers only"]
    assert warned(collection, "drill cost:>1000") == [said] * 2
    assert warned(collection, "drill sold:>2030") == [[]] * 2
    both = ["filter: 'cost' holds strings; 1000 finds numbers only"]
    both.append("filter: no document has the field 'year'")
    filter_ = parse_filter({"or": [{"field": "cost", "gt": 1000}, {"field": "year", "eq": 1}]})
    assert collection.backend.explain_no_hits(filter_) == both


@given(st.text(max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    read = read_query_text(text, {"label"}.__contains__)
    assert read.text or read.is_only_filter or not VISIBLE.normalize(text)


def test_the_last_word_is_completed_by_words_of_the_documents(collection: Collection) -> None:
    assert collection.complete("random fore") == ["random forest"]
    assert collection.complete("pod") == ["pods"]
    assert collection.complete("xyz") == []
    with pytest.raises(InputError, match="is 0; it must be from 1 to 100"):
        collection.complete("random", 0)
    with pytest.raises(InputError, match="must end with a word"):
        collection.complete("random ")
