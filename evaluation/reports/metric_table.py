"""How the figures of a report are written for people, and the table of its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.reports.report import Change, MetricFigures, Report


@dataclass(frozen=True, slots=True)
class MetricRow:
    """The cells of a metric behind its name, as many as there are columns after the first."""

    name: str
    is_baseline: bool
    cells: list[str]


def metric_rows(report: Report) -> tuple[list[str], list[MetricRow]]:
    """Return the heads of the columns and the rows: the codes' metrics, then the classifier's.

    With a baseline report there are columns for it. A metric that it lacks has dashes there; the
    classifier, which is not compared, has empty cells.
    """
    changes = {one.metric: one for one in report.changes or []}
    interval = f"{report.confidence:.0%} interval"
    head = ["metric", "as served", interval, "tie-averaged", "worst order", "best order"]
    if changes:
        head += ["baseline", "change", "p (Holm)"]
    absent = ["–"] * (len(head) - 6)
    rows = []
    for one in report.metrics:
        change = changes.get(one.name)
        cells = _figures(one) + (absent if change is None else _change(change))
        rows.append(MetricRow(one.name, is_baseline=False, cells=cells))
    for one in report.classifier_baseline or []:
        cells = _figures(one) + [""] * len(absent)
        rows.append(MetricRow(one.name, is_baseline=True, cells=cells))
    return head, rows


def format_share(value: float | None) -> str:
    """Write a share with four digits, an absent one as a dash."""
    return "–" if value is None else f"{value:.4f}"


def format_interval(interval: tuple[float, float] | None) -> str:
    """Write an interval of shares."""
    return "–" if interval is None else f"{interval[0]:.4f} – {interval[1]:.4f}"


def format_p_value(value: float) -> str:
    """Write a p-value; what is below a thousandth is said to be so."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_probability(value: float) -> str:
    """Write a p-value as part of a sentence: ``p = 0.012`` or ``p < 0.001``."""
    shown = format_p_value(value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def _figures(one: MetricFigures) -> list[str]:
    shares = (one.expected, one.worst, one.best)
    return [format_share(one.served), format_interval(one.interval), *map(format_share, shares)]


def _change(change: Change) -> list[str]:
    return [
        format_share(change.baseline),
        f"{change.difference:+.4f}",
        format_p_value(change.adjusted),
    ]
