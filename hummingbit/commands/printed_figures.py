"""Prints the figures of evaluations, and those of training, for people to read."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hummingbit.commands.printing import without_controls
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.errors import counted

with deferred_imports():
    from hummingbit.encoder.artifact import WORD_BITS
    from hummingbit.encoder.encoder import Encoder
    from hummingbit.encoder.text_features import TextFeatures
    from hummingbit.evaluation.baselines import (
        BM25,
        SOFT_CLASS_SCORES,
        VECTORS,
        classifier_warnings,
    )
    from hummingbit.evaluation.metrics import dialects
    from hummingbit.evaluation.report import (
        MetricFigures,
        Report,
        WeightFigures,
        ceilings,
        coherence_sentence,
        format_interval,
        full_name,
        places_of,
        reasons_of,
    )
    from hummingbit.evaluation.result import Evaluation
    from hummingbit.evaluation.significance import format_probability
    from hummingbit.training.pipeline import Trained


def print_figures(evaluations: Mapping[str, Evaluation]) -> None:
    """Print a line for each method: every metric as served and, after it, tie-averaged.

    The two are equal where no two documents have the same distance, as with real-valued scores.
    Warnings and notes stand above; those that all methods share are printed once.
    """
    print_sentences({name: evaluation.warning for name, evaluation in evaluations.items()})
    for notes in itertools.zip_longest(*(evaluation.notes for evaluation in evaluations.values())):
        print_sentences(dict(zip(evaluations, notes, strict=True)))
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


def print_sentences(sentences: Mapping[str, str | None]) -> None:
    """Print what is said of each method, after its name; what is said of all, once."""
    said = {name: sentence for name, sentence in sentences.items() if sentence is not None}
    if len(set(said.values())) == 1 and len(said) == len(sentences):
        print(next(iter(said.values())))
        return
    for name, sentence in said.items():
        print(f"{name}: {sentence}")


def print_lines(*lines: str) -> None:
    """Print each of the lines."""
    for line in lines:
        print(line)


def print_vocabulary(encoder: Encoder) -> None:
    """Print how many words the codes of texts know, and how many bits tell which a text has."""
    if encoder.words is not None:
        known = counted(encoder.words.dimension, "term")
        print(f"classes know {known} beside the model", file=sys.stderr)
    if not isinstance(encoder.features, TextFeatures):
        return
    line = f"codes know {counted(encoder.features.dimension, 'term')}"
    n_word_bits = encoder.metadata.get(WORD_BITS)
    if n_word_bits:
        about = f"{encoder.n_bits - n_word_bits} tell what it is about"
        line += f"; {n_word_bits} bits tell which of them a text has, and {about}"
    print(line, file=sys.stderr)


def print_trained(out: Path, trained: Trained) -> None:
    """Print where an encoder was written and how it did on the documents held out."""
    encoder, figures = trained.encoder, trained.validation
    print(f"{out}: {encoder.n_bits} bits, fingerprint {encoder.fingerprint}")
    for warning in trained.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print_vocabulary(encoder)
    weight = encoder.hybrid_weight
    chosen = () if weight is None else (f"weight of codes beside words: {weight:g}",)
    print_lines(*trained.notes, *chosen)
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
    parts = (
        ("codes", figures),
        ("classifier baseline", baseline),
        (SOFT_CLASS_SCORES, figures.get("soft_class_scores")),
        (BM25, figures.get(BM25)),
        (VECTORS, figures.get(VECTORS)),
    )
    for title, part in parts:
        if part:
            metrics = "  ".join(f"{name} {value:.3f}" for name, value in part["expected"].items())
            n_codes, n_queries = part["distinct_codes"], part["queries"]
            ending = "" if n_codes is None else f"  {counted(n_codes, 'distinct code')}"
            if n_queries != figures["queries"]:
                ending += f"  of {n_queries:,} of them"
            print(f"  {title:<20} {metrics}{ending}")
    for sentence in figures["comparison"]:
        print(sentence)
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
        *(f"{metric.name}, classifier baseline" for metric in report.classifier_baseline or []),
        *(f"{metric.name}, {metric.ranking}" for metric in report.baselines),
    ]
    title = f"{report.confidence:.0%} interval"
    width = max(22, *(len(name) + 1 for name in [*names, *baseline]))
    print(f"{'':<{width}}{'as served':>10}{title:>17}{'tie-averaged':>14}{'worst':>8}{'best':>8}")
    metrics = [*report.metrics, *(report.classifier_baseline or []), *report.baselines]
    for name, metric in zip([*names, *baseline], metrics, strict=True):
        _print_metric(name, metric, width)
    for sentence in [*ceilings(report), *dialects(metric.name for metric in report.metrics)]:
        print(sentence)
    if report.codes_weights is not None:
        _print_weights(report.codes_weights)
    if report.coherence is not None:
        print(coherence_sentence(report.coherence))
        lowest = ", ".join(
            f"{document.id} {document.level:.3f}" for document in report.coherence.worst[:3]
        )
        print(without_controls(f"The lowest levels: {lowest}"))
    for change in report.changes or []:
        difference = f"{change.baseline:.4f} in the baseline, {change.difference:+.4f}"
        interval = format_interval(change.interval)
        p_value = format_probability(change.adjusted)
        print(f"{full_name(change.metric)}: {difference} ({interval}), {p_value} after Holm")


def _print_weights(curve: Sequence[WeightFigures]) -> None:
    names = list(curve[0].metrics)
    print("hybrid by the weight of codes, as served:")
    print(f"{'weight':>8}" + "".join(f"{name:>{max(10, len(name) + 2)}}" for name in names))
    for point in curve:
        cells = (f"{point.metrics[name]:>{max(10, len(name) + 2)}.4f}" for name in names)
        print(f"{point.codes_weight:>8g}" + "".join(cells))


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


def _print_metric(name: str, figures: MetricFigures, width: int) -> None:
    interval = (
        "" if figures.interval is None else f"{figures.interval[0]:.3f} – {figures.interval[1]:.3f}"
    )
    ends = "".join("" if end is None else f"{end:>8.3f}" for end in (figures.worst, figures.best))
    print(f"{name:<{width}}{figures.served:>10.3f}{interval:>17}{figures.expected:>14.3f}{ends}")
