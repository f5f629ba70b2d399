"""The JSON of evaluations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from evaluation.reports.report import Change, GateResult, Report
from foundation.slices import checkpoint
from service.schemas.common import (
    Code,
    EncoderName,
    FieldName,
    RequestModel,
    ResponseModel,
    Strings,
    Text,
    Vector,
)


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
    metrics: Strings = Field(
        ["P@100", "mAP@100"], min_length=1, max_length=20, description="Such as P@k and mAP@k."
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


class EvaluateResponse(ResponseModel):
    """Means over the queries: `metrics` as served, `expected` tie-averaged.

    `best` and `worst` are the extremes that the order of ties could give.
    """

    metrics: dict[str, float]
    expected: dict[str, float]
    best: dict[str, float]
    worst: dict[str, float]
    queries: int
    documents: int
    queries_without_relevant: int
    distinct_codes: int | None
    notes: list[str]
    n_bits: int
    encoder: EncoderName | None
    took_ms: float


class EvaluationStatus(ResponseModel):
    """An evaluation that runs as a job: `report` once it is done, `error` if it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
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

    `notes` says how many queries were left out; `passed` is true without a gate.
    """

    changes: list[Change]
    gate: list[GateResult]
    notes: list[str]
    passed: bool


class EvaluatedQueries(ResponseModel):
    """The queries of an evaluation, with their ids, in the order of its report."""

    queries: list[LabelledQuery]
