"""Reports: the results of an evaluation, with which later runs can be compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from hummingbit.corpus.document import Document, Vector
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.codes import hamming_distance
from hummingbit.encoder.encoder import Encoder
from hummingbit.evaluation.baselines import (
    BM25,
    SOFT_CLASS_SCORES,
    VECTORS,
    ClassifierReference,
    TrainingLabels,
    class_code_queries_and_documents,
    classifier_warnings,
    collection_classifier_baseline,
    cosine_blocks,
    stored_class_scores,
)
from hummingbit.evaluation.coherence import levels_of_codes
from hummingbit.evaluation.metrics import (
    DEFAULT_METRICS,
    JUDGED_METRICS,
    NEAREST_METRICS,
    parse_metrics,
)
from hummingbit.evaluation.rankings import (
    DEPTH,
    CollectionChangedError,
    EvaluationInput,
    Hits,
    RelevanceSettings,
    check_codes_weights,
    check_rankings,
    parse_ranking,
)
from hummingbit.evaluation.relevance import LabelSet
from hummingbit.evaluation.result import Evaluation, EvaluationError, PerQuery
from hummingbit.evaluation.significance import (
    bootstrap_intervals,
    compare_with_baselines,
    format_p_value,
)
from hummingbit.foundation.errors import HummingbitError, counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.code_statistics import occupancy, shares_of_ones
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER
from hummingbit.index.names import (
    HAMMING,
    HYBRID,
)
from hummingbit.index.options import DEFAULT_OVERSAMPLE
from hummingbit.index.records import StoredDocument

# ``report.json``
#
# Every other format, and every plot, is made from a :class:`Report` alone. Figures are shares
# from 0 to 1. They are not rounded, so they are the same to the last digit when they are read
# back.


SCHEMA_VERSION: Literal[1] = 1

Share = list[float]
"""Values of one metric, one for each query or each k."""


class ReportError(HummingbitError, ValueError):
    """A file is not a report, or not one that this version reads; the message says why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Subject(_Part):
    """The collection that was evaluated; `encoder` is null if documents came with codes.

    `ranking` is that of a search for the queries that names none, and `codes_weight` the weight of
    codes in the hybrid ranking, null if it was not measured. `unlabelled` counts the documents
    without a label; reports of earlier versions may not have it.
    """

    name: str
    n_bits: int
    encoder: str | None = None
    fingerprint: str | None = None
    generation: int | None = None
    documents: int
    unlabelled: int | None = None
    distinct_codes: int | None = None
    ranking: str = HAMMING
    codes_weight: float | None = None


class MetricFigures(_Part):
    """The mean of a metric over the queries, for one ranking.

    `served` has ties in the order of insertion, and `expected` is the mean over all orders of ties.
    `best` and `worst` are the values in the best and the worst order of ties. `interval` is the
    bootstrap interval of `served` over the queries. `ceiling` is the value of the ideal ranking.
    """

    ranking: str = HAMMING
    name: str
    served: float
    expected: float
    best: float | None = None
    worst: float | None = None
    interval: tuple[float, float] | None = None
    ceiling: float | None = None

    @property
    def measure(self) -> str:
        """The name of the metric with its ranking; see :func:`measure_name`."""
        return measure_name(self.ranking, self.name)


def measure_name(ranking: str, metric: str) -> str:
    """Return the name of a metric of a ranking: ``P@100`` by Hamming, ``hybrid P@100`` otherwise.

    Gates, baselines and the values of single queries use these names.
    """
    return metric if ranking == HAMMING else f"{ranking} {metric}"


def full_name(measure: str) -> str:
    """Return the name of a measure with its ranking, Hamming as well: ``hamming P@100``."""
    return measure if " " in measure else f"{HAMMING} {measure}"


class QueryFigures(_Part):
    """A metric for each query, in the order of `query_ids`."""

    served: Share
    expected: Share


class ClassFigures(_Part):
    """The queries that carry a label, and the mean of each measure over them, tie-averaged."""

    label: str
    queries: int
    documents: int
    expected: dict[str, float]


class PrecisionCurve(_Part):
    """Mean P@k by k: as served, tie-averaged, and in the worst and the best order of ties."""

    k: list[int]
    served: Share
    expected: Share
    worst: Share
    best: Share


