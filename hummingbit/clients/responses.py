"""The responses of a service as types: plain dictionaries, just as they came.

``docs/service.md`` and ``/openapi.json`` say what each field means.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

CodeFormat = Literal["hex", "base64", "bits"]
Ranking = Literal["hamming", "asymmetric", "bm25", "hybrid"]


class EncoderName(TypedDict):
    """An encoder by name and by content."""

    name: str
    fingerprint: str


class Unavailable(TypedDict):
    """Something that is there but cannot be opened."""

    name: str
    reason: str


class CollectionSummary(TypedDict):
    """A collection; `encoder` is None where documents bring their own codes."""

    name: str
    n_bits: int
    encoder: EncoderName | None
    engine_setting: str
    ranking: Ranking
    indexed_fields: list[str]
    documents: int
    generation: int


class CollectionDetail(CollectionSummary):
    """A collection and what its codes look like."""

    distinct_codes: int
    largest_share: float | None
    bit_balance: dict[str, float] | None
    engine: str
    bytes_on_disk: int


class CollectionStats(CollectionDetail):
    """What a collection is searched by and why, and how diverse its codes are."""

    engine_reason: str
    entropy: float | None
    bit_entropy: dict[str, float] | None
    dead_bits: list[int]
    bit_correlation: dict[str, float] | None
    occupancy: dict[str, int]
    problems: list[str]


class Collections(TypedDict):
    """All collections."""

    collections: list[CollectionSummary]
    unavailable: list[Unavailable]


class Upserted(TypedDict):
    """How many documents were written; they are on disk."""

    upserted: int
    generation: int


class StoredDocument(TypedDict):
    """A document as it is stored."""

    id: str
    code: str
    text: str | None
    vector: list[float] | None
    payload: dict[str, Any]


class DocumentPage(TypedDict):
    """Documents in the order of insertion; `next_cursor` is None on the last page."""

    documents: list[StoredDocument]
    next_cursor: str | None


class FoundDocuments(TypedDict):
    """Those of the documents that are there, in the order asked for, and the ids of the others."""

    documents: list[StoredDocument]
    missing: list[str]


class Deleted(TypedDict):
    """How many documents there were to delete; they are gone from disk."""

    deleted: int
    generation: int


class LineError(TypedDict):
    """A line that was refused; `line` counts from 1."""

    line: int
    id: str | None
    status: int
    code: str
    detail: str
    errors: list[dict[str, str]]


class BulkAnswer(TypedDict):
    """What has become of the lines of a bulk request; what was written is on disk."""

    received: int
    written: int
    unchanged: int
    failed: int
    generation: int
    errors: list[LineError]
    errors_left_out: int


class Highlight(TypedDict):
    """A passage of a text; `marks` are the characters of it that are terms of the query."""

    passage: str
    start: int
    marks: list[tuple[int, int]]


class Hit(TypedDict):
    """A document found; `payload` is there where it was asked for."""

    id: str
    distance: int
    score: float
    payload: NotRequired[dict[str, Any]]
    text: NotRequired[str | None]
    code: NotRequired[str]
    rerank_score: NotRequired[float]
    highlight: NotRequired[Highlight | None]
    differing_bits: NotRequired[list[int]]


class SearchResponse(TypedDict):
    """Hits by the score of the ranking and, where that is the same, by order of insertion."""

    hits: list[Hit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ranking: Ranking
    ties_cut: bool
    took_ms: float
    recognized_terms: NotRequired[int | None]
    """How many terms of the query's text the encoder knows."""
    corrected: NotRequired[list[tuple[str, str]]]
    """Unknown words of the text, and the known ones searched for in their place."""
    reranked: NotRequired[bool]
    rescored_by: NotRequired[str]
    next_cursor: NotRequired[str | None]
    query_code: NotRequired[str]
    query_terms: NotRequired[list[dict[str, Any]]]


class EncoderSummary(TypedDict):
    """An encoder and what it was trained on."""

    name: str
    fingerprint: str
    n_bits: int
    kind: Literal["text", "vector"]
    dimension: int | None
    trained_on: Any


class EncoderDetail(EncoderSummary):
    """An encoder, all that it says of its making, and what training measured of it."""

    code_size: int
    terms: int | None
    layers: list[int]
    metadata: dict[str, Any]
    figures: dict[str, Any]


class Encoders(TypedDict):
    """All encoders."""

    encoders: list[EncoderSummary]
    unavailable: list[Unavailable]


class EncodedInputs(TypedDict):
    """Codes in the order of the inputs."""

    codes: list[str]
    format: CodeFormat
    bit_order: str
    n_bits: int
    encoder: EncoderName


class EvaluationStatus(TypedDict):
    """An evaluation in the background."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    report: dict[str, Any] | None


class Ready(TypedDict):
    """What a service that is ready serves."""

    status: str
    collections: list[str]
    encoders: list[str]
