"""The job that people put into CI: evaluate a collection and gather all that a report tells.

The command line and the service both run it, so their figures are the same to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from corpus.document import Document
from evaluation.classifier_baseline import (
    ClassifierReference,
    ShownLabels,
    behind_classifier,
    classifier_of_collection,
)
from evaluation.evaluation_input import EvaluationInput, Hits, RelevanceSettings
from evaluation.metrics.metric_names import DEFAULT_METRICS, parse_metrics
from evaluation.reports.diagnostics import (
    bit_balance,
    bucket_occupancy,
    class_figures,
    pairs_by_distance,
    shorten,
    worst_queries,
)
from evaluation.reports.report import (
    MetricFigures,
    PrecisionCurve,
    QueryFigures,
    Report,
    ReportedHit,
    Shape,
    Subject,
    WorstQuery,
)
from evaluation.result import Evaluation, EvaluationError
from evaluation.significance.resampling import bootstrap_intervals
from index.backend import CollectionBackend
from index.data_folder import DataFolder

CURVE_KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
CONFIDENCE = 0.95
WORST_QUERIES = 10
HITS_OF_WORST = 5
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A finished job: the report, and what writes the run in TREC's format.

    `run` is None where an id has white space in it, which that format cannot hold; the report has a
    note of it.
    """

    report: Report
    run: Callable[[], str] | None


def run_job(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    settings: RelevanceSettings | None = None,
    shown: ShownLabels | None = None,
) -> Job:
    """Evaluate `collection` as :func:`evaluation.retrieval.evaluate_collection` does, and report.

    `shown` tells what the collection's encoder was shown; where those are labels and relevance is
    by plain labels, the classifier baseline is measured, too.

    Raises:
        MetricError, EvaluationError, InputError: as `evaluate_collection`.
        EvaluationError: if the collection was written to meanwhile, three times in a row.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    how = settings or RelevanceSettings()
    for _ in range(ATTEMPTS):
        generation = collection.generation
        job = _run(collection, queries, chosen, how, shown)
        # What is read in several steps belongs together if nothing was written in between.
        if collection.generation == generation:
            return job
    message = f"collection {collection.name!a} was written to while it was evaluated; try again"
    raise EvaluationError(message)


def read_shown(folder: DataFolder, collection: CollectionBackend) -> ShownLabels | None:
    """Return what the collection's encoder records of the labels it was shown, None if nothing."""
    name = collection.encoder_name
    ids = [] if name is None else folder.encoders.labelled_ids(name)
    if name is None or not ids:
        return None
    encoders = folder.encoders
    return ShownLabels(ids, ClassifierReference(encoders.load(name), encoders.classifier(name)))


def _run(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: list[str],
    settings: RelevanceSettings,
    shown: ShownLabels | None,
) -> Job:
    generation = collection.generation
    deepest = max(
        [100, *(metric.k or 0 for metric in parse_metrics(metrics) if not metric.needs_codes)]
    )
    curve = {f"P@{k}": k for k in CURVE_KS if k <= deepest}
    data = EvaluationInput(collection, queries, settings)
    found = data.evaluate([*metrics, *curve])
    hits = Hits(data, deepest)
    no_run = hits.trec_problems()
    baseline, behind = None, []
    if shown is not None and settings.is_plain:
        baseline = classifier_of_collection(
            data.documents, shown, queries, metrics, settings.label_field
        )
        behind = behind_classifier(found.expected, baseline.expected, shown.reference.encoder)
    expected = {name: found.expected_per_query[name] for name in metrics}
    report = Report(
        hummingbit=_version(),
        subject=_subject(collection, generation, found),
        relevance=settings.describe(),
        queries=found.queries,
        queries_without_relevant=found.queries_without_relevant,
        confidence=CONFIDENCE,
        metrics=_figures(found, metrics),
        classifier_baseline=None if baseline is None else _figures(baseline, metrics),
        classes=class_figures(data.query_labels, data.labels, expected),
        worst_queries=_worst(data, hits, found, metrics[0]),
        shape=_shape(data, found, curve),
        notes=[*found.notes, *no_run, *behind],
        has_run=not no_run,
        query_ids=[query.id for query in queries],
        per_query={
            name: QueryFigures(
                served=found.per_query[name].tolist(), expected=expected[name].tolist()
            )
            for name in metrics
        },
    )
    return Job(report, hits.run_writer() if report.has_run else None)


def _subject(collection: CollectionBackend, generation: int, found: Evaluation) -> Subject:
    return Subject(
        name=collection.name,
        n_bits=collection.n_bits,
        encoder=collection.encoder_name,
        fingerprint=collection.encoder_fingerprint,
        generation=generation,
        documents=found.documents,
        distinct_codes=found.distinct_codes,
    )


def _figures(found: Evaluation, metrics: list[str]) -> list[MetricFigures]:
    values = {name: found.per_query[name] for name in metrics}
    intervals = bootstrap_intervals(values, level=CONFIDENCE)
    served, expected, best, worst = found.metrics, found.expected, found.best, found.worst
    return [
        MetricFigures(
            name=name,
            served=served[name],
            expected=expected[name],
            best=best[name],
            worst=worst[name],
            interval=(intervals[name].low, intervals[name].high),
        )
        for name in metrics
    ]


def _shape(data: EvaluationInput, found: Evaluation, curve: Mapping[str, int]) -> Shape:
    relevant, others = pairs_by_distance(
        data.codes, data.encoded.codes, data.relevance, data.self_rows
    )
    served, expected, worst, best = found.metrics, found.expected, found.worst, found.best
    return Shape(
        relevant=relevant,
        others=others,
        precision=PrecisionCurve(
            k=list(curve.values()),
            served=[served[name] for name in curve],
            expected=[expected[name] for name in curve],
            worst=[worst[name] for name in curve],
            best=[best[name] for name in curve],
        ),
        buckets=bucket_occupancy(data.codes),
        bit_balance=bit_balance(data.codes),
    )


def _worst(data: EvaluationInput, hits: Hits, found: Evaluation, metric: str) -> list[WorstQuery]:
    values = found.expected_per_query[metric]
    return [
        WorstQuery(
            id=data.query_ids[place],
            labels=list(data.query_labels[place]),
            text=shorten(data.texts[place]),
            value=float(values[place]),
            hits=[
                ReportedHit(
                    id=data.documents[row].id,
                    distance=distance,
                    relevant=relevant,
                    labels=list(data.labels[row]),
                    text=shorten(data.documents[row].text),
                )
                for row, distance, relevant in hits.first(place, HITS_OF_WORST)
            ],
        )
        for place in worst_queries(values, WORST_QUERIES)
    ]


def _version() -> str:
    try:
        return version("hummingbit")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0"
