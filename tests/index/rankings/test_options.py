"""What a search by words and codes can be asked besides a ranking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.options import (
    Hybrid,
    Rescore,
)
from hummingbit.index.rankings import DEFAULT_WEIGHT
from hummingbit.index.records import Query
from hummingbit.index.store.store import Store
from tests.support.collections import text_collection
from tests.support.encoders import random_texts

(TEXT,) = random_texts(1, seed=7)
ASKED = [Query(text=TEXT)]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with closing(text_collection(tmp_path)) as collection:
        texts = random_texts(60)
        collection.upsert([Document(id=f"d{at}", text=text) for at, text in enumerate(texts)])
        yield collection


def ranked(collection: Collection, ranking: str, hybrid: Hybrid | None = None) -> list[str]:
    (hits,) = collection.search(ASKED, 60, ranking=ranking, hybrid=hybrid).hits
    return [hit.id for hit in hits]


def test_candidates_are_put_in_the_order_of_another_score(collection: Collection) -> None:
    result = collection.search(
        ASKED, 4, ranking="hamming", offset=1, rescore=Rescore("bm25", oversample=3)
    )
    candidates = ranked(collection, "hamming")[:15]
    row_of = {document.id: document.row for document in collection.all_documents()}
    (by_words,) = collection.search(ASKED, 60, ranking="bm25").hits
    score_of = {hit.id: hit.score for hit in by_words}
    expected = sorted(candidates, key=lambda id_: (-score_of.get(id_, 0), row_of[id_]))
    assert [hit.id for hit in result.hits[0]] == expected[1:5]
    assert [hit.score for hit in result.hits[0]] == [score_of.get(id_, 0) for id_ in expected[1:5]]
    assert result.rescored_by == "bm25"
    assert result.next_cursors == [None]
    (near,) = collection.search(ASKED, 60, ranking="hamming").hits
    distance_of = {hit.id: hit.distance for hit in near}
    assert all(hit.distance == distance_of[hit.id] for hit in result.hits[0])


def test_with_candidates_enough_rescoring_is_the_other_ranking(collection: Collection) -> None:
    rescored = collection.search(ASKED, 10, ranking="bm25", rescore=Rescore("logits", 100))
    found = ranked(collection, "bm25")
    expected = [id_ for id_ in ranked(collection, "asymmetric") if id_ in found]
    assert [hit.id for hit in rescored.hits[0]] == expected[:10]


def test_the_weight_of_the_codes_is_given(collection: Collection) -> None:
    assert ranked(collection, "hybrid", Hybrid(codes=DEFAULT_WEIGHT)) == ranked(
        collection, "hybrid"
    )
    heavy = ranked(collection, "hybrid", Hybrid(codes=1000.0))
    (hits,) = collection.search(ASKED, 60, ranking="asymmetric").hits
    score_of = {hit.id: hit.score for hit in hits}
    assert np.all(np.diff([score_of[id_] for id_ in heavy]) <= 0)


def test_hits_show_a_passage(collection: Collection) -> None:
    result = collection.search(ASKED, 3, ranking="bm25", highlight=True)
    words = set(TEXT.split())
    for hit in result.hits[0]:
        assert hit.text is None
        assert hit.highlight is not None
        marked = [hit.highlight.passage[start:end] for start, end in hit.highlight.marks]
        assert marked
        assert set(marked) <= words
    result = collection.search(ASKED, 3, ranking="hamming", highlight=True, with_text=True)
    assert all(hit.text and hit.highlight for hit in result.hits[0])


@pytest.mark.parametrize("ranking", ["hamming", "bm25", "hybrid"])
def test_a_passage_marks_words_as_they_were_corrected(collection: Collection, ranking: str) -> None:
    texts = [Query(text=text) for text in ("aple matirx", "apple matrix")]
    result = collection.search(texts, 20, ranking=ranking, highlight=True)
    given, corrected = ([(hit.id, hit.highlight) for hit in hits] for hits in result.hits)
    assert given == corrected
    assert any(highlight and highlight.marks for _, highlight in given)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"rescore": Rescore("words")}, "rescore: by is 'words'; it must be one of bm25, logits"),
        ({"rescore": Rescore("bm25", 0.5)}, "rescore: oversample is 0.5; it must be from 1 to 100"),
        ({"rescore": Rescore("bm25", 100), "k": 9000}, "rescore: .* it must be at most 100,000"),
        ({"rescore": Rescore("bm25"), "cursor": "x"}, "cursor: "),
        (
            {"hybrid": Hybrid(codes=0.3), "ranking": "bm25"},
            "hybrid: applies to the ranking 'hybrid'",
        ),
        ({"hybrid": Hybrid(codes=0.0), "ranking": "hybrid"}, "hybrid: codes is 0; it must be from"),
    ],
)
def test_what_cannot_be_is_refused(
    collection: Collection, wanted: dict[str, object], message: str
) -> None:
    options = {"k": 5, **wanted}
    with pytest.raises(InputError, match=message):
        collection.search(ASKED, **options)  # type: ignore[arg-type]


def test_a_query_by_id_goes_by_codes_where_words_are_the_default(collection: Collection) -> None:
    collection.set_ranking("hybrid")
    mixed = collection.search([Query(id="d3"), *ASKED], 60)
    assert mixed.rankings == ["hamming", "hybrid"]
    nearest = collection.search([Query(id="d3")], 60, ranking="hamming")
    assert [(hit.id, hit.score) for hit in mixed.hits[0]] == [
        (hit.id, hit.score) for hit in nearest.hits[0]
    ]
    assert [hit.id for hit in mixed.hits[1]] == ranked(collection, "hybrid")
    with pytest.raises(InputError, match="needs a text as the query"):
        collection.search([Query(id="d3")], 5, rescore=Rescore("bm25"))


def test_a_collection_has_a_weight_of_its_own(collection: Collection, tmp_path: Path) -> None:
    assert collection.hybrid_weight == DEFAULT_WEIGHT
    default, expected = (ranked(collection, "hybrid", item) for item in (None, Hybrid(codes=9.0)))
    assert default != expected
    collection.set_hybrid_weight(9.0)
    assert ranked(collection, "hybrid") == expected
    for bad in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(InputError, match=r"hybrid_weight: is .*must be from 0\.001 to 1000"):
            collection.set_hybrid_weight(bad)
    with closing(
        Collection(Store(tmp_path / "store.sqlite", writable=False), collection.encoder)
    ) as again:
        assert again.hybrid_weight == 9
    collection.set_hybrid_weight(None)
    assert ranked(collection, "hybrid") == default
