"""Is a difference more than chance where training was repeated with other seeds and labels?

A test over the queries alone takes the runs as they happened to be: with other labels shown, the
difference may be another. Here runs are drawn as queries are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.result import EvaluationError
from evaluation.row_blocks import row_blocks
from evaluation.significance.resampling import Floats, Interval

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

    Row r of both is of one run: the same seed and the same labels shown. Each of `samples` times, R
    runs and Q queries are drawn with replacement, independently, and the differences of every drawn
    run at every drawn query averaged. The interval runs between the (1 ∓ level)/2 quantiles of
    these means; the p-value is twice the smaller of the shares, (1 + count) / (1 + samples), of
    means at most and at least 0. Of a single run it knows the queries' chance alone; of few, the
    runs' chance is underestimated by (R − 1)/R.

    Source: Owen, "The pigeonhole bootstrap" (2007).

    Raises:
        EvaluationError: if the shapes differ, there is no run or no query, or a value is not
            finite.
    """
    if current_RQ.shape != baseline_RQ.shape or current_RQ.ndim != 2 or not current_RQ.size:
        found = f"{current_RQ.shape} and {baseline_RQ.shape}"
        raise EvaluationError(f"the values have the shapes {found}; both must be [runs, queries]")
    difference_RQ = np.asarray(current_RQ - baseline_RQ, dtype=np.float64)
    if not np.isfinite(difference_RQ).all():
        raise EvaluationError("a value is not finite")
    n_runs, n_queries = difference_RQ.shape
    rng = np.random.default_rng(seed)
    means = np.empty(samples)
    for block in row_blocks(samples, n_queries):
        count = block.stop - block.start
        of_runs = rng.multinomial(n_runs, np.full(n_runs, 1 / n_runs), size=count)
        of_queries = rng.multinomial(n_queries, np.full(n_queries, 1 / n_queries), size=count)
        means[block] = ((of_runs @ difference_RQ) * of_queries).sum(axis=1) / difference_RQ.size
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    smaller = min(_share(means <= 0), _share(means >= 0))
    return RunsComparison(
        Interval(float(difference_RQ.mean()), float(low), float(high), level),
        min(1.0, 2 * smaller),
    )


def _share(found: npt.NDArray[np.bool_]) -> float:
    return float((1 + found.sum()) / (1 + len(found)))
