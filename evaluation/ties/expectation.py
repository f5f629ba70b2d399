"""What ties could have made of a metric: its expectation, its best and its worst.

Documents at the same distance from a query have no order of their own. For each metric there is,
in closed form and for each query, the mean over all orders of the documents within every group of
ties, each order being as likely as any other; and the greatest and the least value that an order
can give. The input is not the lists but what is at each distance (or other rank of groups, best
first), so a million documents cost no more than their distances.

Source: F. McSherry and M. Najork 2008, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores". What goes beyond it: the average precision that divides
by what was found (:mod:`evaluation.ties.average_precision`), and 11-point interpolation, whose
expectation has no closed form (:mod:`evaluation.ties.interpolation`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import count_relevant
from evaluation.metrics.metric_names import Kind, Metric
from evaluation.ties.average_precision import (
    expected_average_precision_at_k,
    expected_average_precision_trec,
    extreme_average_precision_at_k,
)
from evaluation.ties.interpolation import expected_interpolated_average_precision
from evaluation.ties.sums import (
    expected_ndcg_at_k,
    expected_precision_at_k,
    expected_recall_at_k,
    expected_reciprocal_rank,
    expected_success_at_k,
)

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TieGroups:
    """Groups of tied documents of each query, best group first.

    `n`, int64[Q, D], counts the documents of each group and `by_grade`, int64[Q, D, G], those of
    each grade above 0; `levels`, int64[G], are these grades, ascending. A document is relevant from
    the grade `relevant_from` on. `totals`, int64[Q, G], counts by grade over the whole database, of
    which the groups may be only the first.
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
    """Return the greatest value of `metric` that an order of ties gives each query, float64[Q]."""
    return _extreme(metric, groups, largest=True)


def worst(metric: Metric, groups: TieGroups) -> Floats:
    """Return the least value of `metric` that an order of ties gives each query, float64[Q]."""
    return _extreme(metric, groups, largest=False)


def precision_within_radius(n: Counts, r: Counts, radius: int) -> Floats:
    """Return the share of relevant documents among those within Hamming distance `radius`.

    Column d of `n` and `r`, int64[Q, D], counts the documents, and the relevant ones, at distance
    d. An empty ball scores 0. There are no ties in a ball, so nothing depends on their order.
    Source: as "precision within Hamming radius 2" in R. Salakhutdinov and G. Hinton 2009,
    "Semantic Hashing".
    """
    inside = n[:, : radius + 1].sum(axis=1)
    found: Floats = r[:, : radius + 1].sum(axis=1) / np.maximum(inside, 1)
    return found


def _extreme(metric: Metric, groups: TieGroups, *, largest: bool) -> Floats:
    if metric.kind == "P@radius":
        return expect(metric, groups)
    if metric.kind == "mAP" and metric.k is not None:
        # One more hit within the cut adds to the sum and to what it is divided by, so relevant
        # documents at the head are not always best.
        return extreme_average_precision_at_k(groups.n, groups.relevant, metric.k, largest=largest)
    # All others never lose when a better document moves ahead of a worse one: within each group
    # the documents are best in falling order of grades and worst in rising order.
    return expect(metric, _ordered(groups, falling=largest))


def _ordered(groups: TieGroups, *, falling: bool) -> TieGroups:
    """Cut each group into groups of one grade, in falling or rising order of grades."""
    ungraded = groups.n - groups.by_grade.sum(axis=-1)
    sizes = np.concatenate([ungraded[..., None], groups.by_grade], axis=-1)
    # Entry 0 of the last axis is what has no grade above 0.
    by_grade = np.zeros((*sizes.shape, len(groups.levels)), dtype=np.int64)
    for place in range(len(groups.levels)):
        by_grade[..., place + 1, place] = groups.by_grade[..., place]
    if falling:
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
