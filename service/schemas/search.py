"""The JSON of searches and their responses."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from encoder.encoder import MAX_HYBRID_WEIGHT, MIN_HYBRID_WEIGHT
from index.rankings.protocol import (
    MAX_FEEDBACK,
    N_FEEDBACK,
    RANKINGS,
)
from index.records import DEFAULT_OVERSAMPLE, Rescore
from index.search.search_options import MAX_OVERSAMPLE, MAX_RRF, RESCORERS
from service.schemas.common import (
    Code,
    Cursor,
    EncoderName,
    Filter,
    Fingerprint,
    Limit,
    Radius,
    RankingUsed,
    RequestModel,
    ResponseModel,
    StrictModel,
    Text,
    Vector,
)

RankingName = Annotated[
    str | None,
    Field(
        description="What orders the hits: hamming, by the distance of codes; asymmetric, by the"
        " probability of a document's bits given the query's real values; bm25, by the words that"
        " they share with a text; hybrid, by codes and words together. By default, the"
        " collection's ranking, or hamming for a query by code or id.",
        json_schema_extra={"enum": [*RANKINGS, None]},
    ),
]


class HybridOptions(RequestModel):
    """How the hybrid ranking combines codes and words: by scores, or with `rrf` by ranks."""

    codes: float | None = Field(
        None,
        ge=MIN_HYBRID_WEIGHT,
        le=MAX_HYBRID_WEIGHT,
        description="The weight of the codes' standardized score; the words' weighs 1.",
    )
    rrf: int | None = Field(
        None, ge=1, le=MAX_RRF, description="The constant of reciprocal rank fusion, usually 60."
    )
    feedback: int | None = Field(
        None,
        ge=0,
        le=MAX_FEEDBACK,
        description="The number of best documents that the query's real values learn from before"
        f" the hits are ranked. 0 turns feedback off; the default is {N_FEEDBACK}.",
    )


class RescoreOptions(RequestModel):
    """Take more candidates from the ranking, and order them by another score."""

    by: str = Field(
        description="What scores the candidates: bm25, their words; logits, the real values of the"
        " query; vectors, the cosine of the query's vector and those that the collection keeps.",
        json_schema_extra={"enum": [*RESCORERS]},
    )
    oversample: float = Field(
        DEFAULT_OVERSAMPLE,
        ge=1,
        le=MAX_OVERSAMPLE,
        description="Candidates to take for each hit to return, `offset` included.",
    )

    def to_rescore(self) -> Rescore:
        """Return the same as the value that a search takes."""
        return Rescore(self.by, self.oversample)


class SearchFields(StrictModel):
    """The fields of every search."""

    text: Text = None
    vector: Vector = None
    code: Code = None
    id: str | None = Field(
        None, description="The id of a stored document, which is among the hits, too."
    )
    limit: Limit = 10
    radius: Radius = None
    with_payload: bool = False
    with_text: bool = Field(False, description="Return the text of each hit; null if it has none.")


class BatchedSearch(SearchFields, RequestModel):
    """A search by one of text, vector, code and the id of a document, or by a text and a vector."""


class SearchRequest(SearchFields):
    """A search by one of text, vector, code and the id of a document, or by a text and a vector.

    With a text and a vector, the ranking is hybrid by default: by the words of the text and the
    code of the vector.
    """

    ranking: RankingName = None
    filter: Filter = None
    offset: int = Field(0, ge=0, description="The number of best hits to skip.")
    cursor: Cursor = None
    with_cursor: bool = Field(False, description="Return a `next_cursor`, null on the last page.")
    with_code: bool = Field(False, description="Return the codes of the query and of the hits.")
    hybrid: HybridOptions | None = None
    rescore: RescoreOptions | None = None
    highlight: bool = Field(
        False,
        description="Return a passage of each hit's text and the positions of the query's terms.",
    )
    rerank: bool = Field(
        False,
        description="Re-order the hits, and only them, by the query's probability of each bit"
        " against the stored bit; for texts and vectors.",
    )
    explain: bool = Field(
        False, description="Return the bits that differ, and the terms of a text that weigh most."
    )

    encoder_fingerprint: Fingerprint = None


SEARCH_FIELDS = frozenset(SearchRequest.model_fields)
SINGLE_SEARCH_FIELDS = (
    SEARCH_FIELDS - SearchFields.model_fields.keys() - {"encoder_fingerprint", "ranking"}
)
"""Fields that only a search outside a batch can have."""


class SearchBatch(RequestModel):
    """Searches of one generation, all with the same ranking and filter.

    If one of them has a `radius` and no `ranking` is given, all are ranked by Hamming distance.
    """

    searches: list[BatchedSearch] = Field(min_length=1)
    ranking: RankingName = None
    rescore: RescoreOptions | None = Field(
        None, description="For searches that all have the same limit and radius."
    )
    filter: Filter = None
    encoder_fingerprint: Fingerprint = None


class Highlight(ResponseModel):
    """A passage of plain text; positions count Unicode code points.

    `start` is its position in the text; `marks` are the [start, end) positions in the passage of
    the query's terms.
    """

    passage: str
    start: int
    marks: list[tuple[int, int]]


class SearchHit(ResponseModel):
    """A document found; the fields below `score` are present on request.

    `distance` is the Hamming distance between the codes. A higher `score` is better: 1 − distance /
    n_bits with the ranking hamming; the share of the query's weight in the bits that agree with
    asymmetric; the cosine if rescored by vectors. A lower `rerank_score` is better:
    Σ_b |p_b − c_b|, where p_b is the query's probability of bit b and c_b the stored bit.
    `differing_bits` counts from 0, the first bit of the code.
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
    """A term of the query's text, its weight, and how the code would change without it.

    `influence` is Σ_b |p_b − p′_b|, the probabilities of the bits with the term and without.
    """

    term: str
    weight: float
    influence: float
    flipped_bits: list[int]


class SearchResponse(ResponseModel):
    """Hits by the score of the `ranking`, best first; equal scores in the order of insertion.

    `took_ms` is the time in the collection, encoding included; in a batch, that of all searches.
    `ties_cut` tells whether documents with the last hit's score were left out. With `rerank` the
    same hits are ordered by `rerank_score`, and `reranked` is true. With `rescore` the scores are
    those of `rescored_by`, of at most `candidates` documents, and there is no cursor. For a text,
    `recognized_terms` counts its distinct terms that the encoder knows; if it is 0, codes find no
    hits. `corrected` lists the unknown words and what the encoder reads in their place: the known
    word one edit away, or the words of an identifier. `next_cursor` is present on request, and null
    on the last page. If a search with a filter finds nothing, `warnings` may say why: no document
    has a field of the filter, or the field holds values of another kind.
    """

    hits: list[SearchHit]
    n_bits: int
    encoder: EncoderName | None
    generation: int
    engine: str
    ranking: RankingUsed
    ties_cut: bool
    took_ms: float
    recognized_terms: int | None = None
    corrected: list[tuple[str, str]] = Field(default_factory=list)
    reranked: bool = False
    rescored_by: str = ""
    candidates: int = 0
    next_cursor: str | None = None
    query_code: str = ""
    query_terms: list[QueryTerm] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class SearchBatchResponse(ResponseModel):
    """One result for each search, in the same order."""

    results: list[SearchResponse]
