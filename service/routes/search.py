"""Searches over REST: by one query, by many, by examples; completions and codes of queries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from hummingbit.corpus.document import parse_code, parse_vector
from hummingbit.encoder.codes import code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.index.answers import answer_to, explained_answer, search_answer
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.names import HAMMING
from hummingbit.index.options import SearchOptions
from hummingbit.index.query_syntax import both
from hummingbit.index.records import Query
from hummingbit.index.search import SearchResult, with_warnings
from hummingbit.service.batching import Batcher
from hummingbit.service.http.bodies import show
from hummingbit.service.http.keys import FILTERED_READ
from hummingbit.service.http.problems import invalid_field
from hummingbit.service.http.routing import PlainRoute, Router
from hummingbit.service.routes.dependencies import (
    FILTERED_LONG_READ,
    CollectionOf,
    Limits,
    encoder_name,
    render,
    render_long,
    visible_collection,
)
from hummingbit.service.schemas.common import (
    check_fingerprint,
    check_text,
    pointing_among,
    pointing_at,
    problem_at,
)
from hummingbit.service.schemas.encoders import EncodeRequest
from hummingbit.service.schemas.responses import (
    Completions,
    EncodeResponse,
    SearchBatchResponse,
    SearchResponse,
)
from hummingbit.service.schemas.search import (
    RecommendRequest,
    SearchBatch,
    SearchFields,
    SearchRequest,
    answer_to_json,
)
from hummingbit.service.settings import Settings

# The search of a collection by one query.
#
# FastAPI's handlers resolve a route's dependencies anew for every request, which takes as long as a
# small search. So this route, whose parameters and models FastAPI describes, is served by a plain
# function.


# A vector with more numbers is parsed in a thread.
LONG_VECTOR = 4096
# A longer text is no query that a person types.
MAX_COMPLETED = 256

router = Router(prefix="/v1/collections/{name}", tags=["search"])
search_router = Router(prefix="/v1/collections/{name}", tags=["search"], route_class=PlainRoute)


@search_router.post("/search", response_model=SearchResponse, **FILTERED_READ, summary="Search")
async def search(request: Request, name: str, body: SearchRequest) -> bytes:
    """Find the documents nearest to a text, a vector, a code or another document."""
    app, state = request.app, request.scope["state"]
    collection = visible_collection(state, app.state.folder, name)
    if body.encoder_fingerprint is not None:
        check_fingerprint(collection, body.encoder_fingerprint)
    options = body.options()
    check_radius(options.radius, collection)
    if body.vector is not None and len(body.vector) > LONG_VECTOR:
        query = await run_in_threadpool(query_of, body, options.k, app.state.settings)
    else:
        query = query_of(body, options.k, app.state.settings)
    batcher: Batcher = app.state.batcher
    try:
        return await batcher.search(collection, options, query, alone=not body.shares_batch())
    except InputError as error:
        raise problem_at(error) from None


def write_search(
    collection: CollectionBackend,
    options: SearchOptions,
    result: SearchResult,
    position: int,
    seconds: float,
    *,
    max_bytes: int,
) -> bytes:
    """Write the response to the query at a `position` of a result, which took so many seconds."""
    answer = explained_answer(collection, result, position, options, seconds)
    return answer_to_json(answer, max_bytes)


def query_of(search: SearchFields, limit: int, limits: Settings, *location: str | int) -> Query:
    """Return the query of the search at `location` of the body, which is for `limit` hits.

    Raises:
        ProblemError: pointing to the field that is invalid, such as the limit.
    """
    check_limit(limit, limits, *location)
    text, vector = search.text, None
    # Checked here first, so that a valid search enters fewer modules.
    if text is not None and len(text) > limits.max_text_length:
        check_text(text, limits, *location)
    if search.vector is not None:
        with pointing_at(*location):
            vector = parse_vector(search.vector)
    code = search.code
    if code is not None and not isinstance(code, str):
        with pointing_at(*location):
            code = parse_code(code)
    return Query(text, vector, code, search.id)


def check_limit(limit: int, limits: Settings, *location: str | int) -> None:
    """Raise a ProblemError if a search at `location` of the body is for too many hits."""
    if limit > limits.max_limit:
        message = f"is {show(limit)}; it must be from 1 to {limits.max_limit:,}"
        raise invalid_field(message, *location, "limit")


def check_radius(radius: int | None, collection: CollectionBackend, *location: str | int) -> None:
    """Raise a ProblemError if `radius` exceeds the number of bits of the collection's codes."""
    # A collection without codes refuses every radius.
    if radius is not None and radius > collection.n_bits > 0:
        message = f"is {show(radius)}; it must be from 0 to {collection.n_bits}"
        raise invalid_field(message, *location, "radius")


@router.get("/completions", response_model=Completions, **FILTERED_READ, summary="Complete a query")
def complete_query(collection: CollectionOf, text: str, limit: int = 10) -> Response:
    """Complete the last word of a text with words of the documents."""
    with pointing_at():
        completions = collection.complete(text[:MAX_COMPLETED], limit)
    return render(Completions(completions=completions))


