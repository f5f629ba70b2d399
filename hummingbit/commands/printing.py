"""Prints figures for people to read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from evaluation.classifier_baseline import classifier_warnings
from evaluation.metrics.metric_names import dialects
from evaluation.reports.metric_table import format_interval, format_probability
from evaluation.reports.report import MetricFigures, Report
from evaluation.result import Evaluation
from foundation.errors import counted
from foundation.stages import end_stage
from training.pipeline import Trained


@contextmanager
def timed_stage(title: str) -> Iterator[None]:
    """Print the title of a stage and, at its end, the seconds that it took."""
    print(f"{title} …", flush=True)
    began = time.perf_counter()
    yield
    end_stage()
    print(f"  {time.perf_counter() - began:.1f} s", flush=True)


def print_figures(evaluations: Mapping[str, Evaluation]) -> None:
    """Print a line for each method: every metric as served and, after it, tie-averaged.

    The two are equal where no two documents have the same distance, as with real-valued scores.
    """
    names = list(next(iter(evaluations.values())).metrics)
    width = max(len("method"), *map(len, evaluations))
    widths = {name: max(10, len(name) + 2) for name in names}
    header = "".join(f"{name:>{widths[name]}} {'tie-averaged':>13}" for name in names)
    print(f"{'method':<{width}}{header}{'distinct codes':>16}")
    for method, one in evaluations.items():
        cells = "".join(
            f"{one.metrics[name]:>{widths[name]}.3f} {one.expected[name]:>13.3f}" for name in names
        )
        codes = "–" if one.distinct_codes is None else f"{one.distinct_codes:,}"
        print(f"{method:<{width}}{cells}{codes:>16}")
    for sentence in dialects(names):
        print(sentence)


def print_trained(out: Path, trained: Trained) -> None:
    """Print where an encoder was written and how it did on the documents held out."""
    encoder, figures = trained.encoder, trained.validation
    print(f"{out}: {encoder.n_bits} bits, fingerprint {encoder.fingerprint}")
    for warning in trained.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if not figures:
        print(
            "no labelled documents were held out to evaluate it; in a collection built with it,"
            " `hummingbit evaluate NAME --nearest 10 --queries SOURCE` measures how many of the"
            " nearest documents its codes find"
        )
        return
    shown = counted(len(trained.labelled_ids), "label")
    print(f"{shown} shown; {counted(figures['queries'], 'document')} held out:")
    baseline = figures["classifier_baseline"]
    for title, part in (("codes", figures), ("classifier baseline", baseline)):
        if part:
            metrics = "  ".join(f"{name} {value:.3f}" for name, value in part["expected"].items())
            print(f"  {title:<20} {metrics}  {counted(part['distinct_codes'], 'distinct code')}")
    of_baseline = baseline and baseline["expected"]
    for sentence in classifier_warnings(figures["expected"], of_baseline, encoder):
        print(sentence)


def print_report(report: Report) -> None:
    """Print what was evaluated, notes, a line for each metric, and changes from the baseline."""
    subject = report.subject
    queries = counted(report.queries, "query", "queries")
    print(f"{queries}, {counted(subject.documents, 'document')}")
    for note in report.notes:
        print(note)
    if subject.distinct_codes is not None:
        codes = counted(subject.distinct_codes, "distinct code")
        print(f"{subject.n_bits} bits, {codes}; ranking: hamming")
    title = f"{report.confidence:.0%} interval"
    width = max(22, *(len(f"{one.name}, classifier baseline ") for one in report.metrics))
    print(f"{'':<{width}}{'as served':>10}{title:>17}{'tie-averaged':>14}{'worst':>8}{'best':>8}")
    for one in report.metrics:
        _print_metric(one.name, one, width)
    for one in report.classifier_baseline or []:
        _print_metric(f"{one.name}, classifier baseline", one, width)
    for sentence in dialects(one.name for one in report.metrics):
        print(sentence)
    for change in report.changes or []:
        difference = f"{change.baseline:.4f} in the baseline, {change.difference:+.4f}"
        interval = format_interval(change.interval)
        p_value = format_probability(change.adjusted)
        print(f"{change.metric}: {difference} ({interval}), {p_value} after Holm")


def _print_metric(name: str, one: MetricFigures, width: int) -> None:
    interval = "" if one.interval is None else f"{one.interval[0]:.3f} – {one.interval[1]:.3f}"
    ends = "".join("" if end is None else f"{end:>8.3f}" for end in (one.worst, one.best))
    print(f"{name:<{width}}{one.served:>10.3f}{interval:>17}{one.expected:>14.3f}{ends}")
