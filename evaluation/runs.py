"""Evaluate a TREC run, the ranked lists of any system, by qrels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from evaluation.metrics.lists import RankedLists, measure
from evaluation.metrics.metric_names import DEFAULT_METRICS, MetricError, parse_metrics
from evaluation.qrels import find_encoded_ids, name_some
from evaluation.result import Evaluation, EvaluationError
from evaluation.ties.expectation import TieGroups, best, expect, worst
from foundation.errors import counted

Table = npt.NDArray[np.int64]


def evaluate_run(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    metrics: Iterable[str] = DEFAULT_METRICS,
    relevant_from: int = 1,
) -> Evaluation:
    """Measure the lists of `run` for every query that `qrels` judge.

    Documents are ranked by descending score. Those of equal score are tied, and served in the order
    of the run. A document that was not retrieved has no rank, but counts among all relevant
    documents. A judged query without a list scores 0, and a list for a query without judgements is
    ignored. The notes count and name both.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the run has no list for any judged query, no judgement has a grade from
            `relevant_from` on, or a score is NaN.
    """
    parsed_metrics = parse_metrics(metrics)
    for metric in parsed_metrics:
        if metric.needs_codes:
            message = f"{metric.name} is defined by Hamming distances; a run has none"
            raise MetricError(message)
    retrieved = {document for scores in run.values() for document in scores}
    qrels = find_encoded_ids(qrels, run, retrieved)
    query_ids = [query for query, graded in qrels.items() if graded]
    if not any(query in run for query in query_ids):
        message = "the run has no list for any query of the qrels; they do not belong together"
        raise EvaluationError(message)
    grades = {grade for graded in qrels.values() for grade in graded.values() if grade > 0}
    if max(grades, default=0) < relevant_from or relevant_from < 1:
        message = f"no judgement has a grade of {relevant_from} or more; nothing is relevant"
        raise EvaluationError(message)
    lists, groups = _rank(run, qrels, query_ids, np.array(sorted(grades)), relevant_from)
    n_relevant = groups.n_relevant
    return Evaluation(
        per_query={metric.name: measure(metric, lists) for metric in parsed_metrics},
        expected_per_query={metric.name: expect(metric, groups) for metric in parsed_metrics},
        best_per_query={metric.name: best(metric, groups) for metric in parsed_metrics},
        worst_per_query={metric.name: worst(metric, groups) for metric in parsed_metrics},
        queries=len(query_ids),
        documents=len(retrieved),
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
    for row, query in enumerate(query_ids):
        judged_grades = np.array(list(qrels[query].values()))
        totals[row] = (judged_grades[:, None] == levels).sum(axis=0)
        retrieved = run.get(query, {})
        scores = np.array(list(retrieved.values()), dtype=np.float64)
        if np.isnan(scores).any():
            message = f"a score of query {query!r} is NaN; every score must be a number"
            raise EvaluationError(message)
        order = np.argsort(-scores, kind="stable")
        list_grades = np.array(
            [qrels[query].get(document, 0) for document in retrieved], dtype=np.int64
        )[order]
        grades[row, : len(order)] = list_grades
        group = np.cumsum(np.diff(scores[order], prepend=scores[order[:1]]) != 0)
        np.add.at(n[row], group, 1)
        np.add.at(by_grade[row], group, list_grades[:, None] == levels)
    return (
        RankedLists(grades, totals, levels, relevant_from),
        TieGroups(n, by_grade, levels, totals, relevant_from),
    )


def _oddities(
    run: Mapping[str, Mapping[str, float]], query_ids: list[str], n_relevant: Table
) -> tuple[str, ...]:
    judged = set(query_ids)
    unjudged = [query for query in run if query not in judged]
    missing = [query for query in query_ids if query not in run]
    without_relevant = [q for q, count in zip(query_ids, n_relevant, strict=True) if not count]
    sentences = {
        "of the run without a judgement, ignored": unjudged,
        "with judgements but not in the run, scored as 0": missing,
        "without a relevant document, scored as 0": without_relevant,
    }
    return tuple(
        f"{counted(len(ids), 'query', 'queries')} {what}: {name_some(ids)}"
        for what, ids in sentences.items()
        if ids
    )
