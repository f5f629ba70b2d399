"""The formats of a report: JSON, JUnit, Markdown, and a self-contained HTML page with plots."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from hummingbit.evaluation.gate import COHERENCE
from hummingbit.evaluation.metrics import dialects
from hummingbit.evaluation.report import (
    INCOHERENT_HEADS,
    Job,
    Report,
    ceilings,
    coherence_sentence,
    format_share,
    full_name,
    incoherent_rows,
    metric_rows,
    places_of,
    reasons_of,
    write_report,
)
from hummingbit.foundation.errors import HummingbitError, counted, install_command

# The plots of a report, each as the text of an SVG element to embed in a page.
#
# matplotlib, the extra ``report``, is imported where it is used. Figures are drawn without pyplot,
# whose state is global to the process, and one at a time, since the settings are global too.


ACCENT, SECOND, MUTED, INK, LINE = "#3454d1", "#e07a3f", "#a3abbd", "#2b3244", "#e6e9f0"

SIZES = {"bits": (11.6, 2.8)}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text, set in the page's own font
    "svg.hashsalt": "hummingbit",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}

_drawing = threading.Lock()


class PlotError(HummingbitError, RuntimeError):
    """matplotlib or jinja2 is not installed; the message says how to install it."""


def draw_plots(report: Report, baseline: Report | None = None) -> dict[str, str]:
    """Return the plots of `report` by name, each the text of an ``<svg>`` element.

    The curves of `baseline`, if there is one, are drawn behind those of `report`.

    Raises:
        PlotError: if matplotlib is not installed.
    """
    figure_class = load_figure()
    plots: Mapping[str, Callable[[Any], None]] = {
        "precision-recall": lambda axes: _precision_recall(axes, report, baseline),
        "precision-at-k": lambda axes: _precision_at_k(axes, report, baseline),
        "distances": lambda axes: _distances(axes, report),
        "buckets": lambda axes: _buckets(axes, report),
        "bits": lambda axes: _bits(axes, report),
    }
    return {name: draw(figure_class, name, plot) for name, plot in plots.items()}


def draw_label_curve(labels: list[int], lines: Mapping[str, list[float]], metric: str) -> str:
    """Return a plot of a metric against the number of labels, one line for each method.

    Raises:
        PlotError: if matplotlib is not installed.
    """

    def plot(axes: Any) -> None:
        for (title, values), colour in zip(lines.items(), (ACCENT, SECOND, MUTED), strict=False):
            axes.plot(labels, values, color=colour, marker="o", label=title)
        axes.set_xscale("log")
        axes.set_xticks(labels, [f"{n:,}" for n in labels])
        axes.minorticks_off()
        axes.set(xlabel="labels", ylabel=f"{metric}, tie-averaged", ylim=(0, 1.02))
        axes.legend(loc="lower right")

    return draw(load_figure(), "labels", plot)


def draw(figure_class: Any, name: str, plot: Callable[[Any], None]) -> str:
    """Draw one plot and return its ``<svg>`` element, whose ids begin with `name`."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    with _drawing, mpl.rc_context(STYLE):
        figure = figure_class(figsize=SIZES.get(name, (5.6, 3.4)), layout="constrained")
        plot(figure.add_subplot())
        output = io.StringIO()
        figure.savefig(output, format="svg", transparent=True, metadata={"Date": None})
    element = output.getvalue()
    element = element[element.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    # A page holds several plots, and its ids must be unique.
    return re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", element)


def load_figure() -> Any:
    """Return matplotlib's class of figures.

    Raises:
        PlotError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise PlotError(f"plots need matplotlib: {install_command('report')}") from error
    return Figure


def _precision_recall(axes: Any, report: Report, baseline: Report | None) -> None:
    if baseline is not None:
        recall, precision = _within_radius(baseline)
        axes.plot(recall, precision, color=MUTED, linestyle="--", label="baseline")
    recall, precision = _within_radius(report)
    axes.plot(recall, precision, color=ACCENT, marker="o", markersize=3.5, label="this run")
    annotated: list[tuple[float, float]] = []
    for radius, point in enumerate(zip(recall.tolist(), precision.tolist(), strict=True)):
        # A radius is annotated only if there is room for it.
        if all(np.hypot(point[0] - x, point[1] - y) > 0.09 for x, y in annotated):
            axes.annotate(str(radius), point, (4, 4), textcoords="offset points", fontsize=8)
            annotated.append(point)
    axes.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.05), ylim=(0, 1.08))
    if baseline is not None:
        axes.legend(loc="best")


def _within_radius(report: Report) -> tuple[Any, Any]:
    """Return recall and precision of all pairs within each radius, both float64[radii]."""
    relevant = np.cumsum(report.shape.relevant, dtype=np.float64)
    others = np.cumsum(report.shape.others, dtype=np.float64)
    is_filled = (relevant + others) > 0
    recall = relevant[is_filled] / max(relevant[-1], 1)
    return recall, relevant[is_filled] / (relevant + others)[is_filled]


def _precision_at_k(axes: Any, report: Report, baseline: Report | None) -> None:
    curve = report.shape.precision
    axes.fill_between(
        curve.k, curve.worst, curve.best, color=ACCENT, alpha=0.15, linewidth=0,
        label="worst to best order of ties",
    )  # fmt: skip
    if baseline is not None:
        before = baseline.shape.precision
        axes.plot(
            before.k, before.expected, color=MUTED, linestyle="--", label="baseline, tie-averaged"
        )
    axes.plot(curve.k, curve.expected, color=ACCENT, label="tie-averaged")
    axes.plot(curve.k, curve.served, color=SECOND, linestyle=":", linewidth=2, label="as served")
    axes.set_xscale("log")
    ticks = [k for k in (1, 10, 100, 1000, 10_000) if k <= curve.k[-1]]
    axes.set_xticks(ticks, [f"{k:,}" for k in ticks])
    axes.minorticks_off()
    axes.set(xlabel="k", ylabel="P@k", ylim=(0, 1.05))
    axes.legend(loc="best", fontsize=8.5)


def _distances(axes: Any, report: Report) -> None:
    for counts, colour, title in (
        (report.shape.others, MUTED, "not relevant"),
        (report.shape.relevant, ACCENT, "relevant"),
    ):
        shares = np.asarray(counts, dtype=np.float64) / max(sum(counts), 1)
        edges = np.arange(len(counts) + 1) - 0.5
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.55, label=title)
    axes.set(xlabel="Hamming distance", ylabel="share of the pairs")
    axes.legend(loc="upper right")


def _buckets(axes: Any, report: Report) -> None:
    buckets = report.shape.buckets
    total = max(sum(bucket.documents for bucket in buckets), 1)
    names = [
        f"{bucket.smallest:,}"
        if bucket.smallest == bucket.largest
        else f"{bucket.smallest:,}–{bucket.largest:,}"
        for bucket in buckets
    ]
    shares = [bucket.documents / total for bucket in buckets]
    positions = np.arange(len(buckets))
    bars = axes.bar(positions, shares, color=ACCENT, alpha=0.75)
    axes.bar_label(bars, [f"{bucket.codes:,}" for bucket in buckets], fontsize=8, padding=2)
    axes.set_xticks(positions, names, rotation=30 if len(buckets) > 5 else 0, fontsize=8.5)
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.12)
    axes.set(xlabel="documents that share a code", ylabel="share of the documents")


def _bits(axes: Any, report: Report) -> None:
    balance = np.asarray(report.shape.bit_balance)
    axes.bar(
        np.arange(len(balance)), balance - 0.5, bottom=0.5, width=0.85, color=ACCENT, alpha=0.75
    )
    axes.axhline(0.5, color=INK, linewidth=0.8)
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="bit", ylabel="share of documents with a 1", ylim=(0, 1))


# A report as one self-contained HTML page: no network, no script, no other file.
#
# ``page.html.j2`` is the template. jinja2 and matplotlib, the extra ``report``, are imported when a
# page is written. The page is light or dark, as the reader's system is set.


MAX_HTML_CLASSES = 100

PLOTS = {
    "precision-recall": (
        "Precision and recall",
        "All pairs of query and document within a Hamming radius; the numbers are radii.",
    ),
    "precision-at-k": (
        "Precision at k",
        "By Hamming distance, mean over the queries. The band reaches from the worst to the best"
        " order of ties.",
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
    environment.filters["full_name"] = full_name
    template = environment.from_string(
        Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    )
    heads, rows = metric_rows(report)
    names = [metric.measure for metric in report.metrics]
    first = report.primary.measure
    classes = sorted(report.classes, key=lambda figures: figures.expected[first])
    page: str = template.render(
        report=report,
        facts=_facts(report),
        metric_heads=heads,
        metric_rows=rows,
        dialects=[*ceilings(report), *dialects(metric.name for metric in report.metrics)],
        plots=[
            (name, title, caption, markup(_use_page_colours(plots[name])))
            for name, (title, caption) in PLOTS.items()
        ],
        class_heads=["class", "queries", "documents", *names],
        first_metric=full_name(first),
        ranking=report.primary.ranking,
        has_labels=any(hit.labels for query in report.worst_queries for hit in query.hits),
        classes=[
            (
                figures.label,
                [
                    f"{figures.queries:,}",
                    f"{figures.documents:,}",
                    *(format_share(figures.expected[name]) for name in names),
                ],
                f"{100 * max(0.0, min(1.0, figures.expected[first])):.1f}",
            )
            for figures in classes[:MAX_HTML_CLASSES]
        ],
        more_classes=len(classes) - MAX_HTML_CLASSES,
        coherence=None if report.coherence is None else coherence_sentence(report.coherence),
        incoherent_heads=INCOHERENT_HEADS,
        incoherent_rows=[] if report.coherence is None else incoherent_rows(report.coherence),
    )
    return page


def _facts(report: Report) -> list[tuple[str, str]]:
    subject = report.subject
    return [
        ("queries", f"{report.queries:,}"),
        ("documents", f"{subject.documents:,}"),
        ("bits", str(subject.n_bits)),
        ("distinct codes", _count(subject.distinct_codes)),
        ("without a label", _count(subject.unlabelled)),
        ("searches rank by", subject.ranking),
        ("weight of codes", "" if subject.codes_weight is None else f"{subject.codes_weight:g}"),
        ("relevant", report.relevance),
        ("encoder", subject.encoder or "none: documents come with codes"),
        ("fingerprint", (subject.fingerprint or "")[:16]),
        ("generation", _count(subject.generation)),
    ]


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _use_page_colours(plot: str) -> str:
    for colour, name in _COLOURS.items():
        plot = plot.replace(colour, f"var(--{name})")
    return plot


def _load_jinja() -> tuple[Any, Any]:
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - an extra
        from markupsafe import Markup  # noqa: PLC0415 - jinja2's
    except ModuleNotFoundError as error:
        raise PlotError(f"HTML reports need jinja2: {install_command('report')}") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment, Markup


# A report as JUnit XML, which CI systems display: a test case for each metric of the gate.


_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """Return a test suite with a test case for each measure that has a rule in the gate.

    A failed condition is a failure of its metric's test case. The other results of the gate,
    including warnings, are its output. Without a gate, every metric has a test case that passes,
    and so has the coherence level, if it was measured. The properties of a test case are the
    figures.
    """
    suite = ET.Element("testsuite", name=_clean(f"evaluation of {report.subject.name}"))
    gate = report.gate or []
    names = dict.fromkeys(result.metric for result in gate) or [
        *(metric.measure for metric in report.metrics),
        *([] if report.coherence is None else [COHERENCE]),
    ]
    for name in names:
        case = _case(suite, report, name)
        output = []
        for result in gate:
            if result.metric != name:
                continue
            if result.status == "failed":
                message = _clean(result.sentence)
                ET.SubElement(case, "failure", message=message, type=result.condition)
            else:
                output.append(f"{result.status}: {result.sentence}")
        if output:
            ET.SubElement(case, "system-out").text = _clean("\n".join(output))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in suite)))
    suite.set("errors", "0")
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    warning = "" if report.warning is None else f" <!-- {report.warning} -->"
    return f'<?xml version="1.0" encoding="utf-8"?>{warning}\n{text}\n'


def _case(suite: ET.Element, report: Report, measure: str) -> ET.Element:
    ranking = full_name(measure).rpartition(" ")[0]
    classname = f"hummingbit.evaluate.{ranking}"
    case = ET.SubElement(suite, "testcase", classname=_clean(classname), name=_clean(measure))
    figures, levels = report.metric(measure), report.coherence
    if measure == COHERENCE and levels is not None:
        properties = ET.SubElement(case, "properties")
        of_levels = levels.level, *levels.interval
        for kind, value in zip(("level", "low", "high"), of_levels, strict=True):
            ET.SubElement(properties, "property", name=kind, value=repr(value))
    if figures is not None:
        properties = ET.SubElement(case, "properties")
        ET.SubElement(properties, "property", name="ranking", value=ranking)
        for kind in ("served", "expected", "worst", "best"):
            value = getattr(figures, kind)
            if value is not None:
                ET.SubElement(properties, "property", name=kind, value=repr(value))
    return case


def _clean(text: str) -> str:
    """Replace the characters that XML cannot represent."""
    return _NOT_XML.sub("\ufffd", text)


# A report as Markdown, short enough for a comment on a pull request.


MAX_MARKDOWN_CLASSES = 10
MARKS = {"passed": "✅", "failed": "❌", "warned": "⚠️"}


def to_markdown(report: Report) -> str:
    """Return the metrics, the gate, the notes and the hardest classes of a report."""
    parts = [
        *(_title(report), _metrics(report), _weights(report), _gate(report), _notes(report)),
        *(_classes(report), _coherence(report), _worst(report)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(report: Report) -> str:
    subject = report.subject
    verdict = ""
    if report.gate is not None:
        verdict = MARKS["passed" if report.passed else "failed"] + " "
    source = "codes that came with the documents"
    if subject.encoder is not None:
        source = f"encoder {_code(subject.encoder)} `{(subject.fingerprint or '')[:12]}`"
    queries = counted(report.queries, "query", "queries")
    served = f"searches rank by {subject.ranking}"
    if subject.codes_weight is not None:
        served += f", weight of codes {subject.codes_weight:g}"
    unlabelled = "" if subject.unlabelled is None else f" ({subject.unlabelled:,} without a label)"
    warning = "" if report.warning is None else f"**{_cell(report.warning)}**\n\n"
    return (
        f"{warning}### {verdict}Retrieval evaluation of {_code(subject.name)}\n\n"
        f"{queries}, {counted(subject.documents, 'document')}{unlabelled}, {subject.n_bits} bits, "
        f"{source}; relevant: {_cell(report.relevance)}; {served}."
    )


def _metrics(report: Report) -> str:
    head, rows = metric_rows(report)
    table = _table(head, [[row.name, *row.cells] for row in rows])
    names = dialects(metric.name for metric in report.metrics)
    return "\n\n".join([table, *ceilings(report), *names])


def _gate(report: Report) -> str:
    if not report.gate:
        return ""
    rows = [
        [
            f"{MARKS[result.status]} {result.status}",
            full_name(result.metric),
            result.condition,
            _cell(result.sentence),
        ]
        for result in report.gate
    ]
    return _table(["gate", "metric", "condition", "result"], rows, numbers=False)


def _weights(report: Report) -> str:
    if report.codes_weights is None:
        return ""
    names = list(report.codes_weights[0].metrics)
    rows = [
        [f"{weight.codes_weight:g}", *(format_share(weight.metrics[name]) for name in names)]
        for weight in report.codes_weights
    ]
    return _table(["hybrid, weight of codes", *names], rows)


def _worst(report: Report) -> str:
    rows = [
        [
            format_share(query.value),
            _cell(f"{query.id}: {query.text}"),
            _cell(f"{answer.id}: {answer.text}"),
            _cell("; ".join(places_of(answer))),
            _cell("; ".join(reasons_of(answer, report.subject.n_bits))),
        ]
        for query in report.worst_queries
        for answer in query.answers
    ]
    if not rows:
        return ""
    heads = [full_name(report.primary.measure), "query", "right answer", "rank (score)", "why"]
    return f"#### Worst queries\n\n{_table(heads, rows, numbers=False)}"


def _coherence(report: Report) -> str:
    if report.coherence is None:
        return ""
    rows = [[_cell(cell) for cell in row] for row in incoherent_rows(report.coherence)]
    table = _table(INCOHERENT_HEADS, rows, numbers=False)
    title = "#### Where codes do not rank as vectors do"
    return f"{title}\n\n{_cell(coherence_sentence(report.coherence))}\n\n{table}"


def _notes(report: Report) -> str:
    return "\n".join(f"- {_cell(note)}" for note in report.notes)


def _classes(report: Report) -> str:
    name = report.primary.measure
    hardest = sorted(report.classes, key=lambda figures: figures.expected[name])[
        :MAX_MARKDOWN_CLASSES
    ]
    rows = [
        [
            _cell(figures.label),
            f"{figures.queries:,}",
            f"{figures.documents:,}",
            format_share(figures.expected[name]),
        ]
        for figures in hardest
    ]
    if not rows:
        return ""
    title = f"<details><summary>The {len(rows)} hardest classes, tie-averaged</summary>"
    head = ["class", "queries", "documents", full_name(name)]
    return f"{title}\n\n{_table(head, rows)}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    rule = "---:" if numbers else "---"
    lines = [head, ["---"] + [rule] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Return untrusted text on one line, with Markdown's special characters escaped."""
    escaped = " ".join(text.split())
    for mark in "\\`*_[]<>|#@":
        escaped = escaped.replace(mark, _ENTITIES.get(mark, f"\\{mark}"))
    return escaped


_ENTITIES = {"<": "&lt;", ">": "&gt;", "@": "&#64;"}


def _code(name: str) -> str:
    return "`" + name.replace("`", "'").replace("|", "¦") + "`"


# The formats of a report by name, and a folder with all of them.


@dataclass(frozen=True, slots=True)
class Format:
    """A format of a finished job: its file name, media type and writer."""

    file: str
    media_type: str
    write: Callable[[Job, Report | None], str | None]
    """Called with a job and the report of a baseline. Returns None if the job lacks the format."""


FORMATS: Mapping[str, Format] = {
    "json": Format("report.json", "application/json", lambda job, _: write_report(job.report)),
    "markdown": Format("report.md", "text/markdown", lambda job, _: to_markdown(job.report)),
    "junit": Format("junit.xml", "application/xml", lambda job, _: to_junit(job.report)),
    "trec": Format("run.trec", "text/plain", lambda job, _: None if job.run is None else job.run()),
    "html": Format("index.html", "text/html", lambda job, baseline: to_html(job.report, baseline)),
}


def missing_for_html() -> str:
    """Return what a page of HTML needs and how to install it, or nothing if all is there."""
    names = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    return f"it needs {' and '.join(names)}: {install_command('report')}" if names else ""


def write_folder(job: Job, folder: Path, baseline: Report | None = None) -> None:
    """Write a job to `folder` in every format. Creates the folder, and replaces existing files.

    Raises:
        PlotError: if matplotlib or jinja2 is not installed. All other formats are written before.
        OSError: if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for format_ in FORMATS.values():
        text = format_.write(job, baseline)
        if text is not None:
            (folder / format_.file).write_text(text, encoding="utf-8")
