"""Support vector machines that classify texts by their terms.

With many classes of short texts they predict better than ridge regression and naive Bayes do.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from encoder.features import Floats
from training.soft_labels.ridge import LinearMap


def fit_machines(rows: Any, classes: Floats, seed: int) -> LinearMap:
    """Fit a support vector machine for each class of `classes`, float[N, C], which may be soft.

    A row counts as one of its likeliest class, with the probability of that class as its weight.
    Rows must be of two classes or more. Returns weights ``(V, C)`` and biases ``(C,)``.
    """
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - takes a second

    machines = LinearSVC(dual="auto", random_state=seed)
    with warnings.catch_warnings():
        # With about as many classes as rows, scikit-learn suspects a regression.
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        machines.fit(rows, classes.argmax(axis=1), sample_weight=classes.max(axis=1))
    # A class without a document scores as a class that a document is certainly not of.
    return linear_class_map(machines, classes.shape[1], absent=-1, binary_scale=1)


def linear_class_map(
    model: Any, n_classes: int, *, absent: float, binary_scale: float
) -> LinearMap:
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
    return LinearMap(weight, bias)
