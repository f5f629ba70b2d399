"""The ranking by words, as a collection's search gives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.foundation.errors import InputError
from hummingbit.index.collection import Collection
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, UNIT
from hummingbit.index.records import Query
from hummingbit.index.search import Hit
from tests.support.collections import text_collection, text_documents
from tests.support.encoders import random_texts
from tests.support.oracles.brute_force_bm25 import BruteForceBm25

ANALYZER = ANALYZERS[DEFAULT_ANALYZER]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with closing(text_collection(tmp_path)) as collection:
        yield collection


def expected(
    collection: Collection, text: str, filter_: Filter | None = None
) -> list[tuple[str, float]]:
    held = {document.row: document for document in collection.all_documents()}
    oracle = BruteForceBm25(
        [(row, document.text or "") for row, document in held.items()], ANALYZER
    )
    found = [(held[row], score / UNIT) for score, row in oracle.rank(text, len(held))]
    return [
        (document.id, score)
        for document, score in found
        if not filter_ or filter_.matches(document.payload)
    ]


def pairs(hits: list[Hit]) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]


def test_hits_are_those_of_the_oracle(collection: Collection) -> None:
    collection.upsert(text_documents(60))
    texts = random_texts(8, seed=1)
    third = parse_filter({"field": "third", "eq": 1})
    result = collection.search([Query(text=text) for text in texts], 12, ranking="bm25")
    some = collection.search([Query(text=text) for text in texts], 12, ranking="bm25", filter=third)
    assert result.rankings == ["bm25"] * len(texts)
    for text, hits, few in zip(texts, result.hits, some.hits, strict=True):
        assert pairs(hits) == expected(collection, text)[:12]
        assert pairs(few) == expected(collection, text, third)[:12]


def test_pages_hold_while_documents_come_and_go(collection: Collection) -> None:
    rng = np.random.default_rng(0)
    collection.upsert(text_documents(60))
    (text,) = random_texts(1, seed=3)
    left = expected(collection, text)
    cursor, first = None, True
    while cursor is not None or first:
        result = collection.search([Query(text=text)], 7, ranking="bm25", cursor=cursor)
        assert pairs(result.hits[0]) == left[:7]
        left, first = left[7:], False
        (cursor,) = result.next_cursors
        # Frequencies and lengths change with every write; the scores of this search do not.
        collection.upsert(text_documents(10, seed=int(rng.integers(99)), prefix=f"new{len(left)}-"))
        gone = [id_ for id_, _ in left[-2:]]
        collection.delete(gone)
        left = [item for item in left if item[0] not in gone]
    assert not left


def test_what_is_found_by_no_word_is_no_hit(collection: Collection) -> None:
    collection.upsert(text_documents(5))
    assert collection.search([Query(text="zzqx blorp")], 5, ranking="bm25").hits == [[]]
    assert collection.search([Query(text="")], 5, ranking="bm25").hits == [[]]


def test_a_query_that_is_no_text_is_refused(collection: Collection) -> None:
    collection.upsert(text_documents(5))
    with pytest.raises(InputError, match="needs a text as the query") as refused:
        collection.search([Query(text="red"), Query(id="d1")], 5, ranking="bm25")
    assert refused.value.position == 1
    with pytest.raises(InputError, match="radius"):
        collection.search([Query(text="red")], 5, 3, ranking="bm25")
