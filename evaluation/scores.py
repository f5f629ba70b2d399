"""Evaluate rankings by a real-valued similarity, for the baselines that have no codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import RankedLists, measure
from evaluation.metrics.names import DEFAULT_METRICS, MetricError, parse_metrics
from evaluation.relevance import Ids, LabelSet, Relevance, check_labels, relevance_by_label
from evaluation.result import Evaluation, EvaluationError
from evaluation.ties.expectation import Counts, TieGroups, best, expect, worst

Scores = npt.NDArray[np.floating]


def evaluate_scores(
    score_blocks: Iterable[Scores],
    query_labels: Sequence[LabelSet],
    database_labels: Sequence[LabelSet],
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Rank the database for every query by (falling similarity, row) and measure the lists.

    `score_blocks` gives the similarities of consecutive queries to the whole database, float[q, N]
    a block, however many queries to a block; so the whole table need not exist. Documents of
    exactly equal similarity are tied.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if the blocks do not add up to [Q, N], a similarity is NaN, there are no
            queries, a query has no label, or no document has one.
    """
    chosen = parse_metrics(metrics)
    for metric in chosen:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; similarities have none"
            raise MetricError(message)
    check_labels(query_labels, database_labels)
    relevance = relevance_by_label(query_labels, database_labels)
    n_queries, n_documents = len(query_labels), len(database_labels)
    depth = max(metric.depth(n_documents) for metric in chosen)
    kinds = ("served", "expected", "best", "worst")
    values = {kind: {metric.name: np.empty(n_queries) for metric in chosen} for kind in kinds}
    lost = start = 0
    for scores in score_blocks:
        block = slice(start, start + len(scores))
        _check_block(scores, block, n_queries, n_documents)
        sets = relevance.query_sets[block]
        rankings = [_rank(row, depth) for row in scores]
        ties = _count_ties(scores, rankings, sets, relevance)
        rows = np.stack([ranking[:depth] for ranking in rankings])
        grades = relevance.grade_lists(sets, rows)
        lists = RankedLists(grades, ties.totals, ties.levels, ties.relevant_from)
        lost += int((ties.n_relevant == 0).sum())
        for metric in chosen:
            values["served"][metric.name][block] = measure(metric, lists)
            values["expected"][metric.name][block] = expect(metric, ties)
            values["best"][metric.name][block] = best(metric, ties)
            values["worst"][metric.name][block] = worst(metric, ties)
        start = block.stop
    if start != n_queries:
        message = f"similarities of {start:,} queries were given; there are {n_queries:,} queries"
        raise EvaluationError(message)
    return Evaluation(
        per_query=values["served"],
        expected_per_query=values["expected"],
        best_per_query=values["best"],
        worst_per_query=values["worst"],
        queries=n_queries,
        documents=n_documents,
        queries_without_relevant=lost,
    )


def _rank(scores: Scores, depth: int) -> Ids:
    """Return the best documents in order: at least `depth`, and all that are tied with the last."""
    n = len(scores)
    worst = np.partition(scores, n - depth)[n - depth]
    candidates = np.flatnonzero(scores >= worst)
    # The sort is stable and the candidates ascend, so ties end up by row.
    return candidates[np.argsort(-scores[candidates], kind="stable")]


def _count_ties(
    scores: Scores, rankings: list[Ids], query_sets: Ids, relevance: Relevance
) -> TieGroups:
    """Count the documents, and the relevant ones, in each group of ties, best group first.

    Every ranking ends with a whole group.
    """
    rows = relevance.rows(query_sets)
    counts, relevant_counts = [], []
    for row, ranking, relevant_set in zip(scores, rankings, rows, strict=True):
        group = np.cumsum(np.diff(row[ranking], prepend=row[ranking[0]]) != 0)
        relevant = relevant_set[relevance.document_sets[ranking]]
        counts.append(np.bincount(group))
        relevant_counts.append(np.bincount(group[relevant], minlength=len(counts[-1])))
    return TieGroups(
        n=_stack(counts),
        by_grade=_stack(relevant_counts)[..., None],
        levels=relevance.levels,
        totals=relevance.totals(query_sets),
    )


def _stack(lists: list[Counts]) -> Counts:
    """Stack lists of unequal length, filled up with zeros."""
    table = np.zeros((len(lists), max(map(len, lists))), dtype=np.int64)
    for line, values in zip(table, lists, strict=True):
        line[: len(values)] = values
    return table


def _check_block(scores: Scores, block: slice, n_queries: int, n_documents: int) -> None:
    if scores.ndim != 2 or scores.shape[1] != n_documents or not 1 <= block.stop <= n_queries:
        message = (
            f"similarities of queries from {block.start} on have shape {list(scores.shape)}; they"
            f" must be [q, {n_documents}], for {n_queries} queries in all"
        )
        raise EvaluationError(message)
    if np.isnan(scores).any():
        message = f"similarities of queries {block.start} to {block.stop - 1} hold NaN"
        raise EvaluationError(message)
