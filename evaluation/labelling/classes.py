"""A classifier fast enough to refit after every label: ridge regression."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from encoder.features import Floats

Classes = npt.NDArray[np.int64]
Probabilities = npt.NDArray[np.float64]

REGULARIZATION = 0.3
# Ridge scores of different classes lie a few tenths apart. Scaled by this, their softmax is sharp.
SHARPNESS = 6.0


def class_scores(
    vectors: Floats, labelled: Classes, classes: Classes, n_classes: int
) -> Probabilities:
    """Return the scores of each document for each class, ``float64[N, C]``.

    `vectors` is ``float32[N, D]`` with rows of unit length. `labelled` lists the rows that have a
    label, and `classes` their classes. The model is a ridge regression of the one-hot classes,
    with an intercept. A class without a labelled row scores −1.
    """
    rows = vectors[labelled].astype(np.float64)
    targets = np.eye(n_classes)[classes]
    mean, base = rows.mean(axis=0), targets.mean(axis=0)
    centred = rows - mean
    if len(rows) <= rows.shape[1]:  # the smaller of the two systems
        kernel = centred @ centred.T + REGULARIZATION * np.eye(len(rows))
        weights = centred.T @ np.linalg.solve(kernel, targets - base)
    else:
        kernel = centred.T @ centred + REGULARIZATION * np.eye(rows.shape[1])
        weights = np.linalg.solve(kernel, centred.T @ (targets - base))
    scores = np.asarray(vectors @ weights - mean @ weights + base)
    scores[:, ~targets.any(axis=0)] = -1.0
    return scores


def class_probabilities(scores: Probabilities) -> Probabilities:
    """Return the softmax of the scores times :data:`SHARPNESS`, ``float64[N, C]``."""
    powers = np.exp(SHARPNESS * (scores - scores.max(axis=1, keepdims=True)))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
