from __future__ import annotations

import numpy as np
import pytest
from sklearn.semi_supervised import LabelSpreading

from hummingbit.training.soft_labels import smoothing_matrix, spread_labels


def clusters(count: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, size=count)
    vectors = 3 * np.eye(6)[classes] + rng.normal(size=(count, 6))
    return vectors.astype(np.float32), classes


def graph_of(vectors: np.ndarray, neighbours: int) -> np.ndarray:
    """The edges, found one document after another."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    edges = np.zeros_like(cosines, dtype=np.float64)
    for row, line in enumerate(cosines):
        nearest = np.argsort(-line)[:neighbours]
        edges[row, nearest] = np.maximum(line[nearest], 0) ** 4
    return np.maximum(edges, edges.T)


def test_it_equals_scikit_learns_on_the_same_graph() -> None:
    vectors, classes = clusters()
    known = np.where(np.arange(120) < 12, classes, -1)
    start = np.zeros((120, 3))
    start[np.arange(12), classes[:12]] = 1
    heard = spread_labels(smoothing_matrix(vectors, 7), start, 0.8)
    oracle = LabelSpreading(kernel=lambda x, _: graph_of(x, 7), alpha=0.8, max_iter=30, tol=0.0)
    with pytest.warns(UserWarning, match="max_iter=30 was reached"):
        oracle.fit(vectors, known)
    expected = oracle.label_distributions_
    np.testing.assert_allclose(heard / heard.sum(axis=1, keepdims=True), expected, atol=1e-5)
    assert (heard.argmax(axis=1) == classes).mean() > 0.85


def test_scale_changes_nothing_and_zeros_hear_nobody() -> None:
    vectors, classes = clusters()
    start = np.eye(3)[classes]
    vectors[5] = 0
    heard = spread_labels(smoothing_matrix(vectors), start, 0.5)
    larger = spread_labels(smoothing_matrix(1000 * vectors), start, 0.5)
    np.testing.assert_allclose(larger, heard, atol=1e-6)
    np.testing.assert_allclose(heard[5], start[5] / 2)


def test_fewer_documents_than_neighbours() -> None:
    vectors, classes = clusters(4)
    heard = spread_labels(smoothing_matrix(vectors, 10), np.eye(3)[classes], 0.9)
    assert heard.shape == (4, 3)
    assert np.isfinite(heard).all()


def test_of_many_documents_the_nearest_cells_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, classes = clusters(6000)
    start = np.zeros((6000, 3))
    start[np.arange(60), classes[:60]] = 1
    exact = spread_labels(smoothing_matrix(vectors), start, 0.9)
    monkeypatch.setattr("hummingbit.training.soft_labels._MANY", 1000)
    quick = spread_labels(smoothing_matrix(vectors), start, 0.9)
    assert not np.array_equal(quick, exact)
    assert (quick.argmax(axis=1) == exact.argmax(axis=1)).mean() > 0.95
