"""Significance of a difference if training was repeated with other seeds and labels.

A test over the queries alone takes the runs as fixed, although the difference may change with the
labels. Here runs are resampled as queries are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hummingbit.evaluation.result import EvaluationError, row_blocks
from hummingbit.evaluation.significance import Floats, Interval

SAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class RunsComparison:
    """The mean difference over runs and queries with its interval, and the p-value."""

    difference: Interval
    p_value: float


def compare_runs(
    current_RQ: Floats,
    baseline_RQ: Floats,
    *,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 0,
) -> RunsComparison:
    """Return the mean of ``current - baseline``, float64[R, Q], with runs and queries resampled.

    Row r of both is one run, with the same seed and the same labels. For each of `samples` samples,
    R runs and Q queries are drawn with replacement, independently, and the differences of every
    drawn run at every drawn query are averaged. The interval lies between the (1 ∓ level)/2
    quantiles of these means. The p-value is twice the smaller of two shares, of the means that are
    at most 0 and of those that are at least 0, each (1 + count) / (1 + samples). With a single run,
    only the variance of the queries counts. With R runs, the variance of the runs is underestimated
    by the factor (R − 1)/R.

    Source: Owen, "The pigeonhole bootstrap" (2007).

    Raises:
        EvaluationError: if the shapes differ, there is no run or no query, or a value is not
            finite.
    """
    if current_RQ.shape != baseline_RQ.shape or current_RQ.ndim != 2 or not current_RQ.size:
        shapes = f"{current_RQ.shape} and {baseline_RQ.shape}"
        raise EvaluationError(f"the values have the shapes {shapes}; both must be [runs, queries]")
    difference_RQ = np.asarray(current_RQ - baseline_RQ, dtype=np.float64)
    if not np.isfinite(difference_RQ).all():
        raise EvaluationError("a value is NaN or infinite; all values must be finite")
    n_runs, n_queries = difference_RQ.shape
    rng = np.random.default_rng(seed)
    means = np.empty(samples)
    for block in row_blocks(samples, n_queries):
        count = block.stop - block.start
        run_counts = rng.multinomial(n_runs, np.full(n_runs, 1 / n_runs), size=count)
        query_counts = rng.multinomial(n_queries, np.full(n_queries, 1 / n_queries), size=count)
        sums = ((run_counts @ difference_RQ) * query_counts).sum(axis=1)
        means[block] = sums / difference_RQ.size
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    smaller = min(_share(means <= 0), _share(means >= 0))
    return RunsComparison(
        Interval(float(difference_RQ.mean()), float(low), float(high), level),
        min(1.0, 2 * smaller),
    )


def format_difference(current: Sequence[Floats], baseline: Sequence[Floats]) -> str:
    """Format the mean difference of runs, float64[Q] each, and its interval of 95 %."""
    found = compare_runs(np.array(current), np.array(baseline)).difference
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _share(condition: npt.NDArray[np.bool_]) -> float:
    return float((1 + condition.sum()) / (1 + len(condition)))
