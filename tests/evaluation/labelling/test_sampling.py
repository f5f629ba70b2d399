from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from hummingbit.evaluation.labelling.statistics import expected_gain
from hummingbit.evaluation.labelling.suggestions import (
    METHODS,
    REGULARIZATION,
    Pool,
    class_probabilities,
    class_scores,
    herd,
    suggest,
)
from tests.support.corpora import clustered_pool as clustered


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(METHODS)),
    st.sampled_from([0, 1, 5, 30, 58, 60]),
    st.integers(1, 7),
    st.integers(0, 3),
)
def test_suggestions_are_new_distinct_and_repeatable(
    method: str, labelled: int, n: int, seed: int
) -> None:
    pool = clustered(labelled, seed)
    rows = suggest(pool, n, method, seed)
    assert len(rows) == min(n, 60 - labelled)
    assert len({*rows.tolist()}) == len(rows)
    assert not set(rows.tolist()) & set(pool.labelled.tolist())
    assert rows.tolist() == suggest(pool, n, method, seed).tolist()


def test_herding_adds_most_to_the_coverage_with_each_document() -> None:
    pool = clustered(6)
    weights = np.random.default_rng(1).random(60)
    found = herd(pool.vectors, weights, pool.labelled, pool.available, n=8, seed=0).tolist()
    vectors = pool.vectors.astype(np.float64)
    apart = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
    alike = np.exp(-apart / (2 * 0.4**2))

    def coverage(rows: list[int]) -> float:
        return float((weights * alike[:, rows].max(axis=1)).sum())

    for position, row in enumerate(found):
        before = [*pool.labelled.tolist(), *found[:position]]
        most = max(coverage([*before, item]) for item in pool.available.tolist())
        assert coverage([*before, row]) == pytest.approx(most, rel=1e-5)


def test_herding_of_many_documents_takes_bounded_memory() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(20_000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tracemalloc.start()
    try:
        found = herd(vectors, None, np.arange(500), np.arange(500, 20_000), n=3, seed=0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.min() >= 500
    assert most < 200 << 20


@pytest.mark.parametrize("method", sorted(METHODS))
def test_excluded_rows_are_never_chosen(method: str) -> None:
    pool = replace(clustered(20), excluded=np.arange(0, 60, 2))
    rows = suggest(pool, 60, method).tolist()
    assert sorted(rows) == sorted({*range(1, 60, 2)} - {*pool.labelled.tolist()})


@pytest.mark.parametrize("method", sorted(METHODS))
def test_documents_that_are_all_alike_are_suggested(method: str) -> None:
    alike = np.tile(np.eye(1, 8, dtype=np.float32), (6, 1))
    none = np.empty(0, dtype=np.int64)
    pool = Pool(alike, np.zeros(6, dtype=np.int64), none, none, 0)
    assert sorted(suggest(pool, 4, method).tolist()) == sorted({*suggest(pool, 4, method).tolist()})
    assert len(suggest(pool, 4, method)) == 4


@pytest.mark.parametrize("labelled", [5, 40])
def test_scores_are_those_of_ridge_regression(labelled: int) -> None:
    pool = clustered(labelled)
    scores = class_scores(pool.vectors, pool.labelled, pool.classes, pool.n_classes)
    targets = np.eye(3)[pool.classes]
    model = Ridge(alpha=REGULARIZATION).fit(pool.vectors[pool.labelled], targets)
    shown = targets.any(axis=0)
    np.testing.assert_allclose(scores[:, shown], model.predict(pool.vectors)[:, shown], atol=1e-5)
    np.testing.assert_allclose(class_probabilities(scores).sum(axis=1), 1)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_without_classes_documents_of_every_cluster_come_first(method: str) -> None:
    pool = clustered(0)
    chosen = suggest(pool, 3, method)
    # No two of them are as alike as documents of one cluster are.
    alike = pool.vectors[chosen] @ pool.vectors[chosen].T - np.eye(3)
    assert alike.max() < 0.6 or method == "random"


def test_margins_are_the_smallest_and_spread_over_buckets() -> None:
    pool = clustered(20)
    found = pool.probabilities
    assert found is not None
    best = np.sort(found, axis=1)
    margins = best[:, -1] - best[:, -2]
    first = suggest(pool, 1, "margin")[0]
    assert margins[first] == margins[pool.available].min()
    assert len(set(pool.buckets[suggest(pool, 5, "margin")].tolist())) == 5


def test_gain_falls_as_labels_abound() -> None:
    few, many = (expected_gain(clustered(n, size=400)) for n in (24, 300))
    assert few is not None
    assert many is not None
    assert many.accuracy >= few.accuracy - 0.05
    assert 0 <= many.per_label <= few.per_label
    assert expected_gain(clustered(5)) is None
