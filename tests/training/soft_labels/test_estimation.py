from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hummingbit.training.data import TrainingData, gather
from hummingbit.training.soft_labels import estimate_soft_labels
from hummingbit.training.text_features import fit_text_features
from tests.support.corpora import topic_documents, topic_vectors


def rows_of(data: TrainingData) -> object:
    if isinstance(data.inputs, np.ndarray):
        return data.inputs
    return fit_text_features(data.inputs, 100).transform(data.inputs)


def shown(data: TrainingData, count: int) -> np.ndarray:
    tags = data.tags.copy()
    tags[count:] = False
    return tags


@pytest.mark.parametrize("documents", [topic_documents(200), topic_vectors(200)])
def test_unlabelled_documents_mostly_get_the_right_class(documents: list) -> None:  # type: ignore[type-arg]
    data = gather(documents)
    soft_labels = estimate_soft_labels(rows_of(data), shown(data, 40), seed=0)
    np.testing.assert_allclose(soft_labels.sum(axis=1), 1, rtol=1e-5)
    assert (soft_labels.argmax(axis=1) == data.tags.argmax(axis=1)).mean() > 0.9


def test_soft_labels_of_vectors_are_those_of_dense_matrices() -> None:
    """The oracle has a dense graph, solves for the spread scores and loops over the classes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=150)
    rows = (np.eye(3, 6)[classes] + 0.5 * rng.normal(size=(150, 6))).astype(np.float32)
    tags = np.eye(3, dtype=np.bool_)[classes]
    tags[30:] = False
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1)
    is_near = cosines >= np.sort(cosines, axis=1)[:, -10:-9]
    edges = np.where(is_near | is_near.T, np.maximum(cosines, 0), 0).astype(np.float64) ** 4
    smoothing = edges / np.sqrt(np.outer(edges.sum(axis=1), edges.sum(axis=1)))

    def spread(probabilities: np.ndarray, share: float) -> np.ndarray:
        start = np.where(np.arange(150)[:, None] < 30, tags, probabilities)
        powers = [share**step * np.linalg.matrix_power(smoothing, step) for step in range(30)]
        scores = (1 - share) * sum(powers) @ start
        scores += share**30 * np.linalg.matrix_power(smoothing, 30) @ start
        scores /= scores.sum(axis=1, keepdims=True)
        return np.where(np.arange(150)[:, None] < 30, tags, scores)

    size = np.sqrt((rows**2).sum(axis=1).mean())
    logistic = LogisticRegression(C=100, max_iter=1000).fit(rows[:30] / size, classes[:30])
    expected = spread(logistic.predict_proba(rows / size), 0.9)
    for _ in range(2):
        means = [np.average(rows, axis=0, weights=expected[:, item]) for item in range(3)]
        within = sum(
            np.cov((rows - means[item]).T, aweights=expected[:, item], ddof=0)
            * expected[:, item].sum()
            for item in range(3)
        )
        within = within / 150 / 2 + np.eye(6) * np.trace(within) / 150 / 12
        distances = [
            np.einsum("nd,nd->n", (rows - mean) @ np.linalg.inv(within), rows - mean)
            for mean in means
        ]
        scores = -np.stack(distances, axis=1) / 2
        odds = np.exp(4 * scores / scores.std(axis=1).mean())
        expected = spread(odds / odds.sum(axis=1, keepdims=True), 0.7)
    found = estimate_soft_labels(rows, tags, seed=0)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert (found.argmax(axis=1) == classes).mean() > 0.8


def test_labels_are_certain() -> None:
    data = gather(topic_documents(100))
    soft_labels = estimate_soft_labels(rows_of(data), shown(data, 40), seed=0)
    assert np.array_equal(soft_labels[:40], data.tags[:40])
    assert np.array_equal(estimate_soft_labels(rows_of(data), data.tags, seed=0), data.tags)


def test_vectors_may_share_their_first_label() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    tags = np.zeros((60, 2), dtype=np.bool_)
    tags[:20, 0] = True
    tags[:10, 1] = True
    soft_labels = estimate_soft_labels(rows, tags, seed=0)
    assert np.isfinite(soft_labels).all()
    assert (soft_labels.sum(axis=1) > 0).all()


def test_a_class_without_a_label_is_never_predicted() -> None:
    data = gather(topic_documents(100))
    tags = shown(data, 60)
    tags[:, 1] = False
    soft_labels = estimate_soft_labels(rows_of(data), tags, seed=0)
    assert not soft_labels[:, 1].any()


def test_a_text_without_known_words_may_be_of_any_class() -> None:
    data = gather(topic_documents(100))
    features = fit_text_features(data.take(np.arange(100)), 100)  # type: ignore[arg-type]
    rows = features.transform([*map(str, data.inputs), "zzz"])
    tags = np.vstack([shown(data, 40), np.zeros(3, dtype=np.bool_)])
    row = estimate_soft_labels(rows, tags, seed=0)[-1]
    assert np.isfinite(row).all()
    assert row.max() < 0.9
