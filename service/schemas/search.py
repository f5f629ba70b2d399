"""The JSON of searches and their responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import orjson
from pydantic import Field
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hummingbit.encoder.codes import code_from_hex, code_to_hex, unpack_codes
from hummingbit.encoder.encoder import MAX_HYBRID_WEIGHT, MIN_HYBRID_WEIGHT
from hummingbit.foundation.slices import checkpoint
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.rankings import MAX_FEEDBACK, N_FEEDBACK, RANKINGS
from hummingbit.index.records import StoredDocument, StoredPayload
from hummingbit.index.search import (
    DEFAULT_OVERSAMPLE,
    MAX_OVERSAMPLE,
    MAX_RRF,
    RESCORERS,
    Hit,
    Rescore,
    SearchResult,
)
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.schemas.common import (
    Code,
    Cursor,
    EncoderName,
    FilterField,
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

# ----------------------------------------------------------------------------
# The JSON of searches and their responses.


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
    filter: FilterField = None
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
    filter: FilterField = None
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


# ----------------------------------------------------------------------------
# Writes search results as JSON straight from the hits, without a model for each.


LONG_LISTS = ("hits", "documents", "results", "data", "queries")
# Entries that are written between two checkpoints, fewer if they are large.
ENTRIES_AT_ONCE = 16
# Bytes of a response that are sent at a time.
SENT_AT_ONCE = 64 << 10


def search_answer(
    collection: CollectionBackend,
    result: SearchResult,
    place: int,
    limit: int,
    radius: int | None,
    *,
    with_payload: bool,
    with_text: bool,
    seconds: float,
) -> dict[str, Any]:
    """Return a :class:`SearchResponse` as a dict, for one query of a batch.

    `place` is the query's position in `result`. Hits beyond `limit` and `radius`, which other
    queries of the batch requested, are left out. `seconds` is the time of the whole batch.
    """
    all_hits = result.hits[place]
    hits = all_hits[:limit]
    if radius is not None:
        hits = [hit for hit in hits if hit.distance <= radius]
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    terms = result.queries.terms[place]
    answer: dict[str, Any] = {
        "hits": _write_hits(result, hits, with_payload=with_payload, with_text=with_text),
        "n_bits": collection.n_bits,
        "encoder": None if name is None else {"name": name, "fingerprint": fingerprint},
        "generation": result.generation,
        "engine": result.engine,
        "ranking": result.rankings[place],
        "ties_cut": _ties_cut(all_hits, len(hits), cut=result.ties_cut[place]),
        "took_ms": round(seconds * 1000, 3),
    }
    if terms is not None:
        answer["recognized_terms"] = terms.recognized_terms
        answer["corrected"] = terms.corrected
    if result.reranked:
        answer["reranked"] = True
    if result.rescored_by is not None:
        answer["rescored_by"] = result.rescored_by
        answer["candidates"] = result.candidates
    return answer


def _write_hits(
    result: SearchResult, hits: Sequence[Hit], *, with_payload: bool, with_text: bool
) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = [
        {"id": hit.id, "distance": hit.distance, "score": hit.score} for hit in hits
    ]
    if with_payload:
        for entry, hit in zip(written, hits, strict=True):
            entry["payload"] = {} if hit.payload is None else _payload(hit.payload)
    if with_text:
        for entry, hit in zip(written, hits, strict=True):
            entry["text"] = hit.text
    if result.highlighted:
        for entry, hit in zip(written, hits, strict=True):
            entry["highlight"] = None if hit.highlight is None else hit.highlight._asdict()
    if result.reranked:
        for entry, hit in zip(written, hits, strict=True):
            entry["rerank_score"] = hit.rerank_score
    return written


def add_codes(answer: dict[str, Any], result: SearchResult, place: int) -> None:
    """Add the codes of query `place` and of its hits to its answer."""
    answer["query_code"] = code_to_hex(result.queries.codes[place])
    for written, hit in zip(answer["hits"], result.hits[place], strict=True):
        written["code"] = hit.code


def add_differing_bits(answer: dict[str, Any], result: SearchResult, place: int) -> None:
    """Add to each hit the bits in which its code and the code of query `place` differ."""
    n_bits = answer["n_bits"]
    query_code = result.queries.codes[place]
    for written, hit in zip(answer["hits"], result.hits[place], strict=True):
        both = np.stack([code_from_hex(hit.code or "", n_bits), query_code])
        of_hit, of_query = unpack_codes(both)
        written["differing_bits"] = np.flatnonzero(of_hit != of_query).tolist()


def document_to_json(stored: StoredDocument) -> dict[str, Any]:
    """Return a :class:`hummingbit.service.schemas.collections.StoredDocument` as a dict."""
    return {
        "id": stored.id,
        "code": stored.code,
        "text": stored.text,
        "vector": None if stored.vector is None else stored.vector.tolist(),
        "payload": _payload(stored.payload),
    }


def _payload(payload: Mapping[str, Any]) -> dict[str, Any] | orjson.Fragment:
    """Return a payload for :func:`to_json`, which copies one that is not parsed."""
    return orjson.Fragment(payload.json) if isinstance(payload, StoredPayload) else dict(payload)


class LongAnswer(Response):
    """A response that is sent in chunks, each once the client has read enough before it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response.

        Raises:
            ProblemError: 503 if it is long, and too many long ones are being sent to the client.
        """
        headers = self.raw_headers
        start = {"type": "http.response.start", "status": self.status_code, "headers": headers}
        await _send(scope, send, start, bytes(self.body))


class JSONAnswer(LongAnswer):
    """A JSON response that may be long."""

    media_type = "application/json"


async def send_json(scope: Scope, send: Send, body: bytes) -> None:
    """Send a JSON response as :class:`JSONAnswer` does, with status 200."""
    length = (b"content-length", b"%d" % len(body))
    headers = [length, (b"content-type", b"application/json")]
    await _send(
        scope, send, {"type": "http.response.start", "status": 200, "headers": headers}, body
    )


async def _send(scope: Scope, send: Send, start: Message, body: bytes) -> None:
    if len(body) <= SENT_AT_ONCE:
        await send(start)
        await send({"type": "http.response.body", "body": body})
        return
    address = scope["client"][0] if scope.get("client") else ""
    with scope["app"].state.unsent_responses.holding(address, len(body)):
        await send(start)
        whole = memoryview(body)
        for begin in range(0, len(body), SENT_AT_ONCE):
            end = begin + SENT_AT_ONCE
            part = bytes(whole[begin:end])
            await send({"type": "http.response.body", "body": part, "more_body": end < len(body)})


def answer_to_json(answer: Mapping[str, Any], max_bytes: int) -> bytes:
    """Write an answer as JSON, some entries of its long lists at a time.

    Raises:
        ProblemError: 422 if it has more than `max_bytes` bytes.
    """
    hits = answer.get("hits")
    if hits is not None and len(hits) <= ENTRIES_AT_ONCE and "documents" not in answer:
        written = to_json(answer)
        if len(written) <= max_bytes:
            return written
    pieces, size = [], 0
    for piece in _pieces(answer):
        size += len(piece)
        if size > max_bytes:
            raise answer_too_large(max_bytes)
        pieces.append(piece)
    return b"".join(pieces)


def answer_too_large(max_bytes: int) -> ProblemError:
    """Return the problem, 422, of an answer that has more than `max_bytes` bytes."""
    message = f"the response has more than {max_bytes:,} bytes, the limit; request less at a time"
    return ProblemError(422, "answer_too_large", message)


def _pieces(answer: Mapping[str, Any]) -> Iterator[bytes]:
    # A field that is a list in one answer may be a number in another.
    lists = [name for name in LONG_LISTS if isinstance(answer.get(name), list)]
    if all(len(answer[name]) <= ENTRIES_AT_ONCE for name in lists) and "results" not in answer:
        yield to_json(answer)
        return
    rest = to_json({name: value for name, value in answer.items() if name not in lists})
    yield rest[:-1]
    for place, name in enumerate(lists):
        yield (b"," if place or len(rest) > 2 else b"") + b'"' + name.encode() + b'":['
        entries = answer[name]
        size = 1 if name == "results" else ENTRIES_AT_ONCE
        for start in range(0, len(entries), size):
            checkpoint()
            if start:
                yield b","
            if name == "results":
                yield from _pieces(entries[start])
            else:
                yield to_json(entries[start : start + size])[1:-1]
        yield b"]"
    yield b"}"


def to_json(answer: Any) -> bytes:
    """Write an answer, or a part of one, as JSON."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A payload may hold whole numbers of more than 64 bits, and a quoted part of a request
        # may hold a lone surrogate. Only these are written by Python, and the rest by orjson.
        if isinstance(answer, Mapping):
            parts = (to_json(name) + b":" + to_json(value) for name, value in answer.items())
            return b"{" + b",".join(parts) + b"}"
        if isinstance(answer, list | tuple):
            return b"[" + b",".join(map(to_json, answer)) + b"]"
        return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _ties_cut(hits: Sequence[Hit], n_kept: int, *, cut: bool) -> bool:
    """Tell whether documents with the score of the last of the first `n_kept` hits are left out."""
    if n_kept == len(hits):
        return cut
    return n_kept > 0 and hits[n_kept].score == hits[n_kept - 1].score
