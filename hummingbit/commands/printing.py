"""Prints results for people, and with ``--json`` for programs."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hummingbit.commands.options import write_text
from hummingbit.evaluation.baselines import classifier_warnings
from hummingbit.evaluation.metrics import dialects
from hummingbit.evaluation.report import (
    MetricFigures,
    Report,
    WeightFigures,
    ceilings,
    format_interval,
    format_probability,
    full_name,
    places_of,
    reasons_of,
)
from hummingbit.evaluation.result import Evaluation
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import end_stage
from hummingbit.index.facets import FacetResult
from hummingbit.index.search import with_warnings
from hummingbit.training.pipeline import Trained

# ----------------------------------------------------------------------------
# Control characters in what a command prints.


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    r"""Return `text` with escapes such as ``\x1b`` and ``\n`` in place of control characters.

    So an id or a text cannot end a line, move the cursor or colour the terminal.
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


# ----------------------------------------------------------------------------
# ``--json``: the result of a command as JSON, and nothing else on standard output.


def add_json(parser: argparse.ArgumentParser, output: str = "the result as JSON") -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help=f"print {output}, and nothing else on standard output"
    )


def add_json_or_former_file(parser: argparse.ArgumentParser, *, names: str | None = None) -> None:
    """Add ``--json``, which in the previous release took a FILE to write.

    `names` is the positional argument, if there is one, that could be mistaken for the FILE.
    """
    parser.add_argument(
        "--json",
        action=_JsonOrFormerFile,
        names=names,
        nargs="?",
        const=True,
        default=False,
        metavar="FILE",
        help="print the result as JSON, and nothing else on standard output; with FILE, as in the"
        " previous release, write it there",
    )


