"""Compares a report with a baseline report, and applies the gate of a build."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hummingbit.evaluation.metrics import MetricError, parse_metric
from hummingbit.evaluation.rankings import parse_ranking
from hummingbit.evaluation.relevance import duplicates
from hummingbit.evaluation.report import (
    Change,
    CoherenceFigures,
    GateResult,
    Report,
    full_name,
    measure_name,
)
from hummingbit.evaluation.result import Evaluation, EvaluationError, PerQuery
from hummingbit.evaluation.significance import (
    Comparison,
    compare,
    pair_queries,
    queries_to_detect,
)
from hummingbit.foundation.errors import counted
from hummingbit.index.names import HAMMING, RESCORERS
from hummingbit.index.rankings import RANKINGS

# The gate of a build: the value that each measure must reach, and how far it may drop.
#
# A gate is a TOML file with a table for each measure, a metric of a ranking:
#
#     [metrics."hybrid nDCG@10"]
#     min = 0.6            # the mean over the queries, as served, must not be lower
#     max_drop = 0.01      # the most that it may drop below the baseline's,
#     alpha = 0.05         # unless the drop is not significant at this level
#     detect = 0.05        # the drop that the queries must suffice to notice
#     level = "error"      # or "warn": report a failure, but pass
#
#     [metrics."P@100"]    # without a ranking, by Hamming distance
#     min = 0.4
#
#     [metrics.coherence]  # the level of codes beside vectors: no query is asked, no label read
#     min = 0.7            # and no other key but level
#
# A drop fails if it is larger than `max_drop` and also significant, by the two-sided paired
# permutation test with Holm's correction over all measures of the gate that have a `max_drop`. So
# ``max_drop = 0`` forbids any drop that is more than noise. ``alpha = 1`` forbids any drop that is
# larger than `max_drop`, noise or not. A drop that is not significant passes only if the queries
# suffice: if two systems differed by `detect` in this measure alone, the test would say so four
# times of five. Otherwise nothing is known, and the condition fails.
#
# Values of training data pass no gate, unless it has ``training_queries = true`` at its top. The
# coherence level may be of documents that the encoder learned from: it orders encoders as p@100 of
# other queries does on these, too (hummingbit reproduce paper-trials --part coherence-alarm).


COHERENCE = "coherence"
"""The measure of a rule for the coherence level."""
NOT_COMPARED = (
    f"{COHERENCE} has a rule, but not all documents have vectors to compare their codes with;"
    " name a --teacher"
)
DEFAULT_ALPHA = 0.05
DEFAULT_DETECT = 0.05
LEVELS = ("error", "warn")
_KEYS = ("min", "max_drop", "alpha", "detect", "level")
_TOP = "training_queries"


class GateError(EvaluationError):
    """A gate is not valid, or cannot be applied to the evaluation."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The conditions for one measure. `minimum` or `max_drop` or both are set.

    A drop of `detect` must be noticeable; by default, it is the larger of :data:`DEFAULT_DETECT`
    and `max_drop`.
    """

    metric: str
    minimum: float | None = None
    max_drop: float | None = None
    alpha: float = DEFAULT_ALPHA
    detect: float | None = None
    level: Literal["error", "warn"] = "error"


class Gate(list[Rule]):
    """The rules of a gate; with `training_queries`, values of training data can pass it."""

    training_queries = False


def read_gate(path: str | Path) -> Gate:
    """Read the gate in the file `path`.

    Raises:
        GateError: as :func:`parse_gate`; the message begins with `path`.
        OSError: if the file cannot be read.
    """
    try:
        return parse_gate(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise GateError(f"{path}: is not UTF-8 text") from None
    except GateError as error:
        raise GateError(f"{path}: {error}") from None


def parse_gate(text: str) -> Gate:
    """Parse a gate in TOML.

    Raises:
        GateError: if `text` is not TOML, holds anything but ``training_queries`` and
            ``[metrics."NAME"]`` tables with the keys min, max_drop, alpha, detect and level, has no
            rule, or has a value out of range.
    """
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GateError(f"the gate is not TOML: {error}") from None
    except RecursionError:
        message = "the gate is nested too deeply; it needs no lists, and no tables in values"
        raise GateError(message) from None
    except ValueError:  # the interpreter's limit, see sys.set_int_max_str_digits
        raise GateError("the gate has a whole number with too many digits") from None
    _refuse_unknown(record, ("metrics", _TOP), "the gate")
    if not isinstance(record.get(_TOP, False), bool):
        raise GateError(f"{_TOP} is {record[_TOP]!r}; it must be true or false")
    tables = record.get("metrics")
    if not isinstance(tables, dict) or not tables:
        message = 'the gate has no rule; it needs a table such as [metrics."P@100"] with min = 0.6'
        raise GateError(message)
    rules = Gate(_parse_rule(name, table) for name, table in tables.items())
    rules.training_queries = record.get(_TOP, False)
    names = [rule.metric for rule in rules]
    repeated = duplicates(names)
    if repeated:
        raise GateError(f"metrics has more than one table for {repeated[0]}; there must be one")
    return rules


def apply_gate(
    rules: Sequence[Rule],
    evaluation: Evaluation,
    baseline: Mapping[str, PerQuery] | None = None,
) -> list[GateResult]:
    """Return the result of each condition of `rules`; the gate passes if none has failed.

    `baseline` holds the baseline's values as served, for the same queries in the same order; see
    :func:`hummingbit.evaluation.significance.pair_queries`.

    Raises:
        GateError: if the metric of a rule was not measured, or a rule has `max_drop` and there is
            no baseline or it lacks the metric.
        EvaluationError: if the baseline has a different number of queries.
    """
    if evaluation.warning is not None and not getattr(rules, _TOP, False):
        message = f"{evaluation.warning}; to gate them all the same, put {_TOP} = true at its top"
        raise GateError(f"the gate refuses {message}")
    drops = _compare(rules, evaluation, baseline)
    results = []
    for rule in rules:
        _check_measured(rule.metric, evaluation)
        if rule.minimum is not None:
            results.append(_check_minimum(rule, rule.minimum, evaluation.metrics[rule.metric]))
        if rule.max_drop is not None:
            change = evaluation.per_query[rule.metric] - (baseline or {})[rule.metric]
            # By Holm's method, a drop of one measure alone is tested at this level.
            level = rule.alpha / len(drops)
            results.append(_check_drop(rule, rule.max_drop, drops[rule.metric], change, level))
    return results


def parse_measure(name: str) -> str:
    """Return the name of a measure: that of a metric, of a ranking and a metric, or coherence.

    Raises:
        GateError: if there is no such ranking or metric.
    """
    if name.strip() == COHERENCE:
        return COHERENCE
    ranking, _, metric = name.strip().rpartition(" ")
    by = parse_ranking(ranking.strip() or HAMMING)
    if by[0] not in RANKINGS or (by[1] is not None and by[1].by not in RESCORERS):
        known = ", ".join(RANKINGS)
        raise GateError(f"{ranking!r} in {name!r} is not a ranking; they are {known}")
    try:
        return measure_name(ranking.strip() or HAMMING, parse_metric(metric).name)
    except MetricError as error:
        raise GateError(str(error)) from None


def _parse_rule(name: str, table: object) -> Rule:
    metric = parse_measure(name)
    if not isinstance(table, dict):
        raise GateError(f'metrics."{metric}" is {table!r}; it must be a table with min or max_drop')
    _refuse_unknown(table, _KEYS, metric)
    if "min" not in table and "max_drop" not in table:
        raise GateError(f"{metric} has neither min nor max_drop; a rule needs at least one of them")
    if metric == COHERENCE and "max_drop" in table:
        message = "has max_drop; its values are of documents, not of queries, so it has min alone"
        raise GateError(f"{COHERENCE} {message}")
    for key in ("alpha", "detect"):
        if key in table and "max_drop" not in table:
            raise GateError(f"{metric} has {key} but no max_drop; {key} is for drops")
        if _number(table, key, metric) == 0:
            raise GateError(f"{key} of {metric} is 0; it must be above 0 and at most 1")
    level = table.get("level", "error")
    if level not in LEVELS:
        raise GateError(f'level of {metric} is {level!r}; it must be "error" or "warn"')
    return Rule(
        metric=metric,
        minimum=_number(table, "min", metric),
        max_drop=_number(table, "max_drop", metric),
        alpha=_number(table, "alpha", metric) or DEFAULT_ALPHA,
        detect=_number(table, "detect", metric),
        level=level,
    )


def _number(table: Mapping[str, Any], key: str, metric: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise GateError(f"{key} of {metric} is {value!r}; it must be a number from 0 to 1")
    return float(value)


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], whose: str) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        message = f"{whose} has the unknown key {unknown[0]!r}; the keys are {', '.join(known)}"
        raise GateError(message)


def _check_measured(metric: str, evaluation: Evaluation) -> None:
    if metric not in evaluation.per_query:
        measured = ", ".join(evaluation.per_query)
        ranking, _, name = full_name(metric).rpartition(" ")
        raise GateError(
            f"{metric} has a rule but was not measured; the metrics measured are {measured};"
            f" evaluate with the ranking {ranking} and the metric {name}"
        )


def _compare(
    rules: Sequence[Rule],
    evaluation: Evaluation,
    baseline: Mapping[str, PerQuery] | None,
) -> dict[str, Comparison]:
    names = [rule.metric for rule in rules if rule.max_drop is not None]
    if not names:
        return {}
    if baseline is None:
        raise GateError(
            f"{names[0]} has max_drop, which needs a baseline; there is none. Pass --baseline with"
            " the report.json that evaluate --out DIR wrote for what is in use"
        )
    for name in names:
        _check_measured(name, evaluation)
        if name not in baseline:
            ranking, _, metric = full_name(name).rpartition(" ")
            raise GateError(
                f"{name} has max_drop, but the baseline has only {', '.join(baseline)}; evaluate"
                f" the baseline's collection again with --rankings {ranking} --metrics {metric}"
                " --out DIR, and use the report.json there"
            )
    return compare({name: evaluation.per_query[name] for name in names}, baseline)


def _check_minimum(rule: Rule, minimum: float, value: float) -> GateResult:
    found, passed = f"{rule.metric} is {value:.4f}", value >= minimum
    sentence = f"{found}, {'at or above' if passed else 'below'} the minimum of {minimum:g}"
    return _result(rule, "min", sentence, passed=passed)


def _check_level(rule: Rule, coherence: CoherenceFigures | None) -> GateResult:
    if coherence is None:
        raise GateError(NOT_COMPARED)
    return _check_minimum(rule, rule.minimum or 0.0, coherence.level)


def _check_drop(
    rule: Rule, max_drop: float, comparison: Comparison, change: PerQuery, level: float
) -> GateResult:
    before, after = comparison.baseline, comparison.current
    p_value = comparison.adjusted_p_value
    went = f"{rule.metric} went from {before:.4f} to {after:.4f} (p = {p_value:.2g})"
    # Values that are equal in exact arithmetic may differ in their last digits.
    is_small = before - after <= max_drop or math.isclose(before - after, max_drop, abs_tol=1e-12)
    if not is_small and p_value <= rule.alpha:
        sentence = f"{went}, more than {max_drop:g} down and significant at {rule.alpha:g}"
        return _result(rule, "max_drop", sentence, passed=False)
    detect = max(DEFAULT_DETECT, max_drop) if rule.detect is None else rule.detect
    # Values that are all the same are of one system, with alpha = 1 nothing is taken for noise, and
    # no drop is larger than 1.
    is_known = rule.alpha == 1 or detect == 1 or not change.any()
    needed = 0 if is_known else queries_to_detect(change, detect, level)
    if needed > len(change):
        sentence = (
            f"{went}: cannot tell; {counted(len(change), 'query', 'queries')} would not show a drop"
            f" of {detect:g} reliably. Label {needed - len(change):,} more"
        )
        return _result(rule, "max_drop", sentence, passed=False)
    if is_small:
        sentence = f"{went}, not more than {max_drop:g} down"
    else:
        sentence = f"{went}, more than {max_drop:g} down, not significant at {rule.alpha:g}"
    return _result(rule, "max_drop", sentence, passed=True)


def _result(
    rule: Rule, condition: Literal["min", "max_drop"], sentence: str, *, passed: bool
) -> GateResult:
    failed: Literal["failed", "warned"] = "warned" if rule.level == "warn" else "failed"
    return GateResult(
        metric=rule.metric,
        condition=condition,
        status="passed" if passed else failed,
        sentence=sentence,
    )


# Compare a report with a baseline report, and apply a gate.


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
        GateError: if the metric of a rule or the coherence level was not measured, or a rule needs
            a baseline and there is none or it lacks the metric; or if values are of training data,
            unless the gate allows it.
    """
    evaluation = to_evaluation(report)
    baseline_values = None
    notes: list[str] = []
    if baseline is not None:
        before = to_evaluation(baseline)
        if ignore_unmatched_queries:
            evaluation, before, notes = _restrict_to_common(evaluation, before)
        rows = pair_queries(evaluation.query_ids, before.query_ids)
        baseline_values = before.take(rows).per_query
    if baseline is not None and baseline.warning is not None:
        notes = [f"the baseline has {baseline.warning}", *notes]
        if any(rule.max_drop is not None for rule in rules) and not getattr(rules, _TOP, False):
            raise GateError(
                f"the gate refuses a baseline with {baseline.warning}; evaluate the baseline's"
                f" collection with other queries, or put {_TOP} = true at the top of the gate"
            )
    update: dict[str, object] = {"notes": [*report.notes, *notes], "gate": None, "changes": None}
    if baseline_values is not None:
        update["changes"] = _changes(evaluation.per_query, baseline_values)
    if rules:
        of_queries = Gate(rule for rule in rules if rule.metric != COHERENCE)
        of_queries.training_queries = getattr(rules, _TOP, False)
        of_levels = [rule for rule in rules if rule.metric == COHERENCE]
        update["gate"] = [
            *(apply_gate(of_queries, evaluation, baseline_values) if of_queries else ()),
            *(_check_level(rule, report.coherence) for rule in of_levels),
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
        warning=report.warning,
    )