class Bucket(_Part):
    """The number of codes that `smallest` to `largest` documents share, and of those documents."""

    smallest: int
    largest: int
    codes: int
    documents: int


class Shape(_Part):
    """The data of the plots: pairs of query and document by distance, and statistics of the codes.

    `relevant` and `others` count the pairs at each distance from 0 to n_bits. `bit_balance` is, for
    each bit, the share of documents in which it is 1.
    """

    relevant: list[int]
    others: list[int]
    precision: PrecisionCurve
    buckets: list[Bucket]
    bit_balance: Share


class ReportedHit(_Part):
    """A document that a query found, with its Hamming distance; `score` is that of the ranking."""

    id: str
    distance: int
    score: float | None = None
    relevant: bool
    labels: list[str]
    text: str


class RightAnswer(_Part):
    """A relevant document, and why a query finds it or not.

    `ranks` has its rank under each ranking and `scores` its score, null beyond the first thousand
    (by ``hamming``, the score is minus the distance). `words` are the terms of the query whose stem
    its text has, `missing_words` the others. `distance` is that of the codes.
    """

    id: str
    text: str
    ranks: dict[str, int | None]
    scores: dict[str, float | None] = {}
    distance: int
    words: list[str]
    missing_words: list[str]


class WorstQuery(_Part):
    """One of the queries with the lowest values, its first hits, and what is relevant.

    `answers` are the first of the `relevant` documents, by grade and then by rank.
    """

    id: str
    labels: list[str]
    text: str
    value: float
    hits: list[ReportedHit]
    relevant: int | None = None
    answers: list[RightAnswer] = []


class Change(_Part):
    """A measure compared with the baseline's; `difference` is the mean over the common queries.

    `interval` is the bootstrap interval of the difference. `p_value` is that of the two-sided
    paired permutation test, and `adjusted` is the same after Holm's correction over all metrics.
    """

    metric: str
    value: float
    baseline: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    adjusted: float


class GateResult(_Part):
    """The result of one condition of the gate for one measure; `sentence` explains it."""

    metric: str
    condition: Literal["min", "max_drop"]
    status: Literal["passed", "failed", "warned"]
    sentence: str


class WeightFigures(_Part):
    """Metrics of ``hybrid`` with one weight of codes, as served: means, and the values by query."""

    codes_weight: float
    metrics: dict[str, float]
    per_query: dict[str, Share]


class IncoherentDocument(_Part):
    """A document for which the codes do not rank the others as the vectors do.

    `level` is φ of :mod:`hummingbit.evaluation.coherence`, with its interval. `teacher_nearest` is
    the id of the document whose vector is nearest, and `rank` its rank by the codes, in the middle
    of its ties; `encoder_nearest` is the one whose code is nearest.
    """

    id: str
    text: str
    level: float
    interval: tuple[float, float]
    teacher_nearest: str
    rank: float
    encoder_nearest: str


class CoherenceFigures(_Part):
    """How far the codes of the documents rank these as their vectors do: 1 is the same order.

    `level` is the mean over the `documents` that were compared, a sample of the collection's, with
    its bootstrap interval; codes without any relation to the vectors have about .667. `teacher`
    says whose vectors they are. `learned` counts the documents that the encoder learned from.
    `worst` has the documents of the lowest levels, the lowest first.
    """

    teacher: str
    documents: int
    learned: int | None = None
    level: float
    interval: tuple[float, float]
    worst: list[IncoherentDocument]


