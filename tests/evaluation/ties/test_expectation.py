from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.evaluation.metrics import (
    RankedLists,
    average_precision,
    interpolated_average_precision,
    measure,
    parse_metric,
    precision_at_k,
)
from hummingbit.evaluation.ties import (
    SAMPLES,
    TieGroups,
    best,
    expect,
    expected_average_precision_at_k,
    expected_interpolated_average_precision,
    expected_precision_at_k,
    expected_reciprocal_rank,
    expected_success_at_k,
    precision_within_radius,
    worst,
)
from tests.support.oracles.rankings import SLOW, distinct_lists, slow_expectation

EXPECTED = {"P": expected_precision_at_k, "mAP": expected_average_precision_at_k}

GROUP = st.integers(0, 4).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
GROUPS = st.lists(GROUP, min_size=1, max_size=5)
SHORT_GROUPS = GROUPS.filter(lambda groups: 1 <= sum(n for n, _ in groups) <= 7)


def counts(*queries: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Groups (n, relevant) of each query as the two tables of counts."""
    longest = max(map(len, queries))
    table = np.array([[*groups, *[(0, 0)] * (longest - len(groups))] for groups in queries])
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
        [bool(bits >> position & 1) for position in range(8)]
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
    best = [position < r for n, r in groups for position in range(n)]
    worst = [position >= n - r for n, r in groups for position in range(n)]
    found = expected_precision_at_k(*counts(groups), k)[0]
    assert SLOW["P"](worst, k) - 1e-12 <= found <= SLOW["P"](best, k) + 1e-12


@given(groups=GROUPS.filter(lambda groups: sum(n for n, _ in groups) > 0))
def test_expectation_lies_between_the_worst_and_the_best_order_of_whole_groups(
    groups: list[tuple[int, int]],
) -> None:
    # Only where the list ends with a group: with a cut, more hits may mean a lower average.
    k = sum(n for n, _ in groups)
    best = [position < r for n, r in groups for position in range(n)]
    worst = [position >= n - r for n, r in groups for position in range(n)]
    found = expected_average_precision_at_k(*counts(groups), k)[0]
    assert SLOW["mAP"](worst, k) - 1e-12 <= found <= SLOW["mAP"](best, k) + 1e-12


@functools.cache
def values_of_short_lists(kind: str) -> dict[tuple[bool, ...], list[float]]:
    """The metric of every list of up to eight documents, for k from 1 to 9."""
    lists = (item for n in range(1, 9) for item in itertools.product((False, True), repeat=n))
    return {list_: [SLOW[kind](list_, k) for k in range(1, 10)] for list_ in lists}


def compositions(n: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way to cut n documents into groups of ties (n, relevant)."""
    if n == 0:
        yield ()
    for first in range(1, n + 1):
        for rest in compositions(n - first):
            for relevant in range(first + 1):
                yield ((first, relevant), *rest)


@functools.cache
def all_short_lists() -> tuple[list[tuple[tuple[int, int], ...]], TieGroups]:
    """Every list of up to eight documents with every pattern of ties, one a query."""
    queries = [groups for n in range(1, 9) for groups in compositions(n)]
    table = np.array([[*groups, *[(0, 0)] * (8 - len(groups))] for groups in queries])
    n, r = table[..., 0], table[..., 1][..., None]
    return queries, TieGroups(n, r, np.array([1]), r.sum(axis=1))


@functools.cache
def orders_of(n: int, relevant: int) -> list[tuple[bool, ...]]:
    """The patterns that orders of a group make, all equally likely."""
    return [item for item in itertools.product((False, True), repeat=n) if sum(item) == relevant]


@functools.cache
def enumerated(kind: str) -> np.ndarray:
    """Mean, greatest and least value over all orders of every short list, [3, lists, 9]."""
    values = values_of_short_lists(kind)
    found = []
    for groups in all_short_lists()[0]:
        patterns = itertools.product(*(orders_of(n, relevant) for n, relevant in groups))
        table = np.array([values[tuple(itertools.chain(*pattern))] for pattern in patterns])
        found.append((table.mean(axis=0), table.max(axis=0), table.min(axis=0)))
    return np.array(found).transpose(1, 0, 2)


@pytest.mark.parametrize("kind", sorted(SLOW))
def test_every_list_up_to_eight_equals_enumeration(kind: str) -> None:
    _, groups = all_short_lists()
    mean, greatest, least = enumerated(kind)
    assert len(groups.n) == 15_759
    for k in range(1, 10):
        metric = parse_metric(kind if kind == "mAP-11pt" else f"{kind}@{k}")
        np.testing.assert_allclose(expect(metric, groups), mean[:, k - 1], rtol=0, atol=1e-9)
        np.testing.assert_allclose(best(metric, groups), greatest[:, k - 1], rtol=0, atol=1e-9)
        np.testing.assert_allclose(worst(metric, groups), least[:, k - 1], rtol=0, atol=1e-9)
        if metric.k is None:
            break


@pytest.mark.parametrize("kind", ["MRR", "mAP-trec"])
def test_without_a_cut_the_whole_ranking_counts(kind: str) -> None:
    _, groups = all_short_lists()
    whole, cut = parse_metric(kind), parse_metric(f"{kind}@8")
    for of in (expect, best, worst):
        assert of(whole, groups).tolist() == of(cut, groups).tolist()


GRADED = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=4
).filter(lambda groups: sum(map(len, groups)) <= 8)


