"""The weight of codes beside words in the hybrid ranking, fitted to queries that people judged.

Without judged queries, the default suits: over ten families of questions, neither the number of
documents, nor their lengths, nor queries made of their sentences give a weight that finds more
(``python -m experiments.questions.table --weights .35 .5 .75 1``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.corpus.qrels import Qrels
from hummingbit.evaluation.rankings import EvaluationInput, RelevanceSettings
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.rankings import DEFAULT_WEIGHT

WEIGHTS = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5)
"""The weights of codes that are tried."""

JUDGED_METRIC = "nDCG@10"

Curve = npt.NDArray[np.float64]
"""What each query finds with each weight, ``float64[W, Q]``; larger is better."""


def judged_weight(curve: Curve) -> float:
    """Return the weight that is likely best on judged queries, to two digits."""
    return float(f"{likely_best(curve):.2g}")


def likely_best(curve: Curve) -> float:
    """Return the geometric mean of the weights, each by how likely it is as good as the best.

    A weight that is d below the best in the mean, with the standard error s of this difference,
    counts exp(−d² / 2s²), times the density of a normal distribution of its logarithm around that
    of the default, of deviation 1. So a few queries, which hardly tell weights apart, give one near
    the default.
    """
    lower = curve[curve.mean(axis=1).argmax()] - curve
    errors = lower.std(axis=1) / np.sqrt(curve.shape[1])
    below = lower.mean(axis=1)
    # Without any error, a lower mean is surely worse.
    ratios = np.where(below > 0, np.inf, 0.0)
    np.divide(below, errors, out=ratios, where=errors > 0)
    logarithms = np.log(WEIGHTS)
    likely = np.exp(-(np.square(ratios) + np.square(logarithms - np.log(DEFAULT_WEIGHT))) / 2)
    return float(np.exp(likely @ logarithms / likely.sum()))


def why_no_fit(curve: Curve) -> str | None:
    """Return why queries tell nothing about the weight, or None if they do.

    They do not tell the weights apart if none is below the best by more than three standard errors
    of the difference. Three, not two, because the best and the worst of eleven differ by chance
    alone.
    """
    n_queries, best = curve.shape[1], curve.mean(axis=1).argmax()
    if curve[best].mean() <= 0:
        return "the queries find nothing with any weight"
    lower = curve[best] - curve
    below, errors = lower.mean(axis=1), lower.std(axis=1) / np.sqrt(n_queries)
    if not ((below > 0) & (below > 3 * errors)).any():
        return "the queries do not tell the weights apart: the differences are within chance"
    return None


def curve_means(curve: Curve) -> dict[str, float]:
    """Return the mean of each weight, by its name."""
    return {
        f"{weight:g}": round(value, 4)
        for weight, value in zip(WEIGHTS, curve.mean(axis=1).tolist(), strict=True)
    }


def judged_curve(collection: CollectionBackend, queries: Sequence[Document], qrels: Qrels) -> Curve:
    """Return the nDCG@10 of each query by each weight, as an evaluation of ``hybrid`` gives it.

    Queries that the encoder learned from are left out if there are others.
    """
    data = EvaluationInput(collection, queries, RelevanceSettings(qrels=qrels))
    by_weight = data.evaluate_weights([JUDGED_METRIC], WEIGHTS)
    data.check_generation(collection.generation)
    return np.stack([by_weight[weight].per_query[JUDGED_METRIC] for weight in WEIGHTS])


def validated(curve: Curve) -> float:
    """Return the mean that each query has with the weight that the other four folds choose."""
    n_queries = curve.shape[1]
    if n_queries < 2:
        return float(curve.mean(axis=1).max())
    fold = np.random.default_rng(0).permutation(n_queries) % min(5, n_queries)
    values = []
    for number in range(int(fold.max()) + 1):
        chosen = np.abs(np.log(WEIGHTS) - np.log(likely_best(curve[:, fold != number]))).argmin()
        values += curve[chosen, fold == number].tolist()
    return float(np.mean(values))
