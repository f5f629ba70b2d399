"""The orders of active learning that are measured beside those of the package."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from experiments.active_labels.orders import ORDERS, suggest
from hummingbit.evaluation.labelling.suggestions import METHODS, Pool
from tests.support.corpora import clustered_pool as clustered

OTHERS = sorted(ORDERS.keys() - METHODS.keys())


@pytest.mark.parametrize("method", OTHERS)
@pytest.mark.parametrize("labelled", [0, 1, 30, 58])
def test_suggestions_are_new_distinct_and_repeatable(method: str, labelled: int) -> None:
    pool = clustered(labelled)
    rows = suggest(pool, 5, method).tolist()
    assert len({*rows}) == len(rows) == min(5, 60 - labelled)
    assert not {*rows} & {*pool.labelled.tolist()}
    assert rows == suggest(pool, 5, method).tolist()


@pytest.mark.parametrize("method", OTHERS)
def test_excluded_rows_are_never_chosen(method: str) -> None:
    pool = replace(clustered(20), excluded=np.arange(0, 60, 2))
    rows = suggest(pool, 60, method).tolist()
    assert sorted(rows) == sorted({*range(1, 60, 2)} - {*pool.labelled.tolist()})


def test_a_large_cluster_takes_little_memory() -> None:
    vectors = np.random.default_rng(0).normal(size=(6000, 2)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    none = np.empty(0, dtype=np.int64)
    pool = Pool(vectors, np.zeros(6000, dtype=np.int64), none, none, 0)
    suggest(clustered(0), 1, "typiclust")  # what is loaded once does not count
    tracemalloc.start()
    try:
        assert len(suggest(pool, 1, "typiclust")) == 1
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All similarities together are 144 MB.
    assert most < 20e6


def test_typical_documents_come_of_every_cluster() -> None:
    pool = clustered(0)
    chosen = suggest(pool, 3, "typiclust")
    # No two of them are as alike as documents of one cluster are.
    alike = pool.vectors[chosen] @ pool.vectors[chosen].T - np.eye(3)
    assert alike.max() < 0.6


def test_the_farthest_document_is_the_core_sets_choice() -> None:
    pool = clustered(5)
    nearest = (pool.vectors @ pool.vectors[pool.labelled].T).max(axis=1)
    assert suggest(pool, 1, "core-set")[0] == nearest.argmin()
