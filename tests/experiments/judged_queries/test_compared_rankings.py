from __future__ import annotations

import math
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from experiments.judged_queries import compared_rankings
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import unpack_codes
from hummingbit.index.options import Hybrid
from hummingbit.index.records import Query
from tests.support.collections import text_collection
from tests.support.encoders import random_texts, text_encoder

DOCUMENTS = random_texts(30, seed=1)
QUERIES = random_texts(4, seed=2)


def test_bm25_is_the_formula() -> None:
    found = compared_rankings.bm25_scores(
        QUERIES, compared_rankings.build_index(DOCUMENTS, "words")
    )
    counts = [Counter(text.split()) for text in DOCUMENTS]
    average = sum(count.total() for count in counts) / len(counts)
    for query, scores in zip(QUERIES, found, strict=True):
        for held, score in zip(counts, scores, strict=True):
            expected = 0.0
            for term, repeats in Counter(query.split()).items():
                frequency = sum(term in count for count in counts)
                idf = math.log(1 + (30 - frequency + 0.5) / (frequency + 0.5))
                norm = 1.2 * (1 - 0.75 + 0.75 * held.total() / average)
                expected += repeats * idf * held[term] / (held[term] + norm)
            # The part of a term is rounded to a multiple of 2 ** -20.
            assert score / 2**20 == pytest.approx(expected, abs=8 * 2**-20)


def test_scores_of_codes_are_distances_and_weighted_bits() -> None:
    encoder = text_encoder(16)
    bits = unpack_codes(encoder.encode(DOCUMENTS))
    asked = unpack_codes(encoder.encode_queries(QUERIES))
    distances = (asked[:, None] != bits[None]).sum(axis=2)
    coded = compared_rankings.encode_corpus(encoder, QUERIES, DOCUMENTS)
    assert np.array_equal(coded.hamming(), -distances)
    weights = encoder.query_weights(QUERIES).astype(np.float64)
    for query, document in [(0, 0), (1, 7), (3, 29)]:
        signs = [1 if bit else -1 for bit in bits[document]]
        total = sum(w * sign for w, sign in zip(weights[query], signs, strict=True))
        assert coded.asymmetric()[query, document] == pytest.approx(total, rel=1e-9)


def test_a_hybrid_is_the_ranking_of_a_collection(tmp_path: Path) -> None:
    coded = compared_rankings.encode_corpus(text_encoder(16), QUERIES, DOCUMENTS)
    found = coded.hybrid(QUERIES, compared_rankings.build_index(DOCUMENTS, "english"), 0.7)
    with closing(text_collection(tmp_path, 16)) as collection:
        collection.upsert([Document(f"{at}", text) for at, text in enumerate(DOCUMENTS)])
        queries, hybrid = [Query(text=text) for text in QUERIES], Hybrid(codes=0.7)
        lists = collection.search(queries, 30, ranking="hybrid", hybrid=hybrid).hits
    for scores, hits in zip(found, lists, strict=True):
        assert [hit.score for hit in hits] == [scores[int(hit.id)] for hit in hits]
        assert len(hits) == 30


def test_itq_codes_of_latent_semantics_find_a_document_by_its_own_text() -> None:
    coded = compared_rankings.encode_by_lsa_itq(DOCUMENTS, DOCUMENTS, 8, seed=0)
    by_distance, real = coded.hamming(), coded.asymmetric()
    assert by_distance.shape == real.shape == (30, 30)
    assert (by_distance.diagonal() == 0).all()
    assert (by_distance <= 0).all()
    assert (by_distance >= -8).all()
    assert (real.diagonal() == real.max(axis=1)).all()


def test_passages_are_whole_sentences_that_overlap_by_one() -> None:
    text = "One two three. Four five. Six seven eight. Nine"
    split = compared_rankings.split_passages
    assert split(text, 5) == [
        "One two three Four five",
        "Four five Six seven eight",
        "Six seven eight Nine",
    ]
    assert split(text, 100) == ["One two three Four five Six seven eight Nine"]
    assert split("", 5) == [""]


def test_the_best_passage_ranks_a_document() -> None:
    encoder = text_encoder(16)
    documents = ["apple bread. matrix vector", "kernel rank", ""]
    found = compared_rankings.encode_passages(encoder, QUERIES, documents, 2)
    assert found.starts.tolist() == [0, 2, 3]
    passages = ["apple bread", "apple bread matrix vector", "kernel rank", ""]
    scores = compared_rankings.encode_corpus(encoder, QUERIES, passages).asymmetric()
    expected = [[max(row[:2]), row[2], row[3]] for row in scores.tolist()]
    assert found.asymmetric().tolist() == expected


def test_only_candidates_are_rescored() -> None:
    first = np.array([[5.0, 4.0, 4.0, 9.0]])
    second = np.array([[1.0, 7.0, 8.0, 0.0]])
    assert compared_rankings.rescore(first, second, 3).tolist() == [[1.0, 7.0, -1.0, 0.0]]
