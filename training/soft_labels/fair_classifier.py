"""The fair classifier beside an encoder: fitted to the same soft labels and the same features."""

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
from training.soft_labels.ridge import fit_ridge
from training.soft_labels.text_classifiers import bayes_weights


def fit_classifier(
    features: Features, inputs: Inputs, tags: Tags, soft_labels: Floats | None, seed: int
) -> Classifier | None:
    """Fit a classifier to the training documents.

    `tags`, bool[N, C], has the training labels of the `inputs`. `soft_labels`, float32[N, C], are
    the distributions over classes that the encoder learned from. For a method without soft labels
    they are estimated from the training labels (:func:`estimate_soft_labels`). Texts are classified
    by the sum of the standardised scores of ridge regression and complement naive Bayes. With a
    tenth of Snippets' labels it predicts better than logistic regression of any strength. Vectors
    are classified by logistic regression. Returns None for matrices, for documents of several
    classes, and for labels of fewer than two classes.
    """
    is_multi_label = bool((tags.sum(axis=1) > 1).any())
    if is_multi_label or isinstance(features, SpdFeatures) or int(tags.any(axis=0).sum()) < 2:
        return None
    rows: Any = features.transform(inputs)  # type: ignore[arg-type]
    targets = estimate_soft_labels(rows, tags, seed) if soft_labels is None else soft_labels
    if isinstance(rows, np.ndarray):
        return fit_vectors(rows, targets)
    ridge = fit_ridge(rows, targets)
    weights = (ridge.weight, bayes_weights(rows, targets))
    biases = (ridge.bias, np.zeros(targets.shape[1]))
    return Classifier(tuple(map(_float32, weights)), tuple(map(_float32, biases)))


def fit_vectors(rows: Floats, targets: Floats) -> Classifier:
    """Fit logistic regression to the likeliest class of each row; return it as a single map."""
    scale = unit_scale(rows)
    model = fit_logistic(rows / scale, targets.argmax(axis=1))
    weight, bias = linear_class_map(model, targets.shape[1], absent=-1e3, binary_scale=0.5)
    return Classifier((_float32(weight / scale),), (_float32(bias),))


def linear_class_map(
    model: Any, n_classes: int, *, absent: float, binary_scale: float
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
    """Return the weights ``(F, C)`` and biases ``(C,)`` of a linear classifier of scikit-learn.

    Classes that it has not seen score `absent` everywhere. A binary classifier has one decision
    function d; its second class scores `binary_scale` · d and its first −`binary_scale` · d.
    """
    coefficients, offsets = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        scales = np.array([-binary_scale, binary_scale], dtype=coefficients.dtype)
        coefficients, offsets = scales[:, None] * coefficients, scales * offsets
    weight = np.zeros((coefficients.shape[1], n_classes), dtype=coefficients.dtype)
    bias = np.full(n_classes, absent, dtype=offsets.dtype)
    weight[:, model.classes_], bias[model.classes_] = coefficients.T, offsets
    return weight, bias


def _float32(array: Any) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float32)
