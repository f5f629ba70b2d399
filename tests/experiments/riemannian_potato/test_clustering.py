from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pair_confusion_matrix

from experiments.riemannian_potato.clustering import normalized_mutual_information, pairwise_f1
from hummingbit.evaluation.result import EvaluationError

ASSIGNMENTS = st.integers(1, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)
)


def test_by_hand() -> None:
    # Pairs of one class: 01, 23; of one cluster: 01, 02, 12; both: 01. P = 1/3, R = 1/2.
    assert pairwise_f1(["a", "a", "b", "b"], [0, 0, 0, 1]) == pytest.approx(0.4)
    assert pairwise_f1(["a", "a", "b"], [5, 5, 9]) == 1
    assert pairwise_f1(["a", "b"], [0, 0]) == 0
    assert pairwise_f1(["a", "b"], [0, 1]) == 0
    # Two fair bits that know nothing of each other, and one that is the other.
    assert normalized_mutual_information([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(0)
    assert normalized_mutual_information(["a", "a", "b", "b"], [1, 1, 0, 0]) == pytest.approx(1)


@given(assignments=ASSIGNMENTS)
def test_f1_counts_pairs(assignments: tuple[list[int], list[int]]) -> None:
    classes, clusters = assignments
    both = one_class = one_cluster = 0
    for a, b in itertools.combinations(range(len(classes)), 2):
        one_class += classes[a] == classes[b]
        one_cluster += clusters[a] == clusters[b]
        both += classes[a] == classes[b] and clusters[a] == clusters[b]
    expected = 0.0
    if both:
        precision, recall = both / one_cluster, both / one_class
        expected = 2 * precision * recall / (precision + recall)
    assert pairwise_f1(classes, clusters) == pytest.approx(expected, abs=1e-12)


def test_f1_equals_that_of_the_pair_confusion_matrix() -> None:
    rng = np.random.default_rng(0)
    classes, clusters = rng.integers(0, 9, 4000), rng.integers(0, 7, 4000)
    (_, false_positive), (false_negative, both) = pair_confusion_matrix(classes, clusters)
    expected = 2 * both / (2 * both + false_positive + false_negative)
    assert pairwise_f1(classes, clusters) == pytest.approx(expected, abs=1e-12)


def test_nmi_is_mutual_information_over_the_mean_entropy() -> None:
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 4, 500)
    clusters = np.where(rng.random(500) < 0.6, classes, rng.integers(0, 3, 500))
    joint = np.histogram2d(classes, clusters, bins=[4, 4])[0] / 500
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)

    def entropy(p: np.ndarray) -> float:
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())

    mutual = entropy(rows) + entropy(columns) - entropy(joint.ravel())
    expected = 2 * mutual / (entropy(rows) + entropy(columns))
    found = normalized_mutual_information(classes, clusters)
    assert found == pytest.approx(expected, abs=1e-12)


def test_bad_input_is_refused() -> None:
    with pytest.raises(EvaluationError, match="classes has 1 entries and clusters 2"):
        pairwise_f1(["a"], [0, 1])
    with pytest.raises(EvaluationError, match="classes has 0 entries"):
        normalized_mutual_information([], [])
