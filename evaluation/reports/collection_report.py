"""Evaluate a collection and create its report.

The command line and the service run the same code, so their figures agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from corpus.document import Document
from evaluation.classifier_baseline import (
    ClassifierReference,
    TrainingLabels,
    class_code_queries_and_documents,
    classifier_warnings,
    collection_classifier_baseline,
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
from foundation.errors import counted
from foundation.stages import begin_stage
from index.backend import CollectionBackend
from index.data_folder import DataFolder

CURVE_KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
CONFIDENCE = 0.95
WORST_QUERIES = 10
HITS_PER_QUERY = 5
NO_BASELINE = (
    "there is no classifier baseline: it needs 2 to 1,024 labels on the documents that trained the"
    " encoder"
)
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A finished job: the report, and a function that returns the run in TREC's format.

    `run` is None if that format cannot represent the ids; a note in the report says why.
    """

    report: Report
    run: Callable[[], str] | None


def run_job(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    settings: RelevanceSettings | None = None,
    training_labels: TrainingLabels | None = None,
) -> Job:
    """Evaluate `collection` as :func:`evaluation.retrieval.evaluate_collection` does, and report.

    With `training_labels`, those that the collection's encoder was trained with, the classifier
    baseline is measured too, provided that relevance is by label only or by nearness.

    Raises:
        MetricError, EvaluationError, InputError: as `evaluate_collection`.
        EvaluationError: if the collection was written to during each of three attempts.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    settings = settings or RelevanceSettings()
    for _ in range(ATTEMPTS):
        generation = collection.generation
        job = _run(collection, queries, names, settings, training_labels)
        # The collection is read in several steps, which agree only if nothing was written between.
        if collection.generation == generation:
            return job
    message = f"collection {collection.name!r} was written to while it was evaluated; try again"
    raise EvaluationError(message)


def read_training_labels(
    folder: DataFolder, collection: CollectionBackend
) -> TrainingLabels | None:
    """Return the labels that the collection's encoder was trained with; None if it records none."""
    name = collection.encoder_name
    ids = [] if name is None else folder.encoders.labelled_ids(name)
    if name is None or not ids:
        return None
    encoders = folder.encoders
    return TrainingLabels(ids, ClassifierReference(encoders.load(name), encoders.classifier(name)))


def _run(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: list[str],
    settings: RelevanceSettings,
    training_labels: TrainingLabels | None,
) -> Job:
    generation = collection.generation
    deepest = max(
        [100, *(metric.k or 0 for metric in parse_metrics(metrics) if not metric.needs_codes)]
    )
    curve = {f"P@{k}": k for k in CURVE_KS if k <= deepest}
    begin_stage(f"evaluating {collection.name} by {counted(len(queries), 'query', 'queries')}")
    data = EvaluationInput(collection, queries, settings)
    evaluation = data.evaluate([*metrics, *curve])
    hits = Hits(data, deepest)
    trec_problems = hits.trec_problems()
    baseline, warnings = None, []
    if training_labels is not None and settings.nearest is not None:
        begin_stage("measuring the classifier baseline")
        codes = class_code_queries_and_documents(data.documents, training_labels.reference, queries)
        baseline = None if codes is None else data.evaluate_others(*codes, metrics)
    elif training_labels is not None and settings.by_label_only:
        begin_stage("measuring the classifier baseline")
        baseline = collection_classifier_baseline(
            data.documents, training_labels, queries, metrics, settings.label_field
        )
        warnings = [NO_BASELINE]
        if baseline is not None:
            warnings = classifier_warnings(
                evaluation.expected, baseline.expected, training_labels.reference.encoder
            )
    begin_stage("computing intervals")
    expected = {name: evaluation.expected_per_query[name] for name in metrics}
    report = Report(
        hummingbit=_version(),
        subject=_subject(collection, generation, evaluation),
        relevance=settings.describe(),
        queries=evaluation.queries,
        queries_without_relevant=evaluation.queries_without_relevant,
        confidence=CONFIDENCE,
        metrics=_figures(evaluation, metrics),
        classifier_baseline=None if baseline is None else _figures(baseline, metrics),
        classes=class_figures(data.query_labels, data.labels, expected),
        worst_queries=_worst(data, hits, evaluation, metrics[0]),
        shape=_shape(data, evaluation, curve),
        notes=[*evaluation.notes, *trec_problems, *warnings],
        has_run=not trec_problems,
        query_ids=[query.id for query in queries],
        per_query={
            name: QueryFigures(
                served=evaluation.per_query[name].tolist(), expected=expected[name].tolist()
            )
            for name in metrics
        },
    )
    return Job(report, hits.run_writer() if report.has_run else None)


def _subject(collection: CollectionBackend, generation: int, evaluation: Evaluation) -> Subject:
    return Subject(
        name=collection.name,
        n_bits=collection.n_bits,
        encoder=collection.encoder_name,
        fingerprint=collection.encoder_fingerprint,
        generation=generation,
        documents=evaluation.documents,
        distinct_codes=evaluation.distinct_codes,
    )


def _figures(evaluation: Evaluation, metrics: list[str]) -> list[MetricFigures]:
    values = {name: evaluation.per_query[name] for name in metrics}
    intervals = bootstrap_intervals(values, level=CONFIDENCE)
    served, expected = evaluation.metrics, evaluation.expected
    best, worst = evaluation.best, evaluation.worst
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


def _shape(data: EvaluationInput, evaluation: Evaluation, curve: Mapping[str, int]) -> Shape:
    relevant, others = pairs_by_distance(
        data.codes, data.encoded.codes, data.relevance, data.self_rows
    )
    served, expected = evaluation.metrics, evaluation.expected
    best, worst = evaluation.best, evaluation.worst
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


def _worst(
    data: EvaluationInput, hits: Hits, evaluation: Evaluation, metric: str
) -> list[WorstQuery]:
    values = evaluation.expected_per_query[metric]
    return [
        WorstQuery(
            id=data.query_ids[query],
            labels=list(data.query_labels[query]),
            text=shorten(data.texts[query]),
            value=float(values[query]),
            hits=[
                ReportedHit(
                    id=data.documents[row].id,
                    distance=distance,
                    relevant=relevant,
                    labels=list(data.labels[row]),
                    text=shorten(data.documents[row].text),
                )
                for row, distance, relevant in hits.first(query, HITS_PER_QUERY)
            ],
        )
        for query in worst_queries(values, WORST_QUERIES)
    ]


def _version() -> str:
    try:
        return version("hummingbit")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0"
