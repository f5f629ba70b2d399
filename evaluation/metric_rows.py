"""The table of a report's metrics, as every format shows it."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.figures import format_interval, format_p_value, format_share
from evaluation.report import Change, MetricFigures, Report


@dataclass(frozen=True, slots=True)
class MetricRow:
    """The cells of a metric behind its name, as many as there are columns after the first."""

    name: str
    is_class_code: bool
    cells: list[str]


def metric_rows(report: Report) -> tuple[list[str], list[MetricRow]]:
    """Return the heads of the columns and the rows: the codes' metrics, then the class code's.

    With a baseline there are columns for it: a metric that it lacks has dashes in them, the class
    code, which is not compared, nothing.
    """
    changes = {one.metric: one for one in report.changes or []}
    interval = f"{report.confidence:.0%} interval"
    head = ["metric", "as served", interval, "over ties", "worst order", "best order"]
    if changes:
        head += ["baseline", "change", "p (Holm)"]
    absent = ["–"] * (len(head) - 6)
    rows = []
    for one in report.metrics:
        change = changes.get(one.name)
        cells = _figures(one) + (absent if change is None else _change(change))
        rows.append(MetricRow(one.name, is_class_code=False, cells=cells))
    for one in report.class_code or []:
        cells = _figures(one) + [""] * len(absent)
        rows.append(MetricRow(one.name, is_class_code=True, cells=cells))
    return head, rows


def _figures(one: MetricFigures) -> list[str]:
    shares = (one.expected, one.worst, one.best)
    return [format_share(one.served), format_interval(one.interval), *map(format_share, shares)]


def _change(change: Change) -> list[str]:
    return [
        format_share(change.baseline),
        f"{change.difference:+.4f}",
        format_p_value(change.adjusted),
    ]
