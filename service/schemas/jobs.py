"""The JSON of jobs and of their results: evaluations, maps, near-duplicates."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from hummingbit.evaluation.report import Change, GateResult, Report
from hummingbit.foundation.slices import checkpoint
from hummingbit.index.duplicates import MAX_SHINGLE
from hummingbit.index.search import DEFAULT_OVERSAMPLE, MAX_OVERSAMPLE
from hummingbit.service.schemas.common import (
    Code,
    FieldName,
    RequestModel,
    ResponseModel,
    Strings,
    Text,
    Vector,
)
from hummingbit.service.schemas.responses import EncoderName

# Jobs, verification and compaction.


class JobStatus(ResponseModel):
    """A job by its result: `status` is `done` once there is one; `error` says why it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None


# Evaluations.


def _check_grades(qrels: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Have pydantic check the first invalid grade only, if there is one.

    It would hold the interpreter lock until it has checked a million grades, and report an error
    for each invalid one.
    """
    if not isinstance(qrels, dict):
        return check(qrels)
    for query, grades in qrels.items():
        checkpoint()
        if not isinstance(grades, dict):
            return check({query: grades})
        for document, grade in grades.items():
            if type(grade) is not int:
                return check({query: {document: grade}})
    return qrels


class LabelledQuery(RequestModel):
    """A query by exactly one of text, vector and code, and its label or labels.

    Judgements and reports refer to it by `id`, by default its position, counted from 0.
    """

    id: str | None = None
    text: Text = None
    vector: Vector = None
    code: Code = None
    label: str | None = None
    labels: Strings | None = None


class EvaluateRequest(RequestModel):
    """Labelled queries, and the metrics to compute over their hits."""

    queries: list[LabelledQuery] = Field(min_length=1)
    metrics: Strings | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="Such as P@k and mAP@k. The default is P@100 and mAP@100; for qrels, nDCG@10,"
        " MRR, Success@10 and Recall@100.",
    )
    rankings: Strings | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="The rankings to measure, such as hybrid, or hamming+vectors for rescored"
        " candidates. The default is the one that a search uses, and hamming.",
    )
    oversample: float = Field(
        DEFAULT_OVERSAMPLE,
        ge=1,
        le=MAX_OVERSAMPLE,
        description="Candidates for each hit of a rescored ranking.",
    )
    codes_weights: list[float] | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="Measure hybrid with each of these weights of codes, too.",
    )
    label_field: FieldName = Field("label", description="The payload field that holds the label.")
    qrels: Annotated[dict[str, dict[str, int]], WrapValidator(_check_grades)] | None = Field(
        None,
        description="Grades by the ids of queries and documents, in place of labels; above 0 is"
        " relevant.",
    )
    hierarchy: bool = Field(
        False,
        description="Labels are paths such as a.b.c; grade documents by the levels they share.",
    )
    relevant_from: int = Field(1, ge=1, description="The lowest grade that counts as relevant.")
    exclude_self: bool = Field(
        False, description="Leave out the stored document with the query's own id."
    )
    only_labelled: bool = Field(False, description="Search only the documents that have a label.")


class RankingMeans(ResponseModel):
    """Means over the queries: `metrics` as served, `expected` tie-averaged.

    `best` and `worst` are the extremes that the order of ties could give.
    """

    metrics: dict[str, float]
    expected: dict[str, float]
    best: dict[str, float]
    worst: dict[str, float]


class WeightMeans(ResponseModel):
    """Means over the queries of `hybrid` with one weight of codes, as served."""

    codes_weight: float
    metrics: dict[str, float]


class EvaluateResponse(RankingMeans):
    """Means over the queries.

    `rankings` has those of each ranking, and the fields beside it repeat those of `ranking`:
    Hamming if it was measured, or else the first. `codes_weights` has those of `hybrid` by weight
    of codes, if the request has weights. `unlabelled` counts the documents without a label.
    `warning` is set if the encoder learned from all of the queries; `served_ranking` is that of a
    search that names none.
    """

    warning: str | None
    ranking: str
    served_ranking: str
    rankings: dict[str, RankingMeans]
    codes_weights: list[WeightMeans] | None
    queries: int
    documents: int
    unlabelled: int
    queries_without_relevant: int
    distinct_codes: int | None
    notes: list[str]
    n_bits: int
    encoder: EncoderName | None
    took_ms: float


class EvaluationStatus(JobStatus):
    """An evaluation that runs as a job: `report` once it is done, `error` if it failed."""

    report: Report | None


class CompareEvaluations(RequestModel):
    """The evaluation to compare with, and a gate in TOML as `hummingbit evaluate` reads it."""

    baseline: str = Field(description="The id of another finished evaluation.")
    gate: str | None = Field(
        None,
        max_length=10_000,
        description='Such as [metrics."P@100"] with min = 0.6 and max_drop = 0.01 below it.',
    )


class ComparedEvaluations(ResponseModel):
    """The changes since the baseline, over the queries of both, and the results of the gate.

    `warning` is set if the values of either are of training data. `notes` says how many queries
    were left out; `passed` is true without a gate.
    """

    warning: str | None
    changes: list[Change]
    gate: list[GateResult]
    notes: list[str]
    passed: bool


class EvaluatedQueries(ResponseModel):
    """The queries of an evaluation, with their ids, in the order of its report."""

    queries: list[LabelledQuery]


# Maps.


class DrawMap(RequestModel):
    """How to lay out the distinct codes in the plane.

    `tsne` shows neighbourhoods and needs openTSNE, an optional package; `chl` keeps degrees of
    similarity, near and far; `pca` shows the coarse shape. By default, `method` is the best one
    installed.
    """

    method: Literal["pca", "tsne", "chl"] | None = None
    label_field: FieldName = Field("label", description="The payload field that holds the label.")
    time_field: FieldName | None = Field(
        None, min_length=1, description="A payload field of numbers or ISO 8601 dates."
    )
    seed: int = Field(0, ge=0, le=2**31 - 1)


class TimeScale(ResponseModel):
    """The values of the time field: numbers, or dates as ISO 8601 in UTC.

    The scale reaches from `start` to `end`. A hundredth of the documents with a value lies before
    it and another after it, down to `least` and up to `most`.
    """

    field: str
    kind: Literal["number", "date"]
    documents: int
    start: float | str
    end: float | str
    least: float | str
    most: float | str


class MapDescription(ResponseModel):
    """A finished map of the collection at `generation`.

    `labels` are the 200 most frequent of the label field, and `label_documents` the number of
    documents of each; `given_labels` are those that people gave, if they agree. `time` is present
    if the map was drawn with a time field. `learned_documents` is the number of documents that the
    encoder learned from, or null if it records none.
    """

    collection: str
    generation: int
    n_bits: int
    method: Literal["pca", "tsne", "chl"]
    label_field: str
    seed: int
    documents: int
    distinct_codes: int
    points: int
    labels: list[str]
    label_documents: list[int]
    given_labels: list[str]
    given_label_documents: list[int]
    time: TimeScale | None
    learned_documents: int | None


class MapStatus(JobStatus):
    """A map that a job draws: `map` once it is done, `error` if it failed."""

    map: MapDescription | None


# Near-duplicates.


class FindDuplicates(RequestModel):
    """When two documents are near-duplicates; chains of near-duplicates form a cluster."""

    radius: int = Field(ge=0, description="The most bits in which their codes may differ.")
    confirm: float | None = Field(
        None, gt=0, le=1, description="The least Jaccard similarity of their texts' shingles."
    )
    shingle: int = Field(5, ge=1, le=MAX_SHINGLE, description="The number of terms in a shingle.")


class DeleteDuplicates(RequestModel):
    """Which document of each cluster to keep."""

    keep: Literal["oldest", "newest"] = Field(
        "oldest", description="The document of each cluster that is kept; the others are deleted."
    )


class Cluster(ResponseModel):
    """A cluster of `size` documents; `ids` are the 1,000 oldest of them, oldest first.

    `newest` is the one written last; null if an earlier version found the cluster.
    """

    size: int
    ids: list[str]
    newest: str | None = None


class Duplicates(JobStatus):
    """Near-duplicates of a collection: a page of clusters, by their oldest documents.

    `clusters` counts all of them. Until `status` is done, it is null and the page is empty.
    """

    collection: str
    clusters: int | None
    page: list[Cluster]
