"""A classifier that is fitted in milliseconds, between two labels: ridge regression."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from encoder.features import Floats

Classes = npt.NDArray[np.int64]
Probabilities = npt.NDArray[np.float64]

REGULARISATION = 0.3
# Ridge scores of different classes lie a few tenths apart; so they become probabilities.
SHARPNESS = 6.0


def class_scores(
    places: Floats, labelled: Classes, classes: Classes, n_classes: int
) -> Probabilities:
    """Return the scores of each document for each class, ``float64[N, C]``.

    `places` are ``float32[N, D]``, rows of unit length; `classes` are those of the rows `labelled`.
    Ridge regression with an intercept of one-hot classes; a class that no row has scores −1.
    """
    known = places[labelled].astype(np.float64)
    targets = np.eye(n_classes)[classes]
    mean, base = known.mean(axis=0), targets.mean(axis=0)
    centred = known - mean
    if len(known) <= known.shape[1]:  # the smaller of the two systems
        kernel = centred @ centred.T + REGULARISATION * np.eye(len(known))
        weights = centred.T @ np.linalg.solve(kernel, targets - base)
    else:
        kernel = centred.T @ centred + REGULARISATION * np.eye(known.shape[1])
        weights = np.linalg.solve(kernel, centred.T @ (targets - base))
    scores = np.asarray(places @ weights - mean @ weights + base)
    scores[:, ~targets.any(axis=0)] = -1.0
    return scores


def class_probabilities(scores: Probabilities) -> Probabilities:
    """Return the softmax of sharpened scores, ``float64[N, C]``."""
    sharp = SHARPNESS * (scores - scores.max(axis=1, keepdims=True))
    powers = np.exp(sharp)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
