"""Metrics over the orders of tied documents: the expectation, the best and the worst value.

Documents at the same distance from a query have no order among themselves. The expectation is the
mean over all orders of the documents within each group of ties, all orders being equally likely. It
has a closed form for almost every metric. The input is not lists but the counts at each distance
(or in other groups, best first), so the cost does not grow with the number of documents:
`n_at_distance`, int[Q, D], counts the documents of each group, and `relevant_at_distance`, int[Q,
D], the relevant ones among them. Results are float64[Q].

Source: F. McSherry and M. Najork 2008, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores". Two metrics go beyond it: the average precision that
divides by the number of hits, and 11-point interpolation, whose expectation has no closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: scipy.sparse takes long

from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.evaluation.metrics import (
    RECALL_LEVELS,
    Kind,
    Metric,
    count_relevant,
    cumulated_discounts,
    divide,
    hits_needed,
    ideal_gain,
    interpolate,
)
from hummingbit.evaluation.relevance import Ids, Relevance
from hummingbit.evaluation.result import row_blocks
from hummingbit.index.engines.choice import SizedCodes
from hummingbit.index.maps import DistinctCodes

# Metrics that are sums over ranks or depend on the first hit only


Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 45.0
"""A probability of exp(-45), 3e-20, is below the rounding error of the sums that it is part of."""


def expected_precision_at_k(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the expectation of :func:`hummingbit.evaluation.metrics.precision_at_k`.

    A group of n documents, r of them relevant, with m slots in the list adds ``m · r / n``.
    """
    return _expected_hits(n_at_distance, relevant_at_distance, k) / k


def expected_recall_at_k(
    n_at_distance: Counts, relevant_at_distance: Counts, n_relevant: Counts, k: int
) -> Floats:
    """Return the expectation of Recall@k: expected hits over all relevant documents."""
    found = _expected_hits(n_at_distance, relevant_at_distance, k)
    return found / np.maximum(n_relevant, 1)


def expected_ndcg_at_k(
    n_at_distance: Counts, by_grade: Counts, levels: Counts, totals: Counts, k: int
) -> Floats:
    """Return the expectation of :func:`hummingbit.evaluation.metrics.ndcg_at_k`.

    Every document of a group is equally likely in each of its slots, so the group adds its mean
    gain times the sum of the slots' discounts. `by_grade`, int[Q, D, G], counts by the grades
    `levels`.
    """
    n = as_counts(n_at_distance)
    start, slots = group_slots(n, k)
    discounts = cumulated_discounts(k)
    first = np.minimum(start, k)
    spans = discounts[first + slots] - discounts[first]
    mean_gain = (np.asarray(by_grade) * levels).sum(axis=-1) / np.maximum(n, 1)
    gain: Floats = (spans * mean_gain).sum(axis=1)
    return divide(gain, ideal_gain(levels, totals, k))


