"""Many queries in one request: searches of one generation, and texts or vectors to encode."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from corpus.document import parse_vector
from encoder.codes import Codes, code_to_hex
from foundation.errors import InputError
from foundation.slices import checkpoint
from index.backend import CollectionBackend
from index.rankings.protocol import HAMMING
from index.records import Query
from index.search.empty_results import reasons_for_none, with_warnings
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, CollectionOf, Limits, encoder_name, render
from service.routes.search import check_radius, query_of
from service.schemas.checks import (
    check_fingerprint,
    check_text,
    parse_body_filter,
    pointing_among,
    pointing_at,
)
from service.schemas.encoders import EncodeRequest, EncodeResponse
from service.schemas.results import JSONAnswer, answer_to_json, search_answer
from service.schemas.search import BatchedSearch, SearchBatch, SearchBatchResponse
from service.settings import Settings

ENCODED_AT_ONCE = 64

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


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
    # A limit that is too large for any search is refused below, with a pointer to it.
    largest = min(max(search.limit for search in body.searches), limits.max_limit)
    hits = len(body.searches) * largest
    if body.rescore is not None:
        _check_same_hits(body.searches)
        hits = len(body.searches) * body.rescore.to_rescore().n_candidates(largest)
    if hits > limits.max_hits:
        rule = f"the number of searches times the largest limit may be {limits.max_hits:,} at most"
        raise invalid_field(f"may find {hits:,} documents; {rule}", "searches")
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
        codes = _encode(collection, queries)
    hexadecimal = [code_to_hex(code) for code in codes]
    return render(EncodeResponse(codes=hexadecimal, n_bits=collection.n_bits, encoder=encoder))


def _encode(collection: CollectionBackend, queries: Sequence[Query]) -> Codes:
    """Encode the queries, some at a time, so that other requests have their turn in between."""
    codes = []
    for start in range(0, len(queries), ENCODED_AT_ONCE):
        checkpoint()
        try:
            codes.append(collection.encode_queries(queries[start : start + ENCODED_AT_ONCE]).codes)
        except InputError as error:
            place = None if error.position is None else start + error.position
            raise InputError(error.field, error.reason, place) from None
    return np.concatenate(codes)


def _check_same_hits(searches: Sequence[BatchedSearch]) -> None:
    """Raise a ProblemError unless all searches have one limit and radius, as with rescore.

    The candidates that are rescored depend on both.
    """
    for position, search in enumerate(searches):
        for field in ("limit", "radius"):
            value, expected = getattr(search, field), getattr(searches[0], field)
            if value != expected:
                message = f"is {value}; with rescore, all searches must have one, here {expected}"
                raise invalid_field(message, "searches", position, field)


def _search(
    collection: CollectionBackend, body: SearchBatch, limits: Settings
) -> list[dict[str, Any]]:
    """Answer the searches of the body, all from one generation.

    The collection is searched once, with the largest limit and radius: a shorter list of hits is
    the beginning of a longer one.
    """
    start = time.perf_counter()
    searches, filter_ = body.searches, parse_body_filter(body.filter)
    queries = [
        query_of(search, limits, "searches", position) for position, search in enumerate(searches)
    ]
    for position, search in enumerate(searches):
        check_radius(search.radius, collection, "searches", position)
    radii = [search.radius for search in searches if search.radius is not None]
    if body.ranking not in {None, HAMMING} and radii:
        position = next(
            position for position, search in enumerate(searches) if search.radius is not None
        )
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
            rescore=None if body.rescore is None else body.rescore.to_rescore(),
        )
    seconds = time.perf_counter() - start
    warnings = [] if any(result.hits) else reasons_for_none(collection, filter_)
    answers = [
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
    return [with_warnings(answer, warnings) for answer in answers]
