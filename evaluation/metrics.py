"""Metrics of ranked lists as pure functions, and the names they go by.

Every function takes `relevant`, bool[Q, L]: for each query, which of the documents of its list are
relevant, best first. A list longer than `k` is cut there; a shorter one counts as filled up with
documents that are not relevant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

MAX_K = 10_000
DEFAULT_METRICS = ("P@100", "mAP@100")

_NAME = re.compile(r"(p|map)@([1-9][0-9]{0,4})", re.IGNORECASE | re.ASCII)

Relevant = npt.NDArray[np.bool_]


class MetricError(ValueError):
    """A name is not that of a metric; the message lists what is right."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric and the length of the list it looks at."""

    kind: Literal["P", "mAP"]
    k: int

    @property
    def name(self) -> str:
        """The name in its one canonical spelling, such as ``mAP@100``."""
        return f"{self.kind}@{self.k}"


def parse_metric(name: str) -> Metric:
    """Read a metric's name: ``P@k`` or ``mAP@k``, in capitals or not, k from 1 to 10,000.

    Raises:
        MetricError: if `name` is anything else.
    """
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or int(match[2]) > MAX_K:
        message = (
            f"{_show(name)} is not a metric; those are P@k (precision) and mAP@k (mean average"
            f" precision) with k from 1 to {MAX_K:,}, such as P@100"
        )
        raise MetricError(message)
    return Metric("P" if match[1].lower() == "p" else "mAP", int(match[2]))


def parse_metrics(names: Iterable[str]) -> list[Metric]:
    """Read the names of metrics, in order; one that is named twice is taken once.

    Raises:
        MetricError: if `names` is a single string, is empty or holds a name that is not right.
    """
    if isinstance(names, str):
        message = f"metrics is {_show(names)}; it must be a list of names, such as ['P@100']"
        raise MetricError(message)
    metrics = list(dict.fromkeys(parse_metric(name) for name in names))
    if not metrics:
        message = "metrics is empty; name at least one, such as P@100 or mAP@100"
        raise MetricError(message)
    return metrics


def precision_at_k(relevant: Relevant, k: int) -> npt.NDArray[np.float64]:
    """Return the precision of each list, ``P@k = (relevant documents in the first k) / k``.

    It divides by k, also where the list or the database is shorter than that. float64[Q].
    """
    precision: npt.NDArray[np.float64] = relevant[:, :k].sum(axis=1, dtype=np.float64) / k
    return precision


def average_precision(relevant: Relevant, k: int) -> npt.NDArray[np.float64]:
    """Return the average precision of each list in the dialect of the hashing papers.

    ``AP@k = (1 / R_k) Σ_{i ≤ k} rel_i · P@i`` with ``R_k = Σ_{i ≤ k} rel_i``: the mean of P@i over
    the ranks of the relevant documents *found in the list*, 0 where there is none. float64[Q];
    their mean over the queries is mAP@k. As in Ñanculef et al. 2020, "Self-Supervised Bernoulli
    Autoencoders for Semi-Supervised Hashing".

    TREC's AP divides by all the relevant documents there are. This one does not, so it rewards
    order alone: a list with a single relevant document at its head scores 1.
    """
    found = relevant[:, :k]
    hits = found.cumsum(axis=1, dtype=np.float64)
    ranks = np.arange(1, found.shape[1] + 1)
    total = np.where(found, hits / ranks, 0.0).sum(axis=1)
    average: npt.NDArray[np.float64] = total / np.maximum(found.sum(axis=1), 1)
    return average


def measure(metric: Metric, relevant: Relevant) -> npt.NDArray[np.float64]:
    """Return the value of `metric` for each list, float64[Q]."""
    if metric.kind == "P":
        return precision_at_k(relevant, metric.k)
    return average_precision(relevant, metric.k)


def _show(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
