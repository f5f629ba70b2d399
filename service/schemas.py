"""The JSON that goes in and out, as the OpenAPI description shows it.

Requests are checked for shape and type here, strictly: a number is not a string and true is not 1.
What a document may hold is decided in :mod:`corpus.document`, and what a collection takes by it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from index.engines.choice import ENGINES
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
