from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hummingbit.training.model_selection import FOLDS, grouped_folds, list_length, split_folds


@pytest.mark.parametrize("as_text", [False, True])
def test_the_clusters_of_a_class_are_held_out_one_by_one(as_text: bool) -> None:
    rng = np.random.default_rng(0)
    # Ten directions: five clusters of each of two classes.
    cluster = rng.permutation(np.repeat(np.arange(10), 30))
    rows = np.eye(10)[cluster] + 0.02 * rng.random((300, 10))
    given = sparse.csr_array(rows) if as_text else rows
    labelled = np.sort(rng.permutation(300)[:250])
    folds = grouped_folds(given, labelled, cluster[labelled] // 5, 0)
    for item in range(10):
        assert len(np.unique(folds[cluster[labelled] == item])) == 1
    for half in (0, 1):
        assert set(folds[cluster[labelled] // 5 == half]) == set(range(FOLDS))


def test_a_fold_has_a_fifth_of_smaller_clusters() -> None:
    rng = np.random.default_rng(0)
    # Twenty directions: ten clusters of each of two classes.
    cluster = rng.permutation(np.repeat(np.arange(20), 30))
    rows = np.eye(20)[cluster] + 0.02 * rng.random((600, 20))
    folds = grouped_folds(rows, np.arange(600), cluster // 10, 0, 10)
    fold_of_cluster = [np.unique(folds[cluster == item]) for item in range(20)]
    for half in (fold_of_cluster[:10], fold_of_cluster[10:]):
        assert np.bincount(np.concatenate(half)).tolist() == [2] * FOLDS


def test_small_classes_are_dealt_out() -> None:
    rng = np.random.default_rng(0)
    folds = grouped_folds(rng.random((14, 4)), np.arange(14), np.repeat([0, 1], 7), 0)
    for item in (folds[:7], folds[7:]):
        assert sorted(np.bincount(item)) == [1, 1, 1, 2, 2]


def test_everything_is_held_out_once() -> None:
    folds = np.array([0, 3, 3, 1, 0])
    parts = list(split_folds(folds))
    assert sorted(np.concatenate([held for _, held in parts])) == [0, 1, 2, 3, 4]
    for known, held in parts:
        assert sorted([*known, *held]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sizes", "k"), [([300, 900, 500], 100), ([3, 12, 30], 6), ([1, 1], 1), ([0, 9, 0, 9], 4)]
)
def test_a_list_is_half_a_class_long_at_most(sizes: list[int], k: int) -> None:
    assert list_length(np.repeat(np.arange(len(sizes)), sizes)) == k
