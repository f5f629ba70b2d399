"""Expectations over ties of the metrics that are sums over ranks, or look at the first hit only.

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
"""A probability of exp(-45), 3e-20, is lost in the rounding of any sum that it belongs to."""


def expected_precision_at_k(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the expectation of :func:`evaluation.metrics.lists.precision_at_k`.

    A group of n documents, r of them relevant, that has m slots of the list adds ``m · r / n``.
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

    Every document of a group is as likely in each of its slots, so the group adds its mean gain
    times the sum of the slots' discounts. `by_grade`, int[Q, D, G], counts by the grades `levels`.
    """
    n = as_counts(n_at_distance)
    start, slots = place(n, k)
    discounts = cumulated_discounts(k)
    first = np.minimum(start, k)
    spans = discounts[first + slots] - discounts[first]
    mean_gain = (np.asarray(by_grade) * levels).sum(axis=-1) / np.maximum(n, 1)
    gained: Floats = (spans * mean_gain).sum(axis=1)
    return divide(gained, ideal_gain(levels, totals, k))


def expected_success_at_k(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the probability that a relevant document is among the first k.

    It is 1 where a group that fits into the list has one. Otherwise it is decided by the group
    which the list's end cuts: of n documents, r relevant, m are in the list, and none of these is
    relevant with probability ``C(n - r, m) / C(n, m) = Π_{i < m} (n - r - i) / (n - i)``.
    """
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    _, slots = place(n, k)
    first = (r > 0).argmax(axis=1)
    rows = np.arange(len(n))
    n, r, m = n[rows, first], r[rows, first], slots[rows, first]
    success = np.empty(len(n))
    enough = _horizon(n, r, m)
    for block in _blocks(enough):
        i = np.arange(int(enough[block].max(initial=0)))
        inside = i < enough[block, None]
        missed = _miss(n[block, None], r[block, None], i)
        success[block] = 1 - np.where(inside, missed, 1.0).prod(axis=1)
    return np.where(m > 0, success, 0.0)


def expected_reciprocal_rank(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    """Return the expectation of :func:`evaluation.metrics.lists.reciprocal_rank`.

    The first group with relevant documents decides: n documents, r relevant, after n0 others. Its
    first hit is in its j-th place with probability ``Π_{i < j-1} (n - r - i) / (n - i) · r / (n -
    j + 1)``; this is weighted with ``1 / (n0 + j)`` where n0 + j is at most k.
    """
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    start, slots = place(n, k)
    first = (r > 0).argmax(axis=1)
    rows = np.arange(len(n))
    n, r, m, n0 = n[rows, first], r[rows, first], slots[rows, first], start[rows, first]
    expectation = np.zeros(len(n))
    enough = _horizon(n, r, np.minimum(m, n - r + 1))
    for block in _blocks(enough):
        j = np.arange(int(enough[block].max(initial=0)))
        inside = j < enough[block, None]
        missed = np.where(inside, _miss(n[block, None], r[block, None], j), 0.0)
        before = np.ones_like(missed)
        np.cumprod(missed[:, :-1], axis=1, out=before[:, 1:])
        hit = before * r[block, None] / np.maximum(n[block, None] - j, 1)
        expectation[block] = np.where(inside, hit / (n0[block, None] + j + 1), 0.0).sum(axis=1)
    return expectation


def place(n: Counts, k: int) -> tuple[Counts, Counts]:
    """Return how many documents come before each group, and its slots among the first k."""
    start = n.cumsum(axis=1) - n
    return start, np.clip(k - start, 0, n)


def as_counts(counts: npt.ArrayLike) -> Counts:
    """Return counts as int64; unsigned ones would wrap around in differences."""
    return np.asarray(counts, dtype=np.int64)


def _expected_hits(n_at_distance: Counts, relevant_at_distance: Counts, k: int) -> Floats:
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    _, slots = place(n, k)
    found: Floats = (slots * r / np.maximum(n, 1)).sum(axis=1)
    return found


def _miss(n: Counts, r: Counts, i: Counts) -> Floats:
    """Return the probability that place i + 1 of a group holds no hit if none before it does."""
    chance: Floats = np.maximum(n - r - i, 0) / np.maximum(n - i, 1)
    return chance


def _horizon(n: Counts, r: Counts, m: Counts) -> Counts:
    """Return how many of `m` places matter: the chance of a first hit later is negligible.

    The probability of no hit in j places is at most ``(1 - r/n)^j ≤ exp(-j r / n)``.
    """
    enough = np.ceil(NEGLIGIBLE * n / np.maximum(r, 1)).astype(np.int64)
    return np.where(r > 0, np.minimum(m, enough), 0)


def _blocks(widths: Counts) -> list[slice]:
    """Cut the queries so that a table of the greatest width stays small."""
    return list(row_blocks(len(widths), int(widths.max(initial=1))))