class _JsonOrFormerFile(argparse.Action):
    """Sets True, or the Path of a FILE with a warning."""

    def __init__(self, *args: Any, names: str | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._names = names

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Set the option; refuse a value that may be a name, so as to overwrite no such file."""
        if values is True:
            namespace.json = True
            return
        names_may_follow = self._names is not None and getattr(namespace, self._names) is None
        if names_may_follow and not values.endswith(".json"):
            parser.error(f"{option_string}: takes no value; put it after the names")
        print(f"{option_string} FILE is now {option_string} > FILE; use that", file=sys.stderr)
        namespace.json = Path(values)


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(result, indent=2, ensure_ascii=False), flush=True)


def print_or_write_json(args: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Print one JSON object, or write it to the FILE of :func:`add_json_or_former_file`.

    Raises:
        OptionError: if it cannot be written.
    """
    if args.json is True:
        print_json(result)
    else:
        write_text(args.json, json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def print_result(
    args: argparse.Namespace,
    result: Mapping[str, Any],
    lines: str | Iterable[str],
    warnings: Sequence[str] = (),
) -> None:
    """Print `result` as JSON with ``--json``, and otherwise `lines`, for people to read.

    The `warnings` are a field of the JSON, or else lines on standard error.
    """
    if args.json:
        print_json(with_warnings(result, warnings))
        return
    for line in [lines] if isinstance(lines, str) else lines:
        print(line)
    print_warnings(warnings)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print a warning a line on standard error."""
    for warning in warnings:
        print(warning, file=sys.stderr)


# ----------------------------------------------------------------------------
# Prints figures for people to read.


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
    for method, evaluation in evaluations.items():
        cells = "".join(
            f"{evaluation.metrics[name]:>{widths[name]}.3f} {evaluation.expected[name]:>13.3f}"
            for name in names
        )
        codes = "–" if evaluation.distinct_codes is None else f"{evaluation.distinct_codes:,}"
        print(f"{method:<{width}}{cells}{codes:>16}")
    for sentence in dialects(names):
        print(sentence)


def print_trained(out: Path, trained: Trained) -> None:
    """Print where an encoder was written and how it did on the documents held out."""
    encoder, figures = trained.encoder, trained.validation
    print(f"{out}: {encoder.n_bits} bits, fingerprint {encoder.fingerprint}")
    for warning in trained.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if encoder.hybrid_weight is not None:
        print(f"weight of codes beside words: {encoder.hybrid_weight:g}")
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
    if report.warning is not None:
        print(report.warning)
    queries = counted(report.queries, "query", "queries")
    unlabelled = "" if subject.unlabelled is None else f" ({subject.unlabelled:,} without a label)"
    print(f"{queries}, {counted(subject.documents, 'document')}{unlabelled}")
    for note in report.notes:
        print(note)
    served = f"searches rank by {subject.ranking}"
    if subject.codes_weight is not None:
        served += f"; weight of codes in hybrid: {subject.codes_weight:g}"
    if subject.distinct_codes is not None:
        codes = counted(subject.distinct_codes, "distinct code")
        print(f"{subject.n_bits} bits, {codes}; {served}")
    names = [f"{metric.name}, {metric.ranking}" for metric in report.metrics]
    baseline = [
        f"{metric.name}, classifier baseline" for metric in report.classifier_baseline or []
    ]
    title = f"{report.confidence:.0%} interval"
    width = max(22, *(len(name) + 1 for name in [*names, *baseline]))
    print(f"{'':<{width}}{'as served':>10}{title:>17}{'tie-averaged':>14}{'worst':>8}{'best':>8}")
    metrics = [*report.metrics, *(report.classifier_baseline or [])]
    for name, metric in zip([*names, *baseline], metrics, strict=True):
        _print_metric(name, metric, width)
    for sentence in [*ceilings(report), *dialects(metric.name for metric in report.metrics)]:
        print(sentence)
    if report.codes_weights is not None:
        _print_weights(report.codes_weights)
    for change in report.changes or []:
        difference = f"{change.baseline:.4f} in the baseline, {change.difference:+.4f}"
        interval = format_interval(change.interval)
        p_value = format_probability(change.adjusted)
        print(f"{full_name(change.metric)}: {difference} ({interval}), {p_value} after Holm")


def _print_weights(curve: Sequence[WeightFigures]) -> None:
    names = list(curve[0].metrics)
    print("hybrid by the weight of codes, as served:")
    print(f"{'weight':>8}" + "".join(f"{name:>{max(10, len(name) + 2)}}" for name in names))
    for one in curve:
        cells = (f"{one.metrics[name]:>{max(10, len(name) + 2)}.4f}" for name in names)
        print(f"{one.codes_weight:>8g}" + "".join(cells))


def print_worst_queries(report: Report) -> None:
    """Print the worst queries, and why their right answers are where they are."""
    print(f"\nThe worst queries by {full_name(report.primary.measure)}:")
    for query in report.worst_queries:
        print(f"\n{query.value:.3f} {query.id}: {without_controls(query.text)}")
        for hit in query.hits[:1]:
            verdict = "relevant" if hit.relevant else "not relevant"
            print(f"  first hit, {verdict}: {hit.id}: {without_controls(hit.text)}")
        if not query.answers:
            print("  no document is relevant")
        for number, answer in enumerate(query.answers, 1):
            of = f"right answer {number} of {query.relevant:,}"
            print(f"  {of}: {answer.id}: {without_controls(answer.text)}")
            print("    " + "; ".join(places_of(answer)))
            print("    " + "; ".join(reasons_of(answer, report.subject.n_bits)))


def _print_metric(name: str, one: MetricFigures, width: int) -> None:
    interval = "" if one.interval is None else f"{one.interval[0]:.3f} – {one.interval[1]:.3f}"
    ends = "".join("" if end is None else f"{end:>8.3f}" for end in (one.worst, one.best))
    print(f"{name:<{width}}{one.served:>10.3f}{interval:>17}{one.expected:>14.3f}{ends}")


def print_facets(facets: Iterable[FacetResult]) -> None:
    """Print how many documents have each value of a field, or are in each interval."""
    for one in facets:
        counts = f"{one.documents:,} with a value, {one.missing:,} without"
        print(without_controls(f"{one.field}: {counts}"))
        for bucket in one.buckets:
            value = bucket.get("value", bucket.get("from"))
            text = value if isinstance(value, str) else json.dumps(value)
            print(without_controls(f"{bucket['count']:>10,}  {text}"))
