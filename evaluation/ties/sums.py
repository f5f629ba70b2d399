"""Expectations over ties of metrics that are sums over ranks or depend on the first hit only.

`n_at_distance`, int[Q, D], counts the documents of each group of ties, best group first, and
`relevant_at_distance`, int[Q, D], the relevant ones among them. Results are float64[Q]. The source
is that of :mod:`evaluation.ties.expectation`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import cumulated_discounts, divide, ideal_gain
from evaluation.row_blocks import row_blocks

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 45.0
"""A probability of exp(-45), 3e-20, is below the rounding error of the sums that it is part of."""


def expected_precision_at_k(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the expectation of :func:`evaluation.metrics.lists.precision_at_k`.

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
    """Return the expectation of :func:`evaluation.metrics.lists.ndcg_at_k`.

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
    """Return the expectation of :func:`evaluation.metrics.lists.reciprocal_rank`.

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