def expected_success_at_k(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the probability that a relevant document is among the first k.

    It is 1 if a group that is wholly in the list has one. Otherwise the group that the end of the
    list cuts decides. Of its n documents, r are relevant and m are in the list. None of these m is
    relevant with probability ``C(n - r, m) / C(n, m) = Π_{i < m} (n - r - i) / (n - i)``.
    """
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    _, slots = group_slots(n, k)
    first = (r > 0).argmax(axis=1)
    rows = np.arange(len(n))
    n, r, m = n[rows, first], r[rows, first], slots[rows, first]
    success = np.empty(len(n))
    horizon = _horizon(n, r, m)
    for block in _blocks(horizon):
        i = np.arange(int(horizon[block].max(initial=0)))
        inside = i < horizon[block, None]
        miss = _miss_probability(n[block, None], r[block, None], i)
        success[block] = 1 - np.where(inside, miss, 1.0).prod(axis=1)
    return np.where(m > 0, success, 0.0)


def expected_reciprocal_rank(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the expectation of :func:`hummingbit.evaluation.metrics.reciprocal_rank`.

    The first group with relevant documents decides. It has n documents, r of them relevant, and
    comes after n0 others. Its first hit is its j-th document with probability
    ``Π_{i < j-1} (n - r - i) / (n - i) · r / (n - j + 1)``. This is weighted with ``1 / (n0 + j)``
    if n0 + j is at most k.
    """
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    start, slots = group_slots(n, k)
    first = (r > 0).argmax(axis=1)
    rows = np.arange(len(n))
    n, r, m, n0 = n[rows, first], r[rows, first], slots[rows, first], start[rows, first]
    expectation = np.zeros(len(n))
    horizon = _horizon(n, r, np.minimum(m, n - r + 1))
    for block in _blocks(horizon):
        j = np.arange(int(horizon[block].max(initial=0)))
        inside = j < horizon[block, None]
        miss = np.where(inside, _miss_probability(n[block, None], r[block, None], j), 0.0)
        all_miss = np.ones_like(miss)
        np.cumprod(miss[:, :-1], axis=1, out=all_miss[:, 1:])
        hit = all_miss * r[block, None] / np.maximum(n[block, None] - j, 1)
        expectation[block] = np.where(inside, hit / (n0[block, None] + j + 1), 0.0).sum(axis=1)
    return expectation


def group_slots(n: Counts, k: int) -> tuple[Counts, Counts]:
    """Return how many documents come before each group, and its slots among the first k."""
    start = n.cumsum(axis=1) - n
    return start, np.clip(k - start, 0, n)


def as_counts(counts: npt.ArrayLike) -> Counts:
    """Return counts as int64; differences of unsigned counts would wrap around."""
    return np.asarray(counts, dtype=np.int64)


def _expected_hits(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    _, slots = group_slots(n, k)
    hits: Floats = (slots * r / np.maximum(n, 1)).sum(axis=1)
    return hits


def _miss_probability(n: Counts, r: Counts, i: Counts) -> Floats:
    """Return the probability that document i + 1 of a group is no hit if none before it is."""
    probability: Floats = np.maximum(n - r - i, 0) / np.maximum(n - i, 1)
    return probability


def _horizon(n: Counts, r: Counts, m: Counts) -> Counts:
    """Return how many of the first `m` documents of a group matter.

    A first hit after them has a negligible probability: that of no hit among j documents is at most
    ``(1 - r/n)^j ≤ exp(-j r / n)``.
    """
    n_matter = np.ceil(NEGLIGIBLE * n / np.maximum(r, 1)).astype(np.int64)
    return np.where(r > 0, np.minimum(m, n_matter), 0)


def _blocks(widths: Counts) -> list[slice]:
    """Return blocks of queries whose tables of the greatest width stay small."""
    return list(row_blocks(len(widths), int(widths.max(initial=1))))


# Average precision: expectations of both dialects, extremes of the hashing dialect
#
# The source's treatment of the group that the cut at k divides is extended here to an average
# precision that divides by the number of hits in the list.


class _Groups(NamedTuple):
    """Groups of ties and the cut at k. `whole_*` counts groups wholly in the list, 0 for others."""

    n: Counts
    r: Counts
    slots: Counts
    """The number of documents of each group that are in the list."""
    n_before: Counts
    r_before: Counts
    whole_n: Counts
    whole_r: Counts


def expected_average_precision_at_k(
    n_at_distance: Counts, relevant_at_distance: Counts, k: int
) -> npt.NDArray[np.float64]:
    """Return the expectation of :func:`average_precision`, float64[Q].

    The metric is a sum over relevant ranks, divided by the number h' of hits in the list. h' varies
    only with the group that the end of the list cuts. Of its n documents, r are relevant and m are
    in the list. The number h of relevant ones among these m is hypergeometric. Given h, the divisor
    is fixed, and the m documents behave as a group of their own, with h of m relevant. So

        ``E[AP@k] = Σ_h P(h) · (Σ_whole S(n; n, r, n0, r0) + S(m; m, h, n0, r0)) / (r_whole + h)``

    with ``S`` as in :func:`_expected_sum` and 0/0 = 0. Needs memory for a few arrays [Q, D + k].
    """
    groups, harmonic = _groups(n_at_distance, relevant_at_distance, k), _harmonic_numbers(k)
    whole_n, whole_r = groups.whole_n, groups.whole_r
    sums = _expected_sum(
        whole_n, whole_n, whole_r, groups.n_before, groups.r_before, harmonic=harmonic
    )
    complete_sum = sums.sum(axis=1, keepdims=True)
    complete_relevant = whole_r.sum(axis=1, keepdims=True)

    m, n_cut, r_cut, n_before = _cut_group(groups, k)
    h, probability = _hypergeometric(n_cut, r_cut, m)
    cut_sum = _expected_sum(m, m, h, n_before, complete_relevant, harmonic=harmonic)
    average = (complete_sum + cut_sum) / np.maximum(complete_relevant + h, 1)
    expectation: Floats = (probability * average).sum(axis=1)
    return expectation


def extreme_average_precision_at_k(
    n_at_distance: Counts, relevant_at_distance: Counts, k: int, *, largest: bool
) -> Floats:
    """Return the greatest or least :func:`average_precision` over orders.

    The sum is greatest if the hits of each group come first, and least if they come last. The
    number h of hits that the cut group has in the list ranges from ``m - (n - r)`` to r. More hits
    may be worse, since the sum is divided by their number, so every h is tried.
    """
    groups, harmonic = _groups(n_at_distance, relevant_at_distance, k), _harmonic_numbers(k)
    offset = groups.n_before + (0 if largest else groups.whole_n - groups.whole_r)
    sums = _sum_of_run(groups.whole_r, offset, groups.r_before, harmonic)
    complete_sum = sums.sum(axis=1, keepdims=True)
    complete_relevant = groups.whole_r.sum(axis=1, keepdims=True)

    m, n_cut, r_cut, n_before = _cut_group(groups, k)
    fewest, most = np.maximum(0, m - (n_cut - r_cut)), np.minimum(m, r_cut)
    h = np.minimum(fewest + np.arange(int((most - fewest).max(initial=0)) + 1), most)
    offset = n_before + (0 if largest else m - h)
    cut_sum = _sum_of_run(h, offset, complete_relevant, harmonic)
    average = (complete_sum + cut_sum) / np.maximum(complete_relevant + h, 1)
    extreme: Floats = average.max(axis=1) if largest else average.min(axis=1)
    return extreme


def expected_average_precision_trec(
    n_at_distance: Counts, relevant_at_distance: Counts, n_relevant: Counts, k: int
) -> Floats:
    """Return the expectation of :func:`hummingbit.evaluation.metrics.average_precision_trec`.

    The divisor R is fixed, so expectations add up: ``(1 / R) Σ_groups S(m; n, r, n0, r0)`` with S
    as in :func:`_expected_sum` and m the group's slots among the first k.
    """
    groups, harmonic = _groups(n_at_distance, relevant_at_distance, k), _harmonic_numbers(k)
    n, r, slots = groups.n, groups.r, groups.slots
    sums = _expected_sum(slots, n, r, groups.n_before, groups.r_before, harmonic=harmonic)
    found: Floats = sums.sum(axis=1)
    return found / np.maximum(n_relevant, 1)


def _groups(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> _Groups:
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    start, slots = group_slots(n, k)
    whole = slots == n
    return _Groups(
        n=n,
        r=r,
        slots=slots,
        n_before=np.minimum(start, k),
        r_before=r.cumsum(axis=1) - r,
        whole_n=np.where(whole, n, 0),
        whole_r=np.where(whole, r, 0),
    )


def _cut_group(groups: _Groups, k: int) -> tuple[Counts, ...]:
    """Return counts of the group that the cut at k divides, each [Q, 1], 0 if there is none.

    They are its documents in the list, its documents, the relevant ones, and the documents before.
    """
    cut = (groups.slots > 0) & (groups.slots < groups.n)
    counts = (groups.slots, groups.n, groups.r)
    m, n_cut, r_cut = (np.where(cut, x, 0).sum(axis=1, keepdims=True) for x in counts)
    return m, n_cut, r_cut, np.where(m > 0, k - m, 0)


@lru_cache(maxsize=4)
def _harmonic_numbers(k: int) -> Floats:
    """Return H(0) to H(k)."""
    numbers = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, k + 1))])
    numbers.flags.writeable = False
    return numbers


