"""A report held against a baseline and a gate."""

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
    """Return `report` with what changed since `baseline` and what the gate of `rules` found.

    Values are compared as served, query by query; queries are known by their ids. With
    `ignore_unmatched_queries` the queries that only one of the two has are left out of the
    comparison and of the gate, and a note says how many; otherwise they are an error.

    Raises:
        EvaluationError: if the baseline has other queries or no metric in common.
        GateError: if a metric of a rule was not measured, or a rule needs a baseline that is not
            there or lacks its metric.
    """
    evaluation = to_evaluation(report)
    before = None
    notes: list[str] = []
    if baseline is not None and ignore_unmatched_queries:
        evaluation, before, notes = _common(report, baseline)
    elif baseline is not None:
        place = pair_queries(report.query_ids, baseline.query_ids)
        before = _take(to_evaluation(baseline).per_query, place)
    update: dict[str, object] = {"notes": [*report.notes, *notes], "gate": None}
    update["changes"] = None if before is None else _changes(evaluation.per_query, before)
    if rules:
        update["gate"] = [
            GateResult(
                metric=check.metric,
                condition=check.condition,
                status=check.status,
                sentence=check.sentence,
            )
            for check in apply_gate(rules, evaluation, before)
        ]
    return report.model_copy(update=update)


def to_evaluation(report: Report) -> Evaluation:
    """Return the evaluation of a report, which has no best and worst of single queries."""
    return Evaluation(
        per_query={name: np.array(one.served) for name, one in report.per_query.items()},
        expected_per_query={name: np.array(one.expected) for name, one in report.per_query.items()},
        queries=report.queries,
        documents=report.subject.documents,
        queries_without_relevant=report.queries_without_relevant,
        distinct_codes=report.subject.distinct_codes,
        query_ids=tuple(report.query_ids),
        notes=tuple(report.notes),
    )


def _common(report: Report, baseline: Report) -> tuple[Evaluation, dict[str, PerQuery], list[str]]:
    """Return both sides for the queries that both have, and what was left out."""
    shared = set(report.query_ids) & set(baseline.query_ids)
    ids = [id_ for id_ in report.query_ids if id_ in shared]
    theirs = [id_ for id_ in baseline.query_ids if id_ in shared]
    if not ids:
        message = "the baseline has none of the queries; there is nothing to compare"
        raise EvaluationError(message)
    places = np.flatnonzero([id_ in shared for id_ in report.query_ids])
    place = np.flatnonzero([id_ in shared for id_ in baseline.query_ids])[pair_queries(ids, theirs)]
    whole = to_evaluation(report)
    evaluation = replace(
        whole,
        per_query=_take(whole.per_query, places),
        expected_per_query=_take(whole.expected_per_query, places),
        queries=len(places),
        query_ids=tuple(ids),
    )
    left_out = (
        f"{report.queries - len(ids):,} queries that the baseline lacks and"
        f" {baseline.queries - len(ids):,} that only it has"
    )
    notes = [f"the comparison and the gate leave out {left_out}"]
    complete = report.queries == baseline.queries == len(ids)
    return evaluation, _take(to_evaluation(baseline).per_query, place), [] if complete else notes


def _take(
    values: Mapping[str, PerQuery], places: npt.NDArray[np.int64] | npt.NDArray[np.intp]
) -> dict[str, PerQuery]:
    return {name: of_queries[places] for name, of_queries in values.items()}


def _changes(current: Mapping[str, PerQuery], baseline: Mapping[str, PerQuery]) -> list[Change]:
    return [
        Change(
            metric=one.metric,
            value=one.current,
            baseline=one.baseline,
            difference=one.difference.mean,
            interval=(one.difference.low, one.difference.high),
            p_value=one.p_value,
            adjusted=one.adjusted_p_value,
        )
        for one in compare(current, baseline).values()
    ]
