"""Significance of differences between systems: intervals and tests over queries.

All functions take the values of a metric for each query, float64[Q], not their means. Systems are
compared query by query, so their values must be for the same queries in the same order;
:func:`pair_queries` aligns them. Random draws are seeded: the same input gives the same figures, to
the last digit.

scipy.stats has the bootstrap and the permutation test too. Its loops cannot give way to other
requests of a service, its bootstrap refuses a single query, and its two-sided p-value of random
permutations is twice the smaller tail, not the share of means that are as far from 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hummingbit.evaluation.relevance import duplicates
from hummingbit.evaluation.result import Evaluation, EvaluationError, PerQuery, row_blocks
from hummingbit.foundation.errors import counted

# Friedman's test, and Nemenyi's test for each pair of systems
#
# Source: J. Demšar 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets".


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

    if len(systems) < 3:
        message = f"there are {len(systems)} systems; Friedman's test needs three or more"
        raise EvaluationError(message)
    if not 0 < alpha < 1:
        raise EvaluationError(f"alpha is {alpha}; it must be between 0 and 1")
    table = _table(systems).T
    n_queries, n_systems = table.shape
    if n_queries < 2:
        raise EvaluationError("there is one query; Friedman's test needs two or more")
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


# Two systems


Floats = npt.NDArray[np.float64]
Alternative = Literal["two-sided", "less", "greater"]

BOOTSTRAP_SAMPLES = 2000
PERMUTATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over queries and the confidence interval around it, `low` to `high` at `level`."""

    mean: float
    low: float
    high: float
    level: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of two systems on the same queries.

    `difference` is current minus baseline, with its interval. `p_value` is that of the two-sided
    paired permutation test, and `adjusted_p_value` is the same after Holm's correction over all
    metrics that were compared together.
    """

    metric: str
    baseline: float
    current: float
    difference: Interval
    p_value: float
    adjusted_p_value: float


def bootstrap_intervals(
    per_query: Mapping[str, PerQuery],
    *,
    level: float = 0.95,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return a confidence interval for the mean of each metric, by resampling queries.

    This is the percentile bootstrap of Efron 1979. Q queries are drawn with replacement, `samples`
    times. The interval lies between the (1 ∓ level)/2 quantiles of their means. All metrics use the
    same draws, so the values of several systems on the same queries stay paired.

    Raises:
        EvaluationError: if there is no query, the metrics differ in the number of queries, a value
            is not finite, or `level` is not between 0 and 1.
    """
    values = _table(per_query)
    if not 0 < level < 1:
        raise EvaluationError(f"level is {level}; it must be between 0 and 1")
    n_queries = values.shape[1]
    rng = np.random.default_rng(seed)
    means = np.empty((len(values), samples))
    for block in row_blocks(samples, n_queries):
        draws = rng.integers(0, n_queries, (block.stop - block.start, n_queries))
        for mean, row in zip(means, values, strict=True):
            mean[block] = row[draws].mean(axis=1)
    edges = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return {
        name: Interval(float(row.mean()), float(low), float(high), level)
        for name, row, low, high in zip(per_query, values, *edges, strict=True)
    }


def permutation_test(
    current: PerQuery,
    baseline: PerQuery,
    *,
    alternative: Alternative = "two-sided",
    samples: int = PERMUTATIONS,
    seed: int = 0,
) -> float:
    """Return the p-value of the paired permutation test for the mean of ``current - baseline``.

    Under the null hypothesis that the systems do not differ, the difference of each query has
    either sign with equal probability. The p-value is the share of sign patterns whose mean is at
    least as extreme. If there are at most `samples` patterns, all are counted, which is exact.
    Otherwise `samples` patterns are drawn, and the p-value is ``(1 + extreme) / (1 + samples)``,
    never 0. Queries without a difference change nothing and are left out. With "less", the
    alternative is that current is lower.

    Source: Fisher 1935; M. Smucker, J. Allan and B. Carterette 2007, "A Comparison of Statistical
    Significance Tests for Information Retrieval Evaluation".

    Raises:
        EvaluationError: if the two differ in the number of queries, there are none, or a value is
            not finite.
    """
    table = _table({"current": current, "baseline": baseline})
    difference = table[0] - table[1]
    difference = difference[difference != 0]
    if not len(difference):
        return 1.0
    exact = len(difference) < 63 and 2 ** len(difference) <= samples
    sums = np.concatenate(
        [
            2 * (flips @ difference) - difference.sum()
            for flips in _sign_patterns(len(difference), samples, seed, exact=exact)
        ]
    )
    observed = float(difference.sum())
    # Sums of the same numbers in another order may differ in their last digits.
    slack = 1e-10 * float(np.abs(difference).sum())
    if alternative == "less":
        extreme = sums <= observed + slack
    elif alternative == "greater":
        extreme = sums >= observed - slack
    else:
        extreme = np.abs(sums) >= abs(observed) - slack
    n_extreme = int(extreme.sum())
    return n_extreme / len(sums) if exact else (1 + n_extreme) / (1 + len(sums))


