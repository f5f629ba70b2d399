"""The JSON of searches and their answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from index.rankings.protocol import MAX_WEIGHT, MIN_WEIGHT, RANKINGS
from index.search import MAX_OVERSAMPLE, MAX_RRF, RESCORERS
from service.schemas.common import (
    Code,
    Cursor,
    EncoderName,
    Filter,
    Fingerprint,
    Limit,
    Radius,
    RequestModel,
    ResponseModel,
    Text,
    Vector,
)

RankingName = Annotated[
    str | None,
    Field(
        description="What orders the hits: hamming, by the distance of codes; asymmetric, by the"
        " probability of a document's bits given the query's real values; bm25, by the words that"
        " they share with a text; hybrid, by both together. Left out, the"
        " collection's own; queries by code or id are ranked by hamming then.",
        json_schema_extra={"enum": [*RANKINGS, None]},
    ),
]


class HybridOptions(RequestModel):
    """How the hybrid ranking puts codes and words together: by one of the two."""

    codes: float | None = Field(
        None,
        ge=MIN_WEIGHT,
        le=MAX_WEIGHT,
        description="The weight of the standardised scores by codes; those by words weigh 1.",
    )
    rrf: int | None = Field(
        None, ge=1, le=MAX_RRF, description="The constant of reciprocal rank fusion, 60 as a rule."
    )


class RescoreOptions(RequestModel):
    """More candidates than are wanted, by the ranking, and another order of them."""

    by: str = Field(
        description="What scores the candidates: their words, or the real values of the query.",
        json_schema_extra={"enum": [*RESCORERS]},
    )
    oversample: float = Field(
        4.0,
        ge=1,
        le=MAX_OVERSAMPLE,
        description="How many times as many candidates as hits are wanted, `offset` included.",
    )


class BatchedSearch(RequestModel):
    """A search by exactly one of text, vector, code and the id of a document of the collection."""

    text: Text = None
    vector: Vector = None
    code: Code = None
    id: str | None = Field(None, description="A document that is there; it finds itself, too.")
    limit: Limit = 10
    radius: Radius = None
    with_payload: bool = False
    with_text: bool = Field(False, description="Return the text of each hit; null if it has none.")


class SearchRequest(BatchedSearch):
    """A search by exactly one of text, vector, code and the id of a document of the collection."""

    ranking: RankingName = None
    filter: Filter = None
    offset: int = Field(0, ge=0, description="How many of the nearest to pass over.")
    cursor: Cursor = None
    with_cursor: bool = Field(False, description="Answer with a `next_cursor`, if there is more.")
    with_code: bool = Field(False, description="Answer with the codes of the query and the hits.")
    hybrid: HybridOptions | None = None
    rescore: RescoreOptions | None = None
    highlight: bool = Field(
        False, description="Answer with a passage of each hit's text and the query's terms in it."
    )
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
        return self.model_fields_set.isdisjoint(_OF_ONE_SEARCH)


_OF_ONE_SEARCH = {
    *SearchRequest.model_fields.keys()
    - BatchedSearch.model_fields.keys()
    - {"encoder_fingerprint", "ranking"}
}


class SearchBatch(RequestModel):
    """Searches that are answered as of one generation, all with one ranking and filter.

    Where one of them has a `radius` and no `ranking` is given, all are ranked by Hamming distance.
    """

    searches: list[BatchedSearch] = Field(min_length=1)
    ranking: RankingName = None
    filter: Filter = None
    encoder_fingerprint: Fingerprint = None


class Highlight(ResponseModel):
    """A passage of a text, never markup; characters are counted as Unicode code points.

    `start` is where in the text it begins; `marks` are the characters of the passage that are terms
    of the query, from and up to.
    """

    passage: str
    start: int
    marks: list[tuple[int, int]]


class SearchHit(ResponseModel):
    """A document found, and what is below `score` if it was asked for.

    `distance` is the Hamming distance between the codes. `score` is the higher the better: 1 −
    distance / n_bits with the ranking hamming; with asymmetric, the share of the query's weight in
    the bits that agree. `rerank_score` is Σ_b |p_b − c_b|, lower being better, with p_b the query's
    probability of bit b and c_b the stored bit. `differing_bits` counts from 0, the first bit of
    the code.
    """

    id: str
    distance: int
    score: float
    payload: dict[str, Any] = Field(default_factory=dict)
    text: str | None = None
    highlight: Highlight | None = None
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
    """Hits by the score of the `ranking`, best first; equal scores by order of insertion.

    `took_ms` is the time in the collection, encoding included; in a batch, that of all searches.
    `ties_cut` tells whether documents with the score of the last hit were left out. With `rerank`
    the same hits come by `rerank_score`, and `reranked` is true. With `rescore`, scores are those
    of `rescored_by`, and there is no cursor. Where the query is a text, `recognized_terms` counts
    the distinct terms of it that the encoder knows; if it is 0, there are no hits by codes.
    `corrected` lists the unknown words and the known ones, one edit away, that were searched for in
    their place. `next_cursor` is there if it was asked for, and null on the last page.
    """

    hits: list[SearchHit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ranking: str
    ties_cut: bool
    took_ms: float
    recognized_terms: int | None = None
    corrected: list[tuple[str, str]] = Field(default_factory=list)
    reranked: bool = False
    rescored_by: str = ""
    next_cursor: str | None = None
    query_code: str = ""
    query_terms: list[QueryTerm] = Field(default_factory=list)


class SearchBatchResponse(ResponseModel):
    """One result for each search, in their order."""

    results: list[SearchResponse]
