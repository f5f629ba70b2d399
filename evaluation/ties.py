"""Metrics in expectation over ties, in closed form.

Documents at the same distance from a query have no order of their own. Each function here gives
the mean of a metric over all orders of the documents within every group of ties, each order being
as likely as any other. The input is what is at each distance (or other rank of groups, best
first): `n_at_distance`, int[Q, D], counts the documents and `relevant_at_distance`, int[Q, D], the
relevant ones among them.

Source: F. McSherry and M. Najork 2008, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores"; the treatment of the group that the cut at k goes
through is extended to an average precision that divides by what was found.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evaluation.metrics import Metric

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def expected_precision_at_k(
    n_at_distance: Counts, relevant_at_distance: Counts, k: int
) -> npt.NDArray[np.float64]:
    """Return the expectation of :func:`evaluation.metrics.precision_at_k`, float64[Q].

    A group of n documents, r of them relevant, that has m slots of the list adds ``m · r / n``.
    """
    n, r = _as_counts(n_at_distance, relevant_at_distance)
    _, slots = _place(n, k)
    found: Floats = (slots * r / np.maximum(n, 1)).sum(axis=1)
    return found / k


def expected_average_precision_at_k(
    n_at_distance: Counts, relevant_at_distance: Counts, k: int
) -> npt.NDArray[np.float64]:
    """Return the expectation of :func:`evaluation.metrics.average_precision`, float64[Q].

    That metric is a sum over relevant ranks divided by the number h' of relevant documents found.
    Only the group which the list's end cuts through makes h' vary: of its n documents, r relevant,
    m are in the list, and the number h of relevant ones among those is hypergeometric. Given h the
    divisor is fixed, and the m documents behave as a group of their own, h of m relevant. So

        ``E[AP@k] = Σ_h P(h) · (Σ_complete S(n, r, n0, r0) + S(m, h, n0, r0)) / (r_complete + h)``

    with ``S`` as in :func:`_expected_sum` and 0/0 = 0. Needs memory for a few arrays [Q, D + k].
    """
    n, r = _as_counts(n_at_distance, relevant_at_distance)
    start, slots = _place(n, k)
    relevant_before = r.cumsum(axis=1) - r
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, k + 1))])

    whole = slots == n
    whole_n, whole_r = np.where(whole, n, 0), np.where(whole, r, 0)
    sums = _expected_sum(whole_n, whole_r, np.minimum(start, k), relevant_before, harmonic)
    complete_sum = sums.sum(axis=1, keepdims=True)
    complete_relevant = whole_r.sum(axis=1, keepdims=True)

    cut = (slots > 0) & ~whole  # at most one group of each query
    m, n_cut, r_cut = (np.where(cut, x, 0).sum(axis=1, keepdims=True) for x in (slots, n, r))
    h, probability = _hypergeometric(n_cut, r_cut, m)
    n_before = np.where(m > 0, k - m, 0)
    cut_sum = _expected_sum(m, h, n_before, complete_relevant, harmonic)
    average = (complete_sum + cut_sum) / np.maximum(complete_relevant + h, 1)
    expectation: Floats = (probability * average).sum(axis=1)
    return expectation


def expect(
    metric: Metric, n_at_distance: Counts, relevant_at_distance: Counts
) -> npt.NDArray[np.float64]:
    """Return the expectation of `metric` over ties for each query, float64[Q]."""
    if metric.kind == "P":
        return expected_precision_at_k(n_at_distance, relevant_at_distance, metric.k)
    return expected_average_precision_at_k(n_at_distance, relevant_at_distance, metric.k)


def _as_counts(n: Counts, r: Counts) -> tuple[Counts, Counts]:
    # Unsigned counts would wrap around in the differences below.
    return np.asarray(n, dtype=np.int64), np.asarray(r, dtype=np.int64)


def _place(n: Counts, k: int) -> tuple[Counts, Counts]:
    """Return how many documents come before each group, and its slots among the first k."""
    start = n.cumsum(axis=1) - n
    return start, np.clip(k - start, 0, n)


def _expected_sum(n: Counts, r: Counts, n0: Counts, r0: Counts, harmonic: Floats) -> Floats:
    """Return the expectation of ``Σ rel_i · P@i`` over the ranks of whole groups of ties.

    A group has n documents, r relevant, after n0 documents, r0 relevant. The document in its j-th
    place is relevant with probability r/n, and then (j-1)(r-1)/(n-1) of those before it in the
    group are expected to be:

        ``S(n, r, n0, r0) = Σ_{j=1..n} (r/n) · (r0 + 1 + (j-1)(r-1)/(n-1)) / (n0 + j)``

    The sum over j is closed by ``A = H(n0 + n) - H(n0)``, H being the harmonic numbers, since
    ``Σ (j-1)/(n0+j) = n - (n0 + 1) A``. Arguments broadcast.
    """
    a = harmonic[n0 + n] - harmonic[n0]
    slope = (r - 1) / np.maximum(n - 1, 1)
    sums: Floats = r / np.maximum(n, 1) * ((r0 + 1) * a + slope * (n - (n0 + 1) * a))
    return sums


def _hypergeometric(n: Counts, r: Counts, m: Counts) -> tuple[Counts, Floats]:
    """Return the numbers h of relevant documents among m drawn from n, r relevant, and P(h).

    Arguments are [Q, 1], results [Q, T] with T the longest support; P is 0 beyond a support. It is
    built from the ratio of neighbours, ``P(h+1)/P(h) = (r-h)(m-h) / ((h+1)(n-r-m+h+1))``, and
    normalised, which keeps 12 digits where log-factorials of a million documents would lose them.
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
