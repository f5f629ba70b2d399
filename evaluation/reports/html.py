"""A report as one HTML page that needs nothing else: no network, no script, no other file.

``page.html.j2`` is the page; jinja2 and matplotlib, the extra ``report``, are imported where a page
is written. The page follows the reader's choice of light or dark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.metrics.metric_names import dialects
from evaluation.reports.metric_table import format_share, metric_rows
from evaluation.reports.plots import ACCENT, INK, LINE, MUTED, SECOND, PlotError, draw_plots
from evaluation.reports.report import Report

SHOWN_CLASSES = 100

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
        "Pairs of query and document by Hamming distance, each kind adding up to 1.",
    ),
    "buckets": (
        "Bucket occupancy",
        "How many documents share their code; above each bar, the number of codes.",
    ),
    "bits": (
        "Bit balance",
        "The share of documents in which each bit is 1; a bit near 0 or 1 tells little.",
    ),
}

# The colours of plots as the page's own, which change with light and dark.
_COLOURS = {ACCENT: "accent", SECOND: "second", MUTED: "muted", INK: "ink", LINE: "line"}


def to_html(report: Report, baseline: Report | None = None) -> str:
    """Write a report as a page; the curves of `baseline` are drawn behind its own.

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
    names = [one.name for one in report.metrics]
    classes = sorted(report.classes, key=lambda one: one.expected[names[0]])
    page: str = template.render(
        report=report,
        facts=_facts(report),
        metric_heads=heads,
        metric_rows=rows,
        dialects=dialects(names),
        plots=[
            (name, title, caption, markup(_in_page_colours(plots[name])))
            for name, (title, caption) in PLOTS.items()
        ],
        class_heads=["class", "queries", "documents", *names],
        first_metric=names[0],
        classes=[
            (
                one.label,
                [
                    f"{one.queries:,}",
                    f"{one.documents:,}",
                    *(format_share(one.expected[name]) for name in names),
                ],
                f"{100 * max(0.0, min(1.0, one.expected[names[0]])):.1f}",
            )
            for one in classes[:SHOWN_CLASSES]
        ],
        more_classes=len(classes) - SHOWN_CLASSES,
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
        ("encoder", subject.encoder or "none: documents bring their codes"),
        ("fingerprint", (subject.fingerprint or "")[:16]),
        ("generation", "" if subject.generation is None else f"{subject.generation:,}"),
    ]


def _in_page_colours(plot: str) -> str:
    for colour, name in _COLOURS.items():
        plot = plot.replace(colour, f"var(--{name})")
    return plot


def _load_jinja() -> tuple[Any, Any]:
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - an extra
        from markupsafe import Markup  # noqa: PLC0415 - jinja2's
    except ModuleNotFoundError as error:
        message = "HTML reports need jinja2: pip install 'hummingbit[report]'"
        raise PlotError(message) from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment, Markup
