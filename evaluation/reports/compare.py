"""Compare a report with a baseline report, and apply a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evaluation.reports.gate import Rule, apply_gate
from evaluation.reports.report import Change, GateResult, Report
from evaluation.result import Evaluation, EvaluationError, PerQuery
from evaluation.significance.resampling import compare, pair_queries


def compare_reports(
    report: Report,
    rules: Sequence[Rule] = (),
    baseline: Report | None = None,
    *,
    ignore_unmatched_queries: bool = False,
) -> Report:
    """Return `report` with its changes since `baseline` and the results of the gate's `rules`.

    Values are compared as served, query by query; queries are matched by id. With
    `ignore_unmatched_queries`, queries that only one of the two reports has are left out of the
    comparison and of the gate, and a note says how many. Otherwise they are an error.

    Raises:
        EvaluationError: if the baseline has other queries or no metric in common.
        GateError: if the metric of a rule was not measured, or a rule needs a baseline and there is
            none or it lacks the metric.
    """
    evaluation = to_evaluation(report)
    baseline_values = None
    notes: list[str] = []
    if baseline is not None and ignore_unmatched_queries:
        evaluation, baseline_values, notes = _restrict_to_common(report, baseline)
    elif baseline is not None:
        rows = pair_queries(report.query_ids, baseline.query_ids)
        baseline_values = _take(to_evaluation(baseline).per_query, rows)
    update: dict[str, object] = {"notes": [*report.notes, *notes], "gate": None, "changes": None}
    if baseline_values is not None:
        update["changes"] = _changes(evaluation.per_query, baseline_values)
    if rules:
        update["gate"] = [
            GateResult(
                metric=check.metric,
                condition=check.condition,
                status=check.status,
                sentence=check.sentence,
            )
            for check in apply_gate(rules, evaluation, baseline_values)
        ]
    return report.model_copy(update=update)


def to_evaluation(report: Report) -> Evaluation:
    """Return the evaluation of a report. It lacks the best and worst values of each query."""
    figures = report.per_query.items()
    return Evaluation(
        per_query={name: np.array(values.served) for name, values in figures},
        expected_per_query={name: np.array(values.expected) for name, values in figures},
        queries=report.queries,
        documents=report.subject.documents,
        queries_without_relevant=report.queries_without_relevant,
        distinct_codes=report.subject.distinct_codes,
        query_ids=tuple(report.query_ids),
        notes=tuple(report.notes),
    )


def _restrict_to_common(
    report: Report, baseline: Report
) -> tuple[Evaluation, dict[str, PerQuery], list[str]]:
    """Return the evaluation and the baseline's values for the common queries, and notes."""
    common = set(report.query_ids) & set(baseline.query_ids)
    ids = [id_ for id_ in report.query_ids if id_ in common]
    baseline_ids = [id_ for id_ in baseline.query_ids if id_ in common]
    if not ids:
        message = "the baseline has none of the queries; there is nothing to compare"
        raise EvaluationError(message)
    rows = np.flatnonzero([id_ in common for id_ in report.query_ids])
    baseline_rows = np.flatnonzero([id_ in common for id_ in baseline.query_ids])
    whole = to_evaluation(report)
    evaluation = replace(
        whole,
        per_query=_take(whole.per_query, rows),
        expected_per_query=_take(whole.expected_per_query, rows),
        queries=len(rows),
        query_ids=tuple(ids),
    )
    baseline_values = _take(
        to_evaluation(baseline).per_query, baseline_rows[pair_queries(ids, baseline_ids)]
    )
    if report.queries == baseline.queries == len(ids):
        return evaluation, baseline_values, []
    note = (
        f"the comparison and the gate leave out {report.queries - len(ids):,} queries that the"
        f" baseline lacks and {baseline.queries - len(ids):,} that only it has"
    )
    return evaluation, baseline_values, [note]


def _take(
    values: Mapping[str, PerQuery], rows: npt.NDArray[np.int64] | npt.NDArray[np.intp]
) -> dict[str, PerQuery]:
    return {name: per_query[rows] for name, per_query in values.items()}


def _changes(current: Mapping[str, PerQuery], baseline: Mapping[str, PerQuery]) -> list[Change]:
    return [
        Change(
            metric=comparison.metric,
            value=comparison.current,
            baseline=comparison.baseline,
            difference=comparison.difference.mean,
            interval=(comparison.difference.low, comparison.difference.high),
            p_value=comparison.p_value,
            adjusted=comparison.adjusted_p_value,
        )
        for comparison in compare(current, baseline).values()
    ]
