"""11-point interpolated average precision over ties.

Its interpolation takes a maximum over ranks, and the expectation of a maximum has no closed form.
Where the ties of a query allow few enough different lists, all of them are counted and the
expectation is exact; elsewhere it is the mean over :data:`SAMPLES` random orders, drawn from a seed
that the sizes of the groups make. A sampled query is off by a standard error of at most 0.044, half
the range of the values over sqrt(SAMPLES).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import RECALL_LEVELS, hits_needed, interpolate
from evaluation.ties.sums import as_counts

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MAX_LISTS = 2000
SAMPLES = 128


def expected_interpolated_average_precision(
    n_at_distance: Counts, relevant_at_distance: Counts, n_relevant: Counts
) -> Floats:
    """Return the expectation of :func:`evaluation.metrics.lists.interpolated_average_precision`.

    Exact where no more than :data:`MAX_LISTS` lists are possible, sampled elsewhere. A group whose
    documents are all relevant, or none, leaves no choice. float64[Q].
    """
    n, r = as_counts(n_at_distance), as_counts(relevant_at_distance)
    expectation = _of_whole_groups(n, r, n_relevant)
    for query in np.flatnonzero(((r > 0) & (r < n)).any(axis=1)):
        held = r[query] > 0
        start = (n[query].cumsum() - n[query])[held]
        columns = (start.tolist(), n[query][held].tolist(), r[query][held].tolist())
        groups = list(zip(*columns, strict=True))
        expectation[query] = _mean_over_orders(groups, int(n_relevant[query]))
    return expectation


def _of_whole_groups(n: Counts, r: Counts, n_relevant: Counts) -> Floats:
    """Return the metric where each group is all relevant or not at all: the last hit is best."""
    hits, ranks = r.cumsum(axis=1), n.cumsum(axis=1)
    precision = np.where(r > 0, hits / np.maximum(ranks, 1), 0.0)
    return interpolate(hits, precision, n_relevant)


def _mean_over_orders(groups: list[tuple[int, int, int]], n_relevant: int) -> float:
    """Return the mean over orders of groups (documents before, documents, relevant ones)."""
    lists: Iterator[Counts]
    patterns = [math.comb(n, r) for _, n, r in groups]
    if math.prod(patterns) <= MAX_LISTS:
        choices = itertools.product(
            *(itertools.combinations(range(start, start + n), r) for start, n, r in groups)
        )
        lists = (np.concatenate([np.array(one) for one in choice]) for choice in choices)
    else:
        lists = _sample(groups)
    needed = hits_needed(np.array([n_relevant]))[0] - 1
    total, n_lists = 0.0, 0
    for places in lists:
        precision = np.arange(1, len(places) + 1) / (places + 1)
        highest = np.maximum.accumulate(precision[::-1])[::-1]
        total += float(highest[needed[needed < len(places)]].sum())
        n_lists += 1
    return total / n_lists / RECALL_LEVELS


def _sample(groups: list[tuple[int, int, int]]) -> Iterator[Counts]:
    """Give the ascending places of the relevant documents in random orders."""
    rng = np.random.default_rng([part for group in groups for part in group])
    for _ in range(SAMPLES):
        yield np.concatenate(
            [start + np.sort(rng.choice(n, r, replace=False)) for start, n, r in groups]
        )
