"""Average precision over ties: expectations of both dialects, extremes of the hashing dialect.

`n_at_distance`, int[Q, D], counts the documents of each group of ties, best group first, and
`relevant_at_distance`, int[Q, D], the relevant ones among them. Results are float64[Q]. The source
is that of :mod:`evaluation.ties.expectation`. Its treatment of the group that the cut at k divides
is extended here to an average precision that divides by the number of hits in the list.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation.ties.sums import as_counts, group_slots

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
    """Return the expectation of :func:`evaluation.metrics.lists.average_precision`, float64[Q].

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
    """Return the greatest or least :func:`evaluation.metrics.lists.average_precision` over orders.

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
    """Return the expectation of :func:`evaluation.metrics.lists.average_precision_trec`.

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
