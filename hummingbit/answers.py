"""What a service answers, as types: plain dictionaries, just as they came.

``docs/service.md`` and ``/openapi.json`` say what each field means.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

CodeFormat = Literal["hex", "base64", "bits"]


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
    documents: int
    generation: int


class CollectionDetail(CollectionSummary):
    """A collection and what its codes look like."""

    distinct_codes: int
    largest_share: float | None
    bit_balance: dict[str, float] | None
    engine: str
    bytes_on_disk: int


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


class Hit(TypedDict):
    """A document found; `payload` is there where it was asked for."""

    id: str
    distance: int
    score: float
    payload: NotRequired[dict[str, Any]]
    code: NotRequired[str]
    rerank_score: NotRequired[float]
    differing_bits: NotRequired[list[int]]


class SearchResponse(TypedDict):
    """Hits by distance and, where that is the same, by order of insertion."""

    hits: list[Hit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ties_cut: bool
    took_ms: float
    reranked: NotRequired[bool]
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