POWER = 0.8
SIMULATIONS = 1000
MAX_SIMULATED = 2000
"""With more queries, means are distributed normally."""


def queries_to_detect(differences: PerQuery, size: float, alpha: float = 0.05) -> int:
    """Return how many queries a paired test needs to notice a mean difference of `size`.

    Among that many queries, whose differences spread as `differences` (float64[Q]) do around their
    mean, a two-sided test at `alpha` finds a shift by `size` with the probability :data:`POWER`, by
    simulation: samples are drawn with replacement, shifted, and compared by their t statistic,
    whose critical value is close to that of the permutation test. One difference of 0.5 in either
    direction is added, since a few queries that all agree do not show that others do.

    Raises:
        EvaluationError: if there is no query, a value is not finite, or `size` is not above 0.
    """
    from scipy import stats  # noqa: PLC0415 - takes a second

    values = _table({"differences": differences})[0]
    if size <= 0:
        raise EvaluationError(f"size is {size:g}; it must be above 0")
    spread = np.append(values - values.mean(), [-0.5, 0.5])

    def power(n: int) -> float:
        rng = np.random.default_rng(0)
        shown = 0
        for block in row_blocks(SIMULATIONS, n):
            some = size + spread[rng.integers(0, len(spread), (block.stop - block.start, n))]
            error = some.std(axis=1, ddof=1) / math.sqrt(n)
            statistic = np.divide(
                some.mean(axis=1), error, out=np.full(len(some), np.inf), where=error > 0
            )
            shown += int((statistic >= stats.t.isf(alpha / 2, n - 1)).sum())
        return shown / SIMULATIONS

    z = stats.norm.isf(alpha / 2) + stats.norm.ppf(POWER)
    if (normal := math.ceil((z * float(spread.std()) / size) ** 2)) > MAX_SIMULATED:
        return int(normal)
    low, high = 4, 5
    while power(high) < POWER:
        low, high = high, 2 * high
    while high - low > max(1, low // 20):
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests, in the order of `p_values`.

    Of the m p-values in ascending order, the i-th becomes ``max_{j ≤ i} min(1, (m - j + 1) p_j)``.
    If a difference counts as significant below alpha, the probability of any false positive is at
    most alpha. Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    p = np.array(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(np.minimum(1, np.arange(len(p), 0, -1) * p[order]))
    return [*map(float, adjusted)]


def compare(
    current: Mapping[str, PerQuery],
    baseline: Mapping[str, PerQuery],
) -> dict[str, Comparison]:
    """Compare two systems in every metric that both have values of, query by query.

    Raises:
        EvaluationError: if they have no metric in common, differ in the number of queries, or a
            value is not finite.
    """
    names = [name for name in current if name in baseline]
    if not names:
        message = f"current has {', '.join(current)} and the baseline {', '.join(baseline)};"
        raise EvaluationError(f"{message} there must be a metric in common")
    # One table for all, so that all shapes are checked before any subtraction.
    sides = _table(
        {
            (side, name): values[name]
            for name in names
            for side, values in (("current", current), ("baseline", baseline))
        }
    )
    differences = dict(zip(names, sides[0::2] - sides[1::2], strict=True))
    intervals = bootstrap_intervals(differences)
    p_values = [permutation_test(current[name], baseline[name]) for name in names]
    return {
        name: Comparison(
            metric=name,
            baseline=float(np.mean(baseline[name])),
            current=float(np.mean(current[name])),
            difference=intervals[name],
            p_value=p_value,
            adjusted_p_value=adjusted,
        )
        for name, p_value, adjusted in zip(names, p_values, holm(p_values), strict=True)
    }


def pair_queries(current_ids: Sequence[str], baseline_ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the position in `baseline_ids` of each query of `current_ids`, int64[Q].

    Raises:
        EvaluationError: if an id occurs twice, or one of the two lacks a query of the other.
    """
    for whose, ids in (("current", current_ids), ("baseline", baseline_ids)):
        repeated = duplicates(ids)
        if repeated:
            message = f"the {whose} run has {len(repeated):,} query ids more than once, such as"
            raise EvaluationError(f"{message} {repeated[0]!r}; each id must be unique")
    positions = {id_: position for position, id_ in enumerate(baseline_ids)}
    added = [id_ for id_ in current_ids if id_ not in positions]
    if added or len(current_ids) != len(baseline_ids):
        missing = sorted(set(baseline_ids) - set(current_ids))
        raise EvaluationError(
            f"the runs have different queries: {len(added):,} are only in the current run and"
            f" {len(missing):,} only in the baseline, such as {(added or missing)[0]!r}; a paired"
            " comparison needs the same queries in both"
        )
    return np.array([positions[id_] for id_ in current_ids], dtype=np.int64)


def _sign_patterns(n: int, samples: int, seed: int, *, exact: bool) -> Iterator[Floats]:
    """Yield blocks of rows of n zeros and ones: all 2^n of them, or `samples` random ones."""
    rng = np.random.default_rng(seed)
    for block in row_blocks(2**n if exact else samples, n):
        if exact:
            numbers = np.arange(block.start, block.stop)[:, None]
            yield (numbers >> np.arange(n) & 1).astype(np.float64)
        else:
            rows, n_bytes = block.stop - block.start, math.ceil(n / 8)
            drawn = rng.integers(0, 256, (rows, n_bytes), dtype=np.uint8)
            yield np.unpackbits(drawn, axis=1, count=n).astype(np.float64)


def _table(per_query: Mapping[Any, PerQuery]) -> Floats:
    """Check that values can be compared, and stack them as float64[names, Q]."""
    shapes = {np.shape(values) for values in per_query.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1 or not next(iter(shapes))[0]:
        found = ", ".join(str(list(shape)) for shape in sorted(shapes)) or "none"
        message = f"values by query have the shapes {found}; all must be [Q] with the same Q > 0"
        raise EvaluationError(message)
    table = np.stack([np.asarray(values, dtype=np.float64) for values in per_query.values()])
    if not np.isfinite(table).all():
        bad = [
            name for name, row in zip(per_query, table, strict=True) if not np.isfinite(row).all()
        ]
        message = f"a value of {bad[0]} is NaN or infinite; every query needs a finite one"
        raise EvaluationError(message)
    return table


# All pairs of several systems


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


def compare_systems(systems: Mapping[str, Evaluation]) -> dict[str, SystemComparison]:
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
    return {metric: _compare(metric, systems) for metric in first.expected_per_query}


def _compare(metric: str, systems: Mapping[str, Evaluation]) -> SystemComparison:
    values = {
        name: np.asarray(evaluation.expected_per_query[metric])
        for name, evaluation in systems.items()
    }
    pairs = list(itertools.combinations(values, 2))
    p_values = [permutation_test(values[a], values[b]) for a, b in pairs]
    return SystemComparison(
        metric=metric,
        pairs=tuple(
            Pair(a, b, float(values[a].mean() - values[b].mean()), p_value, adjusted)
            for (a, b), p_value, adjusted in zip(pairs, p_values, holm(p_values), strict=True)
        ),
        ranks=friedman_nemenyi(values) if len(values) > 2 else None,
    )


SIGNIFICANT = 0.05


def compare_with_baselines(
    name: str, system: Evaluation, baselines: Mapping[str, Evaluation]
) -> list[str]:
    """Return a sentence for each baseline that says in which metrics the system `name` is ahead.

    The values are tie-averaged, and the p-values are those of :func:`permutation_test` with Holm's
    correction over all metrics and baselines. From 0.05 on, a sentence says neither ahead nor
    behind. Metrics that a baseline lacks are left out.

    Raises:
        EvaluationError: if a baseline has another number of queries.
    """
    pairs = [
        (baseline, metric, values, system.expected_per_query[metric])
        for baseline, evaluation in baselines.items()
        for metric, values in evaluation.expected_per_query.items()
        if metric in system.expected_per_query
    ]
    p_values = holm([permutation_test(ours, theirs) for *_, theirs, ours in pairs])
    verdicts: dict[str, list[str]] = {}
    for (baseline, metric, theirs, ours), p_value in zip(pairs, p_values, strict=True):
        mean, their_mean = float(ours.mean()), float(theirs.mean())
        values = " to ".join(told_apart(mean, their_mean))
        if p_value >= SIGNIFICANT:
            verdict = f"{metric} {values} ({_not_shown(len(ours))})"
        else:
            lead = "ahead" if mean > their_mean else "behind"
            verdict = f"{lead} in {metric} ({values}, {format_probability(p_value)})"
        verdicts.setdefault(baseline, []).append(verdict)
    return [
        f"{name} against {baseline}: {', '.join(found)}" for baseline, found in verdicts.items()
    ]


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Format two means with three digits, or with so many, up to six, that they differ."""
    digits = next((n for n in (3, 4, 5, 6) if round(a, n) != round(b, n)), 3)
    return f"{a:.{digits}f}", f"{b:.{digits}f}"


def _not_shown(n_queries: int) -> str:
    # Of n queries, the smallest two-sided p-value is that of two of the 2^n patterns of signs.
    if 2.0 ** (1 - n_queries) >= SIGNIFICANT:
        return f"{counted(n_queries, 'query is', 'queries are')} too few to tell"
    return "not significant"


def format_p_value(value: float) -> str:
    """Format a p-value with three digits, or as ``< 0.001``."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_probability(value: float) -> str:
    """Format a p-value for a sentence: ``p = 0.012`` or ``p < 0.001``."""
    number = format_p_value(value)
    return f"p {number}" if number.startswith("<") else f"p = {number}"
