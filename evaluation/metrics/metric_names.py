"""The names of metrics, each with its dialect; :mod:`evaluation.metrics.lists` computes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from foundation.errors import HummingbitError, abbreviate

MAX_K = 10_000
MAX_RADIUS = 1024
DEFAULT_METRICS = ("P@100", "mAP@100")
KNOWN_ITEM_METRICS = ("Success@10", "MRR", "nDCG@10", "Recall@100")
"""Metrics for queries with few relevant documents."""
NEAREST_METRICS = ("Recall@100",)
"""The metric for relevance by nearness."""

Kind = Literal["P", "Recall", "Success", "MRR", "nDCG", "mAP", "mAP-trec", "mAP-11pt", "P@radius"]

_WITH_CUT: dict[str, Kind] = {
    "p": "P",
    "recall": "Recall",
    "success": "Success",
    "mrr": "MRR",
    "ndcg": "nDCG",
    "map": "mAP",
    "map-trec": "mAP-trec",
    "ap-trec": "mAP-trec",
}
_WITHOUT_CUT: dict[str, Kind] = {
    "mrr": "MRR",
    "map-trec": "mAP-trec",
    "ap-trec": "mAP-trec",
    "map-11pt": "mAP-11pt",
}
# R@1 and R@3 as the literature on text hashing writes them. Elsewhere R@k means recall, so other
# R@k are rejected as ambiguous.
_ALIASES = {"r@1": "success@1", "r@3": "success@3"}

_CUT = re.compile(r"([a-z-]+)@([1-9][0-9]{0,4})", re.ASCII)
_RADIUS = re.compile(r"p@radius(0|[1-9][0-9]{0,3})", re.ASCII)


class MetricError(HummingbitError, ValueError):
    """A name is not that of a metric. The message lists the metrics."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, with the part of the ranking that it depends on.

    `k` is the length of the list, None for the whole ranking; for ``P@radius`` it is the radius.
    """

    kind: Kind
    k: int | None = None

    @property
    def name(self) -> str:
        """The canonical spelling of the name, such as ``mAP@100``."""
        if self.kind == "P@radius":
            return f"{self.kind}{self.k}"
        return self.kind if self.k is None else f"{self.kind}@{self.k}"

    @property
    def needs_codes(self) -> bool:
        """Whether it is defined by Hamming distances, and so only for rankings of codes."""
        return self.kind == "P@radius"

    def depth(self, n_documents: int) -> int:
        """Return how many documents of a ranking of `n_documents` the metric depends on."""
        if self.kind == "P@radius":
            return 0
        return n_documents if self.k is None else min(self.k, n_documents)


def parse_metric(name: str) -> Metric:
    """Parse the name of a metric, in any case; `k` is from 1 to 10,000.

    ``P@k``, ``Recall@k``, ``Success@k``, ``MRR``, ``MRR@k``, ``nDCG@k``, ``mAP@k`` (of the hashing
    papers), ``mAP-trec``, ``mAP-trec@k``, ``mAP-11pt`` and ``P@radius`` followed by a radius from 0
    to 1024, such as ``P@radius2``. ``AP-trec`` is read as ``mAP-trec``, and ``R@1`` and ``R@3`` as
    ``Success@1`` and ``Success@3``.

    Raises:
        MetricError: if `name` is anything else.
    """
    metric = _parse(name.lower()) if isinstance(name, str) else None
    if metric is None:
        message = (
            f"{abbreviate(name)} is not a metric; use P@k (precision), Recall@k, Success@k (a"
            " relevant document among the first k; R@1 and R@3 mean this), MRR and MRR@k, nDCG@k,"
            " mAP@k (mean average precision of the hashing papers), mAP-trec and mAP-trec@k (over"
            " all relevant documents), mAP-11pt, with k from 1 to"
            f" {MAX_K:,}, such as P@100, and P@radius2 (precision within a Hamming radius, 0 to"
            f" {MAX_RADIUS})"
        )
        raise MetricError(message)
    return metric


def parse_metrics(names: Iterable[str]) -> list[Metric]:
    """Parse the names of metrics, in order and without repetitions.

    Raises:
        MetricError: if `names` is a single string, is empty or holds a name of no metric.
    """
    if isinstance(names, str):
        message = f"metrics is {abbreviate(names)}; it must be a list of names, such as ['P@100']"
        raise MetricError(message)
    metrics = list(dict.fromkeys(parse_metric(name) for name in names))
    if not metrics:
        message = "metrics is empty; name at least one, such as P@100 or mAP@100"
        raise MetricError(message)
    return metrics


_DIALECTS: dict[Kind, str] = {
    "mAP": "averages P@i over the relevant documents found in the list, as papers on hashing do;"
    " mAP-trec divides by all relevant documents",
    "mAP-trec": "divides by all relevant documents, as trec_eval does; mAP@k averages over those"
    " found in the list",
    "mAP-11pt": "averages the interpolated precision at the recalls 0, 0.1, … 1",
}


def dialects(names: Iterable[str]) -> list[str]:
    """Return a sentence for each kind of mean average precision among `names`."""
    first = {metric.kind: metric.name for metric in reversed(parse_metrics(names))}
    return [f"{first[kind]} {_DIALECTS[kind]}." for kind in _DIALECTS if kind in first]


def _parse(name: str) -> Metric | None:
    name = _ALIASES.get(name, name)
    if name in _WITHOUT_CUT:
        return Metric(_WITHOUT_CUT[name])
    if (match := _RADIUS.fullmatch(name)) and int(match[1]) <= MAX_RADIUS:
        return Metric("P@radius", int(match[1]))
    match = _CUT.fullmatch(name)
    if match is None or match[1] not in _WITH_CUT or int(match[2]) > MAX_K:
        return None
    return Metric(_WITH_CUT[match[1]], int(match[2]))
