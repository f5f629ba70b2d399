"""Evaluate a TREC run by qrels: the lists that any system wrote, whatever made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import RankedLists, measure
from evaluation.metrics.metric_names import DEFAULT_METRICS, MetricError, parse_metrics
from evaluation.qrels import name_some
from evaluation.result import Evaluation, EvaluationError
from evaluation.ties.expectation import TieGroups, best, expect, worst

Table = npt.NDArray[np.int64]


def evaluate_run(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    metrics: Iterable[str] = DEFAULT_METRICS,
    relevant_from: int = 1,
) -> Evaluation:
    """Measure the lists of `run` for every query that `qrels` judge.

    Documents are ranked by falling score; those of one score are tied and served in the order of
    the run. What was not retrieved has no rank, but counts among all relevant documents. A judged
    query that the run has no list for scores 0; a list for a query without judgements is left out.
    Both are counted and named in the notes.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if the run has no list for any judged query, no judgement has a grade from
            `relevant_from` on, or a score is NaN.
    """
    chosen = parse_metrics(metrics)
    for metric in chosen:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; a run has none"
            raise MetricError(message)
    query_ids = [query for query, judged in qrels.items() if judged]
    if not any(query in run for query in query_ids):
        message = "the run has no list for any query that the qrels judge; they do not belong"
        raise EvaluationError(f"{message} together")
    grades = {grade for judged in qrels.values() for grade in judged.values() if grade > 0}
    if max(grades, default=0) < relevant_from or relevant_from < 1:
        message = f"no judgement has a grade of {relevant_from} or more; nothing is relevant"
        raise EvaluationError(message)
    lists, groups = _rank(run, qrels, query_ids, np.array(sorted(grades)), relevant_from)
    n_relevant = groups.n_relevant
    return Evaluation(
        per_query={metric.name: measure(metric, lists) for metric in chosen},
        expected_per_query={metric.name: expect(metric, groups) for metric in chosen},
        best_per_query={metric.name: best(metric, groups) for metric in chosen},
        worst_per_query={metric.name: worst(metric, groups) for metric in chosen},
        queries=len(query_ids),
        documents=len({document for found in run.values() for document in found}),
        queries_without_relevant=int((n_relevant == 0).sum()),
        query_ids=tuple(query_ids),
        notes=_oddities(run, query_ids, n_relevant),
    )


def _rank(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: list[str],
    levels: Table,
    relevant_from: int,
) -> tuple[RankedLists, TieGroups]:
    longest = max(1, *(len(run.get(query, {})) for query in query_ids))
    grades = np.zeros((len(query_ids), longest), dtype=np.int64)
    n = np.zeros((len(query_ids), longest), dtype=np.int64)
    by_grade = np.zeros((len(query_ids), longest, len(levels)), dtype=np.int64)
    totals = np.zeros((len(query_ids), len(levels)), dtype=np.int64)
    for place, query in enumerate(query_ids):
        judged = np.array(list(qrels[query].values()))
        totals[place] = (judged[:, None] == levels).sum(axis=0)
        found = run.get(query, {})
        scores = np.array(list(found.values()), dtype=np.float64)
        if np.isnan(scores).any():
            message = f"a score of query {query!a} is NaN; every score must be a number"
            raise EvaluationError(message)
        order = np.argsort(-scores, kind="stable")
        found_grades = np.array(
            [qrels[query].get(document, 0) for document in found], dtype=np.int64
        )
        grades[place, : len(order)] = found_grades[order]
        group = np.cumsum(np.diff(scores[order], prepend=scores[order[:1]]) != 0)
        np.add.at(n[place], group, 1)
        np.add.at(by_grade[place], group, found_grades[order][:, None] == levels)
    return (
        RankedLists(grades, totals, levels, relevant_from),
        TieGroups(n, by_grade, levels, totals, relevant_from),
    )


def _oddities(
    run: Mapping[str, Mapping[str, float]], query_ids: list[str], n_relevant: Table
) -> tuple[str, ...]:
    known = set(query_ids)
    lost = [query for query, held in zip(query_ids, n_relevant, strict=True) if not held]
    sentences = {
        "queries of the run have no judgement and are left out": [q for q in run if q not in known],
        "judged queries are not in the run and score 0": [q for q in query_ids if q not in run],
        "queries have no relevant document and score 0": lost,
    }
    return tuple(f"{len(ids):,} {what}: {name_some(ids)}" for what, ids in sentences.items() if ids)