class Report(_Part):
    """An evaluation, its comparison with a baseline, and the results of the gate.

    `baselines` has the metrics of what the codes should beat, named by `ranking`: soft class
    scores, BM25, and the cosine of vectors. No gate reads them.

    `warning` is set if the encoder learned from all queries. `notes` lists oddities of the input
    that do not stop an evaluation, such as queries without a relevant document. `has_run` says
    whether there is also a run in TREC's format. The run and the `worst_queries` are by the ranking
    of :attr:`primary`.
    """

    warning: str | None = None
    schema_version: Literal[1] = SCHEMA_VERSION
    hummingbit: str
    subject: Subject
    relevance: str
    queries: int
    queries_without_relevant: int
    confidence: float
    metrics: list[MetricFigures] = Field(min_length=1)
    # 0.1.0 wrote it as class_code.
    classifier_baseline: list[MetricFigures] | None = Field(
        default=None, validation_alias=AliasChoices("classifier_baseline", "class_code")
    )
    baselines: list[MetricFigures] = []
    codes_weights: list[WeightFigures] | None = None
    coherence: CoherenceFigures | None = None
    classes: list[ClassFigures]
    worst_queries: list[WorstQuery]
    shape: Shape
    notes: list[str]
    has_run: bool
    changes: list[Change] | None = None
    gate: list[GateResult] | None = None
    query_ids: list[str]
    per_query: dict[str, QueryFigures]

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len(self.query_ids) != self.queries:
            message = f"query_ids has {len(self.query_ids)} entries; it must have {self.queries}"
            raise ValueError(f"{message}, one for each query")
        for metric in self.metrics:
            if metric.measure not in self.per_query:
                raise ValueError(f"per_query has no values of {metric.measure}")
        for name, values in self.per_query.items():
            if not len(values.served) == len(values.expected) == self.queries:
                raise ValueError(
                    f"per_query: {name} must have {self.queries} values, one for each query"
                )
        return self

    @property
    def passed(self) -> bool:
        """Whether there is no gate, or none of its conditions failed."""
        return not any(result.status == "failed" for result in self.gate or [])

    @property
    def rankings(self) -> dict[str, list[MetricFigures]]:
        """The metrics of each ranking."""
        rankings: dict[str, list[MetricFigures]] = {}
        for metric in self.metrics:
            rankings.setdefault(metric.ranking, []).append(metric)
        return rankings

    @property
    def primary(self) -> MetricFigures:
        """The first metric of the ranking that searches use, or else of the first ranking."""
        rankings = self.rankings
        return rankings.get(self.subject.ranking, self.metrics)[0]

    def metric(self, measure: str) -> MetricFigures | None:
        """Return the figures of a measure, None if it was not measured."""
        return next((metric for metric in self.metrics if metric.measure == measure), None)


def places_of(answer: RightAnswer) -> list[str]:
    """Return a phrase for each ranking: the rank of a right answer, and its score."""
    return [
        f"{name}: rank > {DEPTH:,}"
        if rank is None
        else f"{name}: rank {rank:,}"
        + ("" if (score := answer.scores.get(name)) is None else f" (score {score:.3f})")
        for name, rank in answer.ranks.items()
    ]


def reasons_of(answer: RightAnswer, n_bits: int) -> list[str]:
    """Return phrases that say which bits and words of the query a right answer has."""
    bits = f"{n_bits - answer.distance} of {n_bits} bits match"
    if not answer.words and not answer.missing_words:
        return [bits]
    words = [f"has {' '.join(answer.words) or 'no word of the query'}"]
    if answer.missing_words:
        words.append(f"lacks {' '.join(answer.missing_words)}")
    return [bits, *words]


