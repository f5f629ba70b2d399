"""Search and encode: what is asked of a collection and changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from common.errors import InputError
from corpus.document import parse_vector
from encoder.codes import Codes, code_to_hex
from encoder.explanation import explain_text
from index.backend import CollectionBackend
from index.filters import Filter
from index.rankings.protocol import HAMMING
from index.records import Hybrid, Query, Rescore, SearchResult
from index.slices import checkpoint
from service.batching import Asked, Batcher
from service.http.field_errors import show
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.routing import Handler, JSONRoute
from service.routes.dependencies import LONG_READ, CollectionOf, Limits, encoder_name, render, stage
from service.schemas.checks import (
    check_fingerprint,
    check_text,
    checked_filter,
    pointing_among,
    pointing_at,
)
from service.schemas.encoders import EncodeRequest, EncodeResponse
from service.schemas.results import (
    JSONAnswer,
    add_codes,
    add_differing_bits,
    answer_to_json,
    search_answer,
)
from service.schemas.search import (
    BatchedSearch,
    SearchBatch,
    SearchBatchResponse,
    SearchRequest,
    SearchResponse,
)
from service.settings import Settings

# What is longer is read in a thread.
LONG_VECTOR = 4096

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)
# A search for more, or by a longer text, takes longer than others can be kept waiting.
CHEAP_HITS = 200
CHEAP_LENGTH = 10_000
ENCODED_AT_ONCE = 64


class SearchRoute(JSONRoute):
    """The route of :func:`post_search`, which it calls itself.

    FastAPI solves what a function depends on anew for every request, which takes longer than a
    search does.
    """

    def handler(self) -> Handler:
        """Return what answers a search."""
        return _answer_search


async def _answer_search(request: Request) -> Response:
    if not await request.body():
        raise invalid_field("is missing")
    body: SearchRequest = await request.json()
    state = request.app.state
    collection: CollectionBackend = state.folder.collection(request.path_params["name"])
    return await post_search(request, collection, body, state.settings)


async def post_search(
    request: Request, collection: CollectionOf, body: SearchRequest, limits: Limits
) -> Response:
    """Find the documents nearest to a text, a vector, a code or another document."""
    batcher: Batcher[bytes] = request.app.state.batcher
    check_fingerprint(collection, body.encoder_fingerprint)
    if body.vector is not None and len(body.vector) > LONG_VECTOR:
        query = await run_in_threadpool(_query, collection, body, limits)
    else:
        query = _query(collection, body, limits)
    if body.is_plain and not _is_expensive(body):
        asked = Asked(
            collection, body.limit, body.radius, body.with_payload, body.ranking, body.with_text
        )
        with pointing_at():
            answer = await batcher.search(asked, query)
    else:
        answer = await _search_in_lane(request, collection, body, query)
    return JSONAnswer(answer)


router.add_api_route(
    "/search",
    post_search,
    methods=["POST"],
    response_model=SearchResponse,
    openapi_extra=READ,
    summary="Search",
    route_class_override=SearchRoute,
)


def _is_expensive(body: SearchRequest) -> bool:
    return body.limit + body.offset > CHEAP_HITS or len(body.text or "") > CHEAP_LENGTH


async def _search_in_lane(
    request: Request, collection: CollectionBackend, body: SearchRequest, query: Query
) -> bytes:
    """Have a thread answer a search, among those that take as long."""
    filter_, app, state = checked_filter(body.filter), request.app.state, request.scope["state"]
    arguments = (request, collection, body, query, filter_)
    if filter_ is not None and not collection.knows_filter(filter_):
        async with app.filters.place(state):
            work = partial(copy_context().run, _search_alone, *arguments)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(app.filter_threads, work)
    if _is_expensive(body):
        async with app.long_reads.place(state):
            return await run_in_threadpool(_search_alone, *arguments)
    return await run_in_threadpool(_search_alone, *arguments)


def _search_alone(
    request: Request,
    collection: CollectionBackend,
    body: SearchRequest,
    query: Query,
    filter_: Filter | None,
) -> bytes:
    """Answer a search that asks for more than those do that are searched in one batch."""
    began = time.perf_counter()
    with pointing_at(), stage(request, "search"):
        result = collection.search(
            [query],
            body.limit,
            body.radius,
            ranking=body.ranking,
            with_payload=body.with_payload,
            with_text=body.with_text,
            with_code=body.with_code or body.explain,
            filter=filter_,
            offset=body.offset,
            cursor=body.cursor,
            rerank=body.rerank,
            hybrid=None if body.hybrid is None else Hybrid(body.hybrid.codes, body.hybrid.rrf),
            rescore=None
            if body.rescore is None
            else Rescore(body.rescore.by, body.rescore.oversample),
            highlight=body.highlight,
        )
    answer = search_answer(
        collection,
        result,
        0,
        body.limit,
        body.radius,
        with_payload=body.with_payload,
        with_text=body.with_text,
        seconds=time.perf_counter() - began,
    )
    if body.with_cursor or body.cursor is not None:
        answer["next_cursor"] = result.next_cursors[0]
    if body.with_code:
        add_codes(answer, result, 0)
    if body.explain:
        add_differing_bits(answer, result, 0)
        if query.text is not None and collection.encoder is not None:
            terms = explain_text(collection.encoder, query.text)
            answer["query_terms"] = [one._asdict() for one in terms]
    return answer_to_json(answer, request.app.state.settings.max_response_bytes)


def write_search(
    asked: Asked, result: SearchResult, place: int, seconds: float, *, most: int
) -> bytes:
    """Write the answer to one of the searches of a batch."""
    return answer_to_json(
        search_answer(
            asked.collection,
            result,
            place,
            asked.limit,
            asked.radius,
            with_payload=asked.with_payload,
            with_text=asked.with_text,
            seconds=seconds,
        ),
        most,
    )


@router.post(
    "/search/batch",
    response_model=SearchBatchResponse,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Search many times",
)
def post_search_batch(collection: CollectionOf, body: SearchBatch, limits: Limits) -> Response:
    """Run several searches on one generation of the collection."""
    check_fingerprint(collection, body.encoder_fingerprint)
    # A limit beyond what any search may have is refused below, and pointed to.
    largest = min(max(search.limit for search in body.searches), limits.max_limit)
    hits = len(body.searches) * largest
    if hits > limits.max_hits:
        most = f"searches times the largest limit are at most {limits.max_hits:,}"
        raise invalid_field(f"may find {hits:,} documents; {most}", "searches")
    results = _search(collection, body, limits)
    return JSONAnswer(answer_to_json({"results": results}, limits.max_response_bytes))


@router.post(
    "/encode",
    response_model=EncodeResponse,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Encode",
)
def post_encode(collection: CollectionOf, body: EncodeRequest, limits: Limits) -> Response:
    """Return the codes that the collection's encoder gives texts or vectors."""
    encoder = encoder_name(collection)
    if encoder is None:
        message = "cannot be encoded: the collection has no encoder, its documents bring codes"
        raise invalid_field(message, "inputs")
    queries: list[Query] = []
    for position, item in enumerate(body.inputs):
        check_text(item.text, limits, "inputs", position)
        with pointing_at("inputs", position):
            vector = None if item.vector is None else parse_vector(item.vector)
        queries.append(Query(text=item.text, vector=vector))
    with pointing_among("inputs"):
        codes = _encode(collection, queries)
    hexadecimal = [code_to_hex(code) for code in codes]
    return render(EncodeResponse(codes=hexadecimal, n_bits=collection.n_bits, encoder=encoder))


