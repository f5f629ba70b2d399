"""The ranking by codes and words together, against the same scores of every document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
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
from hummingbit.index.languages import stop_terms
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, UNIT, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.rankings import DEFAULT_WEIGHT, HybridRanking, quantize_weights
from hummingbit.index.records import EncodedQueries, Query
from hummingbit.index.search import (
    Hybrid,
    Position,
    SearchOptions,
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


def shares_of_best(words: np.ndarray) -> np.ndarray:
    return 4 * words / words.max() if words.max() else words


def text_of(queries: EncodedQueries, place: int) -> str:
    question = queries.questions[place]
    return "" if question is None else question.text


def brute_force(
    queries: EncodedQueries,
    place: int,
    codes: np.ndarray,
    texts: list[str],
    weight: float,
    *,
    n_feedback: int = 5,
    feedback_weight: float = 2.0,
) -> np.ndarray:
    """Score every document, in floating-point numbers all along."""
    oracle = BruteForceBm25(list(enumerate(texts)), ANALYZER)
    words = np.array(oracle.hybrid_scores(text_of(queries, place)), dtype=np.float64)
    signs = unpack_codes(codes).astype(np.float64) * 2 - 1
    asked = queries.weights[place].astype(np.float64)
    before = shares_of_best(words) + weight * standardized(
        signs @ quantize_weights(asked[None])[0][0]
    )
    if not n_feedback:
        return guarded(before, text_of(queries, place), texts)
    nearest = np.argsort(-before.round(9), kind="stable")[:n_feedback]
    shrunk = 0.7 * np.cov(signs.T, bias=True) + 0.3 * np.eye(signs.shape[1])
    difference = (signs[nearest] - signs.mean(axis=0)).sum(axis=0)
    # In whole units of 2**-20, as the ranking computes them; see test_moments.py for the formula.
    discriminant = np.rint(np.linalg.inv(shrunk) * 2**20) @ np.rint(difference * 2**20)
    learned = normalized(asked) + feedback_weight * normalized(discriminant)
    weights = quantize_weights(learned.astype(np.float32)[None])[0][0]
    after = shares_of_best(words) + weight * standardized(signs @ weights)
    return guarded(after, text_of(queries, place), texts)


def fading(lexical: LexicalIndex, query: str, texts: list[str]) -> float:
    """Return how much the words of a query count beside the codes of a language model."""
    best = max(BruteForceBm25(list(enumerate(texts)), ANALYZER).hybrid_scores(query))
    evidence = best / UNIT * lexical.evidence(lexical.weigh(query, hybrid=True)).per_score
    return min(1.0, max(1 / 16, (evidence / 1.5) ** 2)) if evidence else 1.0


def with_all_rare_words(query: str, texts: list[str]) -> list[int]:
    """Return the places of the texts with all words of `query` that few, but any, texts have."""
    of_texts = [set(ANALYZER.terms(text)) for text in texts]
    counts = {word: sum(word in some for some in of_texts) for word in ANALYZER.terms(query)}
    most = max(1, len(texts) // 20)
    rare = {word for word, n in counts.items() if 0 < n <= most} - stop_terms(ANALYZER)
    return [position for position, some in enumerate(of_texts) if rare and rare <= some]


def guarded(scores: np.ndarray, query: str, texts: list[str]) -> np.ndarray:
    """Raise the score of a text that alone has all rare words to just above the tenth."""
    places = with_all_rare_words(query, texts)
    first = np.argsort(-scores.round(9), kind="stable")[:10]
    if len(places) == 1 and places[0] not in first:
        scores = scores.copy()
        scores[places[0]] = scores[first[9]] + 1e-10
    return scores


def normalized(values: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(values)
    return values / length if length > 1e-9 else np.zeros(len(values))


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
    n_feedback=st.sampled_from([0, 1, 5]),
    feedback_weight=st.sampled_from([0.25, 2.0]),
    fades=st.booleans(),
    k=st.integers(1, 70),
    nearest_share=st.sampled_from([2, 5, rankings.NEAREST_SHARE]),
)
def test_it_ranks_as_scoring_every_document_does(
    *,
    seed: int,
    n_documents: int,
    weight: float,
    n_feedback: int,
    feedback_weight: float,
    fades: bool,
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
        n_feedback=n_feedback,
        feedback_weight=feedback_weight,
        fades=fades,
    )
    weights = rng.normal(size=(4, 16)).astype(np.float32)
    foreign = f"{texts[0].split()[0]} and many other words that are nowhere"
    asked = [texts[0], "nothing known", random_texts(1, seed + 1)[0], foreign]
    queries = EncodedQueries.of_texts([*map(lexical.read, asked)], weights)
    with patch.object(rankings, "NEAREST_SHARE", nearest_share):
        ranked = ranking.rank(queries, k)
    for position, found in enumerate(ranked):
        x = fading(lexical, asked[position], texts) if fades else 1.0
        expected = brute_force(
            *(queries, position, codes, texts, weight / x),
            n_feedback=n_feedback,
            feedback_weight=feedback_weight,
        )
        assert_in_order(found.scores, found.rows, expected, k)
        scores = ranking.score(queries[position : position + 1], 0, rows)
        assert scores == pytest.approx(expected, abs=1e-9)
    few = np.flatnonzero(rng.random(n_documents) < 0.4)
    whole = ranking.rank(queries, n_documents)
    for found, every in zip(ranking.rank(queries, k, few), whole, strict=True):
        inside = np.isin(every.rows, few)
        assert found.rows.tolist() == every.rows[inside][:k].tolist()
        assert found.scores.tolist() == every.scores[inside][:k].tolist()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_documents=st.integers(11, 60),
    weight=st.sampled_from([0.5, 5.0, 50.0]),
    n_common=st.integers(0, 4),
)
def test_a_document_that_alone_has_all_rare_words_is_in_the_first_ten(
    *, seed: int, n_documents: int, weight: float, n_common: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = clustered_codes(rng, n_documents, 16, centres=3)
    texts = [
        "moss fern lichen reed " * 3 + random_texts(1, seed + at)[0] for at in range(n_documents)
    ]
    sought = int(rng.integers(n_documents))
    texts[sought] += " " + "clover " * 60 + "kestrel"
    rows = np.arange(n_documents)
    lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    ranking = HybridRanking(
        IndexSnapshot.build(0, codes, rows), CodeMoments.of_codes(codes), lexical, weight
    )
    # The code of the query is the opposite of that of the document.
    weights = (1.0 - 2.0 * unpack_codes(codes[[sought]])).astype(np.float32)
    text = " ".join(["kestrel", "unknownword", *["moss", "fern", "lichen", "reed"][:n_common]])
    queries = EncodedQueries.of_texts([lexical.read(text)], weights)
    (found,) = ranking.rank(queries, n_documents)
    assert sought in found.rows[:10]
    for k in (1, 9, 10, 11, 12):
        (first,) = ranking.rank(queries, k)
        assert first.rows.tolist() == found.rows[:k].tolist()
        assert first.scores.tolist() == found.scores[:k].tolist()
    few = np.flatnonzero((rng.random(n_documents) < 0.4) | (rows == sought))
    (filtered,) = ranking.rank(queries, 3, few)
    assert filtered.rows.tolist() == found.rows[np.isin(found.rows, few)][:3].tolist()
    scores = ranking.score(queries, 0, found.rows)
    assert scores.tolist() == found.scores.tolist()


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


def test_pages_hold_a_document_of_rare_words_until_it_is_deleted(collection: Collection) -> None:
    common, rare = "moss fern lichen reed", f"{'clover ' * 60} kestrel"
    collection.upsert(Document(f"c{at}", f"{common} {at}") for at in range(40))
    collection.upsert([Document("rare", rare)])
    query, search = [Query(text=f"{common} kestrel")], partial(collection.search, ranking="hybrid")
    whole = [hit.id for hit in search(query, 50).hits[0]]
    assert "rare" in whole[:10]
    first = search(query, 5)
    collection.upsert(Document(f"new{at}", f"{common} kestrel") for at in range(5))
    second = search(query, 10, cursor=first.next_cursors[0])
    assert [hit.id for hit in [*first.hits[0], *second.hits[0]]] == whole[:15]
    collection.delete(["rare"])
    second = search(query, 45, cursor=first.next_cursors[0])
    assert [hit.id for hit in second.hits[0]] == [item for item in whole[5:] if item != "rare"]


@pytest.mark.parametrize(
    "statistics",
    [
        {"words": {"words": [], "averages": [1.0, None, None]}},
        {"words": 7, "weights": "", "by_words": [0, 1], "by_codes": [0, 1], "guard": [-1, 0]},
        {"weights": "AAAA", "by_words": [0], "by_codes": ["x", 1], "guard": []},
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
        expected = brute_force(queries, position, codes[2:], texts[2:], 1.6, n_feedback=0)
        assert_in_order(found.scores, found.rows - 2, expected, 20)


def test_queries_of_a_language_model_learn_less_and_only_if_asked(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    zeros = np.zeros(model.dimension, np.float32)
    layer = Layer(np.diag(zeros + 1), zeros, "identity")
    encoder = Encoder(model, [layer], zeros, {})
    texts = random_texts(40, 5)
    with closing(encoded_collection(tmp_path / "texts", encoder)) as collection:
        collection.upsert([Document(id=str(row), text=text) for row, text in enumerate(texts)])
        queries = collection.encode_queries([Query(text=texts[3])])
        codes = encoder.encode(texts)
        lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
        weight = DEFAULT_WEIGHT / fading(lexical, texts[3], texts)
        for hybrid, n_feedback in ((None, 0), (Hybrid(feedback=5), 5)):
            found = collection.search([Query(text=texts[3])], 40, ranking="hybrid", hybrid=hybrid)
            expected = brute_force(
                *(queries, 0, codes, texts, weight),
                n_feedback=n_feedback,
                feedback_weight=0.25,
            )
            scores = {int(hit.id): hit.score for hit in found.hits[0]}
            assert [scores[row] for row in range(40)] == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_evidence_of_a_text_of_the_known_words_is_their_share_times_the_root_of_all() -> None:
    texts = ["red fox", "brown bear", "brown fox", "grey wolf"]
    lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    scores = BruteForceBm25(list(enumerate(texts)), ANALYZER).hybrid_scores("brown bear")
    # An unknown word weighs as much as one that no text has: ln(1 + (4 + .5) / .5).
    brown, bear, zebra = np.log(1 + 2.5 / 2.5), np.log(1 + 3.5 / 1.5), np.log(10)
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


def test_codes_of_a_model_outweigh_words_that_match_by_chance() -> None:
    texts = ["the train leaves at nine", "doors and windows", *(["filler words"] * 30)]
    codes = np.full((len(texts), 2), 0b01010101, dtype=np.uint8)
    codes[0] = [0b11110000, 0b11110000]
    rows = np.arange(len(texts))
    weights = (2.0 * unpack_codes(codes[:1]) - 1).astype(np.float32)
    lexical = LexicalIndex.build(0, ANALYZER, enumerate(texts))
    text = "windows to unknown unheard unseen places"
    query = EncodedQueries.of_texts([lexical.read(text)], weights)
    best = {}
    for fades in (False, True):
        ranking = HybridRanking(
            IndexSnapshot.build(0, codes, rows),
            CodeMoments.of_codes(codes),
            LexicalIndex.build(0, ANALYZER, enumerate(texts)),
            0.5,
            n_feedback=0,
            fades=fades,
        )
        (ranked,) = ranking.rank(query, 2)
        best[fades] = ranked.rows.tolist()
        (again,) = HybridRanking(
            IndexSnapshot.build(0, codes, rows),
            CodeMoments.of_codes(codes),
            LexicalIndex.build(0, ANALYZER, enumerate(texts)),
            0.5,
            n_feedback=0,
            fades=fades,
            statistics=ranked.statistics,
        ).rank(query, 2)
        assert again.scores.tolist() == ranked.scores.tolist()
    assert best == {False: [1, 0], True: [0, 1]}