def _sum_of_run(h: Counts, n0: Counts, r0: Counts, harmonic: Floats) -> Floats:
    """Return ``Σ_{i=1..h} (r0 + i) / (n0 + i)``: h hits in a row after n0 documents, r0 relevant.

    The closed form follows from ``(r0 + i) / (n0 + i) = 1 + (r0 - n0) / (n0 + i)``.
    """
    run: Floats = h + (r0 - n0) * (harmonic[n0 + h] - harmonic[n0])
    return run


def _expected_sum(
    m: Counts, n: Counts, r: Counts, n0: Counts, r0: Counts, *, harmonic: Floats
) -> Floats:
    """Return the expectation of ``Σ rel_i · P@i`` over the first m ranks of groups of ties.

    A group has n documents, r of them relevant, and comes after n0 documents, r0 of them relevant.
    Its j-th document is relevant with probability r/n. If it is, then of the j-1 documents before
    it in the group, (j-1)(r-1)/(n-1) are expected to be relevant:

        ``S(m; n, r, n0, r0) = Σ_{j=1..m} (r/n) · (r0 + 1 + (j-1)(r-1)/(n-1)) / (n0 + j)``

    The sum over j has a closed form with ``A = H(n0 + m) - H(n0)``, H being the harmonic numbers,
    since ``Σ (j-1)/(n0+j) = m - (n0 + 1) A``. Arguments broadcast.
    """
    a = harmonic[n0 + m] - harmonic[n0]
    slope = (r - 1) / np.maximum(n - 1, 1)
    sums: Floats = r / np.maximum(n, 1) * ((r0 + 1) * a + slope * (m - (n0 + 1) * a))
    return sums