def write_report(report: Report) -> str:
    """Return a report as JSON text, with a line for each field."""
    fields = report.model_dump(mode="json", exclude_none=True)
    lines = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_report(path: Path) -> Report:
    """Read ``report.json``.

    Raises:
        ReportError: if the file cannot be read, or is not a report of a supported schema version.
    """
    try:
        return parse_report(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: is not a report: byte {error.start} is not UTF-8") from error
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None


def parse_report(text: str) -> Report:
    """Parse the text of a report.

    Raises:
        ReportError: if it is not valid. The message names the first invalid field.
    """
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "report"
        if field == "schema_version":
            found = f"schema_version is {first['input']!r}"
            message = f"{found}; this version of hummingbit reads {SCHEMA_VERSION}"
            raise ReportError(message) from None
        raise ReportError(f"is not a report: {field}: {first['msg']}") from None


# The table of metrics


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A row of the table: the name of a metric, and a cell for each column after the first."""

    name: str
    is_baseline: bool
    cells: list[str]


def metric_rows(report: Report) -> tuple[list[str], list[MetricRow]]:
    """Return the column heads, and the rows: the metrics of each ranking, then the baselines'.

    If the report was compared with an earlier one, there are columns for it. They have dashes for a
    measure that it lacks, and are empty for the baselines, which are not compared.
    """
    changes = {change.metric: change for change in report.changes or []}
    interval = f"{report.confidence:.0%} interval"
    head = ["metric", "ranking", "as served", interval, "tie-averaged", "worst order", "best order"]
    if changes:
        head += ["baseline", "change", "p (Holm)"]
    n_of_changes = len(head) - 7
    rows = []
    for metric in report.metrics:
        change = changes.get(metric.measure)
        compared = ["–"] * n_of_changes if change is None else _change_cells(change)
        cells = [metric.ranking, *_figure_cells(metric), *compared]
        rows.append(MetricRow(metric.name, is_baseline=False, cells=cells))
    baselines = [("classifier baseline", metric) for metric in report.classifier_baseline or []]
    baselines += [(metric.ranking, metric) for metric in report.baselines]
    for name, metric in baselines:
        cells = [name, *_figure_cells(metric), *[""] * n_of_changes]
        rows.append(MetricRow(metric.name, is_baseline=True, cells=cells))
    return head, rows


LOW_CEILING = 0.9


def ceilings(report: Report) -> list[str]:
    """Return a sentence for each metric whose ceiling is below :data:`LOW_CEILING`."""
    low = {
        metric.name: metric.ceiling
        for metric in report.metrics
        if metric.ceiling is not None and metric.ceiling < LOW_CEILING
    }
    if not low:
        return []
    listed = ", ".join(f"{value:.3f} in {name}" for name, value in low.items())
    return [f"With these queries even an ideal ranking reaches only {listed}."]


def format_share(value: float | None) -> str:
    """Format a share with four digits, None as a dash."""
    return "–" if value is None else f"{value:.4f}"


def format_interval(interval: tuple[float, float] | None) -> str:
    """Format an interval of shares, None as a dash."""
    return "–" if interval is None else f"{interval[0]:.4f} – {interval[1]:.4f}"


def _figure_cells(metric: MetricFigures) -> list[str]:
    shares = map(format_share, (metric.expected, metric.worst, metric.best))
    return [format_share(metric.served), format_interval(metric.interval), *shares]


def _change_cells(change: Change) -> list[str]:
    return [
        format_share(change.baseline),
        f"{change.difference:+.4f}",
        format_p_value(change.adjusted),
    ]


# Distances, codes, classes and the worst queries


MAX_TEXT = 200


def class_figures(
    query_labels: Sequence[LabelSet],
    document_labels: Sequence[LabelSet],
    expected: Mapping[str, PerQuery],
) -> list[ClassFigures]:
    """Average metrics over the queries of each label, sorted by label.

    A query with several labels counts for each of them.
    """
    queries: dict[str, list[int]] = {}
    for row, labels in enumerate(query_labels):
        for label in labels:
            queries.setdefault(label, []).append(row)
    documents = Counter(label for labels in document_labels for label in labels)
    return [
        ClassFigures(
            label=label,
            queries=len(rows),
            documents=documents[label],
            expected={name: float(values[rows].mean()) for name, values in expected.items()},
        )
        for label, rows in sorted(queries.items())
    ]


def shorten(text: str | None) -> str:
    """Return a text on one line, cut to :data:`MAX_TEXT` characters."""
    line = " ".join((text or "")[: 4 * MAX_TEXT].split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


# The evaluation of a collection
#
# The command line and the service run the same code, so their figures agree to the last digit.


CURVE_KS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
CONFIDENCE = 0.95
WORST_QUERIES = 10
HITS_PER_QUERY = 5
ANSWERS = 3
"""So many right answers of a query are shown."""
COMPARED_DOCUMENTS, INCOHERENT_DOCUMENTS = 2_000, 10
"""The documents whose order by codes is compared with that by vectors, and those shown."""
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
    metrics: Iterable[str] | None = None,
    settings: RelevanceSettings | None = None,
    training_labels: TrainingLabels | None = None,
    *,
    rankings: Iterable[str] | None = None,
    oversample: float = DEFAULT_OVERSAMPLE,
    codes_weights: Sequence[float] = (),
    teacher: TeacherVectors | None = None,
) -> Job:
    """Evaluate rankings of `collection` and report.

    `rankings` are named as in :func:`hummingbit.evaluation.rankings.evaluate_rankings`; by default
    they are that of a search that names none, and Hamming. By default, `metrics` are those of
    :func:`default_metrics`. A metric that needs Hamming distances is measured by Hamming only. With
    `training_labels`, those that the collection's encoder was trained with, the classifier baseline
    is measured too, provided that relevance is by label only or by nearness. With `codes_weights`,
    ``hybrid`` is measured with each of these weights of codes. The order of codes is compared with
    that of the vectors of the `teacher` or, by default, of the documents, where all have one.

    Raises:
        MetricError, EvaluationError, InputError: as
            :func:`hummingbit.evaluation.rankings.evaluate_rankings`.
        EvaluationError: if the teacher lacks the vector of a document.
        EvaluationError: if the collection was written to during each of three attempts.
    """
    settings = settings or RelevanceSettings()
    chosen = default_metrics(settings) if metrics is None else metrics
    names = [metric.name for metric in parse_metrics(chosen)]
    named = None if rankings is None else list(dict.fromkeys(rankings))
    check_rankings(named or (), oversample)
    check_codes_weights(codes_weights)

    def attempt() -> Job:
        data = EvaluationInput(collection, queries, settings)
        job = _run(
            data,
            names,
            named,
            training_labels,
            oversample=oversample,
            codes_weights=codes_weights,
            teacher=teacher,
        )
        # The collection is read in several steps, which agree only if nothing was written.
        data.check_generation(collection.generation)
        return job

    for _ in range(ATTEMPTS - 1):
        with suppress(CollectionChangedError):
            return attempt()
    return attempt()


def default_metrics(settings: RelevanceSettings) -> tuple[str, ...]:
    """Return the metrics for labels, for judgements or for nearness."""
    if settings.nearest is not None:
        return NEAREST_METRICS
    return DEFAULT_METRICS if settings.qrels is None else JUDGED_METRICS


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
    data: EvaluationInput,
    metrics: list[str],
    rankings: list[str] | None,
    training_labels: TrainingLabels | None,
    *,
    oversample: float,
    codes_weights: Sequence[float],
    teacher: TeacherVectors | None,
) -> Job:
    settings = data.settings
    collection, queries = data.collection, data.queries
    parsed = parse_metrics(metrics)
    without_codes = [metric.name for metric in parsed if not metric.needs_codes]
    deepest = max([100, *(metric.k or 0 for metric in parsed if not metric.needs_codes)])
    curve = {f"P@{k}": k for k in CURVE_KS if k <= deepest}
    begin_stage(f"evaluating {collection.name} by {counted(len(queries), 'query', 'queries')}")
    evaluations = data.evaluate_all(
        metrics, rankings, oversample=oversample, hamming_metrics=curve, keep=deepest
    )
    rankings = list(evaluations)
    by_hamming = evaluations.get(HAMMING) or data.evaluate([*metrics, *curve])
    baseline, warnings = _classifier_baseline(data, metrics, training_labels, by_hamming)
    primary = data.served_ranking if data.served_ranking in evaluations else rankings[0]
    others = _baselines(
        data,
        without_codes,
        evaluations,
        training_labels.reference.encoder if training_labels and baseline else None,
    )
    compared = {name: evaluation for name, evaluation in others.items() if name != primary}
    warnings += compare_with_baselines(primary, evaluations[primary], compared)
    others = {name: evaluation for name, evaluation in others.items() if name not in rankings}
    hits = Hits(data, primary, deepest)
    trec_problems = hits.trec_problems()
    begin_stage("computing intervals")
    measured = {
        ranking: metrics if ranking == HAMMING else without_codes for ranking in evaluations
    }
    per_query = {
        measure_name(ranking, name): (
            evaluation.per_query[name],
            evaluation.expected_per_query[name],
        )
        for ranking, evaluation in evaluations.items()
        for name in measured[ranking]
    }
    expected = {measure: values for measure, (_, values) in per_query.items()}
    report = Report(
        warning=data.warning,
        hummingbit=own_version(),
        subject=_subject(data, by_hamming, rankings),
        relevance=settings.describe(),
        queries=by_hamming.queries,
        queries_without_relevant=by_hamming.queries_without_relevant,
        confidence=CONFIDENCE,
        metrics=[
            figure
            for ranking, evaluation in evaluations.items()
            for figure in _figures(evaluation, measured[ranking], ranking)
        ],
        classifier_baseline=None if baseline is None else _figures(baseline, metrics),
        baselines=[
            figure
            for name, evaluation in others.items()
            for figure in _figures(evaluation, without_codes, name)
        ],
        codes_weights=[
            WeightFigures(
                codes_weight=weight,
                metrics=measured.metrics,
                per_query={name: values.tolist() for name, values in measured.per_query.items()},
            )
            for weight, measured in data.evaluate_weights(metrics, codes_weights).items()
        ]
        or None,
        coherence=_coherence(data, teacher),
        classes=class_figures(data.query_labels, data.labels, expected),
        worst_queries=_worst(
            data, hits, rankings, expected[measure_name(primary, measured[primary][0])]
        ),
        shape=_shape(data, by_hamming, curve),
        notes=[*by_hamming.notes, *trec_problems, *warnings],
        has_run=not trec_problems,
        query_ids=data.query_ids,
        per_query={
            measure: QueryFigures(served=served.tolist(), expected=tie_averaged.tolist())
            for measure, (served, tie_averaged) in per_query.items()
        },
    )
    return Job(report, hits.run_writer() if report.has_run else None)


def _classifier_baseline(
    data: EvaluationInput,
    metrics: list[str],
    training_labels: TrainingLabels | None,
    codes: Evaluation,
) -> tuple[Evaluation | None, list[str]]:
    """Return the baseline's figures, if it can be measured, and sentences about it."""
    settings = data.settings
    if training_labels is None or not (settings.nearest is not None or settings.by_label_only):
        return None, []
    begin_stage("measuring the classifier baseline")
    reference = training_labels.reference
    if settings.nearest is not None:
        pair = class_code_queries_and_documents(data.documents, reference, data.queries)
        return None if pair is None else data.evaluate_others(*pair, metrics), []
    baseline = collection_classifier_baseline(
        data.documents, training_labels, data.queries, metrics, settings.label_field
    )
    if baseline is None:
        return None, [NO_BASELINE]
    return baseline, classifier_warnings(codes.expected, baseline.expected, reference.encoder)


def _baselines(
    data: EvaluationInput,
    metrics: list[str],
    rankings: Mapping[str, Evaluation],
    class_encoder: Encoder | None,
) -> dict[str, Evaluation]:
    """Return the baselines that rank by scores, by name.

    These are soft class scores with a `class_encoder`, BM25, and the cosine of vectors, where all
    documents and queries have texts or vectors. With nearness as relevance there are none: both are
    what defines it.
    """
    found: dict[str, Evaluation] = {}
    if not metrics or data.settings.nearest is not None:
        return found
    if class_encoder is not None:
        begin_stage("measuring soft class scores")
        scores = stored_class_scores(class_encoder, data.documents, data.queries)
        if scores is not None:
            found[SOFT_CLASS_SCORES] = data.evaluate_scores(scores, metrics)
    both: list[Document | StoredDocument] = [*data.documents, *data.queries]
    if BM25 in rankings:
        found[BM25] = rankings[BM25]
    elif all(document.text is not None for document in both):
        found[BM25] = data.evaluate(metrics, BM25)
    vectors = {len(document.vector) for document in both if document.vector is not None}
    if len(vectors) == 1 and all(document.vector is not None for document in both):
        begin_stage("measuring the vectors")
        asked, stored = (
            np.stack([document.vector for document in some if document.vector is not None])
            for some in (data.queries, data.documents)
        )
        found[VECTORS] = data.evaluate_scores(cosine_blocks(asked, stored), metrics)
    return found


@dataclass(frozen=True, eq=False)
class TeacherVectors:
    """The vectors of documents by id, each float32[E], and the name of who made them."""

    name: str
    by_id: Mapping[str, Vector]


def _coherence(data: EvaluationInput, teacher: TeacherVectors | None) -> CoherenceFigures | None:
    """Compare codes with vectors; None without vectors, or if fewer than three have a direction."""
    documents = data.documents
    if teacher is None:
        own = {
            document.id: document.vector for document in documents if document.vector is not None
        }
        if len(own) < len(documents):
            return None
        teacher = TeacherVectors("the documents' vectors", own)
    missing = [document.id for document in documents if document.id not in teacher.by_id]
    if missing:
        found = f"{teacher.name} has no vector for {counted(len(missing), 'document')}"
        raise EvaluationError(f"teacher: {found}, such as {missing[0]!r}")
    known = np.flatnonzero([np.any(teacher.by_id[document.id]) for document in documents])
    if len(known) < 3:
        return None
    begin_stage("comparing codes with vectors")
    rows = np.sort(np.random.default_rng(0).permutation(len(known))[:COMPARED_DOCUMENTS])
    compared = [documents[row] for row in known[rows]]
    encoder = data.collection.encoder
    learned = None
    if encoder is not None:
        contents = [
            document.text if encoder.kind == "text" else document.vector for document in compared
        ]
        learned = int(encoder.learned.contain(contents).sum())
    vectors = np.stack([teacher.by_id[document.id] for document in compared])
    levels = levels_of_codes(data.codes[known[rows]], vectors)
    mean = levels.mean()
    worst = []
    for row in levels.worst()[:INCOHERENT_DOCUMENTS]:
        level, margin = float(levels.levels[row]), float(levels.margins[row])
        worst.append(
            IncoherentDocument(
                id=compared[row].id,
                text=shorten(compared[row].text),
                level=level,
                interval=(max(level - margin, 0.0), min(level + margin, 1.0)),
                teacher_nearest=compared[levels.teacher_nearest[row]].id,
                rank=float(levels.nearest_rank[row]),
                encoder_nearest=compared[levels.encoder_nearest[row]].id,
            )
        )
    return CoherenceFigures(
        teacher=teacher.name,
        documents=len(compared),
        learned=learned,
        level=mean.mean,
        interval=(mean.low, mean.high),
        worst=worst,
    )


def coherence_sentence(coherence: CoherenceFigures) -> str:
    """Return the level of a report as a sentence."""
    low, high = coherence.interval
    seen = ""
    if coherence.learned:
        seen = (
            f" These are values of training data: the encoder learned from {coherence.learned:,}."
        )
    return (
        f"Coherence level {coherence.level:.3f} [{low:.3f}, {high:.3f}] with {coherence.teacher},"
        f" of {coherence.documents:,} documents: 1 is the same order by codes as by vectors, .667"
        f" is chance.{seen}"
    )


INCOHERENT_HEADS = (
    "level",
    "95% interval",
    "document",
    "nearest vector",
    "its rank",
    "nearest code",
)


def incoherent_rows(coherence: CoherenceFigures) -> list[list[str]]:
    """Return a row for each of the documents of the lowest levels, below these heads."""
    return [
        [
            f"{document.level:.3f}",
            "{:.3f} – {:.3f}".format(*document.interval),
            f"{document.id}: {document.text}" if document.text else document.id,
            document.teacher_nearest,
            f"{document.rank:,.0f}",
            document.encoder_nearest,
        ]
        for document in coherence.worst
    ]


def _subject(data: EvaluationInput, evaluation: Evaluation, rankings: list[str]) -> Subject:
    collection = data.collection
    has_weight = any(parse_ranking(name)[0] == HYBRID for name in rankings)
    return Subject(
        name=collection.name,
        n_bits=collection.n_bits,
        encoder=collection.encoder_name,
        fingerprint=collection.encoder_fingerprint,
        generation=data.generation,
        documents=evaluation.documents,
        unlabelled=data.n_unlabelled,
        distinct_codes=evaluation.distinct_codes,
        ranking=data.served_ranking,
        codes_weight=data.codes_weight if has_weight else None,
    )


def _figures(
    evaluation: Evaluation, metrics: list[str], ranking: str = HAMMING
) -> list[MetricFigures]:
    values = {name: evaluation.per_query[name] for name in metrics}
    intervals = bootstrap_intervals(values, level=CONFIDENCE)
    means = {
        "served": evaluation.metrics,
        "expected": evaluation.expected,
        "best": evaluation.best,
        "worst": evaluation.worst,
        "ceiling": evaluation.ceiling,
    }
    return [
        MetricFigures(
            ranking=ranking,
            name=name,
            interval=(intervals[name].low, intervals[name].high),
            **{kind: of_kind[name] for kind, of_kind in means.items()},
        )
        for name in metrics
    ]


def _shape(data: EvaluationInput, evaluation: Evaluation, curve: Mapping[str, int]) -> Shape:
    distinct = data.coded.distinct
    sizes = np.bincount(distinct.code_of)
    relevant, others = evaluation.pairs_by_distance.tolist()
    means = {
        "served": evaluation.metrics,
        "expected": evaluation.expected,
        "worst": evaluation.worst,
        "best": evaluation.best,
    }
    return Shape(
        relevant=relevant,
        others=others,
        precision=PrecisionCurve(
            k=list(curve.values()),
            **{kind: [of_kind[name] for name in curve] for kind, of_kind in means.items()},
        ),
        buckets=[
            Bucket(smallest=least, largest=2 * least - 1, codes=codes, documents=documents)
            for least, codes, documents in occupancy(sizes)
            if codes
        ],
        bit_balance=shares_of_ones(distinct.codes, sizes).tolist(),
    )


_Ranked = dict[str, dict[int, tuple[int, float]]]
"""The rank and the score of each hit of a query, by ranking and row."""


def _worst(
    data: EvaluationInput, hits: Hits, rankings: list[str], values: PerQuery
) -> list[WorstQuery]:
    """Return the queries of the lowest values, lowest first; ties are ordered by row."""
    queries = np.argsort(values, kind="stable")[:WORST_QUERIES].tolist()
    grades = {query: data.relevant_grades(query) for query in queries}
    answered = [query for query in queries if grades[query]]
    ranked: dict[int, _Ranked] = {query: {} for query in queries}
    for ranking in rankings:
        lists = data.hits(ranking, DEPTH, answered)
        for query, (rows, scores) in zip(answered, lists, strict=True):
            positions = enumerate(scores.tolist(), 1)
            ranked[query][ranking] = dict(zip(rows.tolist(), positions, strict=True))
    return [
        WorstQuery(
            id=data.query_ids[query],
            labels=list(data.query_labels[query]),
            text=shorten(data.texts[query]),
            value=float(values[query]),
            hits=_reported_hits(data, hits, query),
            relevant=len(grades[query]),
            answers=_answers(data, query, grades[query], ranked[query], hits.ranking),
        )
        for query in queries
    ]


def _reported_hits(data: EvaluationInput, hits: Hits, query: int) -> list[ReportedHit]:
    first = hits.first(query, HITS_PER_QUERY)
    distances = hamming_distance(data.codes[[row for row, *_ in first]], data.codes_of(query))
    return [
        ReportedHit(
            id=data.documents[row].id,
            distance=distance,
            score=None if hits.ranking == HAMMING else score,
            relevant=relevant,
            labels=list(data.labels[row]),
            text=shorten(data.documents[row].text),
        )
        for (row, score, relevant), distance in zip(first, distances.tolist(), strict=True)
    ]


def _answers(
    data: EvaluationInput, query: int, grades: Mapping[int, int], ranked: _Ranked, primary: str
) -> list[RightAnswer]:
    """Return the first of the relevant documents, by grade and then by rank, explained."""
    ranks, beyond = ranked.get(primary, {}), (DEPTH + 1, 0.0)
    order = sorted(grades, key=lambda row: (-grades[row], ranks.get(row, beyond)[0]))[:ANSWERS]
    distances = hamming_distance(data.codes[order], data.codes_of(query)).tolist()
    return [
        _explain(data, query, row, distance, ranked)
        for row, distance in zip(order, distances, strict=True)
    ]


def _explain(
    data: EvaluationInput,
    query: int,
    row: int,
    distance: int,
    found: _Ranked,
) -> RightAnswer:
    text = data.documents[row].text
    stems_of = ANALYZERS[DEFAULT_ANALYZER].terms
    terms = list(dict.fromkeys(VISIBLE.terms(data.texts[query] or "")))
    held = {*VISIBLE.terms(text or ""), *stems_of(text or "")}
    words = [term for term in terms if term in held or not held.isdisjoint(stems_of(term))]
    ranked = {ranking: rows.get(row, (None, None)) for ranking, rows in found.items()}
    return RightAnswer(
        id=data.documents[row].id,
        text=shorten(text),
        ranks={name: rank for name, (rank, _) in ranked.items()},
        scores={name: score for name, (_, score) in ranked.items()},
        distance=distance,
        words=words,
        missing_words=[term for term in terms if term not in words],
    )


def own_version() -> str:
    """Return the version of hummingbit."""
    try:
        return version("hummingbit")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0"