@router.post(
    "/search/batch",
    response_model=SearchBatchResponse,
    **FILTERED_LONG_READ,
    summary="Search many times",
)
def search_batch(collection: CollectionOf, body: SearchBatch, limits: Limits) -> Response:
    """Run several searches on one generation of the collection."""
    check_fingerprint(collection, body.encoder_fingerprint)
    # A limit that is too large for any search is refused below, with a pointer to it.
    searches = [search.options() for search in body.searches]
    largest = min(max(search.k for search in searches), limits.max_limit)
    hits = len(searches) * largest
    common = body.options()
    if common.rescore is not None:
        _check_same_hits(searches)
        hits = len(searches) * common.rescore.n_candidates(largest)
    if hits > limits.max_hits:
        rule = f"the number of searches times the largest limit may be {limits.max_hits:,} at most"
        raise invalid_field(f"may find {hits:,} documents; {rule}", "searches")
    results = _search(collection, body, searches, common, limits)
    return render_long({"results": results}, limits)


@router.post("/recommend", response_model=SearchResponse, **FILTERED_LONG_READ, summary="Recommend")
def recommend_documents(
    collection: CollectionOf, body: RecommendRequest, limits: Limits
) -> Response:
    """Find documents whose codes are like those of some examples and unlike those of others.

    Documents that are examples are not among the hits. With average_vector, hits are ordered by the
    dot product of their ±1 bits with m⁺ + (m⁺ − m⁻), where m⁺ and m⁻ are the means of the positive
    and the negative examples' bits. With best_score, a hit has the score σ(s⁺) if s⁺ > s⁻, and
    −σ(s⁻) otherwise: s⁺ and s⁻ are the similarities 1 − 2 d / n_bits to the nearest positive and
    negative example, and σ(x) = (x / (1 + |x|) + 1) / 2.
    """
    check_fingerprint(collection, body.encoder_fingerprint)
    options = body.options()
    positive, negative = (
        [
            Query(id=example)
            if isinstance(example, str)
            else query_of(example, options.k, limits, field, position)
            for position, example in enumerate(examples)
        ]
        for field, examples in (("positive", body.positive), ("negative", body.negative))
    )
    check_limit(options.k, limits)
    search = partial(collection.recommend, positive, negative, options, body.strategy)
    try:
        answer = answer_to(collection, options, search)
    except InputError as error:
        location = () if error.position is None else (error.position,)
        raise invalid_field(error.reason, error.field, *location) from None
    return render_long(answer, limits)


@router.post("/encode", response_model=EncodeResponse, **FILTERED_LONG_READ, summary="Encode")
def encode(collection: CollectionOf, body: EncodeRequest, limits: Limits) -> Response:
    """Return the codes that the collection's encoder gives texts or vectors as queries."""
    encoder = encoder_name(collection)
    if encoder is None:
        message = "cannot be encoded: the collection has no encoder, its documents come with codes"
        raise invalid_field(message, "inputs")
    queries: list[Query] = []
    for position, item in enumerate(body.inputs):
        check_text(item.text, limits, "inputs", position)
        with pointing_at("inputs", position):
            vector = None if item.vector is None else parse_vector(item.vector)
        queries.append(Query(text=item.text, vector=vector))
    with pointing_among("inputs"):
        codes = collection.encode_queries(queries).codes
    hexadecimal = [code_to_hex(code) for code in codes]
    return render(EncodeResponse(codes=hexadecimal, n_bits=collection.n_bits, encoder=encoder))


def _check_same_hits(searches: Sequence[SearchOptions]) -> None:
    """Raise a ProblemError unless all searches have one limit and radius, as with rescore.

    The candidates that are rescored depend on both.
    """
    for position, search in enumerate(searches):
        for field, name in (("k", "limit"), ("radius", "radius")):
            value, expected = getattr(search, field), getattr(searches[0], field)
            if value != expected:
                message = f"is {value}; with rescore, all searches must have one, here {expected}"
                raise invalid_field(message, "searches", position, name)


def _search(
    collection: CollectionBackend,
    body: SearchBatch,
    searches: Sequence[SearchOptions],
    common: SearchOptions,
    limits: Settings,
) -> list[dict[str, Any]]:
    """Answer the `searches` of the body, all from one generation, with the `common` options.

    The collection is searched once, with the largest limit and radius: a shorter list of hits is
    the beginning of a longer one.
    """
    start = time.perf_counter()
    queries = [
        query_of(search, options.k, limits, "searches", position)
        for position, (search, options) in enumerate(zip(body.searches, searches, strict=True))
    ]
    for position, search in enumerate(searches):
        check_radius(search.radius, collection, "searches", position)
    radii = [search.radius for search in searches if search.radius is not None]
    if common.ranking not in {None, HAMMING} and radii:
        position = next(
            position for position, search in enumerate(searches) if search.radius is not None
        )
        message = f"is {radii[0]}; only the ranking {HAMMING!r} takes one"
        raise invalid_field(message, "searches", position, "radius")
    options = replace(
        common,
        k=max(search.k for search in searches),
        radius=max(radii) if len(radii) == len(searches) else None,
        ranking=common.ranking or (HAMMING if radii else None),
        with_payload=any(bool(search.with_payload) for search in searches),
        with_text=any(search.with_text for search in searches),
    )
    with pointing_among("searches"):
        result = collection.find(queries, options)
    seconds = time.perf_counter() - start
    filter_ = both(common.filter, *result.queries.conditions)
    warnings = [] if any(result.hits) else collection.explain_no_hits(filter_)
    answers = [
        search_answer(collection, result, position, search, seconds)
        for position, search in enumerate(searches)
    ]
    return [with_warnings(answer, warnings) for answer in answers]