def _hypergeometric(n: Counts, r: Counts, m: Counts) -> tuple[Counts, Floats]:
    """Return the numbers h of relevant documents among m of n documents, r relevant, and P(h).

    Arguments are [Q, 1], and results [Q, T] with T the longest support; P is 0 beyond a support. P
    is computed from the ratios ``P(h+1)/P(h) = (r-h)(m-h) / ((h+1)(n-r-m+h+1))`` and normalized.
    This is accurate to 12 digits, which log-factorials of a million documents are not.
    """
    lowest, highest = np.maximum(0, m - (n - r)), np.minimum(m, r)
    h = lowest + np.arange(int((highest - lowest).max(initial=0)) + 1)
    last = h[:, :-1]
    inside = last < highest
    up = np.where(inside, (r - last) * (m - last), 1)
    down = np.where(inside, (last + 1) * (n - r - m + last + 1), 1)
    log_p = np.zeros(h.shape)
    np.cumsum(np.where(inside, np.log(up / down), -np.inf), axis=1, out=log_p[:, 1:])
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return np.minimum(h, highest), p / p.sum(axis=1, keepdims=True)


# 11-point interpolated average precision
#
# The interpolation takes a maximum over ranks, and the expectation of a maximum has no closed
# form. If the ties of a query allow few enough different lists, the mean over all of them is
# exact. Otherwise it is the mean over :data:`SAMPLES` random orders, seeded by the sizes of the
# groups. The standard error of a sampled query is at most 0.044, half the range of the values
# over sqrt(SAMPLES).


MAX_LISTS = 2000
SAMPLES = 128


def expected_interpolated_average_precision(
    n_at_distance: Counts, relevant_at_distance: Counts, n_relevant: Counts
) -> Floats:
    """Return the expectation of :func:`interpolated_average_precision`.

    Returns float64[Q]. It is exact if at most :data:`MAX_LISTS` lists are possible, and sampled
    otherwise. A group whose documents are all relevant, or none, has one list.
    """
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    expectation = _interpolate_uniform_groups(n, r, n_relevant)
    for query in np.flatnonzero(((r > 0) & (r < n)).any(axis=1)):
        has_relevant = r[query] > 0
        start = (n[query].cumsum() - n[query])[has_relevant]
        columns = (start, n[query][has_relevant], r[query][has_relevant])
        groups = list(zip(*(column.tolist() for column in columns), strict=True))
        expectation[query] = _mean_over_orders(groups, int(n_relevant[query]))
    return expectation


