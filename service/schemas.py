"""The JSON that goes in and out, as the OpenAPI description shows it.

Requests are checked for shape and type here, strictly: a number is not a string and true is not 1.
What a document may hold is decided in :mod:`corpus.document`, and what a collection takes by it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evaluation.report import Report
from index.engines import ENGINES
from index.schema import AUTO


class RequestModel(BaseModel):
    """What a request's body is made of: no unknown fields, no conversions, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ResponseModel(BaseModel):
    """What an answer is made of."""

    model_config = ConfigDict(frozen=True)


Text = Annotated[str | None, Field(description="For collections whose encoder takes texts.")]
Vector = Annotated[
    list[float] | None, Field(description="For collections whose encoder takes vectors.")
]
Code = Annotated[
    str | None,
    Field(description="A packed code in hexadecimal, n_bits / 4 digits.", examples=["0f3a9c77"]),
]
Limit = Annotated[int, Field(ge=1, description="How many hits are wanted.")]
Radius = Annotated[
    int | None, Field(ge=0, description="The greatest distance of a hit, inclusive.")
]


CodeFormat = Literal["hex", "base64", "bits"]


class CreateCollection(RequestModel):
    """Exactly one of the encoder that makes the codes and the length of codes that are brought."""

    encoder: str | None = None
    n_bits: int | None = Field(None, description="A multiple of 8 from 8 to 1024.")
    engine: str = Field(
        AUTO,
        description="What the collection is searched by, from now on; auto chooses by its codes."
        " Answers are the same with all of them.",
        json_schema_extra={"enum": [*ENGINES]},
    )


Fingerprint = Annotated[
    str | None,
    Field(
        description="Of the encoder that made the codes: if the collection is of another, the"
        " answer is 409."
    ),
]


class NewDocument(RequestModel):
    """A document: its id and exactly one of text, vector and code."""

    id: str
    text: Text = None
    vector: Vector = None
    code: Code = None
    label: str | None = Field(None, description="Kept in the payload, as `label`.")
    labels: list[str] | None = Field(None, description="Kept in the payload, as `labels`.")
    payload: dict[str, Any] | None = None


class UpsertDocuments(RequestModel):
    """Documents to insert, or to put in the place of those with their ids: all of them or none."""

    documents: list[NewDocument] = Field(min_length=1)
    encoder_fingerprint: Fingerprint = None


Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description="A condition on payloads: a field with eq, in, gt, gte, lt, lte or exists, or"
        " and, or, not of conditions.",
        examples=[
            {"and": [{"field": "label", "in": ["a", "b"]}, {"field": "year", "gte": 1990}]},
        ],
    ),
]
Cursor = Annotated[
    str | None, Field(description="The `next_cursor` of the page before; without one, the first.")
]


class BatchedSearch(RequestModel):
    """A search by exactly one of text, vector, code and the id of a document of the collection."""

    text: Text = None
    vector: Vector = None
    code: Code = None
    id: str | None = Field(None, description="A document that is there; it finds itself, too.")
    limit: Limit = 10
    radius: Radius = None
    with_payload: bool = False


class SearchRequest(BatchedSearch):
    """A search by exactly one of text, vector, code and the id of a document of the collection."""

    filter: Filter = None
    offset: int = Field(0, ge=0, description="How many of the nearest to pass over.")
    cursor: Cursor = None
    with_cursor: bool = Field(False, description="Answer with a `next_cursor`, if there is more.")
    with_code: bool = Field(False, description="Answer with the codes of the query and the hits.")
    rerank: bool = Field(
        False,
        description="Re-order the hits, and only them, by the query's probability of each bit"
        " against the stored bit; for texts and vectors.",
    )
    explain: bool = Field(
        False, description="Tell which bits differ, and which terms of a text weigh most."
    )

    encoder_fingerprint: Fingerprint = None

    @property
    def is_plain(self) -> bool:
        """Whether it asks for no more than a search of a batch can."""
        plain = {*BatchedSearch.model_fields, "encoder_fingerprint"}
        return all(
            getattr(self, name) == field.default
            for name, field in SearchRequest.model_fields.items()
            if name not in plain
        )


