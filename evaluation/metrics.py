"""Metrics of ranked lists as they are served, their names and dialects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hummingbit.foundation.errors import HummingbitError, abbreviate

# Names, each with its dialect


MAX_K = 10_000
MAX_RADIUS = 4096
DEFAULT_METRICS = ("P@100", "mAP@100")
JUDGED_METRICS = ("nDCG@10", "MRR", "Success@10", "Recall@100")
"""Metrics for judged queries, which have few relevant documents."""
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
    to 4096, such as ``P@radius2``. ``AP-trec`` is read as ``mAP-trec``, and ``R@1`` and ``R@3`` as
    ``Success@1`` and ``Success@3``.

    Raises:
        MetricError: if `name` is anything else.
    """
    metric = _parse(name.lower()) if isinstance(name, str) else None
    if metric is None:
        raise MetricError(
            f"{abbreviate(name)} is not a metric; use P@k (precision), Recall@k, Success@k (a"
            " relevant document among the first k; R@1 and R@3 mean this), MRR and MRR@k, nDCG@k,"
            " mAP@k (mean average precision of the hashing papers), mAP-trec and mAP-trec@k (over"
            " all relevant documents), mAP-11pt, with k from 1 to"
            f" {MAX_K:,}, such as P@100, and P@radius2 (precision within a Hamming radius, 0 to"
            f" {MAX_RADIUS})"
        )
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
        raise MetricError("metrics is empty; name at least one, such as P@100 or mAP@100")
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


# Values of the lists as served
#
# Every function takes `relevant`, bool[Q, L]: for each query, which documents of its list are
# relevant, best first. A list longer than `k` is cut at `k`; a shorter one counts as if padded
# with documents that are not relevant. `n_relevant`, int64[Q], counts the relevant documents of
# the whole database. Results are float64[Q], and a report gives their mean over the queries. A
# query without relevant documents scores 0 in every metric.


Relevant = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

RECALL_LEVELS = 11


@dataclass(frozen=True, slots=True, eq=False)
class RankedLists:
    """The lists of some queries, with the counts that metrics need of the whole database.

    `grades` is int64[Q, L]: the grade of each document, best rank first. `levels`, int64[G], are
    the grades above 0 in ascending order, and `totals`, int64[Q, G], counts the documents of the
    database at each. A document is relevant if its grade is `relevant_from` or more.
    """

    grades: Counts
    totals: Counts
    levels: Counts
    relevant_from: int = 1

    @property
    def relevant(self) -> Relevant:
        """Which documents of the lists are relevant, bool[Q, L]."""
        return self.grades >= self.relevant_from

    @property
    def n_relevant(self) -> Counts:
        """How many documents of the database are relevant, int64[Q]."""
        return count_relevant(self.totals, self.levels, self.relevant_from)


def measure(metric: Metric, lists: RankedLists) -> Floats:
    """Return the value of `metric` for each list, float64[Q].

    The lists must have at least the metric's `k` documents, or hold the whole database.
    ``P@radius`` is defined by distances and not by lists; see
    :func:`hummingbit.evaluation.ties.precision_within_radius`.

    Raises:
        ValueError: if the metric is ``P@radius``.
    """
    if metric.kind not in _SERVED:
        raise ValueError(f"{metric.name} is not a metric of lists")
    k = lists.grades.shape[1] if metric.k is None else metric.k
    return _SERVED[metric.kind](lists, k)


def precision_at_k(relevant: Relevant, k: int) -> Floats:
    """Return the precision of each list, ``P@k = (relevant documents in the first k) / k``.

    The divisor is k even if the list or the database is shorter.
    """
    precision: Floats = relevant[:, :k].sum(axis=1, dtype=np.float64) / k
    return precision


def recall_at_k(relevant: Relevant, n_relevant: Counts, k: int) -> Floats:
    """Return ``Recall@k = (relevant documents in the first k) / (all relevant documents)``."""
    n_hits: Floats = relevant[:, :k].sum(axis=1, dtype=np.float64)
    recall: Floats = n_hits / np.maximum(n_relevant, 1)
    return recall


def success_at_k(relevant: Relevant, k: int) -> Floats:
    """Return 1 for each list with a relevant document among the first k, else 0.

    Papers on metric learning and text hashing write it R@1 and R@3.
    """
    success: Floats = np.any(relevant[:, :k], axis=1).astype(np.float64)
    return success


def reciprocal_rank(relevant: Relevant, k: int) -> Floats:
    """Return ``1 / (rank of the first relevant document)``, 0 if none is among the first k.

    Source: E. Voorhees 1999, "The TREC-8 Question Answering Track Report".
    """
    top = relevant[:, :k]
    if not top.shape[1]:
        return np.zeros(len(top))
    return np.where(top.any(axis=1), 1 / (top.argmax(axis=1) + 1.0), 0.0)


def average_precision(relevant: Relevant, k: int) -> Floats:
    """Return the average precision of each list in the dialect of the hashing papers.

    ``AP@k = (1 / R_k) Σ_{i ≤ k} rel_i · P@i`` with ``R_k = Σ_{i ≤ k} rel_i``: the mean of P@i over
    the ranks of the relevant documents *found in the list*, 0 if there is none. As in Ñanculef
    et al. 2020, "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing".

    TREC's AP divides by the number of all relevant documents. This one does not, so it rewards
    order alone: a list with a single relevant document at rank 1 scores 1.
    """
    top = relevant[:, :k]
    average: Floats = _sum_at_hits(top) / np.maximum(top.sum(axis=1), 1)
    return average