def _interpolate_uniform_groups(n: Counts, r: Counts, n_relevant: Counts) -> Floats:
    """Return the metric for groups that are all relevant or not at all.

    Within a relevant group precision is highest at its end.
    """
    hits, ranks = r.cumsum(axis=1), n.cumsum(axis=1)
    precision = np.where(r > 0, hits / np.maximum(ranks, 1), 0.0)
    return interpolate(hits, precision, n_relevant)


def _mean_over_orders(groups: list[tuple[int, int, int]], n_relevant: int) -> float:
    """Return the mean over the orders of groups (documents before, documents, relevant ones)."""
    lists: Iterator[Counts]
    patterns = [math.comb(n, r) for _, n, r in groups]
    if math.prod(patterns) <= MAX_LISTS:
        choices = itertools.product(
            *(itertools.combinations(range(start, start + n), r) for start, n, r in groups)
        )
        lists = (np.concatenate([np.array(ranks) for ranks in choice]) for choice in choices)
    else:
        lists = _sample(groups)
    needed = hits_needed(np.array([n_relevant]))[0] - 1
    total, n_lists = 0.0, 0
    for ranks in lists:
        precision = np.arange(1, len(ranks) + 1) / (ranks + 1)
        highest = np.maximum.accumulate(precision[::-1])[::-1]
        total += float(highest[needed[needed < len(ranks)]].sum())
        n_lists += 1
    return total / n_lists / RECALL_LEVELS


def _sample(groups: list[tuple[int, int, int]]) -> Iterator[Counts]:
    """Yield the ranks of the relevant documents, from 0 and ascending, in random orders."""
    rng = np.random.default_rng([part for group in groups for part in group])
    for _ in range(SAMPLES):
        yield np.concatenate(
            [start + np.sort(rng.choice(n, r, replace=False)) for start, n, r in groups]
        )


# Any metric by its name


@dataclass(frozen=True, slots=True, eq=False)
class TieGroups:
    """Groups of tied documents of each query, best group first.

    `n`, int64[Q, D], counts the documents of each group, and `by_grade`, int64[Q, D, G], those of
    each grade above 0. `levels`, int64[G], are these grades, ascending. A document is relevant if
    its grade is `relevant_from` or more. `totals`, int64[Q, G], counts the whole database by grade;
    the groups may cover only the head of the rankings.
    """

    n: Counts
    by_grade: Counts
    levels: Counts
    totals: Counts
    relevant_from: int = 1

    @property
    def relevant(self) -> Counts:
        """How many documents of each group are relevant, int64[Q, D]."""
        return count_relevant(self.by_grade, self.levels, self.relevant_from)

    @property
    def n_relevant(self) -> Counts:
        """How many documents of the database are relevant, int64[Q]."""
        return count_relevant(self.totals, self.levels, self.relevant_from)


def expect(metric: Metric, groups: TieGroups) -> Floats:
    """Return the expectation of `metric` over random orders of ties for each query, float64[Q]."""
    k = int(groups.n.sum(axis=1).max(initial=1)) if metric.k is None else metric.k
    return _EXPECTED[metric.kind](groups, k)


def best(metric: Metric, groups: TieGroups) -> Floats:
    """Return the greatest value of `metric` over the orders of ties for each query, float64[Q]."""
    return _extreme(metric, groups, largest=True)


def worst(metric: Metric, groups: TieGroups) -> Floats:
    """Return the least value of `metric` over the orders of ties for each query, float64[Q]."""
    return _extreme(metric, groups, largest=False)


def ceiling(metric: Metric, groups: TieGroups) -> Floats:
    """Return the value of `metric` for the ideal ranking of each query, float64[Q].

    Only metrics whose divisor can exceed the number of hits have ceilings between 0 and 1: P@k
    with fewer than k relevant documents, Recall@k and mAP-trec@k with more.
    """
    if metric.kind not in ("P", "Recall", "mAP-trec"):
        return (groups.n_relevant > 0).astype(np.float64)
    ideal = replace(groups, n=groups.totals.sum(axis=1)[:, None], by_grade=groups.totals[:, None])
    return expect(metric, _split_by_grade(ideal, descending=True))


