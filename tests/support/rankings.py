"""Metrics of one ranked list the slow way: straight from the definitions, one rank at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

Measure = Callable[[Sequence[bool], int], float]


def slow_precision(relevant: Sequence[bool], k: int) -> float:
    """P@k: the share of k that is relevant."""
    return sum(relevant[:k]) / k


def slow_average_precision(relevant: Sequence[bool], k: int) -> float:
    """AP@k of the hashing papers: the mean of P@i over the relevant ranks i of the list."""
    at_hits = [slow_precision(relevant, i + 1) for i, hit in enumerate(relevant[:k]) if hit]
    return fmean(at_hits) if at_hits else 0.0


SLOW: dict[str, Measure] = {"P": slow_precision, "mAP": slow_average_precision}


def all_orders(groups: Sequence[tuple[int, int]]) -> Iterator[list[bool]]:
    """Give every order of the documents of groups (n, relevant), best group first.

    Orders of single documents are enumerated, so lists that look alike come as often as they must.
    """
    documents = [[place < relevant for place in range(n)] for n, relevant in groups]
    for orders in itertools.product(*(itertools.permutations(group) for group in documents)):
        yield list(itertools.chain.from_iterable(orders))


def slow_expectation(measure: Measure, groups: Sequence[tuple[int, int]], k: int) -> float:
    """The mean of a metric over every order within groups."""
    return fmean(measure(order, k) for order in all_orders(groups))
