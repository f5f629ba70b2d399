"""A report as one self-contained HTML page: no network, no script, no other file.

``page.html.j2`` is the template. jinja2 and matplotlib, the extra ``report``, are imported when a
page is written. The page is light or dark, as the reader's system is set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.metrics.metric_names import dialects
from evaluation.reports.metric_table import format_share, metric_rows
from evaluation.reports.plots import ACCENT, INK, LINE, MUTED, SECOND, PlotError, draw_plots
from evaluation.reports.report import Report
from foundation.extras import install_command

MAX_CLASSES = 100

PLOTS = {
    "precision-recall": (
        "Precision and recall",
        "All pairs of query and document within a Hamming radius; the numbers are radii.",
    ),
    "precision-at-k": (
        "Precision at k",
        "Mean over the queries. The band reaches from the worst to the best order of ties.",
    ),
    "distances": (
        "Distances",
        "Pairs of query and document by Hamming distance. Each kind adds up to 1.",
    ),
    "buckets": (
        "Bucket occupancy",
        "Documents by how many share their code. Above each bar is the number of codes.",
    ),
    "bits": (
        "Bit balance",
        "The share of documents in which each bit is 1. A bit near 0 or 1 distinguishes few.",
    ),
}

# The page's CSS variables for the colours of plots. They differ between light and dark.
_COLOURS = {ACCENT: "accent", SECOND: "second", MUTED: "muted", INK: "ink", LINE: "line"}


def to_html(report: Report, baseline: Report | None = None) -> str:
    """Return the page of a report, with the curves of `baseline` behind its own.

    Raises:
        PlotError: if matplotlib or jinja2 is not installed.
    """
    plots = draw_plots(report, baseline)
    environment, markup = _load_jinja()
    environment.filters["share"] = format_share
    template = environment.from_string(
        Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    )
    heads, rows = metric_rows(report)
    names = [metric.name for metric in report.metrics]
    classes = sorted(report.classes, key=lambda figures: figures.expected[names[0]])
    page: str = template.render(
        report=report,
        facts=_facts(report),
        metric_heads=heads,
        metric_rows=rows,
        dialects=dialects(names),
        plots=[
            (name, title, caption, markup(_use_page_colours(plots[name])))
            for name, (title, caption) in PLOTS.items()
        ],
        class_heads=["class", "queries", "documents", *names],
        first_metric=names[0],
        classes=[
            (
                figures.label,
                [
                    f"{figures.queries:,}",
                    f"{figures.documents:,}",
                    *(format_share(figures.expected[name]) for name in names),
                ],
                f"{100 * max(0.0, min(1.0, figures.expected[names[0]])):.1f}",
            )
            for figures in classes[:MAX_CLASSES]
        ],
        more_classes=len(classes) - MAX_CLASSES,
    )
    return page


def _facts(report: Report) -> list[tuple[str, str]]:
    subject = report.subject
    return [
        ("queries", f"{report.queries:,}"),
        ("documents", f"{subject.documents:,}"),
        ("bits", str(subject.n_bits)),
        (
            "distinct codes",
            "–" if subject.distinct_codes is None else f"{subject.distinct_codes:,}",
        ),
        ("relevant", report.relevance),
        ("encoder", subject.encoder or "none: documents come with codes"),
        ("fingerprint", (subject.fingerprint or "")[:16]),
        ("generation", "" if subject.generation is None else f"{subject.generation:,}"),
    ]


def _use_page_colours(plot: str) -> str:
    for colour, name in _COLOURS.items():
        plot = plot.replace(colour, f"var(--{name})")
    return plot


def _load_jinja() -> tuple[Any, Any]:
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - an extra
        from markupsafe import Markup  # noqa: PLC0415 - jinja2's
    except ModuleNotFoundError as error:
        message = f"HTML reports need jinja2: {install_command('report')}"
        raise PlotError(message) from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment, Markup