def precision_within_radius(n: Counts, r: Counts, radius: int) -> Floats:
    """Return the share of relevant documents among those within Hamming distance `radius`.

    Column d of `n` and `r`, int64[Q, D], counts the documents, and the relevant ones, at distance
    d. A query without a document within the radius scores 0. The value does not depend on the order
    of ties. Source: R. Salakhutdinov and G. Hinton 2009, "Semantic Hashing", as "precision within
    Hamming radius 2".
    """
    n_within = n[:, : radius + 1].sum(axis=1)
    precision: Floats = r[:, : radius + 1].sum(axis=1) / np.maximum(n_within, 1)
    return precision


def _extreme(metric: Metric, groups: TieGroups, *, largest: bool) -> Floats:
    if metric.kind == "P@radius":
        return expect(metric, groups)
    if metric.kind == "mAP" and metric.k is not None:
        # A further hit within the cut adds to the sum and also to the divisor, so relevant
        # documents first is not always best.
        return extreme_average_precision_at_k(groups.n, groups.relevant, metric.k, largest=largest)
    # All other metrics never lose if a better document moves ahead of a worse one. So the best
    # order within each group is by descending grade, and the worst by ascending grade.
    return expect(metric, _split_by_grade(groups, descending=largest))


def _split_by_grade(groups: TieGroups, *, descending: bool) -> TieGroups:
    """Split each group into groups of one grade, by descending or ascending grade."""
    ungraded = groups.n - groups.by_grade.sum(axis=-1)
    sizes = np.concatenate([ungraded[..., None], groups.by_grade], axis=-1)
    # Entry 0 of the last axis of sizes counts the documents without a grade above 0.
    by_grade = np.zeros((*sizes.shape, len(groups.levels)), dtype=np.int64)
    for level in range(len(groups.levels)):
        by_grade[..., level + 1, level] = groups.by_grade[..., level]
    if descending:
        sizes, by_grade = sizes[..., ::-1], by_grade[..., ::-1, :]
    n_queries, n_levels = len(groups.n), len(groups.levels)
    return TieGroups(
        n=sizes.reshape(n_queries, -1),
        by_grade=by_grade.reshape(n_queries, -1, n_levels),
        levels=groups.levels,
        totals=groups.totals,
        relevant_from=groups.relevant_from,
    )


_EXPECTED: dict[Kind, Callable[[TieGroups, int], Floats]] = {
    "P": lambda groups, k: expected_precision_at_k(groups.n, groups.relevant, k),
    "Recall": lambda groups, k: expected_recall_at_k(
        groups.n, groups.relevant, groups.n_relevant, k
    ),
    "Success": lambda groups, k: expected_success_at_k(groups.n, groups.relevant, k),
    "MRR": lambda groups, k: expected_reciprocal_rank(groups.n, groups.relevant, k),
    "nDCG": lambda groups, k: expected_ndcg_at_k(
        groups.n, groups.by_grade, groups.levels, groups.totals, k
    ),
    "mAP": lambda groups, k: expected_average_precision_at_k(groups.n, groups.relevant, k),
    "mAP-trec": lambda groups, k: expected_average_precision_trec(
        groups.n, groups.relevant, groups.n_relevant, k
    ),
    "mAP-11pt": lambda groups, _: expected_interpolated_average_precision(
        groups.n, groups.relevant, groups.n_relevant
    ),
    "P@radius": lambda groups, radius: precision_within_radius(groups.n, groups.relevant, radius),
}


# Counting the documents at each distance, by grade


