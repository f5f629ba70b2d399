"""Evaluate rankings by a real-valued score: baselines without codes, and rankings of codes."""

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
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if the blocks do not add up to [Q, N], a score is NaN, there are no
            queries, a query has no label, or no document has one.
    """
    chosen = [metric.name for metric in _parse(metrics)]
    check_labels(query_labels, database_labels)
    relevance = relevance_by_label(query_labels, database_labels)
    return evaluate_by_score(score_blocks, relevance, chosen)


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

    `score_blocks` gives the scores of consecutive queries for the whole database, float[q, N] a
    block, however many queries to a block; so the whole table need not exist. Documents of exactly
    equal score are tied. A document of score −∞ is not found: it is in no list, and counts among
    the relevant documents all the same. `self_rows`, int64[Q], is the row of the document that is
    the query itself, -1 where there is none: it is neither ranked nor counted.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if the blocks do not add up to [Q, N], or a score is NaN.
    """
    chosen = _parse(metrics)
    n_queries, n_documents = len(relevance.query_sets), len(relevance.document_sets)
    depth = max(metric.depth(n_documents) for metric in chosen)
    kinds = ("served", "expected", "best", "worst")
    values = {kind: {metric.name: np.empty(n_queries) for metric in chosen} for kind in kinds}
    lost = start = 0
    for scores in score_blocks:
        block = slice(start, start + len(scores))
        _check_block(scores, block, n_queries, n_documents)
        sets = relevance.query_sets[block]
        own = np.full(len(scores), -1) if self_rows is None else self_rows[block]
        found = np.where(own[:, None] == np.arange(n_documents), -np.inf, scores)
        rankings = [_rank(row, depth) for row in found]
        ties = _count_ties(found, rankings, sets, relevance, own)
        lists = RankedLists(
            _grade_lists(rankings, depth, sets, relevance),
            ties.totals,
            ties.levels,
            ties.relevant_from,
        )
        lost += int((ties.n_relevant == 0).sum())
        for metric in chosen:
            values["served"][metric.name][block] = measure(metric, lists)
            values["expected"][metric.name][block] = expect(metric, ties)
            values["best"][metric.name][block] = best(metric, ties)
            values["worst"][metric.name][block] = worst(metric, ties)
        start = block.stop
    if start != n_queries:
        message = f"scores of {start:,} queries were given; there are {n_queries:,} queries"
        raise EvaluationError(message)
    return Evaluation(
        per_query=values["served"],
        expected_per_query=values["expected"],
        best_per_query=values["best"],
        worst_per_query=values["worst"],
        queries=n_queries,
        documents=n_documents,
        queries_without_relevant=lost,
        query_ids=tuple(query_ids),
        notes=tuple(notes),
    )


def _parse(metrics: Iterable[str]) -> list[Metric]:
    chosen = parse_metrics(metrics)
    for metric in chosen:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; scores have none"
            raise MetricError(message)
    return chosen


def _rank(scores: Scores, depth: int) -> Ids:
    """Return the best documents found, in order: `depth`, and all that are tied with the last."""
    n = len(scores)
    worst = np.partition(scores, n - depth)[n - depth]
    candidates = np.flatnonzero((scores >= worst) & (scores > -np.inf))
    # The sort is stable and the candidates ascend, so ties end up by row.
    return candidates[np.argsort(-scores[candidates], kind="stable")]


def _grade_lists(rankings: list[Ids], depth: int, query_sets: Ids, relevance: Relevance) -> Counts:
    """Return the grades of the first `depth` of each ranking, int64[q, depth], 0 behind its end."""
    rows = np.zeros((len(rankings), depth), dtype=np.int64)
    lengths = np.array([min(depth, len(ranking)) for ranking in rankings])
    for line, ranking, length in zip(rows, rankings, lengths, strict=True):
        line[:length] = ranking[:length]
    grades: Counts = relevance.grade_lists(query_sets, rows)
    return np.where(np.arange(depth) < lengths[:, None], grades, 0)


def _count_ties(
    scores: Scores, rankings: list[Ids], query_sets: Ids, relevance: Relevance, own: Ids
) -> TieGroups:
    """Count the documents, and those of each grade, in each group of ties, best group first.

    Every ranking ends with a whole group. `own` is the row of the query itself, or -1.
    """
    counts, graded = [], []
    totals = relevance.totals(query_sets).copy()
    table = relevance.grades(query_sets).toarray()
    for place in np.flatnonzero(own >= 0):
        grade = table[place, relevance.document_sets[own[place]]]
        totals[place] -= relevance.levels == grade
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
    """Stack lists of unequal length, filled up with zeros."""
    table = np.zeros((len(lists), max(map(len, lists)), *lists[0].shape[1:]), dtype=np.int64)
    for line, values in zip(table, lists, strict=True):
        line[: len(values)] = values
    return table


def _check_block(scores: Scores, block: slice, n_queries: int, n_documents: int) -> None:
    if scores.ndim != 2 or scores.shape[1] != n_documents or not 1 <= block.stop <= n_queries:
        message = (
            f"scores of queries from {block.start} on have shape {list(scores.shape)}; they"
            f" must be [q, {n_documents}], for {n_queries} queries in all"
        )
        raise EvaluationError(message)
    if np.isnan(scores).any():
        message = f"scores of queries {block.start} to {block.stop - 1} hold NaN"
        raise EvaluationError(message)
