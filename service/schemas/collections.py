"""The JSON of collections and their statistics."""

from __future__ import annotations

from pydantic import Field

from index.engines.choice import ENGINES
from index.rankings.protocol import RANKINGS
from index.schema import AUTO
from service.schemas.common import EncoderName, RequestModel, ResponseModel


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


class UpdateCollection(RequestModel):
    """What of a collection can be changed."""

    ranking: str = Field(
        description="What orders the hits of searches that name no ranking, from now on.",
        json_schema_extra={"enum": [*RANKINGS]},
    )


class Unavailable(ResponseModel):
    """Something that is there but cannot be opened."""

    name: str
    reason: str


class CollectionSummary(ResponseModel):
    """A collection; `encoder` is null where documents bring their own codes.

    `engine_setting` is the engine that it was made with; `ranking` orders the hits of searches that
    name none.
    """

    name: str
    n_bits: int
    encoder: EncoderName | None
    engine_setting: str
    ranking: str
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
