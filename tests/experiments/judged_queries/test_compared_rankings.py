from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.codes import unpack_codes
from experiments.judged_queries import compared_rankings
from tests.support.encoders import random_texts, text_encoder

DOCUMENTS = random_texts(30, seed=1)
QUERIES = random_texts(4, seed=2)


def test_bm25_is_the_formula() -> None:
    found = compared_rankings.bm25(QUERIES, DOCUMENTS, "words")
    counts = [Counter(text.split()) for text in DOCUMENTS]
    average = sum(one.total() for one in counts) / len(counts)
    for query, scores in zip(QUERIES, found, strict=True):
        for held, score in zip(counts, scores, strict=True):
            expected = 0.0
            for term, repeats in Counter(query.split()).items():
                frequency = sum(term in one for one in counts)
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
    by_distance, real = compared_rankings.of_codes(encoder, QUERIES, DOCUMENTS)
    assert np.array_equal(by_distance, -distances)
    weights = encoder.query_weights(QUERIES).astype(np.float64)
    for query, document in [(0, 0), (1, 7), (3, 29)]:
        signs = [1 if bit else -1 for bit in bits[document]]
        total = sum(w * sign for w, sign in zip(weights[query], signs, strict=True))
        assert real[query, document] == pytest.approx(total, rel=1e-9)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8))
def test_standardised_scores_keep_their_order(values: list[float]) -> None:
    scores = np.array([values])
    found = compared_rankings.standardize(scores)
    order = np.argsort(scores[0], kind="stable")
    assert (np.diff(found[0][order]) >= -1e-9).all()
    if scores.std() > 1e-6:
        assert found.mean() == pytest.approx(0, abs=1e-6)
        assert found.std() == pytest.approx(1, rel=1e-6)


def test_a_query_that_finds_nothing_by_words_is_ranked_by_the_codes_alone() -> None:
    codes = np.array([[3.0, 1.0, 2.0]])
    found = compared_rankings.hybrid(np.zeros((1, 3)), codes, 0.3)
    assert np.argsort(-found[0]).tolist() == [0, 2, 1]


def test_itq_codes_of_latent_semantics_find_a_document_by_its_own_text() -> None:
    by_distance, real = compared_rankings.itq_of_lsa(DOCUMENTS, DOCUMENTS, 8, seed=0)
    assert by_distance.shape == real.shape == (30, 30)
    assert (by_distance.diagonal() == 0).all()
    assert (by_distance <= 0).all()
    assert (by_distance >= -8).all()
    assert (real.diagonal() == real.max(axis=1)).all()
