"""How much another label is expected to gain: a power law fitted to the learning curve so far.

Source: Figueroa et al., "Predicting Sample Size Required for Classification Performance" (2012).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.labelling.classes import class_scores
from evaluation.labelling.label_pool import Pool
from foundation.slices import checkpoint

FOLDS = 5
SHARES = (0.25, 0.5, 0.75, 1.0)
MIN_LABELS = 20


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    """The accuracy of a classifier of the labels, and what one more label would add to it.

    `curve` holds (labels, accuracy). `per_label` is the slope of the fitted curve at its end.
    `labels_to_one_percent` is how many more labels the fitted curve needs to rise by 0.01; None
    where it no longer rises.
    """

    accuracy: float
    per_label: float
    labels_to_one_percent: int | None
    curve: tuple[tuple[int, float], ...]


def expected_gain(pool: Pool, seed: int = 0) -> ExpectedGain | None:
    """Fit error = a · n^−b to five-fold cross-validation with shares of the labels.

    Returns None below 20 labels or two classes. Documents that were labelled because they are hard
    are harder than the rest, so the accuracy is usually a lower bound.
    """
    n_labels = len(pool.labelled)
    if n_labels < MIN_LABELS or len(np.unique(pool.classes)) < 2:
        return None
    vectors = pool.vectors[pool.labelled]
    order = np.random.default_rng(seed).permutation(n_labels)
    curve = []
    for share in SHARES:
        n_correct, sizes = 0, []
        for fold in range(FOLDS):
            checkpoint()
            held_out = order[fold::FOLDS]
            training = np.delete(order, np.s_[fold::FOLDS])
            # The order is random, so the first rows are a random share.
            training = training[: max(2, round(share * len(training)))]
            scores = class_scores(vectors, training, pool.classes[training], pool.n_classes)
            predicted = scores[held_out].argmax(axis=1)
            n_correct += int((predicted == pool.classes[held_out]).sum())
            sizes.append(len(training))
        curve.append((round(float(np.mean(sizes))), n_correct / n_labels))
    return _extrapolate(curve)


def _extrapolate(curve: list[tuple[int, float]]) -> ExpectedGain:
    sizes = np.array([size for size, _ in curve], dtype=np.float64)
    # An error of 0 has no logarithm; it counts as half a mistake over all labels.
    errors = np.maximum([1 - accuracy for _, accuracy in curve], 0.5 / curve[-1][0])
    slope, _ = np.polyfit(np.log(sizes), np.log(errors), 1)
    decay = max(0.0, -float(slope))
    last, error = float(sizes[-1]), float(errors[-1])
    more_labels = None
    if decay > 0 and error > 0.01:
        factor = (error / (error - 0.01)) ** (1 / decay)
        more_labels = round(min(last * (factor - 1), 1e9))
    return ExpectedGain(curve[-1][1], error * decay / last, more_labels, tuple(curve))