def by_ranking(report: Report) -> dict[str, Evaluation]:
    """Return the evaluation of each ranking of a report, with the metrics that all of them have."""
    rankings = report.rankings
    names = [
        metric.name
        for metric in next(iter(rankings.values()))
        if all(measure_name(ranking, metric.name) in report.per_query for ranking in rankings)
    ]
    whole = to_evaluation(report)
    return {
        ranking: replace(
            whole,
            per_query={name: whole.per_query[measure_name(ranking, name)] for name in names},
            expected_per_query={
                name: whole.expected_per_query[measure_name(ranking, name)] for name in names
            },
        )
        for ranking in rankings
    }


def on_common_queries(systems: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """Return the evaluations on the queries that all have, as each leaves out those learned from.

    Best and worst values are left out, and notes say how many queries were.

    Raises:
        EvaluationError: if they have no query in common.
    """
    lists = [system.query_ids for system in systems.values()]
    if len(set(lists)) == 1:
        return dict(systems)
    common = set(lists[0]).intersection(*lists)
    if not common:
        message = "the systems have no query in common: each query was learned from by one of them"
        raise EvaluationError(message)
    # In one order, and each query once.
    order = [id_ for id_ in dict.fromkeys(lists[0]) if id_ in common]
    taken = {}
    for name, system in systems.items():
        position = {id_: row for row, id_ in enumerate(system.query_ids)}
        rows = np.array([position[id_] for id_ in order], dtype=np.int64)
        note = f"compared on the {len(order):,} queries that no encoder learned from"
        taken[name] = replace(
            system.take(rows),
            best_per_query={},
            worst_per_query={},
            ceiling_per_query={},
            notes=(*system.notes, note),
        )
    return taken


def _restrict_to_common(
    current: Evaluation, baseline: Evaluation
) -> tuple[Evaluation, Evaluation, list[str]]:
    """Return both evaluations on the queries that both have, and a note if there are others."""
    common = set(current.query_ids) & set(baseline.query_ids)
    if not common:
        raise EvaluationError("the baseline has none of the queries; there is nothing to compare")
    sides = (current, baseline)
    restricted = [
        side.take(np.flatnonzero([id_ in common for id_ in side.query_ids])) for side in sides
    ]
    lacking = [side.queries - taken.queries for side, taken in zip(sides, restricted, strict=True)]
    note = (
        f"the comparison and the gate leave out {lacking[0]:,} queries that the baseline lacks and"
        f" {lacking[1]:,} that only it has"
    )
    return restricted[0], restricted[1], [note] if any(lacking) else []


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
