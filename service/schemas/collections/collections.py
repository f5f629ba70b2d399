"""The JSON of collections and their statistics."""

from __future__ import annotations

from pydantic import Field

from index.engines.choice import ENGINES
from index.filter_parser import MAX_INDEXED_FIELDS
from index.kept_vectors import FLOAT32, FORMS
from index.rankings.protocol import RANKINGS
from index.schema import AUTO
from service.schemas.common import EncoderName, RankingUsed, RequestModel, ResponseModel


class CreateCollection(RequestModel):
    """Exactly one of `encoder`, which makes the codes, and `n_bits`, if documents have codes."""

    encoder: str | None = None
    n_bits: int | None = Field(None, description="A multiple of 8 from 8 to 1024.")
    engine: str = Field(
        AUTO,
        description="The engine that searches the collection; auto chooses one by its codes."
        " All engines give the same results.",
        json_schema_extra={"enum": [*ENGINES]},
    )
    indexed_fields: list[str] | None = Field(
        None,
        max_length=MAX_INDEXED_FIELDS,
        description="Payload fields by which filters find documents without reading payloads."
        " Results are the same with and without.",
    )
    keep_vectors: str = Field(
        FLOAT32,
        description="How the documents' vectors are kept on disk: float32, whole; float16 or int8,"
        " rounded to a half or a quarter of that; none, not at all. Kept vectors can rescore"
        " searches and be encoded again by a reindexing.",
        json_schema_extra={"enum": [*FORMS]},
    )


class IndexFields(RequestModel):
    """The payload fields to index, in place of those indexed before; an empty list for none."""

    indexed_fields: list[str] = Field(max_length=MAX_INDEXED_FIELDS)


class IndexedFieldsInfo(ResponseModel):
    """The payload fields that are indexed; `warnings` name those that no document has, if any."""

    indexed_fields: list[str]
    warnings: list[str] = Field(default_factory=list)


class UpdateCollection(RequestModel):
    """The properties of a collection that can be changed."""

    ranking: str = Field(
        description="The ranking of searches that do not name one.",
        json_schema_extra={"enum": [*RANKINGS]},
    )


class Unavailable(ResponseModel):
    """Something that exists but cannot be opened."""

    name: str
    reason: str


class CollectionSummary(ResponseModel):
    """A collection; `encoder` is null if its documents come with codes.

    `engine_setting` is the engine it was created with; `ranking` applies to searches that do not
    name one. Filters on `indexed_fields` read no payloads. `keep_vectors` is the form in which
    vectors are kept.
    """

    name: str
    n_bits: int
    encoder: EncoderName | None
    engine_setting: str
    ranking: RankingUsed
    indexed_fields: list[str]
    keep_vectors: str = Field(json_schema_extra={"enum": [*FORMS]})
    documents: int
    generation: int


class Collections(ResponseModel):
    """All collections."""

    collections: list[CollectionSummary]
    unavailable: list[Unavailable]


class BitBalance(ResponseModel):
    """Over all bits: the share of documents in which a bit is 1, or the entropy of a bit."""

    least: float
    mean: float
    most: float


class CollectionDetail(CollectionSummary):
    """A collection and its codes; an encoder that has collapsed gives few distinct codes."""

    distinct_codes: int
    largest_share: float | None
    bit_balance: BitBalance | None
    engine: str
    bytes_on_disk: int


class BitCorrelation(ResponseModel):
    """Pearson's |r| over all pairs of bits that are not dead."""

    mean: float
    most: float


class CollectionStats(CollectionDetail):
    """A collection's sizes, its search engine and why it was chosen, and its codes' diversity.

    `entropy` is that of the distribution of documents over codes, in bits; `bit_entropy` is that of
    each bit. `dead_bits` never change; bit 0 is the first of the code. `occupancy` is the number of
    codes that belong to 1, to 2–3, to 4–7, … documents, by the lower bound.
    """

    engine_reason: str
    entropy: float | None
    bit_entropy: BitBalance | None
    dead_bits: list[int]
    bit_correlation: BitCorrelation | None
    occupancy: dict[str, int]
    problems: list[str]
