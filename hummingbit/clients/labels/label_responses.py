"""Responses about labels and judgements; see :mod:`hummingbit.clients.responses`."""

from __future__ import annotations

from typing import Any, TypedDict


class AnnotationsWritten(TypedDict):
    """How many records changed; the changes are on disk."""

    changed: int
    generation: int


class Imported(TypedDict):
    """How many records were read, changed, or named documents that do not exist (`unknown`)."""

    labels: int
    judgements: int
    changed: int
    unknown: int
    generation: int


class LabelRecord(TypedDict):
    """The labels that a person gave a document."""

    id: str
    labels: list[str]
    grade: int
    who: str
    when: str


class LabelPage(TypedDict):
    """Labels in the order of (id, who)."""

    labels: list[LabelRecord]
    next_cursor: str | None


class JudgementRecord(TypedDict):
    """The grade that a person gave a document as an answer to a query."""

    query: str
    id: str
    grade: int
    who: str
    when: str


class JudgementPage(TypedDict):
    """Judgements in the order of (query, id, who)."""

    judgements: list[JudgementRecord]
    next_cursor: str | None


class Guess(TypedDict):
    """A label, and how probable it is."""

    label: str
    probability: float


class SuggestedDocument(TypedDict):
    """A document to label."""

    id: str
    text: str | None
    payload: dict[str, Any]
    code: str
    guesses: list[Guess]
    bucket: int


class SuggestedLabels(TypedDict):
    """Documents to label next, the most useful first."""

    method: str
    documents: list[SuggestedDocument]
    labelled: int
    classes: list[str]


class LabelStats(TypedDict):
    """Counts, agreement, and the expected gain of a further label."""

    documents: int
    labelled: int
    labels: list[dict[str, Any]]
    judgements: int
    queries: int
    people: list[dict[str, Any]]
    agreement: list[dict[str, Any]]
    expected_gain: dict[str, Any] | None


class PooledDocument(TypedDict):
    """A document to judge."""

    id: str
    text: str | None
    payload: dict[str, Any]
    code: str
    weight: float
    ranks: dict[str, int]


class JudgementPool(TypedDict):
    """Answers to judge, the most informative first."""

    query: str
    method: str
    documents: list[PooledDocument]
    rankings: dict[str, int]
    judged: int