def _encode(collection: CollectionBackend, queries: Sequence[Query]) -> Codes:
    """Encode some at a time, between which others have their turn."""
    codes = []
    for start in range(0, len(queries), ENCODED_AT_ONCE):
        checkpoint()
        try:
            codes.append(collection.encode_queries(queries[start : start + ENCODED_AT_ONCE]).codes)
        except InputError as error:
            place = None if error.position is None else start + error.position
            raise InputError(error.field, error.reason, place) from None
    return np.concatenate(codes)


def _search(
    collection: CollectionBackend, body: SearchBatch, limits: Settings
) -> list[dict[str, Any]]:
    """Answer the searches of the body.

    One search of the collection, as far as the farthest of them goes, answers all of them as of
    the same generation: a shorter list is the beginning of a longer one.
    """
    began = time.perf_counter()
    searches, filter_ = body.searches, checked_filter(body.filter)
    queries = [
        _query(collection, search, limits, "searches", position)
        for position, search in enumerate(searches)
    ]
    radii = [search.radius for search in searches if search.radius is not None]
    if body.ranking not in {None, HAMMING} and radii:
        position = next(at for at, one in enumerate(searches) if one.radius is not None)
        message = f"is {radii[0]}; only the ranking {HAMMING!r} takes one"
        raise invalid_field(message, "searches", position, "radius")
    with pointing_among("searches"):
        result = collection.search(
            queries,
            max(search.limit for search in searches),
            max(radii) if len(radii) == len(searches) else None,
            ranking=body.ranking or (HAMMING if radii else None),
            with_payload=any(search.with_payload for search in searches),
            with_text=any(search.with_text for search in searches),
            filter=filter_,
        )
    seconds = time.perf_counter() - began
    return [
        search_answer(
            collection,
            result,
            place,
            search.limit,
            search.radius,
            with_payload=search.with_payload,
            with_text=search.with_text,
            seconds=seconds,
        )
        for place, search in enumerate(searches)
    ]


def _query(
    collection: CollectionBackend, search: BatchedSearch, limits: Settings, *place: str | int
) -> Query:
    if search.limit > limits.max_limit:
        message = f"is {show(search.limit)}; it must be from 1 to {limits.max_limit:,}"
        raise invalid_field(message, *place, "limit")
    if search.radius is not None and search.radius > collection.n_bits:
        message = f"is {show(search.radius)}; it must be from 0 to {collection.n_bits}"
        raise invalid_field(message, *place, "radius")
    check_text(search.text, limits, *place)
    with pointing_at(*place):
        vector = None if search.vector is None else parse_vector(search.vector)
    return Query(text=search.text, vector=vector, code=search.code, id=search.id)