def average_precision_trec(relevant: Relevant, n_relevant: Counts, k: int) -> Floats:
    """Return the average precision of each list in the dialect of TREC.

    ``AP@k = (1 / R) Σ_{i ≤ k} rel_i · P@i``, R being the number of *all* relevant documents of the
    database, even if R > k. It is trec_eval's ``map_cut``, and its ``map`` without a cut.
    """
    average: Floats = _sum_at_hits(relevant[:, :k]) / np.maximum(n_relevant, 1)
    return average


def interpolated_average_precision(relevant: Relevant, n_relevant: Counts) -> Floats:
    """Return the 11-point interpolated average precision of rankings of the whole database.

    ``(1 / 11) Σ_{l = 0, 0.1, …, 1} max {P@i : recall at i ≥ l}``, the kind of mAP that Passalis and
    Tefas 2018 report, "Learning Deep Representations with Probabilistic Knowledge Transfer". The
    interpolation is that of Manning, Raghavan and Schütze 2008, "Introduction to Information
    Retrieval", 8.4, and of trec_eval. The code published with Passalis and Tefas differs in two
    ways. It takes the measured recall *nearest* to l, which may be half a hit lower, and it
    interpolates only over as many ranks as a batch has queries. Its values are higher where few
    documents are relevant, and almost equal where hundreds are.
    """
    hits = relevant.cumsum(axis=1, dtype=np.int64)
    return interpolate(hits, hits / np.arange(1, relevant.shape[1] + 1), n_relevant)


def interpolate(hits: Counts, precision: Floats, n_relevant: Counts) -> Floats:
    """Return the mean of interpolated precision at eleven levels of recall.

    `hits` and `precision`, [Q, L], are measured at ascending ranks of each ranking.
    """
    highest = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    padded = np.concatenate([highest, np.zeros((len(hits), 1))], axis=1)
    total = np.zeros(len(hits))
    for needed in hits_needed(n_relevant).T:
        first = (hits < needed[:, None]).sum(axis=1)
        total += padded[np.arange(len(hits)), first]
    return np.where(n_relevant > 0, total / RECALL_LEVELS, 0.0)


def hits_needed(n_relevant: Counts) -> Counts:
    """Return how many hits reach recall 0, 0.1, …, 1, int64[Q, 11].

    Any rank reaches recall 0. One hit is required there, since precision is highest at a hit.
    """
    tenths = np.arange(RECALL_LEVELS)
    needed: Counts = np.maximum(1, -(-n_relevant[:, None] * tenths // 10))
    return needed


def ndcg_at_k(gains: Floats, levels: Counts, totals: Counts, k: int) -> Floats:
    """Return the normalized discounted cumulative gain of each list.

    ``nDCG@k = DCG@k / IDCG@k`` with ``DCG@k = Σ_{i ≤ k} gain_i / log2(i + 1)``. The gain of a
    document is its grade itself, not 2^grade - 1, as in trec_eval; grades below 0 gain nothing.
    IDCG is the DCG of the best k documents of the database: `totals`, int64[Q, G], at `levels`.
    Source: K. Järvelin and J. Kekäläinen 2002, "Cumulated Gain-Based Evaluation of IR Techniques".
    """
    top = gains[:, :k]
    total: Floats = (top / np.log2(np.arange(2, top.shape[1] + 2))).sum(axis=1)
    return divide(total, ideal_gain(levels, totals, k))


def ideal_gain(levels: Counts, totals: Counts, k: int) -> Floats:
    """Return the greatest DCG@k that a ranking can have, float64[Q]."""
    sizes = totals[:, ::-1]
    ends = sizes.cumsum(axis=1)
    discounts = cumulated_discounts(k)
    spans = discounts[np.minimum(ends, k)] - discounts[np.minimum(ends - sizes, k)]
    ideal: Floats = (spans * levels[::-1]).sum(axis=1)
    return ideal


def cumulated_discounts(k: int) -> Floats:
    """Return ``Σ_{j ≤ i} 1 / log2(j + 1)`` for i from 0 to k, float64[k + 1]."""
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])


def divide(total: Floats, by: Floats) -> Floats:
    """Divide; where `by` is 0, the result is 0."""
    return np.where(by > 0, total / np.where(by > 0, by, 1.0), 0.0)


def count_relevant(by_grade: Counts, levels: Counts, relevant_from: int) -> Counts:
    """Sum counts by grade, int64[..., G], over the grades from `relevant_from` on; int64[...]."""
    relevant: Counts = by_grade[..., levels >= relevant_from].sum(axis=-1)
    return relevant


def _sum_at_hits(relevant: Relevant) -> Floats:
    """Return ``Σ rel_i · P@i`` over the ranks of each list."""
    hits = relevant.cumsum(axis=1, dtype=np.float64)
    ranks = np.arange(1, relevant.shape[1] + 1)
    total: Floats = np.where(relevant, hits / ranks, 0.0).sum(axis=1)
    return total


def _ndcg(lists: RankedLists, k: int) -> Floats:
    gains = np.maximum(lists.grades, 0).astype(np.float64)
    return ndcg_at_k(gains, lists.levels, lists.totals, k)


_SERVED: dict[Kind, Callable[[RankedLists, int], Floats]] = {
    "P": lambda lists, k: precision_at_k(lists.relevant, k),
    "Recall": lambda lists, k: recall_at_k(lists.relevant, lists.n_relevant, k),
    "Success": lambda lists, k: success_at_k(lists.relevant, k),
    "MRR": lambda lists, k: reciprocal_rank(lists.relevant, k),
    "nDCG": _ndcg,
    "mAP": lambda lists, k: average_precision(lists.relevant, k),
    "mAP-trec": lambda lists, k: average_precision_trec(lists.relevant, lists.n_relevant, k),
    "mAP-11pt": lambda lists, _: interpolated_average_precision(lists.relevant, lists.n_relevant),
}
