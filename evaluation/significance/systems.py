"""Several systems on the same queries: which differ by more than chance?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.result import Evaluation, EvaluationError
from evaluation.significance.ranks import RankComparison, friedman_nemenyi
from evaluation.significance.resampling import holm, permutation_test


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems with the difference of their means, a minus b, and its significance.

    `p_value` is that of the two-sided paired permutation test. `adjusted` is the same after Holm's
    correction over all pairs of the metric.
    """

    a: str
    b: str
    difference: float
    p_value: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """One metric: each pair of systems and, for three or more, Friedman's and Nemenyi's tests."""

    metric: str
    pairs: tuple[Pair, ...]
    ranks: RankComparison | None

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs and the tests as plain JSON values."""
        pairs = [asdict(pair) for pair in self.pairs]
        if self.ranks is None:
            return {"pairs": pairs, "friedman": None, "nemenyi": None}
        ranks = self.ranks
        return {
            "pairs": pairs,
            "friedman": {"statistic": ranks.statistic, "p_value": ranks.p_value},
            "nemenyi": {
                "mean_ranks": dict(ranks.mean_ranks),
                "critical_difference": ranks.critical_difference,
                "alpha": ranks.alpha,
                "pairs": [{"a": a, "b": b, "p_value": p} for (a, b), p in ranks.pairs.items()],
            },
        }


def compare_systems(
    systems: Mapping[str, Evaluation], *, seed: int = 0
) -> dict[str, SystemComparison]:
    """Compare two systems or more in every metric, by their tie-averaged values.

    Values as served are not used, since the order of ties is no property of a system. All systems
    must have the same metrics, on the same queries in the same order.

    Raises:
        EvaluationError: if there are fewer than two systems, or they differ in the number of
            queries.
    """
    if len(systems) < 2:
        message = f"the number of systems is {len(systems)}; a comparison needs two or more"
        raise EvaluationError(message)
    first = next(iter(systems.values()))
    return {metric: _compare(metric, systems, seed) for metric in first.expected_per_query}


def _compare(metric: str, systems: Mapping[str, Evaluation], seed: int) -> SystemComparison:
    values = {
        name: np.asarray(evaluation.expected_per_query[metric])
        for name, evaluation in systems.items()
    }
    pairs = list(itertools.combinations(values, 2))
    p_values = [permutation_test(values[a], values[b], seed=seed) for a, b in pairs]
    return SystemComparison(
        metric=metric,
        pairs=tuple(
            Pair(a, b, float(values[a].mean() - values[b].mean()), p_value, adjusted)
            for (a, b), p_value, adjusted in zip(pairs, p_values, holm(p_values), strict=True)
        ),
        ranks=friedman_nemenyi(values) if len(values) > 2 else None,
    )
