"""The responses of a service as types. They are plain dictionaries, as received.

``docs/service.md`` and ``/openapi.json`` explain the fields.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

CodeFormat = Literal["hex", "base64", "bits"]
Ranking = Literal["hamming", "asymmetric", "bm25", "hybrid"]
KeepVectors = Literal["float32", "float16", "int8", "none"]


class EncoderName(TypedDict):
    """The name of an encoder, and the fingerprint of its content."""

    name: str
    fingerprint: str


class Unavailable(TypedDict):
    """A collection or an encoder that exists but cannot be opened."""

    name: str
    reason: str


class PassageSettings(TypedDict):
    """How texts are split into passages; null stands for what is left out."""

    words: int
    sentences: int | None
    overlap: int
    longer_than: int | None


class CollectionSummary(TypedDict):
    """A collection; `encoder` is None if documents bring their own codes."""

    name: str
    n_bits: int
    encoder: EncoderName | None
    encoder_kind: Literal["text", "vector"] | None
    engine_setting: str
    ranking: Ranking
    hybrid_weight: float
    own_hybrid_weight: float | None
    language: str | None
    indexed_fields: list[str]
    keep_vectors: KeepVectors
    passages: PassageSettings | None
    documents: int
    generation: int


class CreatedCollection(CollectionSummary):
    """A collection, and why it has no encoder where it was to have the default one."""

    warnings: NotRequired[list[str]]


class CollectionDetail(CollectionSummary):
    """A collection, and statistics of its codes."""

    n_passages: int | None
    distinct_codes: int
    largest_share: float | None
    bit_balance: dict[str, float] | None
    engine: str
    bytes_on_disk: int


class CollectionStats(CollectionDetail):
    """The search engine of a collection, the reason for it, and how diverse its codes are."""

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
    """How many documents were written, and how many of them replaced one; they are on disk."""

    upserted: int
    generation: int
    replaced: int | None


class StoredDocument(TypedDict):
    """A document as it is stored."""

    id: str
    code: str
    text: str | None
    vector: list[float] | None
    payload: dict[str, Any]


class DocumentPage(TypedDict):
    """Documents in the order of a listing; `next_cursor` is None on the last page."""

    documents: list[StoredDocument]
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class FoundDocuments(TypedDict):
    """The documents that exist, in the order of the request, and the ids that do not."""

    documents: list[StoredDocument]
    missing: list[str]


class Count(TypedDict):
    """How many documents there are, or match a filter."""

    count: int
    warnings: NotRequired[list[str]]
    """Why no document passes the filter."""


class Deleted(TypedDict):
    """How many documents were deleted; the deletion is on disk."""

    deleted: int
    generation: int
    warnings: NotRequired[list[str]]
    """Why no document passes the filter."""


class PayloadsUpdated(TypedDict):
    """How many documents were selected, and how many of their payloads changed."""

    matched: int
    updated: int
    generation: int
    warnings: NotRequired[list[str]]
    """Why no document passes the filter."""


class LineError(TypedDict):
    """A line that was refused; `line` counts from 1."""

    line: int
    id: str | None
    status: int
    code: str
    detail: str
    errors: list[dict[str, str]]


class BulkAnswer(TypedDict):
    """The result of a bulk request; what was written is on disk."""

    received: int
    written: int
    unchanged: int
    failed: int
    generation: int
    errors: list[LineError]
    errors_left_out: int


class Highlight(TypedDict):
    """A passage of a text; `marks` are the ranges of characters that are terms of the query."""

    passage: str
    start: int
    marks: list[tuple[int, int]]


class Passage(TypedDict):
    """The part of a text that ranked it, and its position in the text."""

    text: str
    start: int


class Hit(TypedDict):
    """A document found; it has the optional fields that the search requested."""

    id: str
    distance: int | None
    score: float
    payload: NotRequired[dict[str, Any]]
    text: NotRequired[str | None]
    code: NotRequired[str]
    rerank_score: NotRequired[float]
    relevance: NotRequired[float]
    confidence: NotRequired[float]
    highlight: NotRequired[Highlight | None]
    passage: NotRequired[Passage | None]
    differing_bits: NotRequired[list[int]]


class HitGroup(TypedDict):
    """The hits that share a value of the field of `group_by`, best first."""

    id: str | float | bool
    hits: list[Hit]


class FacetResult(TypedDict):
    """The counts of a facet; a bucket has a `count`, and a `value`, `from` and `to`, or bounds."""

    field: str
    buckets: list[dict[str, Any]]
    documents: int
    missing: int
    distinct: int


class Facets(TypedDict):
    """The counts of facets, in the order of the request, over `documents`."""

    facets: list[FacetResult]
    documents: int
    generation: int
    warnings: NotRequired[list[str]]
    """Why no document passes the filter."""


class SearchResponse(TypedDict):
    """Hits in the order of the ranking's scores; equal scores are in the order of insertion."""

    hits: list[Hit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ranking: Literal["hamming", "asymmetric", "bm25", "hybrid", "average_vector", "best_score"]
    ties_cut: bool
    took_ms: float
    recognized_terms: NotRequired[int | None]
    """The number of terms of the query's text that the encoder knows."""
    corrected: NotRequired[list[tuple[str, str]]]
    """Unknown words of the text, and what the encoder reads in their place."""
    substitutes: NotRequired[dict[str, list[str]]]
    """Words of the text that no document has, and the words searched for in their place."""
    reranked: NotRequired[bool]
    rescored_by: NotRequired[str]
    candidates: NotRequired[int]
    """The most documents that were rescored."""
    next_cursor: NotRequired[str | None]
    query_code: NotRequired[str]
    query_terms: NotRequired[list[dict[str, Any]]]
    groups: NotRequired[list[HitGroup]]
    """The groups, with `group_by`; `hits` is empty then."""
    facets: NotRequired[list[FacetResult]]
    warnings: NotRequired[list[str]]
    """Why a search with a filter found nothing."""


class Completions(TypedDict):
    """Queries that begin like a text, with its last word completed."""

    completions: list[str]


class EncoderSummary(TypedDict):
    """An encoder and what it was trained on."""

    name: str
    fingerprint: str
    n_bits: int
    kind: Literal["text", "vector"]
    dimension: int | None
    trained_on: Any


class EncoderDetail(EncoderSummary):
    """An encoder, the metadata of its training, and what training measured."""

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
    """Codes in the order of the inputs; `learned` says whether the encoder learned from each."""

    codes: list[str]
    learned: list[bool]
    format: CodeFormat
    bit_order: str
    n_bits: int
    encoder: EncoderName


class Usage(TypedDict):
    """What OpenAI's interface counts: words here."""

    prompt_tokens: int
    total_tokens: int


class Embedding(TypedDict):
    """The embedding of one text, by its `index` in the request."""

    object: str
    index: int
    embedding: list[float] | list[int] | str


class Embeddings(TypedDict):
    """Embeddings in the order of the texts."""

    object: str
    data: list[Embedding]
    model: str
    usage: Usage


class EvaluationStatus(TypedDict):
    """An evaluation in the background."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    report: dict[str, Any] | None


class Ready(TypedDict):
    """What a ready service serves."""

    status: str
    collections: list[str]
    encoders: list[str]


# Responses about aliases, snapshots and jobs.


class Alias(TypedDict):
    """A second name of a collection."""

    alias: str
    collection: str


class Aliases(TypedDict):
    """All aliases, in order."""

    aliases: list[Alias]


class Snapshot(TypedDict):
    """A snapshot; `bytes` and `sha256` are those of the file that can be downloaded."""

    id: str
    collection: str
    n_bits: int
    encoder: str | None
    encoder_fingerprint: str | None
    generation: int
    documents: int
    created: str
    bytes: int
    sha256: str


class UnavailableSnapshot(TypedDict):
    """A snapshot whose record cannot be read, and why."""

    id: str
    reason: str


class Snapshots(TypedDict):
    """Snapshots, the oldest first, and those that cannot be read."""

    snapshots: list[Snapshot]
    unavailable: list[UnavailableSnapshot]


class Verification(TypedDict):
    """How many documents were checked, and the problems, one sentence each."""

    documents: int
    problems: list[str]


class Compaction(TypedDict):
    """The size of a collection on disk before and after compaction."""

    bytes_before: int
    bytes_after: int


class IndexedFields(TypedDict):
    """The fields of payloads that are indexed."""

    indexed_fields: list[str]
    warnings: NotRequired[list[str]]
    """Which of them no document has."""


JobState = Literal["queued", "running", "done", "failed", "cancelled"]


class JobProgress(TypedDict):
    """The progress of a job; `total` and `percent` are None while they are unknown.

    `step` names the current step; it is None unless the job is running.
    """

    step: str | None
    done: int
    total: int | None
    percent: float | None


class JobError(TypedDict):
    """Why a job failed."""

    code: str
    detail: str
    errors: list[dict[str, str]]


class Job(TypedDict):
    """A job in the background; `result` depends on its kind. Times are in UTC."""

    id: str
    kind: str
    collection: str
    state: JobState
    progress: JobProgress
    attempts: int
    created: str
    started: str | None
    finished: str | None
    result: dict[str, Any] | None
    error: JobError | None


class Jobs(TypedDict):
    """Jobs, the newest first."""

    jobs: list[Job]


# Responses about labels and judgements.


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
