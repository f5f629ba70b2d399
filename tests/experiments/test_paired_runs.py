from __future__ import annotations

import numpy as np
import pytest

from experiments.paired_runs import compare_runs
from hummingbit.evaluation.result import EvaluationError


def test_the_interval_is_that_of_runs_and_queries_drawn_one_by_one() -> None:
    rng = np.random.default_rng(0)
    current, baseline = rng.random((4, 30)) + 0.1, rng.random((4, 30))
    found = compare_runs(current, baseline, samples=4000)
    means = []
    for _ in range(4000):
        runs, queries = rng.integers(4, size=4), rng.integers(30, size=30)
        means.append(np.mean([[current[r, q] - baseline[r, q] for q in queries] for r in runs]))
    assert found.difference.mean == pytest.approx((current - baseline).mean())
    low, high = np.quantile(means, [0.025, 0.975])
    assert found.difference.low == pytest.approx(low, abs=0.01)
    assert found.difference.high == pytest.approx(high, abs=0.01)
    assert found.p_value == pytest.approx(2 * np.mean(np.array(means) <= 0), abs=0.02)


def test_what_depends_on_the_run_is_no_certain_difference() -> None:
    # Two runs ahead at every query, two as far behind, but for a little.
    ahead = np.array([0.5, 0.4, -0.4, -0.3])[:, None] * np.ones((4, 200))
    assert compare_runs(ahead, np.zeros_like(ahead)).p_value > 0.3
    same = np.full((4, 200), 0.05)
    assert compare_runs(same, np.zeros_like(same)).p_value < 0.001


def test_equal_values_have_no_difference() -> None:
    found = compare_runs(np.ones((2, 5)), np.ones((2, 5)))
    assert (found.difference.low, found.difference.high, found.p_value) == (0, 0, 1)


@pytest.mark.parametrize(
    ("current", "reason"),
    [
        (np.zeros((2, 3)), "shapes"),
        (np.zeros((0, 4)), "shapes"),
        (np.full((2, 4), np.nan), "NaN or infinite"),
    ],
)
def test_other_values_are_refused(current: np.ndarray, reason: str) -> None:
    with pytest.raises(EvaluationError, match=reason):
        compare_runs(current, np.zeros((2, 4) if len(current) else (0, 4)))
