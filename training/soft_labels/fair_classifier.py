"""The fair classifier beside an encoder: fitted to the same soft labels, over the same features."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.classifier import Classifier
from encoder.encoder import Features, Inputs
from encoder.features import Floats
from encoder.spd_features import SpdFeatures
from evaluation.baselines import fit_logistic, unit_scale
from training.data import Tags
from training.soft_labels.estimation import estimate_soft_labels
from training.soft_labels.text_classifiers import bayes_weights, fit_ridge


def fit_classifier(
    features: Features, inputs: Inputs, tags: Tags, soft_labels: Floats | None, seed: int
) -> Classifier | None:
    """Fit a classifier to the documents trained on, or None where one cannot be.

    `tags`, bool[N, C], hold the labels shown of the `inputs`; `soft_labels`, float32[N, C], are the
    distributions over classes that the encoder learned from. For a method without soft labels they
    are estimated from the labels shown (:func:`estimate_soft_labels`). Texts are classified by the
    sum of the standardised scores of ridge regression and complement naive Bayes, which at a tenth
    of Snippets' labels predicts better than logistic regression does at any strength; vectors by
    logistic regression. There is none for documents of several classes, nor without labels of two.
    """
    several = bool((tags.sum(axis=1) > 1).any())
    if several or isinstance(features, SpdFeatures) or int(tags.any(axis=0).sum()) < 2:
        return None
    rows: Any = features.transform(inputs)  # type: ignore[arg-type]
    targets = estimate_soft_labels(rows, tags, seed) if soft_labels is None else soft_labels
    if isinstance(rows, np.ndarray):
        return fit_vectors(rows, targets)
    ridge = fit_ridge(rows, targets, seed)
    weights = (ridge.coef_.T, bayes_weights(rows, targets))
    biases = (ridge.intercept_, np.zeros(targets.shape[1]))
    return Classifier(tuple(map(_float32, weights)), tuple(map(_float32, biases)))


def fit_vectors(rows: Floats, targets: Floats) -> Classifier:
    """Fit logistic regression to the likeliest class of each row, as one map."""
    scale = unit_scale(rows)
    model = fit_logistic(rows / scale, targets.argmax(axis=1))
    weight, bias = map_of_classes(model, targets.shape[1], absent=-1e3, of_two=0.5)
    return Classifier((_float32(weight / scale),), (_float32(bias),))


def map_of_classes(
    model: Any, n_classes: int, *, absent: float, of_two: float
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
    """Return the weights ``(F, C)`` and biases ``(C,)`` of a linear classifier of scikit-learn.

    Classes that it has not seen score `absent` everywhere. Of two classes it keeps the second's
    decision alone: that one scores `of_two` times as much, the first minus that.
    """
    coefficients, offsets = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        signs = np.array([-of_two, of_two], dtype=coefficients.dtype)
        coefficients, offsets = signs[:, None] * coefficients, signs * offsets
    weight = np.zeros((coefficients.shape[1], n_classes), dtype=coefficients.dtype)
    bias = np.full(n_classes, absent, dtype=offsets.dtype)
    weight[:, model.classes_], bias[model.classes_] = coefficients.T, offsets
    return weight, bias


def _float32(array: Any) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float32)