class SearchBatch(RequestModel):
    """Searches that are answered as of one generation of the collection, all with one filter."""

    searches: list[BatchedSearch] = Field(min_length=1)
    filter: Filter = None
    encoder_fingerprint: Fingerprint = None


class EncodeInput(RequestModel):
    """Exactly one of text and vector."""

    text: Text = None
    vector: Vector = None


class EncodeRequest(RequestModel):
    """What to encode with the collection's encoder; nothing is stored."""

    inputs: list[EncodeInput] = Field(min_length=1)


class LabelledQuery(RequestModel):
    """A query by exactly one of text, vector and code, and its label or labels.

    The id is what judgements and reports know it by; without one it is its position from 0.
    """

    id: str | None = None
    text: Text = None
    vector: Vector = None
    code: Code = None
    label: str | None = None
    labels: list[str] | None = None


class EvaluateRequest(RequestModel):
    """Labelled queries, and what to measure of the lists that they find."""

    queries: list[LabelledQuery] = Field(min_length=1)
    metrics: list[str] = Field(
        ["P@100", "mAP@100"], min_length=1, max_length=20, description="Such as P@k and mAP@k."
    )
    label_field: str = Field("label", description="Where the documents' payloads have the label.")
    qrels: dict[str, dict[str, int]] | None = Field(
        None,
        description="Grades by the ids of query and document, in place of labels; above 0 is"
        " relevant.",
    )
    hierarchy: bool = Field(
        False, description="Labels are paths such as a.b.c: grade by the levels in common."
    )
    relevant_from: int = Field(1, ge=1, description="The grade from which a document is relevant.")
    exclude_self: bool = Field(
        False, description="A query does not find the stored document that has its id."
    )


class EncoderInputs(RequestModel):
    """What to encode, and how the codes are to be written."""

    inputs: list[EncodeInput] = Field(min_length=1)
    format: CodeFormat = Field(
        "hex",
        description="Packed bytes as hexadecimal digits or in base64 (RFC 4648), or a digit a bit.",
    )


class EncoderName(ResponseModel):
    """The encoder that made a collection's codes, by name and by content."""

    name: str
    fingerprint: str


class Unavailable(ResponseModel):
    """Something that is there but cannot be opened."""

    name: str
    reason: str


class CollectionSummary(ResponseModel):
    """A collection; `encoder` is null where documents bring their own codes.

    `engine_setting` is the engine that it was made with.
    """

    name: str
    n_bits: int
    encoder: EncoderName | None
    engine_setting: str
    documents: int
    generation: int


class Collections(ResponseModel):
    """All collections."""

    collections: list[CollectionSummary]
    unavailable: list[Unavailable]


class BitBalance(ResponseModel):
    """Over the bits: of the shares of documents in which a bit is 1, or of the bits' entropies."""

    least: float
    mean: float
    most: float


class CollectionDetail(CollectionSummary):
    """A collection and what its codes look like; a collapsed code has few distinct ones."""

    distinct_codes: int
    largest_share: float | None
    bit_balance: BitBalance | None
    engine: str
    bytes_on_disk: int


class BitCorrelation(ResponseModel):
    """Pearson's |r| over the pairs of bits that are not dead."""

    mean: float
    most: float


class CollectionStats(CollectionDetail):
    """A collection's sizes, what it is searched by and why, and how diverse its codes are.

    `entropy` is that of the distribution of documents over codes, in bits; `bit_entropy` is of each
    bit. `dead_bits` never change; bit 0 is the first of the code. `occupancy` tells how many codes
    are held by 1, by 2 to 3, by 4 to 7, … documents, by the least of them.
    """

    engine_reason: str
    entropy: float | None
    bit_entropy: BitBalance | None
    dead_bits: list[int]
    bit_correlation: BitCorrelation | None
    occupancy: dict[str, int]
    problems: list[str]


