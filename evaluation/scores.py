"""Evaluate rankings by a real-valued score, of baselines without codes or of codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import RankedLists, measure
from evaluation.metrics.metric_names import DEFAULT_METRICS, Metric, MetricError, parse_metrics
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
    """Rank the database for every query by score and measure the lists by shared labels.

    The same as :func:`evaluate_by_score`, with relevance by label.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the blocks do not add up to [Q, N], a score is NaN, there are no
            queries, a query has no label, or no document has one.
    """
    names = [metric.name for metric in _parse_metrics(metrics)]
    check_labels(query_labels, database_labels)
    relevance = relevance_by_label(query_labels, database_labels)
    return evaluate_by_score(score_blocks, relevance, names)


def evaluate_by_score(
    score_blocks: Iterable[Scores],
    relevance: Relevance,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    self_rows: Ids | None = None,
    query_ids: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Evaluation:
    """Rank the database for every query by (score descending, row) and measure the lists.

    `score_blocks` yields the scores of consecutive queries for the whole database, float[q, N] a
    block. A block may have any number of queries, so the whole table need not be in memory.
    Documents of exactly equal score are tied. A document of score −∞ is not found: it is in no
    list, but still counts among the relevant documents. `self_rows`, int64[Q], is the row of the
    document that is the query itself, or -1 if there is none; it is neither ranked nor counted.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the blocks do not add up to [Q, N], or a score is NaN.
    """
    parsed_metrics = _parse_metrics(metrics)
    n_queries, n_documents = len(relevance.query_sets), len(relevance.document_sets)
    depth = max(metric.depth(n_documents) for metric in parsed_metrics)
    values = {
        kind: {metric.name: np.empty(n_queries) for metric in parsed_metrics}
        for kind in ("served", "expected", "best", "worst")
    }
    n_without_relevant = start = 0
    for scores in score_blocks:
        block = slice(start, start + len(scores))
        _check_block(scores, block, n_queries, n_documents)
        sets = relevance.query_sets[block]
        block_self_rows = np.full(len(scores), -1) if self_rows is None else self_rows[block]
        is_self = block_self_rows[:, None] == np.arange(n_documents)
        other_scores = np.where(is_self, -np.inf, scores)
        rankings = [_rank(row, depth) for row in other_scores]
        ties = _count_ties(other_scores, rankings, sets, relevance, block_self_rows)
        lists = RankedLists(
            _grade_lists(rankings, depth, sets, relevance),
            ties.totals,
            ties.levels,
            ties.relevant_from,
        )
        n_without_relevant += int((ties.n_relevant == 0).sum())
        for metric in parsed_metrics:
            values["served"][metric.name][block] = measure(metric, lists)
            values["expected"][metric.name][block] = expect(metric, ties)
            values["best"][metric.name][block] = best(metric, ties)
            values["worst"][metric.name][block] = worst(metric, ties)
        start = block.stop
    if start != n_queries:
        message = f"score_blocks has scores of {start:,} queries; there are {n_queries:,} queries"
        raise EvaluationError(message)
    return Evaluation(
        per_query=values["served"],
        expected_per_query=values["expected"],
        best_per_query=values["best"],
        worst_per_query=values["worst"],
        queries=n_queries,
        documents=n_documents,
        queries_without_relevant=n_without_relevant,
        query_ids=tuple(query_ids),
        notes=tuple(notes),
    )


def _parse_metrics(metrics: Iterable[str]) -> list[Metric]:
    parsed_metrics = parse_metrics(metrics)
    for metric in parsed_metrics:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; scores have none"
            raise MetricError(message)
    return parsed_metrics


def _rank(scores: Scores, depth: int) -> Ids:
    """Return the first `depth` documents in order, and all that are tied with the last of them."""
    n = len(scores)
    worst = np.partition(scores, n - depth)[n - depth]
    candidates = np.flatnonzero((scores >= worst) & (scores > -np.inf))
    # The sort is stable and the candidates ascend, so ties are ordered by row.
    return candidates[np.argsort(-scores[candidates], kind="stable")]


def _grade_lists(rankings: list[Ids], depth: int, query_sets: Ids, relevance: Relevance) -> Counts:
    """Return the grades of the first `depth` of each ranking, int64[q, depth], padded with 0."""
    rows = np.zeros((len(rankings), depth), dtype=np.int64)
    lengths = np.array([min(depth, len(ranking)) for ranking in rankings])
    for line, ranking, length in zip(rows, rankings, lengths, strict=True):
        line[:length] = ranking[:length]
    grades: Counts = relevance.grade_lists(query_sets, rows)
    return np.where(np.arange(depth) < lengths[:, None], grades, 0)


def _count_ties(
    scores: Scores, rankings: list[Ids], query_sets: Ids, relevance: Relevance, self_rows: Ids
) -> TieGroups:
    """Count the documents, and those of each grade, in each group of ties, best group first.

    Every ranking ends with a whole group. `self_rows` has the row of the query itself, or -1.
    """
    counts, graded = [], []
    totals = relevance.totals(query_sets).copy()
    table = relevance.grades(query_sets).toarray()
    for query in np.flatnonzero(self_rows >= 0):
        grade = table[query, relevance.document_sets[self_rows[query]]]
        totals[query] -= relevance.levels == grade
    for row, ranking, grades_of_sets in zip(scores, rankings, table, strict=True):
        group = np.cumsum(np.diff(row[ranking], prepend=row[ranking[:1]]) != 0)
        grades = grades_of_sets[relevance.document_sets[ranking]]
        counts.append(np.bincount(group))
        graded.append(
            np.stack(
                [
                    np.bincount(group[grades == level], minlength=len(counts[-1]))
                    for level in relevance.levels
                ],
                axis=1,
            )
        )
    return TieGroups(
        n=_stack(counts),
        by_grade=_stack(graded),
        levels=relevance.levels,
        totals=totals,
        relevant_from=relevance.relevant_from,
    )


def _stack(lists: list[Counts]) -> Counts:
    """Stack lists of unequal length, padded with zeros."""
    table = np.zeros((len(lists), max(map(len, lists)), *lists[0].shape[1:]), dtype=np.int64)
    for line, values in zip(table, lists, strict=True):
        line[: len(values)] = values
    return table


def _check_block(scores: Scores, block: slice, n_queries: int, n_documents: int) -> None:
    if scores.ndim != 2 or scores.shape[1] != n_documents or not 1 <= block.stop <= n_queries:
        message = (
            f"the block of scores from query {block.start} on has shape {list(scores.shape)}; it"
            f" must be [q, {n_documents}], for {n_queries} queries in all"
        )
        raise EvaluationError(message)
    if np.isnan(scores).any():
        message = f"scores of queries {block.start} to {block.stop - 1} contain NaN"
        raise EvaluationError(message)
