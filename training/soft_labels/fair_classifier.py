"""The fair classifier beside an encoder: fitted to the same soft labels and the same features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from encoder.classifier import Classifier
from encoder.encoder import Features, Inputs
from encoder.features import Floats, TextFeatures
from encoder.spd_features import SpdFeatures
from training.data import Tags
from training.soft_labels.estimation import estimate_soft_labels
from training.soft_labels.machines import fit_machines
from training.soft_labels.naive_bayes import multinomial_weights
from training.soft_labels.ridge import LinearMap, fit_ridge
from training.soft_labels.text_classifiers import hold_out_fifth
from training.soft_labels.vector_classifiers import fit_balanced_logistic, fit_discriminant

# The share of held-out texts that support vector machines must have right beyond those of ridge
# regression to take its place. A random fifth is more like the other texts than queries are, so a
# smaller gain says little about queries.
_LEAST_GAIN = 0.02


def fit_classifier(
    features: Features, inputs: Inputs, tags: Tags, soft_labels: Floats | None, seed: int
) -> Classifier | None:
    """Fit a classifier to the training documents.

    `tags`, bool[N, C], has the training labels of the `inputs`. `soft_labels`, float32[N, C], are
    the distributions over classes that the encoder learned from. For a method without soft labels
    they are estimated from the training labels (:func:`estimate_soft_labels`). Texts are classified
    by the sum of the standardized scores of ridge regression and multinomial naive Bayes, which
    with a tenth of Snippets' labels predicts better than logistic regression of any strength.
    Support vector machines take the place of ridge regression if that makes .02 more of a fifth of
    the labelled texts right, held out; with many classes it often does. Vectors are classified by
    :func:`fit_vectors`. Returns None for matrices, for vectors of several classes, and for labels
    of fewer than two classes.
    """
    if isinstance(features, SpdFeatures) or int(tags.any(axis=0).sum()) < 2:
        return None
    if not isinstance(features, TextFeatures) and bool((tags.sum(axis=1) > 1).any()):
        return None
    rows: Any = features.transform(inputs)  # type: ignore[arg-type]
    targets = estimate_soft_labels(rows, tags, seed) if soft_labels is None else soft_labels
    if isinstance(rows, np.ndarray):
        return fit_vectors(rows, targets)
    fit = _fit_machines if _machines_are_better(rows, tags, seed) else _fit_ridge
    return fit(rows, targets, seed)


def _machines_are_better(rows: Any, tags: Tags, seed: int) -> bool:
    """Return whether support vector machines predict a held-out fifth of the labels better."""
    labelled = np.flatnonzero(tags.any(axis=1))
    held_out, known = (labelled[places] for places in hold_out_fifth(len(labelled), seed))
    if int(tags[known].any(axis=0).sum()) < 2:
        return False

    def accuracy(fit: Callable[[Any, Floats, int], Classifier]) -> float:
        classifier = fit(rows[known], tags[known].astype(np.float32), seed)
        return float(tags[held_out, classifier.predict(rows[held_out])].mean())

    return accuracy(_fit_machines) > accuracy(_fit_ridge) + _LEAST_GAIN


def _fit_ridge(rows: Any, targets: Floats, _seed: int) -> Classifier:
    return _beside_naive_bayes(fit_ridge(rows, targets), rows, targets)


def _fit_machines(rows: Any, targets: Floats, seed: int) -> Classifier:
    return _beside_naive_bayes(fit_machines(rows, targets, seed), rows, targets)


def _beside_naive_bayes(linear: LinearMap, rows: Any, targets: Floats) -> Classifier:
    """Return the classifier that sums the standardized scores of `linear` and naive Bayes."""
    weights = (linear.weight, multinomial_weights(rows, targets))
    biases = (linear.bias, np.zeros(targets.shape[1]))
    return Classifier(tuple(map(_float32, weights)), tuple(map(_float32, biases)))


def fit_vectors(rows: Floats, targets: Floats) -> Classifier:
    """Return the sum of linear discriminant analysis and logistic regression, of one size each.

    `rows` are vectors ``(N, D)`` and `targets` distributions over two classes or more, ``(N, C)``.
    """
    maps = (fit_discriminant(rows, targets), fit_balanced_logistic(rows, targets))
    weights, biases = zip(*maps, strict=True)
    return Classifier(tuple(map(_float32, weights)), tuple(map(_float32, biases)))


def _float32(array: Any) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float32)
