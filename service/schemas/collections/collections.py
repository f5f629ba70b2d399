"""The JSON of collections and their statistics."""

from __future__ import annotations

from pydantic import Field

from index.engines.choice import ENGINES
from index.filter_parser import MAX_INDEXED_FIELDS
from index.rankings.protocol import RANKINGS
from index.schema import AUTO
from service.schemas.common import EncoderName, RankingUsed, RequestModel, ResponseModel


class CreateCollection(RequestModel):
    """Exactly one of `encoder`, which makes the codes, and `n_bits`, for codes that are sent."""

    encoder: str | None = None
    n_bits: int | None = Field(None, description="A multiple of 8 from 8 to 1024.")
    engine: str = Field(
        AUTO,
        description="What the collection is searched by, from now on; auto chooses by its codes."
        " Answers are the same with all of them.",
        json_schema_extra={"enum": [*ENGINES]},
    )
    indexed_fields: list[str] | None = Field(
        None,
        max_length=MAX_INDEXED_FIELDS,
        description="Fields of payloads by which filters find documents without reading payloads."
        " Answers are the same with and without.",
    )


class IndexFields(RequestModel):
    """The fields of payloads that are to be indexed from now on; none to index none."""

    indexed_fields: list[str] = Field(max_length=MAX_INDEXED_FIELDS)


class IndexedFieldsInfo(ResponseModel):
    """The fields of payloads that are indexed."""

    indexed_fields: list[str]


class UpdateCollection(RequestModel):
    """What can be changed of a collection."""

    ranking: str = Field(
        description="The ranking of searches that name none.",
        json_schema_extra={"enum": [*RANKINGS]},
    )


class Unavailable(ResponseModel):
    """Something that exists but cannot be opened."""

    name: str
    reason: str


class CollectionSummary(ResponseModel):
    """A collection; `encoder` is null if its documents bring their own codes.

    `engine_setting` is the engine it was made with; `ranking` applies to searches that name none.
    Filters on `indexed_fields` of payloads read no payloads.
    """

    name: str
    n_bits: int
    encoder: EncoderName | None
    engine_setting: str
    ranking: RankingUsed
    indexed_fields: list[str]
    documents: int
    generation: int


class Collections(ResponseModel):
    """All collections."""

    collections: list[CollectionSummary]
    unavailable: list[Unavailable]


class BitBalance(ResponseModel):
    """Over the bits: the share of documents in which a bit is 1, or the entropy of a bit."""

    least: float
    mean: float
    most: float


class CollectionDetail(CollectionSummary):
    """A collection and its codes; collapsed codes have few distinct values."""

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
