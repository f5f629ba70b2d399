"""The expectation, the best and the worst value of a metric over the orders of tied documents.

Documents at the same distance from a query have no order among themselves. The expectation is the
mean over all orders of the documents within each group of ties, all orders being equally likely. It
has a closed form for almost every metric. The input is not lists but the counts at each distance
(or in other groups, best first), so the cost does not grow with the number of documents.

Source: F. McSherry and M. Najork 2008, "Computing Information Retrieval Performance Measures
Efficiently in the Presence of Tied Scores". Two metrics go beyond it: the average precision that
divides by the number of hits (:mod:`evaluation.ties.average_precision`), and 11-point
interpolation, whose expectation has no closed form (:mod:`evaluation.ties.interpolation`).
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