class Upserted(ResponseModel):
    """How many documents were written, an id given twice counting once; they are on disk."""

    upserted: int
    generation: int


class StoredDocument(ResponseModel):
    """A document as it is stored."""

    id: str
    code: str
    text: str | None
    vector: list[float] | None
    payload: dict[str, Any]


class SearchHit(ResponseModel):
    """A document found; score is 1 − distance / n_bits, and what is below if it was asked for.

    `rerank_score` is Σ_b |p_b − c_b|, lower being better, with p_b the query's probability of bit b
    and c_b the stored bit. `differing_bits` counts from 0, the first bit of the code.
    """

    id: str
    distance: int
    score: float
    payload: dict[str, Any] = Field(default_factory=dict)
    code: str = ""
    rerank_score: float = 0
    differing_bits: list[int] = Field(default_factory=list)


class QueryTerm(ResponseModel):
    """A term of the query's text, its weight, and what becomes of the code without it.

    `influence` is Σ_b |p_b − p′_b|, the probabilities of the bits with the term and without.
    """

    term: str
    weight: float
    influence: float
    flipped_bits: list[int]


class SearchResponse(ResponseModel):
    """Hits by distance and, where that is the same, by order of insertion.

    `took_ms` is the time in the collection, encoding included; in a batch, that of all searches.
    `ties_cut` tells whether documents as far as the farthest hit were left out. With `rerank` the
    same hits come by `rerank_score`, and `reranked` is true. `next_cursor` is there if it was asked
    for, and null on the last page.
    """

    hits: list[SearchHit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ties_cut: bool
    took_ms: float
    reranked: bool = False
    next_cursor: str | None = None
    query_code: str = ""
    query_terms: list[QueryTerm] = Field(default_factory=list)


class SearchBatchResponse(ResponseModel):
    """One result for each search, in their order."""

    results: list[SearchResponse]


class EncodeResponse(ResponseModel):
    """Packed codes in hexadecimal, in the order of the inputs."""

    codes: list[str]
    n_bits: int
    encoder: EncoderName


class EvaluateResponse(ResponseModel):
    """Means over the queries: as served, and what the order of ties could make of it.

    `expected` is over random orders, `best` and `worst` are the extremes.
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
    """An evaluation in the background: `report` is there once it is done, `error` if it failed."""

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    report: Report | None


class EncoderSummary(ResponseModel):
    """An encoder; `dimension` is the length of the vectors it takes, `trained_on` what it says."""

    name: str
    fingerprint: str
    n_bits: int
    kind: str
    dimension: int | None
    trained_on: Any


class EncoderDetail(EncoderSummary):
    """An encoder, all that it says of its making, and what training measured of it.

    `metadata` and `figures` are as the artifact has them; `layers` are the sizes of its network,
    `terms` the size of its vocabulary.
    """

    code_size: int
    terms: int | None
    layers: list[int]
    metadata: dict[str, Any]
    figures: dict[str, Any]


class EncodedInputs(ResponseModel):
    """Codes in the order of the inputs.

    Bit 0 is the first digit of `bits` and the most significant bit of the first byte of `hex` and
    `base64`.
    """

    codes: list[str]
    format: CodeFormat
    bit_order: Literal["most significant bit first"]
    n_bits: int
    encoder: EncoderName


class Encoders(ResponseModel):
    """All encoders."""

    encoders: list[EncoderSummary]
    unavailable: list[Unavailable]


class Root(ResponseModel):
    """Where to begin."""

    service: str
    openapi: str
    docs: str
    collections: str


class Status(ResponseModel):
    """The service answers."""

    status: str


class Ready(Status):
    """Everything in the data folder can be opened."""

    collections: list[str]
    encoders: list[str]


class ProblemField(ResponseModel):
    """What is wrong with one part of the body, which a JSON pointer (RFC 6901) names."""

    pointer: str
    message: str


class Problem(ResponseModel):
    """Problem details (RFC 9457); `code` says which kind of problem and does not change."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str | None = None
    errors: list[ProblemField] = Field(default_factory=list)
