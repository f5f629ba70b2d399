"""The JSON of jobs and of their results: evaluations, maps, near-duplicates."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from hummingbit.corpus.grades import MAX_GRADE
from hummingbit.evaluation.report import Change, GateResult, Report
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.duplicates import MAX_SHINGLE
from hummingbit.index.options import DEFAULT_OVERSAMPLE, MAX_OVERSAMPLE
from hummingbit.service.schemas.common import (
    FIRST_ERROR,
    Code,
    FieldName,
    RequestModel,
    ResponseModel,
    Strings,
    Text,
    Vector,
)

# Jobs, verification and compaction.


# Evaluations.


def _check_grades(qrels: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Have pydantic check the first invalid grade only, if there is one.

    It would hold the interpreter lock until it has checked a million grades, and report an error
    for each invalid one.
    """
    if not isinstance(qrels, dict):
        return check(qrels)
    for query, grades in qrels.items():
        check_cancelled()
        if not isinstance(grades, dict):
            return check({query: grades})
        for document, grade in grades.items():
            if type(grade) is not int or not -MAX_GRADE <= grade <= MAX_GRADE:
                return check({query: {document: grade}})
    return qrels


Grade = Annotated[int, Field(ge=-MAX_GRADE, le=MAX_GRADE)]


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
    """Queries, what is relevant to them, and the metrics to compute over their hits."""

    queries: Annotated[list[LabelledQuery], FIRST_ERROR] = Field(min_length=1)
    metrics: Strings | None = Field(
        None,
        min_length=1,
        max_length=20,
        description="Such as P@k and mAP@k. The default is P@100 and mAP@100; for qrels, nDCG@10,"
        " MRR, Success@10 and Recall@100; for nearest, Recall@100.",
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
    qrels: Annotated[dict[str, dict[str, Grade]], WrapValidator(_check_grades)] | None = Field(
        None,
        description="Grades by the ids of queries and documents, in place of labels; above 0 is"
        " relevant.",
    )
    hierarchy: bool = Field(
        False,
        description="Labels are paths such as a.b.c; grade documents by the levels they share.",
    )
    nearest: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="In place of labels, so many documents are relevant: the nearest by TF-IDF"
        " cosine of the texts, or by the vectors if all documents and queries have them.",
    )
    relevant_from: int = Field(1, ge=1, description="The lowest grade that counts as relevant.")
    exclude_self: bool = Field(
        False, description="Leave out the stored document with the query's own id."
    )
    only_labelled: bool = Field(False, description="Search only the documents that have a label.")


class EvaluationStatus(ResponseModel):
    """An evaluation that runs as a job: `report` once it is done, `error` if it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    report: Report | None


class CompareEvaluations(RequestModel):
    """The evaluation to compare with, and a gate in TOML as `hummingbit evaluate` reads it."""

    baseline: str | None = Field(
        None,
        description="The id of another finished evaluation. Without it, the gate alone is checked.",
    )
    gate: str | None = Field(
        None,
        max_length=10_000,
        description='Such as [metrics."P@100"] with min = 0.6 and max_drop = 0.01 below it, or'
        " [metrics.coherence] with min = 0.7.",
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
