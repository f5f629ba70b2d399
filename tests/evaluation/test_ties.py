from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.metrics import average_precision, precision_at_k
from evaluation.ties import expected_average_precision_at_k, expected_precision_at_k
from tests.support.rankings import SLOW, slow_expectation

EXPECTED = {"P": expected_precision_at_k, "mAP": expected_average_precision_at_k}

GROUP = st.integers(0, 4).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
GROUPS = st.lists(GROUP, min_size=1, max_size=5)
SHORT_GROUPS = GROUPS.filter(lambda groups: 1 <= sum(n for n, _ in groups) <= 7)


def counts(*queries: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Groups (n, relevant) of each query as the two tables of counts."""
    table = np.array(queries)
    return table[..., 0], table[..., 1]


def test_by_hand() -> None:
    # Two documents tied, one relevant: it is first or second, AP 1 or 1/2.
    assert expected_average_precision_at_k(*counts([(2, 1)]), 2) == pytest.approx([0.75])
    # Cut after the first: found with AP 1, or not found at all.
    assert expected_average_precision_at_k(*counts([(2, 1)]), 1) == pytest.approx([0.5])
    assert expected_precision_at_k(*counts([(2, 1)]), 1) == pytest.approx([0.5])
    # One relevant document ahead; of two tied, one relevant, one fits: (1 + 1)/2 or 1.
    assert expected_average_precision_at_k(*counts([(1, 1), (2, 1)]), 2) == pytest.approx([1])
    # The same with one that is not relevant ahead: 1/2 or 0.
    assert expected_average_precision_at_k(*counts([(1, 0), (2, 1)]), 2) == pytest.approx([0.25])


@settings(max_examples=150, deadline=None)
@given(groups=SHORT_GROUPS, k=st.integers(1, 9), kind=st.sampled_from(["P", "mAP"]))
def test_expectation_is_the_mean_over_all_orders(
    groups: list[tuple[int, int]], k: int, kind: str
) -> None:
    found = EXPECTED[kind](*counts(groups), k)
    assert found == pytest.approx([slow_expectation(SLOW[kind], groups, k)], abs=1e-9)


@pytest.mark.parametrize("k", range(1, 10))
@pytest.mark.parametrize("relevant", range(9))
def test_a_single_group_of_eight(relevant: int, k: int) -> None:
    groups = [(8, relevant)]
    # All C(8, relevant) patterns are equally likely: the mean over orders without 8! of them.
    patterns = [
        [bool(bits >> place & 1) for place in range(8)]
        for bits in range(256)
        if bits.bit_count() == relevant
    ]
    for kind, expected in EXPECTED.items():
        mean = math.fsum(SLOW[kind](pattern, k) for pattern in patterns) / len(patterns)
        assert expected(*counts(groups), k) == pytest.approx([mean], abs=1e-9)


def test_long_lists_against_random_orders() -> None:
    rng = np.random.default_rng(5)
    groups = [(3, 2), (40, 10), (0, 0), (70, 50), (200, 30), (500, 1)]
    samples = 4000
    lists = np.concatenate(
        [rng.permuted(np.tile(np.arange(n) < r, (samples, 1)), axis=1) for n, r in groups], axis=1
    )
    for k in (20, 43, 100, 150, 313, 700, 10_000):
        for expected, metric in (
            (expected_precision_at_k, precision_at_k),
            (expected_average_precision_at_k, average_precision),
        ):
            sampled = metric(lists, k)
            tolerance = 5 * sampled.std() / math.sqrt(samples) + 1e-12
            assert expected(*counts(groups), k)[0] == pytest.approx(sampled.mean(), abs=tolerance)


def exact_cut_group(n: int, r: int, k: int) -> float:
    """AP@k of one group that the list cuts through, in exact rational arithmetic."""
    total = Fraction(0)
    for h in range(max(1, k - (n - r)), min(k, r) + 1):
        weight = Fraction(math.comb(r, h) * math.comb(n - r, k - h), math.comb(n, k))
        slope = Fraction(h - 1, k - 1)
        hits = sum((1 + (j - 1) * slope) / Fraction(j) for j in range(1, k + 1))
        total += weight * Fraction(h, k) * hits / h
    return float(total)


@pytest.mark.parametrize(("n", "r"), [(1_000_000, 3), (1_000_000, 333_333), (1_000_000, 999_999)])
def test_a_million_tied_documents_cost_no_digits(n: int, r: int) -> None:
    found = expected_average_precision_at_k(*counts([(n, r)]), 40)
    assert found == pytest.approx([exact_cut_group(n, r, 40)], rel=1e-9)


@given(groups=st.lists(st.booleans(), min_size=1, max_size=30), k=st.integers(1, 40))
def test_without_ties_expectation_is_the_metric(groups: list[bool], k: int) -> None:
    tables = counts([(1, int(relevant)) for relevant in groups])
    served = np.array([groups])
    assert expected_precision_at_k(*tables, k) == pytest.approx(precision_at_k(served, k))
    assert expected_average_precision_at_k(*tables, k) == pytest.approx(
        average_precision(served, k), abs=1e-12
    )


@given(groups=GROUPS, k=st.integers(1, 25))
def test_expectation_lies_between_the_worst_and_the_best_precision(
    groups: list[tuple[int, int]], k: int
) -> None:
    best = [place < r for n, r in groups for place in range(n)]
    worst = [place >= n - r for n, r in groups for place in range(n)]
    found = expected_precision_at_k(*counts(groups), k)[0]
    assert SLOW["P"](worst, k) - 1e-12 <= found <= SLOW["P"](best, k) + 1e-12


@given(groups=GROUPS.filter(lambda groups: sum(n for n, _ in groups) > 0))
def test_expectation_lies_between_the_worst_and_the_best_order_of_whole_groups(
    groups: list[tuple[int, int]],
) -> None:
    # Only where the list ends with a group: with a cut, more hits may mean a lower average.
    k = sum(n for n, _ in groups)
    best = [place < r for n, r in groups for place in range(n)]
    worst = [place >= n - r for n, r in groups for place in range(n)]
    found = expected_average_precision_at_k(*counts(groups), k)[0]
    assert SLOW["mAP"](worst, k) - 1e-12 <= found <= SLOW["mAP"](best, k) + 1e-12


def test_queries_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(1)
    n = rng.integers(0, 60, (50, 17))
    r = rng.integers(0, n + 1)
    for expected in EXPECTED.values():
        together = expected(n, r, 100)
        alone = [expected(n[[q]], r[[q]], 100)[0] for q in range(50)]
        assert together == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_any_integers_count(dtype: type) -> None:
    n, r = counts([(5, 2), (9, 0), (7, 7)])
    for expected in EXPECTED.values():
        assert expected(n.astype(dtype), r.astype(dtype), 10) == expected(n, r, 10)


def test_nothing_found_is_zero() -> None:
    for expected in EXPECTED.values():
        assert expected(*counts([(0, 0), (0, 0)], [(5, 0), (200, 0)]), 100).tolist() == [0, 0]
