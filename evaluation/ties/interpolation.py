"""11-point interpolated average precision over ties.

The interpolation takes a maximum over ranks, and the expectation of a maximum has no closed form.
If the ties of a query allow few enough different lists, the mean over all of them is exact.
Otherwise it is the mean over :data:`SAMPLES` random orders, seeded by the sizes of the groups. The
standard error of a sampled query is at most 0.044, half the range of the values over sqrt(SAMPLES).
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
