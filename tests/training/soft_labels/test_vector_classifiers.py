from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.covariance import shrunk_covariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from hummingbit.training.data import gather
from hummingbit.training.soft_labels import fit_balanced_logistic, fit_discriminant
from tests.support.corpora import topic_vectors

FITS = (fit_discriminant, fit_balanced_logistic)


def drawn(classes: int, count: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors about the mean of their class, far from the origin, and their classes."""
    rng = np.random.default_rng(seed)
    belongs = rng.integers(classes, size=count)
    rows = 5 + 3 * np.eye(classes, 8)[belongs] + rng.normal(size=(count, 8)) * np.arange(1, 9) / 4
    return rows.astype(np.float32), belongs


def centred(scores: Any) -> Any:
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 5])
def test_discriminant_of_labels_is_scikit_learns_with_equal_priors(classes: int) -> None:
    rows, belongs = drawn(classes)
    x = rows.astype(np.float64)
    means = np.stack([x[belongs == item].mean(axis=0) for item in range(classes)])

    class Shrunk:
        """The covariance within classes, halfway to that of equal variances."""

        def fit(self, _: Any) -> Shrunk:
            self.covariance_ = shrunk_covariance(np.cov((x - means[belongs]).T, bias=True), 0.5)
            return self

    model = LinearDiscriminantAnalysis(
        solver="lsqr", priors=np.full(classes, 1 / classes), covariance_estimator=Shrunk()
    )
    # scikit-learn averages the estimates of the classes, here the same one for each.
    decisions = model.fit(x, belongs).decision_function(x)
    expected = decisions if classes > 2 else np.stack([-decisions, decisions], axis=1) / 2
    found = fit_discriminant(rows, np.eye(classes, dtype=np.float32)[belongs])(rows)
    np.testing.assert_allclose(found, centred(expected), rtol=1e-4, atol=1e-4)


def test_discriminant_of_soft_labels_counts_a_row_for_each_of_its_classes() -> None:
    """Soft labels in tenths are rows that are there ten times, each time of one class."""
    rows, _ = drawn(3, count=30)
    tenths = np.random.default_rng(1).multinomial(10, np.full(3, 1 / 3), size=30)
    repeated = np.repeat(rows, 10, axis=0)
    one_each = np.concatenate([np.repeat(np.eye(3), row, axis=0) for row in tenths])
    soft, hard = fit_discriminant(rows, tenths / 10), fit_discriminant(repeated, one_each)
    np.testing.assert_allclose(soft.weight, hard.weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(soft.bias, hard.bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_regression_weighs_all_classes_the_same(classes: int) -> None:
    rows, belongs = drawn(classes)
    rows, belongs = (
        rows[belongs * np.arange(200) % 3 < 2],
        belongs[belongs * np.arange(200) % 3 < 2],
    )
    unit = rows / np.sqrt(np.square(rows).sum(axis=1).mean())
    model = LogisticRegression(C=3, max_iter=1000, class_weight="balanced").fit(unit, belongs)
    decisions = model.decision_function(unit)
    expected = decisions if classes > 2 else np.stack([-decisions, decisions], axis=1) / 2
    found = fit_balanced_logistic(rows, np.eye(classes, dtype=np.float32)[belongs])(rows)
    np.testing.assert_allclose(found, centred(expected), atol=0.02)


def test_logistic_regression_weighs_a_row_by_the_probability_of_its_class() -> None:
    rows, belongs = drawn(3)
    shares = np.random.default_rng(1).uniform(0.4, 1, size=(200, 1))
    soft = shares * np.eye(3)[belongs] + (1 - shares) / 3
    weights = soft.max(axis=1)
    weights /= np.bincount(belongs, weights)[belongs] * 3 / 200
    unit = rows / np.sqrt(np.square(rows).sum(axis=1).mean())
    model = LogisticRegression(C=3, max_iter=1000).fit(unit, belongs, sample_weight=weights)
    found = fit_balanced_logistic(rows, soft)(rows)
    np.testing.assert_allclose(found, centred(model.decision_function(unit)), atol=0.02)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("present", [(0, 3), (1, 2, 4)])
def test_a_class_without_a_vector_is_never_predicted(
    fit: Callable[..., Any], present: tuple[int, ...]
) -> None:
    rows, belongs = drawn(len(present))
    classes = np.eye(5, dtype=np.float32)[np.array(present)[belongs]]
    found = fit(rows, classes)
    other = np.random.default_rng(2).normal(5, 3, size=(300, 8))
    assert set(found(other).argmax(axis=1)) <= set(present)
    absent = np.setdiff1d(np.arange(5), present)
    lowest = found(rows)[:, list(present)].min()
    np.testing.assert_allclose(found(rows)[:, absent], lowest, rtol=1e-4)


@pytest.mark.parametrize("fit", FITS)
def test_scale_changes_no_prediction(fit: Callable[..., Any]) -> None:
    data = gather(topic_vectors(200))
    rows: Any = data.inputs
    classes = data.tags.astype(np.float32)
    expected = fit(rows, classes)(rows).argmax(axis=1)
    assert (expected == data.tags.argmax(axis=1)).mean() > 0.9
    assert (fit(1000 * rows, classes)(1000 * rows).argmax(axis=1) == expected).mean() > 0.99


def test_copies_of_the_means_are_told_apart() -> None:
    rows = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    found = fit_discriminant(rows, np.repeat(np.eye(3), 4, axis=0))
    np.testing.assert_array_equal(found(rows).argmax(axis=1), np.repeat(np.arange(3), 4))
