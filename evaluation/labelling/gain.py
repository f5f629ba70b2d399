"""How much a next label is expected to gain: a power law through the learning curve so far.

Source: Figueroa et al., "Predicting Sample Size Required for Classification Performance" (2012).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.labelling.classes import class_scores
from evaluation.labelling.sampling import Pool
from foundation.slices import checkpoint

FOLDS = 5
SHARES = (0.25, 0.5, 0.75, 1.0)
FEWEST_LABELS = 20


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    """What a classifier of the labels gets right, and what one more label would add to it.

    `curve` holds (labels, accuracy); `per_label` is the slope of the fitted curve at its end, and
    `labels_to_one_percent` how many more labels one hundredth takes by the same curve; None where
    the curve no longer rises.
    """

    accuracy: float
    per_label: float
    labels_to_one_percent: int | None
    curve: tuple[tuple[int, float], ...]


def expected_gain(pool: Pool, seed: int = 0) -> ExpectedGain | None:
    """Fit error = a · n^−b to five-fold cross-validation with shares of the labels.

    None below 20 labels, or without two classes. What was labelled because it was hard is harder
    than the rest, so the accuracy is a lower bound as a rule.
    """
    labels = len(pool.labelled)
    if labels < FEWEST_LABELS or len(np.unique(pool.classes)) < 2:
        return None
    order = np.random.default_rng(seed).permutation(labels)
    curve = []
    for share in SHARES:
        right, sizes = 0, []
        for fold in range(FOLDS):
            checkpoint()
            held = order[fold::FOLDS]
            known = np.delete(order, np.s_[fold::FOLDS])
            # In the drawn order the first are a share drawn at random.
            known = known[: max(2, round(share * len(known)))]
            scores = class_scores(
                pool.places, pool.labelled[known], pool.classes[known], pool.n_classes
            )
            found = scores[pool.labelled[held]].argmax(axis=1)
            right += int((found == pool.classes[held]).sum())
            sizes.append(len(known))
        curve.append((round(float(np.mean(sizes))), right / labels))
    return _extrapolated(curve)


def _extrapolated(curve: list[tuple[int, float]]) -> ExpectedGain:
    sizes = np.array([size for size, _ in curve], dtype=np.float64)
    # No error at all would have no logarithm; half an error in the whole is the least.
    errors = np.maximum([1 - accuracy for _, accuracy in curve], 0.5 / curve[-1][0])
    slope, _ = np.polyfit(np.log(sizes), np.log(errors), 1)
    decay = max(0.0, -float(slope))
    last, error = float(sizes[-1]), float(errors[-1])
    wanted = None
    if decay > 0 and error > 0.01:
        factor = (error / (error - 0.01)) ** (1 / decay)
        wanted = round(min(last * (factor - 1), 1e9))
    return ExpectedGain(curve[-1][1], error * decay / last, wanted, tuple(curve))
