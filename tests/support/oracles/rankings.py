"""Metrics of one ranked list, computed slowly from their definitions, one rank at a time.

A list is the grades of its documents, best first; it holds the whole database. A document is
relevant when its grade is above 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from statistics import fmean

Grades = Sequence[int] | Sequence[bool]
Measure = Callable[[Grades, int], float]


def slow_precision(grades: Grades, k: int) -> float:
    """P@k: the share of k that is relevant."""
    return sum(grade > 0 for grade in grades[:k]) / k


def slow_recall(grades: Grades, k: int) -> float:
    """Recall@k: the share of the relevant documents that is among the first k."""
    n_relevant = sum(grade > 0 for grade in grades)
    return sum(grade > 0 for grade in grades[:k]) / n_relevant if n_relevant else 0.0


def slow_success(grades: Grades, k: int) -> float:
    """Success@k: whether a relevant document is among the first k."""
    return float(any(grade > 0 for grade in grades[:k]))


def slow_reciprocal_rank(grades: Grades, k: int) -> float:
    """MRR@k: one over the first relevant rank."""
    return next((1 / (i + 1) for i, grade in enumerate(grades[:k]) if grade > 0), 0.0)


def slow_average_precision(grades: Grades, k: int) -> float:
    """AP@k of the hashing papers: the mean of P@i over the relevant ranks i of the list."""
    at_hits = [slow_precision(grades, i + 1) for i, grade in enumerate(grades[:k]) if grade > 0]
    return fmean(at_hits) if at_hits else 0.0


def slow_average_precision_trec(grades: Grades, k: int) -> float:
    """AP@k of TREC: the sum of P@i over the relevant ranks over all relevant documents."""
    at_hits = [slow_precision(grades, i + 1) for i, grade in enumerate(grades[:k]) if grade > 0]
    return sum(at_hits) / sum(grade > 0 for grade in grades) if at_hits else 0.0


def slow_interpolated(grades: Grades, k: int) -> float:
    """11-point interpolated AP: the best precision at or beyond each tenth of recall; k is unused.

    Recall is an exact fraction, so that 0.3 of 10 is 3.
    """
    n_relevant = sum(grade > 0 for grade in grades)
    if not n_relevant:
        return 0.0
    points = []
    for rank in range(1, len(grades) + 1):
        hits = sum(grade > 0 for grade in grades[:rank])
        points.append((Fraction(hits, n_relevant), hits / rank))
    levels = (Fraction(tenth, 10) for tenth in range(11))
    return fmean(max(p for recall, p in points if recall >= level) for level in levels)


def slow_ndcg(grades: Grades, k: int) -> float:
    """nDCG@k with the grade as the gain and log2 of the rank plus 1 as the discount."""

    def dcg(ranked: Grades) -> float:
        return math.fsum(grade / math.log2(i + 2) for i, grade in enumerate(ranked[:k]))

    ideal = dcg(sorted(grades, reverse=True))
    return dcg(grades) / ideal if ideal else 0.0


SLOW: dict[str, Measure] = {
    "P": slow_precision,
    "Recall": slow_recall,
    "Success": slow_success,
    "MRR": slow_reciprocal_rank,
    "mAP": slow_average_precision,
    "mAP-trec": slow_average_precision_trec,
    "mAP-11pt": slow_interpolated,
    "nDCG": slow_ndcg,
}


def all_orders(groups: Sequence[tuple[int, int]]) -> Iterator[list[bool]]:
    """Yield every order of the documents of groups (n, relevant), best group first.

    Orders of single documents are enumerated, so each list of grades has its right frequency.
    """
    documents = [[position < relevant for position in range(n)] for n, relevant in groups]
    for orders in itertools.product(*(itertools.permutations(group) for group in documents)):
        yield list(itertools.chain.from_iterable(orders))


def slow_expectation(measure: Measure, groups: Sequence[tuple[int, int]], k: int) -> float:
    """Return the mean of a metric over every order within groups."""
    return fmean(measure(order, k) for order in all_orders(groups))


def distinct_lists(groups: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], float]]:
    """Return every distinct list of grades from orders within groups, with its probability.

    All orders of single documents make each pattern of grades in a group equally often, so
    patterns can be enumerated instead, which are far fewer.
    """
    patterns = [sorted(set(itertools.permutations(group))) for group in groups]
    weight = 1 / math.prod(len(pattern) for pattern in patterns)
    return [
        (tuple(itertools.chain.from_iterable(parts)), weight)
        for parts in itertools.product(*patterns)
    ]
