"""``report.json``: the results of an evaluation, with which later runs can be compared.

Every other format, and every plot, is made from a :class:`Report` alone. Figures are shares from 0
to 1. They are not rounded, so they are the same to the last digit when they are read back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from foundation.errors import HummingbitError

SCHEMA_VERSION: Literal[1] = 1

Share = list[float]
"""Values of one metric, one for each query or each k."""


class ReportError(HummingbitError, ValueError):
    """A file is not a report, or not one that this version reads; the message says why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Subject(_Part):
    """The collection that was evaluated; `encoder` is null if documents came with codes."""

    name: str
    n_bits: int
    encoder: str | None = None
    fingerprint: str | None = None
    generation: int | None = None
    documents: int
    distinct_codes: int | None = None


class MetricFigures(_Part):
    """A metric's mean over the queries.

    `served` has ties in the order of insertion, and `expected` is the mean over all orders of ties.
    `best` and `worst` are the values in the best and the worst order of ties. `interval` is the
    bootstrap interval of `served` over the queries.
    """

    name: str
    served: float
    expected: float
    best: float | None = None
    worst: float | None = None
    interval: tuple[float, float] | None = None


class QueryFigures(_Part):
    """A metric for each query, in the order of `query_ids`."""

    served: Share
    expected: Share


class ClassFigures(_Part):
    """The queries that carry a label, and each metric's mean over them, tie-averaged."""

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
    """A document that a query found."""

    id: str
    distance: int
    relevant: bool
    labels: list[str]
    text: str


class WorstQuery(_Part):
    """One of the queries with the lowest values, and its first hits."""

    id: str
    labels: list[str]
    text: str
    value: float
    hits: list[ReportedHit]


class Change(_Part):
    """A metric compared with the baseline's; `difference` is the mean over the common queries.

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
    """The result of one condition of the gate for one metric; `sentence` explains it."""

    metric: str
    condition: Literal["min", "max_drop"]
    status: Literal["passed", "failed", "warned"]
    sentence: str


class Report(_Part):
    """An evaluation, its comparison with a baseline, and the results of the gate.

    `notes` lists oddities of the input that do not stop an evaluation, such as queries without a
    relevant document. `has_run` says whether there is also a run in TREC's format.
    """

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
            if metric.name not in self.per_query:
                raise ValueError(f"per_query has no values of {metric.name}")
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

    def metric(self, name: str) -> MetricFigures | None:
        """Return the figures of a metric, None if it was not measured."""
        return next((metric for metric in self.metrics if metric.name == name), None)


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
