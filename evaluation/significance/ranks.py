"""Compare three systems or more: Friedman's test, and Nemenyi's test for each pair.

Source: J. Demšar 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.result import EvaluationError, PerQuery


@dataclass(frozen=True, slots=True)
class RankComparison:
    """Systems compared by their ranks on each query, 1 being the best.

    `statistic` and `p_value` are those of Friedman's test for any difference. `mean_ranks` is by
    system. `pairs` holds Nemenyi's p-value for each pair of systems. Two systems differ at `alpha`
    if their mean ranks are more than `critical_difference` apart.
    """

    statistic: float
    p_value: float
    mean_ranks: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    critical_difference: float
    alpha: float


def friedman_nemenyi(systems: Mapping[str, PerQuery], *, alpha: float = 0.05) -> RankComparison:
    """Compare three or more systems by one metric on the same queries.

    There are k systems, N queries and mean ranks R; tied systems share their mean rank. Friedman's
    statistic, corrected for ties, is chi-squared with k - 1 degrees of freedom. Nemenyi's p-value
    of a pair is the tail of the studentized range at ``|R_a - R_b| / sqrt(k (k + 1) / (12 N))``
    with infinitely many degrees of freedom. If all systems agree on every query, all p-values are
    1.

    Raises:
        EvaluationError: if there are fewer than three systems, they differ in the number of
            queries, there are fewer than two queries, a value is not finite, or `alpha` is not
            between 0 and 1.
    """
    from scipy import stats  # noqa: PLC0415 - takes a second

    table = _check(systems, alpha)
    n_queries, n_systems = table.shape
    ranks = stats.rankdata(-table, axis=1)
    mean_ranks = dict(zip(systems, map(float, ranks.mean(axis=0)), strict=True))
    if (ranks == ranks[:, :1]).all():
        statistic, p_value = 0.0, 1.0
    else:
        result = stats.friedmanchisquare(*table.T)
        statistic, p_value = float(result.statistic), float(result.pvalue)
    error = math.sqrt(n_systems * (n_systems + 1) / (12 * n_queries))
    return RankComparison(
        statistic=statistic,
        p_value=p_value,
        mean_ranks=mean_ranks,
        pairs={
            (a, b): float(
                stats.studentized_range.sf(
                    abs(mean_ranks[a] - mean_ranks[b]) / error, n_systems, np.inf
                )
            )
            for a, b in itertools.combinations(systems, 2)
        },
        critical_difference=float(stats.studentized_range.isf(alpha, n_systems, np.inf)) * error,
        alpha=alpha,
    )


def _check(systems: Mapping[str, PerQuery], alpha: float) -> np.ndarray:
    """Return the values of the systems as float64[Q, systems]."""
    if len(systems) < 3:
        message = f"there are {len(systems)} systems; Friedman's test needs three or more"
        raise EvaluationError(message)
    if not 0 < alpha < 1:
        message = f"alpha is {alpha}; it must be between 0 and 1"
        raise EvaluationError(message)
    shapes = {np.shape(values) for values in systems.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 1 or shape[0] < 2:
        message = "the systems must have a value for each of the same queries, two or more"
        raise EvaluationError(message)
    table = np.stack([np.asarray(values, dtype=np.float64) for values in systems.values()], axis=1)
    if not np.isfinite(table).all():
        message = "a value is NaN or infinite; every query needs a finite one for each system"
        raise EvaluationError(message)
    return table
