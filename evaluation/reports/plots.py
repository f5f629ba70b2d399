"""The plots of a report, each as the text of an SVG element to embed in a page.

matplotlib, the extra ``report``, is imported where it is used. Figures are drawn without pyplot,
whose state is global to the process, and one at a time, since the settings are global too.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evaluation.reports.report import Report
from foundation.errors import HummingbitError
from foundation.extras import install_command

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
        message = f"plots need matplotlib: {install_command('report')}"
        raise PlotError(message) from error
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
