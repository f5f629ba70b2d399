"""The table of a report's metrics, and how its figures are formatted."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.reports.report import Change, MetricFigures, Report


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A row of the table: the name of a metric, and a cell for each column after the first."""

    name: str
    is_baseline: bool
    cells: list[str]


def metric_rows(report: Report) -> tuple[list[str], list[MetricRow]]:
    """Return the column heads, and the rows: the codes' metrics, then the classifier's.

    If the report was compared with a baseline, there are columns for it. They have dashes for a
    metric that the baseline lacks, and are empty for the classifier, which is not compared.
    """
    changes = {change.metric: change for change in report.changes or []}
    interval = f"{report.confidence:.0%} interval"
    head = ["metric", "as served", interval, "tie-averaged", "worst order", "best order"]
    if changes:
        head += ["baseline", "change", "p (Holm)"]
    absent = ["–"] * (len(head) - 6)
    rows = []
    for metric in report.metrics:
        change = changes.get(metric.name)
        cells = _figure_cells(metric) + (absent if change is None else _change_cells(change))
        rows.append(MetricRow(metric.name, is_baseline=False, cells=cells))
    for metric in report.classifier_baseline or []:
        cells = _figure_cells(metric) + [""] * len(absent)
        rows.append(MetricRow(metric.name, is_baseline=True, cells=cells))
    return head, rows


def format_share(value: float | None) -> str:
    """Format a share with four digits, None as a dash."""
    return "–" if value is None else f"{value:.4f}"


def format_interval(interval: tuple[float, float] | None) -> str:
    """Format an interval of shares, None as a dash."""
    return "–" if interval is None else f"{interval[0]:.4f} – {interval[1]:.4f}"


def format_p_value(value: float) -> str:
    """Format a p-value with three digits, or as ``< 0.001``."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_probability(value: float) -> str:
    """Format a p-value for a sentence: ``p = 0.012`` or ``p < 0.001``."""
    number = format_p_value(value)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def _figure_cells(metric: MetricFigures) -> list[str]:
    shares = map(format_share, (metric.expected, metric.worst, metric.best))
    return [format_share(metric.served), format_interval(metric.interval), *shares]


def _change_cells(change: Change) -> list[str]:
    return [
        format_share(change.baseline),
        f"{change.difference:+.4f}",
        format_p_value(change.adjusted),
    ]
