"""``report.json``: all that an evaluation found, in a form that later runs are compared with.

Every other format, and every plot, is made of a :class:`Report` alone. Figures are shares from 0
to 1, unrounded: written as JSON and read back they are the same to the last digit.
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
    """A file is not a report, or not one that can be used here; the message says which and why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Subject(_Part):
    """What was evaluated; the encoder is null where documents bring their own codes."""

    name: str
    n_bits: int
    encoder: str | None = None
    fingerprint: str | None = None
    generation: int | None = None
    documents: int
    distinct_codes: int | None = None


class MetricFigures(_Part):
    """A metric's mean over the queries.

    `served` has ties in the order of insertion, `expected` is the mean over all their orders,
    `best` and `worst` are what the luckiest and unluckiest order would give. `interval` is the
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
    """Mean P@k for rising k: as served, expected, and in the worst and best order of ties."""

    k: list[int]
    served: Share
    expected: Share
    worst: Share
    best: Share


class Bucket(_Part):
    """The codes that `smallest` to `largest` documents share, and how many documents those are."""

    smallest: int
    largest: int
    codes: int
    documents: int


class Shape(_Part):
    """What is plotted: pairs of query and document by distance, and what the codes look like.

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
    """A query that found little, and what it found first."""

    id: str
    labels: list[str]
    text: str
    value: float
    hits: list[ReportedHit]


class Change(_Part):
    """A metric against the baseline's: the mean difference over the queries both have.

    `interval` is the bootstrap interval of the difference. `p_value` is that of the two-sided
    paired permutation test, `adjusted` the same after Holm's correction over what is compared.
    """

    metric: str
    value: float
    baseline: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    adjusted: float


class GateResult(_Part):
    """One condition of the gate for one metric; `sentence` says how it came out."""

    metric: str
    condition: Literal["min", "max_drop"]
    status: Literal["passed", "failed", "warned"]
    sentence: str


class Report(_Part):
    """An evaluation, what it was compared with, and what the gate said.

    `notes` names what is odd about the input but does not stop an evaluation, such as queries that
    no document is relevant to. `has_run` tells whether there is a run in TREC's format, too.
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
            message = f"query_ids has {len(self.query_ids)} entries; there are {self.queries}"
            raise ValueError(f"{message} queries")
        for one in self.metrics:
            if one.name not in self.per_query:
                raise ValueError(f"per_query has no values of {one.name}")
        for name, values in self.per_query.items():
            if not len(values.served) == len(values.expected) == self.queries:
                raise ValueError(f"per_query: {name} must have {self.queries} values, as queries")
        return self

    @property
    def passed(self) -> bool:
        """Whether the gate, if there is one, is passed."""
        return not any(one.status == "failed" for one in self.gate or [])

    def metric(self, name: str) -> MetricFigures | None:
        """Return the figures of a metric, None if it was not measured."""
        return next((one for one in self.metrics if one.name == name), None)


def write_report(report: Report) -> str:
    """Write a report as JSON text, with a line for each field."""
    fields = report.model_dump(mode="json", exclude_none=True)
    lines = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_report(path: Path) -> Report:
    """Read ``report.json``.

    Raises:
        ReportError: if the file cannot be read or is no report of a schema version known here.
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
    """Read the text of a report.

    Raises:
        ReportError: naming the first field that is not as it must be.
    """
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "report"
        if where == "schema_version":
            found = f"its schema version is {first['input']!a}"
            raise ReportError(f"{found}; this hummingbit reads {SCHEMA_VERSION}") from None
        raise ReportError(f"is not a report: {where}: {first['msg']}") from None
