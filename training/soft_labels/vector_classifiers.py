"""Linear classifiers of vectors, fitted to soft labels.

Both weigh all classes the same, however many documents they have. Queries are seldom distributed
over the classes as documents are, and soft labels exaggerate how documents are distributed: a class
of few labels gets fewer still.
"""

from __future__ import annotations

import numpy as np

from encoder.features import Floats
from evaluation.baselines import fit_logistic, unit_scale
from training.soft_labels.machines import linear_class_map
from training.soft_labels.ridge import Array, LinearMap

_SHRINKAGE = 0.5
_INVERSE_REGULARIZATION = 3.0


def fit_discriminant(rows: Floats, classes: Array) -> LinearMap:
    """Fit linear discriminant analysis to `rows` x, ``(N, D)``, and `classes` p, ``(N, C)``.

    The mean of a class is μ_c = Σ_n p_nc x_n / Σ_n p_nc, and S = Σ_nc p_nc (x_n − μ_c)(x_n − μ_c)ᵀ
    / N the covariance within classes. With A = S / 2 + tr(S) / (2 D) · 1, class c scores
    ``xᵀ A⁻¹ μ_c − μ_cᵀ A⁻¹ μ_c / 2``, less the mean over the classes. A row of p sums to 1. A class
    without a document scores as low as any class of any row, so it is never predicted.

    Source: Friedman, "Regularized Discriminant Analysis" (1989), with γ = ½ and λ = 1.
    """
    seen = np.flatnonzero(classes.sum(axis=0) > 0)
    p_NC = np.asarray(classes[:, seen], dtype=np.float64)
    offset_D = rows.mean(axis=0, dtype=np.float64)
    x_ND = rows - offset_D
    sums_C = p_NC.sum(axis=0)
    means_CD = (p_NC.T @ x_ND) / sums_C[:, None]
    within_DD = (x_ND.T @ x_ND - (means_CD.T * sums_C) @ means_CD) / len(x_ND)
    mean_variance = np.trace(within_DD) / len(within_DD)
    # Rows that equal the mean of their class have no covariance.
    diagonal_DD = (_SHRINKAGE * mean_variance if mean_variance > 0 else 1.0) * np.eye(
        len(within_DD)
    )
    weight_DC = np.linalg.solve((1 - _SHRINKAGE) * within_DD + diagonal_DD, means_CD.T)
    bias_C = -(means_CD.T * weight_DC).sum(axis=0) / 2 - offset_D @ weight_DC
    return _of_all_classes(LinearMap(weight_DC, bias_C), rows, seen, classes.shape[1])


def fit_balanced_logistic(rows: Floats, classes: Array) -> LinearMap:
    """Fit logistic regression to the likeliest class of each row; `classes` is ``(N, C)``.

    A row counts with the probability of its class, divided by the sum for all rows of the class.
    The scores of a row have the mean 0. A class that is the likeliest of no row scores as low as
    any class of any row. Rows must be of two classes or more.
    """
    likeliest_N = classes.argmax(axis=1)
    weights_N = classes.max(axis=1).astype(np.float64)
    sums_C = np.bincount(likeliest_N, weights_N, minlength=classes.shape[1])
    seen = np.flatnonzero(sums_C > 0)
    weights_N *= len(rows) / len(seen) / sums_C[likeliest_N]
    scale = unit_scale(rows)
    model = fit_logistic(
        rows / scale,
        np.searchsorted(seen, likeliest_N),
        inverse_regularization=_INVERSE_REGULARIZATION,
        weights=weights_N,
    )
    weight, bias = linear_class_map(model, len(seen), absent=0, binary_scale=0.5)
    return _of_all_classes(LinearMap(weight / scale, bias), rows, seen, classes.shape[1])


def _of_all_classes(seen_map: LinearMap, rows: Floats, seen: Array, n_classes: int) -> LinearMap:
    """Return `seen_map`, centred over its classes `seen`, as a map to `n_classes`."""
    weight = seen_map.weight - seen_map.weight.mean(axis=1, keepdims=True)
    centred = LinearMap(weight, seen_map.bias - seen_map.bias.mean())
    if len(seen) == n_classes:
        return centred
    weight_DC = np.zeros((len(weight), n_classes))
    bias_C = np.full(n_classes, centred(rows).min())
    weight_DC[:, seen], bias_C[seen] = centred.weight, centred.bias
    return LinearMap(weight_DC, bias_C)