@settings(max_examples=150, deadline=None)
@given(groups=GRADED, k=st.integers(1, 9), kind=st.sampled_from(["nDCG", "P", "mAP", "mAP-trec"]))
def test_graded_lists_equal_enumeration(groups: list[list[int]], k: int, kind: str) -> None:
    levels = np.array([1, 2, 3])
    by_grade = np.array([[[group.count(grade) for grade in levels] for group in groups]])
    tied = TieGroups(
        np.array([[len(group) for group in groups]]), by_grade, levels, by_grade.sum(axis=1)
    )
    metric = parse_metric(f"{kind}@{k}")
    weighted = [(SLOW[kind](item, k), weight) for item, weight in distinct_lists(groups)]
    mean = math.fsum(value * weight for value, weight in weighted)
    assert expect(metric, tied) == pytest.approx([mean], abs=1e-9)
    assert best(metric, tied) == pytest.approx([max(weighted)[0]], abs=1e-9)
    assert worst(metric, tied) == pytest.approx([min(weighted)[0]], abs=1e-9)


def test_a_minimal_grade_makes_relevant() -> None:
    # A document of grade 1 and one of grade 2 are tied; only the second is relevant.
    by_grade = np.array([[[1, 1]]])
    tied = TieGroups(np.array([[2]]), by_grade, np.array([1, 2]), by_grade.sum(axis=1), 2)
    first = parse_metric("P@1")
    assert [of(first, tied)[0] for of in (worst, expect, best)] == [0, 0.5, 1]


@pytest.mark.parametrize("kind", sorted({*SLOW} - {"mAP-11pt"}))
def test_every_metric_on_long_lists_against_random_orders(kind: str) -> None:
    rng = np.random.default_rng(6)
    groups = [(3, 0), (40, 3), (0, 0), (70, 50), (200, 30)]
    samples = 4000
    served = np.concatenate(
        [rng.permuted(np.tile(np.arange(n) < r, (samples, 1)), axis=1) for n, r in groups], axis=1
    )
    n, r = counts(groups)
    levels = np.array([1])
    tied = TieGroups(n, r[..., None], levels, r.sum(axis=1)[:, None])
    lists = RankedLists(served.astype(np.int64), np.full((samples, 1), r.sum()), levels)
    for k in (1, 4, 10, 43, 100, 313):
        metric = parse_metric(f"{kind}@{k}")
        sampled = measure(metric, lists)
        tolerance = 5 * sampled.std() / math.sqrt(samples) + 1e-12
        assert expect(metric, tied)[0] == pytest.approx(sampled.mean(), abs=tolerance)
        assert worst(metric, tied)[0] <= sampled.min() + 1e-12
        assert best(metric, tied)[0] >= sampled.max() - 1e-12


def test_a_sampled_interpolation_is_near_and_the_same_each_time() -> None:
    rng = np.random.default_rng(7)
    groups = [(3, 0), (40, 10), (70, 50)]
    served = np.concatenate(
        [rng.permuted(np.tile(np.arange(n) < r, (4000, 1)), axis=1) for n, r in groups], axis=1
    )
    n, r = counts(groups)
    sampled = interpolated_average_precision(served, np.full(4000, r.sum()))
    found = expected_interpolated_average_precision(n, r, r.sum(axis=1))
    assert found == pytest.approx([sampled.mean()], abs=5 * sampled.std() / math.sqrt(SAMPLES))
    again = expected_interpolated_average_precision(
        np.repeat(n, 2, axis=0), np.repeat(r, 2, axis=0), np.repeat(r.sum(axis=1), 2)
    )
    assert again.tolist() == [found[0]] * 2


def test_the_first_hit_among_a_million() -> None:
    n, r = counts([(1_000_000, 1)], [(1_000_000, 400_000)])
    # A single relevant document is equally likely at every rank: H(1000) / 10^6.
    harmonic = math.fsum(1 / i for i in range(1, 1001))
    assert expected_reciprocal_rank(n, r, 1000)[0] == pytest.approx(harmonic / 1e6, rel=1e-9)
    assert expected_success_at_k(n, r, 1000)[0] == pytest.approx(1e-3, rel=1e-9)
    # With two in five relevant the draws are as good as independent: p log(1/p) / (1 - p).
    expected = 0.4 * math.log(1 / 0.4) / 0.6
    assert expected_reciprocal_rank(n, r, 1000)[1] == pytest.approx(expected, rel=1e-5)


def test_a_ball_has_no_order() -> None:
    n, r = counts([(0, 0), (2, 1), (5, 1), (9, 9)], [(0, 0), (0, 0), (0, 0), (1, 1)])
    assert precision_within_radius(n, r, 0).tolist() == [0, 0]
    assert precision_within_radius(n, r, 2) == pytest.approx([2 / 7, 0])
    assert precision_within_radius(n, r, 64) == pytest.approx([11 / 16, 1])
    tied = TieGroups(n, r[..., None], np.array([1]), r.sum(axis=1)[:, None])
    metric = parse_metric("P@radius2")
    for of in (expect, best, worst):
        assert of(metric, tied) == pytest.approx([2 / 7, 0])


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
