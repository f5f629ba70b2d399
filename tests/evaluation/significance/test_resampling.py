from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.significance import (
    bootstrap_intervals,
    compare,
    holm,
    pair_queries,
    permutation_test,
)


def test_an_exact_test_counts_every_pattern_of_signs() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 9):
        current, baseline = rng.random(n), rng.random(n)
        difference = current - baseline
        sums = [
            math.fsum(s * d for s, d in zip(signs, difference, strict=True))
            for signs in itertools.product((1, -1), repeat=n)
        ]
        observed = math.fsum(difference)
        slack = 1e-12
        for alternative, extreme in (
            ("two-sided", [abs(sum_) >= abs(observed) - slack for sum_ in sums]),
            ("less", [item <= observed + slack for item in sums]),
            ("greater", [item >= observed - slack for item in sums]),
        ):
            found = permutation_test(current, baseline, alternative=alternative)  # type: ignore[arg-type] # a str here
            assert found == pytest.approx(np.mean(extreme), abs=1e-12)


def test_a_drawn_test_is_near_scipy_and_repeats() -> None:
    rng = np.random.default_rng(1)
    baseline = rng.random(80)
    current = baseline + rng.normal(0.02, 0.1, 80)
    found = permutation_test(current, baseline)
    reference = stats.permutation_test(
        (current, baseline),
        lambda x, y, axis: (x - y).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=10_000,
        rng=np.random.default_rng(2),
    )
    # Twice the p-value of one side is not the share on both, but nearly so at this length.
    assert found == pytest.approx(reference.pvalue, abs=0.02)
    assert permutation_test(current, baseline) == found
    assert permutation_test(current, baseline, seed=1) != found
    assert permutation_test(baseline, baseline) == 1


def test_queries_that_do_not_differ_change_nothing() -> None:
    current, baseline = np.array([0.9, 0.8, 0.7]), np.array([0.5, 0.5, 0.8])
    padded = [np.concatenate([item, np.full(500, 0.3)]) for item in (current, baseline)]
    assert permutation_test(*padded) == permutation_test(current, baseline) == 0.5


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_by_its_definition(p_values: list[float]) -> None:
    found = holm(p_values)
    for alpha in (0.01, 0.05, 0.3):
        # The procedure as it was published: go up the sorted list until one is not small enough.
        rejected = set()
        for step, position in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
            if p_values[position] * (len(p_values) - step) > alpha:
                break
            rejected.add(position)
        assert {position for position, value in enumerate(found) if value <= alpha} == rejected
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_the_bootstrap_is_near_scipy() -> None:
    rng = np.random.default_rng(3)
    values = rng.beta(2, 1, 300)
    found = bootstrap_intervals({"P@10": values}, level=0.9)["P@10"]
    reference = stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, method="percentile", rng=np.random.default_rng(4)
    ).confidence_interval
    assert found.mean == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=0.003)
    assert bootstrap_intervals({"P@10": values}, level=0.9)["P@10"] == found


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(5)
    draws = {str(i): rng.beta(1, 2, 100) for i in range(400)}
    found = bootstrap_intervals(draws, level=0.9, samples=400)
    inside = np.mean([item.low <= 1 / 3 <= item.high for item in found.values()])
    assert inside == pytest.approx(0.9, abs=0.05)


def test_metrics_are_drawn_together() -> None:
    values = np.random.default_rng(6).random(50)
    found = bootstrap_intervals({"a": values, "b": values + 1})
    assert found["b"].low == pytest.approx(found["a"].low + 1)
    one = bootstrap_intervals({"a": np.array([0.25])})["a"]
    assert (one.low, one.mean, one.high) == (0.25, 0.25, 0.25)


def test_a_comparison_by_hand() -> None:
    baseline = {"P@1": np.zeros(10), "MRR": np.full(10, 0.5), "old": np.zeros(10)}
    current = {"P@1": np.ones(10), "MRR": np.full(10, 0.5), "other": np.zeros(10)}
    found = compare(current, baseline)
    assert list(found) == ["P@1", "MRR"]
    assert (found["P@1"].current, found["P@1"].baseline) == (1, 0)
    assert found["P@1"].difference.mean == found["P@1"].difference.low == 1
    assert found["P@1"].p_value == pytest.approx(2 / 2**10)
    assert found["P@1"].adjusted_p_value == pytest.approx(4 / 2**10)
    assert found["MRR"].p_value == found["MRR"].adjusted_p_value == 1


def simulated(rng: np.random.Generator, drop: float) -> float:
    """The p-value of two runs on 2,000 queries whose true difference is `drop`.

    P@100 of a query varies far more between queries than between two runs.
    """
    difficulty = rng.beta(3, 1.5, 2000)
    baseline = np.clip(difficulty + rng.normal(0, 0.1, 2000), 0, 1).round(2)
    current = np.clip(difficulty - drop + rng.normal(0, 0.1, 2000), 0, 1).round(2)
    return permutation_test(current, baseline, samples=999)


def test_noise_raises_no_more_alarms_than_alpha_and_a_drop_is_found() -> None:
    rng = np.random.default_rng(7)
    noise = [simulated(rng, 0) for _ in range(200)]
    drops = [simulated(rng, 0.01) for _ in range(200)]
    for alpha in (0.01, 0.05, 0.1):
        assert np.mean(np.array(noise) <= alpha) <= alpha + 0.03
    assert np.mean(np.array(drops) <= 0.05) >= 0.8


def test_queries_are_paired_by_id() -> None:
    assert pair_queries(["a", "c", "b"], ["b", "a", "c"]).tolist() == [1, 2, 0]
    with pytest.raises(
        EvaluationError, match=r"1 are only in the current run and 1 only in the baseline.*'c'"
    ):
        pair_queries(["a", "c"], ["a", "b"])
    with pytest.raises(
        EvaluationError, match="0 are only in the current run and 1 only in the baseline"
    ):
        pair_queries(["a"], ["a", "b"])
    with pytest.raises(EvaluationError, match="baseline run has 1 query ids more than once"):
        pair_queries(["a", "b"], ["a", "a"])


def test_bad_input_is_refused() -> None:
    some = np.array([0.5, 0.5])
    with pytest.raises(EvaluationError, match=r"shapes \[2\], \[3\]"):
        permutation_test(some, np.zeros(3))
    with pytest.raises(EvaluationError, match=r"shapes \[0\]"):
        bootstrap_intervals({"a": some[:0]})
    with pytest.raises(EvaluationError, match="a value of b is NaN"):
        bootstrap_intervals({"a": some, "b": some * np.nan})
    with pytest.raises(EvaluationError, match="level is 95"):
        bootstrap_intervals({"a": some}, level=95)
    with pytest.raises(EvaluationError, match="there must be a metric in common"):
        compare({"a": some}, {"b": some})
