"""A report held against a baseline and a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evaluation.gate import Rule, apply_gate
from evaluation.report import Change, GateResult, Report
from evaluation.result import Evaluation, PerQuery
from evaluation.significance import compare, pair_queries


def judge(report: Report, rules: Sequence[Rule] = (), baseline: Report | None = None) -> Report:
    """Return `report` with what changed since `baseline` and what the gate of `rules` found.

    Values are compared as served, query by query; queries are known by their ids.

    Raises:
        EvaluationError: if the baseline has other queries or no metric in common.
        GateError: if a metric of a rule was not measured, or a rule needs a baseline that is not
            there or lacks its metric.
    """
    before = None if baseline is None else _paired(report, baseline)
    changes = None if before is None else _changes(to_evaluation(report).per_query, before)
    gate = None
    if rules:
        gate = [
            GateResult(
                metric=check.metric,
                condition=check.condition,
                status=check.status,
                sentence=check.sentence,
            )
            for check in apply_gate(rules, to_evaluation(report), before)
        ]
    return report.model_copy(update={"changes": changes, "gate": gate})


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


def _paired(report: Report, baseline: Report) -> dict[str, PerQuery]:
    """Return the baseline's values as served, in the order of the report's queries."""
    place = pair_queries(report.query_ids, baseline.query_ids)
    return {name: np.array(one.served)[place] for name, one in baseline.per_query.items()}


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
