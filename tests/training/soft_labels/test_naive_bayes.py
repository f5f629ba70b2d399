from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import softmax
from sklearn.naive_bayes import ComplementNB

from hummingbit.training.soft_labels import (
    complement_weights,
    expectation_maximization,
    multinomial_weights,
)

Array = npt.NDArray[np.float64]


def test_weights_of_certain_classes_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(rng.poisson(0.5, (60, 20)).astype(np.float32))
    classes = np.arange(60) % 4
    reference = ComplementNB(alpha=0.3).fit(rows, classes).feature_log_prob_
    np.testing.assert_allclose(complement_weights(rows, np.eye(4)[classes]), reference.T, rtol=1e-6)


def test_a_text_counts_for_a_class_by_its_share() -> None:
    rows = sparse.csr_array(np.array([[2.0, 1.0], [0.0, 3.0]]))
    shares = np.array([[0.5, 0.5], [0.0, 1.0]])
    # Words of the other class: half of the first text for class 1, all but that half for class 0.
    others = np.array([[1.0, 0.5 + 3.0], [1.0, 0.5]]) + 0.3
    expected = -np.log(others / others.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(complement_weights(rows, shares), expected.T)


def test_seven_tenths_of_a_class_are_uniform() -> None:
    rows = sparse.csr_array(np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 0.0]]))
    classes = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    # No text is of the third class.
    shares = np.array([[1 / 1.5, 0.5 / 1.5, 0], [1 / 4.5, 3.5 / 4.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    expected = np.log(0.3 * shares + 0.7 / 3)
    np.testing.assert_allclose(multinomial_weights(rows, classes), expected.T)


def test_the_weights_of_a_class_are_a_distribution() -> None:
    rng = np.random.default_rng(1)
    rows = sparse.csr_array(rng.poisson(0.5, (30, 12)).astype(np.float32))
    weights = multinomial_weights(rows, rng.dirichlet(np.ones(4), 30))
    np.testing.assert_allclose(np.exp(weights).sum(axis=0), 1)


def test_five_steps_alternate_between_predictions_and_weights() -> None:
    rng = np.random.default_rng(2)
    dense = rng.random((40, 15)) * (rng.random((40, 15)) < 0.3)
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    labelled, known = np.array([3, 8, 20, 31]), np.eye(3)[[0, 1, 2, 1]]
    scores = dense @ _log_shares(dense[labelled], known)
    for _ in range(5):
        predicted = softmax(scores / 0.4, axis=1)
        predicted[labelled] = known
        scores = dense @ _log_shares(dense, predicted)
    found = expectation_maximization(sparse.csr_array(dense), labelled, known)
    np.testing.assert_allclose(found, scores)


def test_a_word_beside_labelled_words_tells_the_class_of_texts_that_have_it_alone() -> None:
    # Labelled texts have word 0 or 2 only. Unlabelled ones have these and word 1 or 3.
    patterns = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    alone = np.array([[0, 1, 0, 0], [0, 0, 0, 1]])
    rows = np.vstack([patterns, np.repeat(patterns[2:], 10, axis=0), alone]).astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = expectation_maximization(sparse.csr_array(rows), np.array([0, 1]), np.eye(2))
    assert found[-2:].argmax(axis=1).tolist() == [0, 1]


def _log_shares(dense: Array, classes: Array) -> Array:
    sums = np.array([(dense * column[:, None]).sum(axis=0) for column in classes.T])
    shares = sums / sums.sum(axis=1, keepdims=True)
    return np.asarray(np.log(0.3 * shares + 0.7 / dense.shape[1]).T)
