"""Is a difference between systems more than chance? Intervals and tests over the queries.

Everything works on the values of a metric for each query, float64[Q], and nothing on their means.
Systems are compared query by query, so they must have answered the same queries in the same order;
:func:`pair_queries` brings them into one. What is drawn is drawn from a seed: the same input gives
the same figures, to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evaluation.result import EvaluationError, PerQuery
from evaluation.row_blocks import row_blocks

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

    `difference` is current minus baseline, with its interval; `p_value` is that of the two-sided
    paired permutation test and `adjusted_p_value` the same after Holm's correction over all
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

    The percentile bootstrap of Efron 1979: `samples` times Q queries are drawn with replacement;
    the interval runs between the (1 ∓ level)/2 quantiles of their means. All metrics see the same
    draws, so those of several systems on the same queries stay paired.

    Raises:
        EvaluationError: if there is no query, the metrics have not the same number of queries, a
            value is not finite, or `level` is not between 0 and 1.
    """
    values = _table(per_query)
    if not 0 < level < 1:
        message = f"the level of confidence is {level}; it must be between 0 and 1"
        raise EvaluationError(message)
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

    Under the hypothesis that the systems are alike, each query's difference could as well have had
    the other sign. The p-value is the share of sign patterns whose mean is at least as far out. All
    patterns are counted where there are at most `samples` of them, which is exact; otherwise
    `samples` are drawn and the p-value is ``(1 + as far out) / (1 + samples)``, never 0. Queries
    without a difference change nothing and are left out. "less" asks whether current is lower.

    Source: Fisher 1935; M. Smucker, J. Allan and B. Carterette 2007, "A Comparison of Statistical
    Significance Tests for Information Retrieval Evaluation".

    Raises:
        EvaluationError: if the two have not the same number of queries, there are none, or a value
            is not finite.
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for having been looked at together, in their order.

    With the m p-values sorted, the i-th smallest becomes ``max_{j ≤ i} min(1, (m - j + 1) p_j)``;
    comparing these with alpha holds the chance of any false alarm at alpha. Source: Holm 1979, "A
    Simple Sequentially Rejective Multiple Test Procedure".
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for smaller, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - smaller) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def compare(
    current: Mapping[str, PerQuery],
    baseline: Mapping[str, PerQuery],
    *,
    level: float = 0.95,
    samples: int = PERMUTATIONS,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compare two systems in every metric that both have values of, query by query.

    Raises:
        EvaluationError: if they have no metric in common, have not answered the same number of
            queries, or a value is not finite.
    """
    names = [name for name in current if name in baseline]
    if not names:
        message = f"current has {', '.join(current)} and the baseline {', '.join(baseline)};"
        raise EvaluationError(f"{message} there must be a metric in common")
    # One table for all, so that every shape is checked before values are subtracted.
    sides = _table(
        {
            (side, name): values[name]
            for name in names
            for side, values in (("current", current), ("baseline", baseline))
        }
    )
    differences = dict(zip(names, sides[0::2] - sides[1::2], strict=True))
    intervals = bootstrap_intervals(differences, level=level, seed=seed)
    p_values = [
        permutation_test(current[name], baseline[name], samples=samples, seed=seed)
        for name in names
    ]
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
    """Return where each query of `current_ids` stands in `baseline_ids`, int64[Q].

    Raises:
        EvaluationError: if an id comes twice, or one of the two has a query that the other has not.
    """
    for whose, ids in (("current", current_ids), ("baseline", baseline_ids)):
        twice = [id_ for id_, n in _count(ids).items() if n > 1]
        if twice:
            message = f"the {whose} run has {len(twice):,} query ids more than once, such as"
            raise EvaluationError(f"{message} {twice[0]!a}; each must come once")
    place = {id_: number for number, id_ in enumerate(baseline_ids)}
    added = [id_ for id_ in current_ids if id_ not in place]
    if added or len(current_ids) != len(baseline_ids):
        lost = sorted(set(baseline_ids) - set(current_ids))
        message = (
            f"the runs have not answered the same queries: {len(added):,} are not in the baseline"
            f" and {len(lost):,} only there, such as {(added or lost)[0]!a}; a paired comparison"
            " needs the same queries in both"
        )
        raise EvaluationError(message)
    return np.array([place[id_] for id_ in current_ids], dtype=np.int64)


def _count(ids: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for id_ in ids:
        counts[id_] = counts.get(id_, 0) + 1
    return counts


def _sign_patterns(n: int, samples: int, seed: int, *, exact: bool) -> Iterator[Floats]:
    """Give blocks of rows of n zeros and ones: all 2^n of them, or `samples` drawn ones."""
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
    """Stack values by query, float64[names, Q], having checked that they can be compared."""
    shapes = {np.shape(values) for values in per_query.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1 or not next(iter(shapes))[0]:
        found = ", ".join(str(list(shape)) for shape in sorted(shapes)) or "none"
        message = f"values by query have the shapes {found}; they must have one, [Q], with Q > 0"
        raise EvaluationError(message)
    table = np.stack([np.asarray(values, dtype=np.float64) for values in per_query.values()])
    if not np.isfinite(table).all():
        bad = [
            name for name, row in zip(per_query, table, strict=True) if not np.isfinite(row).all()
        ]
        message = f"values of {bad[0]} are NaN or infinite; every query needs a finite one"
        raise EvaluationError(message)
    return table