class DistanceCounts:
    """Counts of a database's documents by distance, for tie-averaged metrics.

    Codes and label sets repeat. Distances are computed once for each distinct code, with the
    numbers of its documents by label set, and once for queries of the same code and label set.
    """

    def __init__(self, codes: Codes, coded: DistinctCodes, relevance: Relevance) -> None:
        """Count the documents with these `codes`, of which `coded` are the distinct ones."""
        distinct, code_of_document = coded
        self._n_distinct = len(distinct)
        self._distinct = distinct
        self._n_bits = codes.shape[1] * 8
        self._relevance = relevance
        self._codes = codes
        self._code_of_document = code_of_document
        self._all = SizedCodes(distinct, np.bincount(code_of_document))
        ones = np.ones(len(codes), dtype=np.int64)
        positions = (relevance.document_sets, code_of_document)
        shape = (relevance.n_document_sets, self._n_distinct)
        # Documents by label set and code. The conversion to csr sums the ones at each position.
        self._sizes_by_set = scipy.sparse.csr_array((ones, positions), shape=shape)

    def count(self, query_codes: Codes, query_sets: Ids, self_rows: Ids | None = None) -> TieGroups:
        """Count the documents, and those of each grade, at each distance from each query.

        `query_codes` is uint8[Q, code_size]. `query_sets`, int64[Q], are the sets of the queries as
        the relevance numbers them. Group d of the result counts the documents at distance d, 0 to
        n_bits. `self_rows`, int64[Q], is the row of the document that is the query itself, which is
        not counted, or -1 if there is none.
        """
        levels = self._relevance.levels
        codes, sets, positions = _distinct_queries(query_codes, query_sets)
        counts = self._all.by_distance(codes)
        by_grade = np.zeros((*counts.shape, len(levels)), np.int64)
        # Queries of one set are adjacent.
        starts = np.flatnonzero(np.append(True, sets[1:] != sets[:-1])[: len(sets)])
        ends = np.append(starts[1:], len(sets))
        width = max(self._n_distinct, self._relevance.n_document_sets)
        for block in row_blocks(len(starts), width):
            grades = self._relevance.grades(sets[starts[block]])
            for level, grade in enumerate(levels):
                sizes = (grades == grade).astype(np.int64) @ self._sizes_by_set
                for row, (start, end) in enumerate(zip(starts[block], ends[block], strict=True)):
                    entries = slice(sizes.indptr[row], sizes.indptr[row + 1])
                    graded = SizedCodes(self._distinct[sizes.indices[entries]], sizes.data[entries])
                    by_grade[start:end, :, level] = graded.by_distance(codes[start:end])
        counts, by_grade = counts[positions], by_grade[positions]
        if self_rows is not None:
            self._subtract(self_rows, query_codes, query_sets, (counts, by_grade))
        relevant_from = self._relevance.relevant_from
        return TieGroups(counts, by_grade, levels, by_grade.sum(axis=1), relevant_from)

    def _subtract(
        self, rows: Ids, query_codes: Codes, query_sets: Ids, counts: tuple[Counts, Counts]
    ) -> None:
        """Subtract the document `rows` of each query from the counts, in place; -1 is none."""
        queries = np.flatnonzero(rows >= 0)
        distances = hamming_distance(query_codes[queries], self._codes[rows[queries]])
        grades = self._relevance.grade_pairs(query_sets[queries], rows[queries])
        counts[0][queries, distances] -= 1
        counts[1][queries, distances] -= grades[:, None] == self._relevance.levels

    def rank_all(self, query_codes: Codes) -> Ids:
        """Return the rows of all documents by (distance, row) for each query, int64[Q, N]."""
        distances = self._all.distances(query_codes)
        # For integers this short, numpy's stable sort is a radix sort.
        short = np.uint8 if self._n_bits < 256 else np.uint16
        small = distances.astype(short)[:, self._code_of_document]
        return np.argsort(small, axis=1, kind="stable")


def _distinct_queries(codes: Codes, sets: Ids) -> tuple[Codes, Ids, Ids]:
    """Return the codes and the sets of the distinct pairs, and the pair of each query.

    Pairs of one set are adjacent.
    """
    pairs = np.hstack([np.ascontiguousarray(sets[:, None]).view(np.uint8), codes])
    distinct, positions = DistinctCodes.of(pairs)
    size = sets.itemsize
    distinct_sets = np.ascontiguousarray(distinct[:, :size]).view(np.int64)[:, 0]
    return distinct[:, size:], distinct_sets, positions
