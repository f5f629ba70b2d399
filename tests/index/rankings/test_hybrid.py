"""The ranking by codes and words together, against the same scores of every document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.foundation.errors import InputError
from hummingbit.index import rankings
from hummingbit.index.collection import Collection
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.filters import Filter, parse_filter
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, UNIT, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.options import SearchOptions
from hummingbit.index.rankings import DEFAULT_WEIGHT, OF_MODELS, HybridRanking, quantize_weights
from hummingbit.index.records import EncodedQueries, Query
from hummingbit.index.search import (
    Position,
    cursor_identity,
    write_cursor,
)
from tests.support.codes import clustered_codes
from tests.support.collections import encoded_collection, text_collection, text_documents
from tests.support.encoders import random_texts
from tests.support.models import tiny_model
from tests.support.oracles.brute_force_bm25 import BruteForceBm25

ANALYZER = ANALYZERS[DEFAULT_ANALYZER]


def standardized(scores: np.ndarray) -> np.ndarray:
    deviation = scores.std()
    return (scores - scores.mean()) / deviation if deviation > 1e-9 else np.zeros(len(scores))


def text_of(queries: EncodedQueries, place: int) -> str:
    question = queries.questions[place]
    return "" if question is None else question.text


def brute_force(
    queries: EncodedQueries, place: int, codes: np.ndarray, texts: list[str], weight: float
) -> np.ndarray:
    """Score every document, in floating-point numbers all along.

    The evidence of the best document by words is 1 or more where it has all that the query asks.
    """
    oracle = BruteForceBm25(list(enumerate(texts)), ANALYZER)
    text = text_of(queries, place)
    words = np.array(oracle.hybrid_scores(text), dtype=np.float64) / UNIT
    signs = unpack_codes(codes).astype(np.float64) * 2 - 1
    asked = quantize_weights(queries.weights[place : place + 1])[0][0]
    return words_count(oracle, text) * words / 2 + weight * standardized(signs @ asked)


def words_count(oracle: BruteForceBm25, text: str) -> float:
    """Return how much words count: 1 if a document has much of the query, down to 1/16.

    With the weight W of the query's words, of which a share κ is known, the evidence of a document
    is κ √W times its score as a share of that of the known words alone.
    """
    counts = Counter(ANALYZER.terms(text))
    idfs = {term: oracle.idf(term, 1000) for term in counts}
    known = sum(idfs[term] * n for term, n in counts.items())
    if not known:
        return 1 / 16
    unknown = sum(n for term, n in counts.items() if not idfs[term])
    most = np.log(1 + 1000.5 / 0.5)
    alone = oracle.score_of_terms([term for term in ANALYZER.terms(text) if idfs[term]])
    weight = known + most * unknown
    share = max(oracle.hybrid_scores(text)) / alone
    evidence = known / weight * share * np.sqrt(weight)
    return float(min(1.0, max(1 / 16, (evidence / 1.5) ** 2)))


def assert_in_order(scores: np.ndarray, rows: np.ndarray, expected: np.ndarray, k: int) -> None:
    """Check that `rows` are the best of `expected`; what rounding alone tells apart may swap."""
    assert len(rows) == min(k, len(expected))
    assert len(set(rows.tolist())) == len(rows)
    assert scores == pytest.approx(expected[rows], abs=1e-9)
    assert scores == pytest.approx(np.sort(expected)[::-1][: len(rows)], abs=1e-9)
    assert all(
        (-scores[at], rows[at]) < (-scores[at + 1], rows[at + 1]) for at in range(len(rows) - 1)
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_documents=st.integers(1, 60),
    weight=st.sampled_from([0.001, 0.3, 1.0, 50.0]),
    k=st.integers(1, 70),
    nearest_share=st.sampled_from([2, 5, rankings.NEAREST_SHARE]),
)
def test_it_ranks_as_scoring_every_document_does(
    *,
    seed: int,
    n_documents: int,
    weight: float,
    k: int,
    nearest_share: int,
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, n_documents, 16, centres=3)
    texts = [document.text or "" for document in text_documents(n_documents, seed)]
    rows = np.arange(n_documents)
    lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    ranking = HybridRanking(
        IndexSnapshot.build(0, codes, rows),
        CodeMoments.of_codes(codes),
        lexical,
        weight,
    )
    weights = rng.normal(size=(4, 16)).astype(np.float32)
    foreign = f"{texts[0].split()[0]} and many other words that are nowhere"
    asked = [texts[0], "nothing known", random_texts(1, seed + 1)[0], foreign]
    queries = EncodedQueries.of_texts([*map(lexical.read, asked)], weights)
    with patch.object(rankings, "NEAREST_SHARE", nearest_share):
        ranked = ranking.rank(queries, k)
    for position, found in enumerate(ranked):
        expected = brute_force(queries, position, codes, texts, weight)
        assert_in_order(found.scores, found.rows, expected, k)
        scores = ranking.score(queries[position : position + 1], 0, rows)
        assert scores == pytest.approx(expected, abs=1e-9)
    few = np.flatnonzero(rng.random(n_documents) < 0.4)
    whole = ranking.rank(queries, n_documents)
    for found, every in zip(ranking.rank(queries, k, few), whole, strict=True):
        inside = np.isin(every.rows, few)
        assert found.rows.tolist() == every.rows[inside][:k].tolist()
        assert found.scores.tolist() == every.scores[inside][:k].tolist()


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with closing(text_collection(tmp_path)) as collection:
        yield collection


def all_hits(
    collection: Collection, text: str, filter_: Filter | None = None
) -> list[tuple[str, float]]:
    (hits,) = collection.search([Query(text=text)], 200, ranking="hybrid", filter=filter_).hits
    return [(hit.id, hit.score) for hit in hits]


def test_a_collection_ranks_all_of_its_documents(collection: Collection) -> None:
    collection.upsert(text_documents(40))
    collection.delete(["d3", "d5"])
    collection.upsert(text_documents(4, seed=1))
    held = collection.all_documents()
    codes = np.array([list(bytes.fromhex(item.code)) for item in held], dtype=np.uint8)
    texts = [document.text or "" for document in held]
    asked = [Query(text=text) for text in random_texts(5, seed=2)]
    queries = collection.encode_queries(asked)
    result = collection.search(queries, 200, ranking="hybrid")
    for position, hits in enumerate(result.hits):
        expected = brute_force(queries, position, codes, texts, DEFAULT_WEIGHT)
        score_of = dict(zip((document.id for document in held), expected.tolist(), strict=True))
        assert [hit.score for hit in hits] == pytest.approx([score_of[hit.id] for hit in hits])
        assert sorted(score_of) == sorted(hit.id for hit in hits)


def test_a_filter_changes_no_score(collection: Collection) -> None:
    collection.upsert(text_documents(40))
    third = parse_filter({"field": "third", "eq": 2})
    (text,) = random_texts(1, seed=5)
    whole = all_hits(collection, text)
    kept = {
        document.id for document in collection.all_documents() if third.matches(document.payload)
    }
    assert all_hits(collection, text, third) == [item for item in whole if item[0] in kept]


def test_pages_hold_while_documents_come_and_go(collection: Collection) -> None:
    collection.upsert(text_documents(60))
    (text,) = random_texts(1, seed=3)
    left = all_hits(collection, text)
    cursor, first = None, True
    while cursor is not None or first:
        result = collection.search([Query(text=text)], 13, ranking="hybrid", cursor=cursor)
        assert [(hit.id, hit.score) for hit in result.hits[0]] == left[:13]
        left, first = left[13:], False
        (cursor,) = result.next_cursors
        collection.upsert(text_documents(10, seed=len(left), prefix=f"new{len(left)}-"))
        gone = [id_ for id_, _ in left[-2:]]
        collection.delete(gone)
        left = [item for item in left if item[0] not in gone]
    assert not left


@pytest.mark.parametrize(
    "statistics",
    [
        {"words": {"words": [], "average_length": 1.0, "opening_twice": True}},
        {"words": 7, "weights": "", "by_words": [1.0, 1.0], "by_codes": [0, 1]},
        {"weights": "AAAA", "by_words": [0.0], "by_codes": ["x", 1]},
        {},
    ],
)
def test_a_cursor_that_knows_less_of_its_search_is_refused(
    collection: Collection, statistics: dict[str, Any]
) -> None:
    collection.upsert(text_documents(40))
    (text,) = random_texts(1, seed=6)
    queries = collection.encode_queries([Query(text=text)])
    options = SearchOptions(k=5, ranking="hybrid")
    identity = cursor_identity(collection.name, collection.incarnation, "hybrid", queries, options)
    held = {**statistics, "of": "another version"}
    cursor = write_cursor(Position(0.25, 3, 39, 5, held), *identity)
    with pytest.raises(InputError, match=r"cursor: is one of .* request the first page again"):
        collection.search(queries, 5, ranking="hybrid", cursor=cursor)


def test_the_order_is_the_same_however_the_collection_came_about(
    collection: Collection, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with closing(text_collection(tmp_path / "other")) as other:
        for part in range(0, 60, 7):
            other.upsert(text_documents(60)[part : part + 7])
        all_hits(other, "red")
        other.upsert(text_documents(60, seed=1))
        other.upsert(text_documents(60))
        collection.upsert(text_documents(60))
        for text in random_texts(5, seed=4):
            assert all_hits(other, text) == all_hits(collection, text)


@pytest.mark.parametrize("n_bits", [1032, 3072])
def test_codes_too_long_for_products_rank_as_others_do(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    codes = clustered_codes(rng, 50, n_bits, centres=3)
    texts, rows = [document.text or "" for document in text_documents(50, n_bits)], np.arange(50)
    generation = IndexSnapshot.build(0, codes[:30], rows[:30]).with_changes(
        1, codes[30:], rows[30:], rows[:2]
    )
    moments = CodeMoments.of_codes(codes[:30]).with_changes(codes[30:], codes[:2])
    lexical = LexicalIndex.build(0, ANALYZER, [*enumerate(texts)][2:])
    ranking = HybridRanking(generation, moments, lexical, 1.6)
    weights = rng.normal(size=(2, n_bits)).astype(np.float32)
    queries = EncodedQueries.of_texts([*map(lexical.read, texts[7:9])], weights)
    for position, found in enumerate(ranking.rank(queries, 20)):
        expected = brute_force(queries, position, codes[2:], texts[2:], 1.6)
        assert_in_order(found.scores, found.rows - 2, expected, 20)


def test_a_language_model_has_a_larger_weight(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    zeros = np.zeros(model.dimension, np.float32)
    layer = Layer(np.diag(zeros + 1), zeros, "identity")
    encoder = Encoder(model, [layer], zeros, {})
    texts = random_texts(40, 5)
    with closing(encoded_collection(tmp_path / "texts", encoder)) as collection:
        collection.upsert([Document(id=str(row), text=text) for row, text in enumerate(texts)])
        queries = collection.encode_queries([Query(text=texts[3])])
        found = collection.search([Query(text=texts[3])], 40, ranking="hybrid")
        expected = brute_force(queries, 0, encoder.encode(texts), texts, OF_MODELS)
        scores = {int(hit.id): hit.score for hit in found.hits[0]}
        assert [scores[row] for row in range(40)] == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_evidence_of_a_text_of_the_known_words_is_their_share_times_the_root_of_all() -> None:
    texts = ["red fox", "brown bear", "brown fox", "grey wolf"]
    lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    scores = BruteForceBm25(list(enumerate(texts)), ANALYZER).hybrid_scores("brown bear")
    # An unknown word weighs as much as one that none of a thousand texts has.
    brown, bear, zebra = np.log(1001 / 2.5), np.log(1001 / 1.5), np.log(1001 / 0.5)
    for query, known_share, weight in (
        ("brown bear", 1, brown + bear),
        ("brown bear zebra", (brown + bear) / (brown + bear + zebra), brown + bear + zebra),
    ):
        evidence = lexical.evidence(lexical.weigh(query, hybrid=True))
        assert evidence.known_share == pytest.approx(known_share)
        share_of_query = scores[2] / scores[1]
        expected = known_share * share_of_query * np.sqrt(weight)
        assert scores[2] / UNIT * evidence.per_score == pytest.approx(expected)
    assert lexical.evidence(lexical.weigh("zebra", hybrid=True)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "best"),
    [("windows to unknown unheard unseen places", [0, 1]), ("doors and windows", [1, 0])],
)
def test_codes_outweigh_words_that_match_by_chance(text: str, best: list[int]) -> None:
    texts = ["the train leaves at nine", "doors and windows", *(["filler words"] * 30)]
    codes = np.full((len(texts), 2), 0b01010101, dtype=np.uint8)
    codes[0] = [0b11110000, 0b11110000]
    rows = np.arange(len(texts))
    weights = (2.0 * unpack_codes(codes[:1]) - 1).astype(np.float32)
    lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    generation, moments = IndexSnapshot.build(0, codes, rows), CodeMoments.of_codes(codes)
    query = EncodedQueries.of_texts([lexical.read(text)], weights)
    (ranked,) = HybridRanking(generation, moments, lexical, 0.2).rank(query, 2)
    assert ranked.rows.tolist() == best
    again = HybridRanking(generation, moments, lexical, 0.2, statistics=ranked.statistics)
    assert again.rank(query, 2)[0].scores.tolist() == ranked.scores.tolist()
