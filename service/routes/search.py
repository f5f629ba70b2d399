"""The search of a collection by one query.

Most searches are answered by :mod:`service.routes.fast_path`, all others by FastAPI's route here.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from corpus.document import parse_vector
from foundation.errors import InputError
from foundation.slices import BeyondAllowance
from index.backend import CollectionBackend
from index.records import Query
from index.search.search_options import SearchOptions
from service.http.bodies.field_errors import show
from service.http.gateway import Service
from service.http.problems import invalid_field
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.routes.special_search import special_search
from service.schemas.checks import (
    check_fingerprint,
    check_text,
    pointing_at,
    problem_at,
)
from service.schemas.results import JSONAnswer
from service.schemas.search import (
    SINGLE_SEARCH_FIELDS,
    SearchFields,
    SearchRequest,
    SearchResponse,
)
from service.settings import Settings

# A vector with more numbers is parsed in a thread.
LONG_VECTOR = 4096
# A search for more hits, or by a longer text, waits in the lane of long reads.
CHEAP_HITS = 200
CHEAP_LENGTH = 10_000

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


async def search_response(
    app: Service, state: dict[str, Any], name: str, body: SearchRequest
) -> bytes:
    """Search the collection `name`, and return the response as JSON.

    `state` is that of the request's scope.

    Raises:
        ProblemError, HummingbitError: if the search is invalid or fails.
    """
    settings: Settings = app.state.settings
    collection: CollectionBackend
    if body.radius is not None or body.encoder_fingerprint is not None:
        collection = app.state.folder.collection(name)
        check_fingerprint(collection, body.encoder_fingerprint)
        check_radius(body.radius, collection)
    if body.vector is not None and len(body.vector) > LONG_VECTOR:
        query = await run_in_threadpool(query_of, body, settings)
    else:
        query = query_of(body, settings)
    is_long = body.limit + body.offset > CHEAP_HITS or len(body.text or "") > CHEAP_LENGTH
    if is_long or not has_plain_fields(body):
        collection = app.state.folder.collection(name)
        return await special_search(app, state, collection, body, query, is_long=is_long)
    try:
        answer: bytes = await app.state.batcher.search(name, options_of(body), query)
    except InputError as error:
        raise problem_at(error) from None
    except BeyondAllowance:
        collection = app.state.folder.collection(name)
        return await special_search(app, state, collection, body, query, is_long=False)
    return answer


def has_plain_fields(body: SearchRequest) -> bool:
    """Tell whether a search has only fields that searches in a batch can have."""
    # With a vector, the text needs the word index, which the event loop must not wait for.
    has_both = body.text is not None and body.vector is not None
    return not has_both and SINGLE_SEARCH_FIELDS.isdisjoint(body.model_fields_set)


def options_of(body: SearchRequest) -> SearchOptions:
    """Return the options of a search with plain fields."""
    return SearchOptions(
        body.limit,
        body.radius,
        body.ranking,
        with_payload=body.with_payload,
        with_text=body.with_text,
        with_cursor=False,
    )


@router.post("/search", response_model=SearchResponse, openapi_extra=READ, summary="Search")
async def post_search(request: Request, name: str, body: SearchRequest) -> Response:
    """Find the documents nearest to a text, a vector, a code or another document."""
    return JSONAnswer(await search_response(request.app, request.scope["state"], name, body))


def query_of(search: SearchFields, limits: Settings, *place: str | int) -> Query:
    """Return the query of the search at `place` of the body.

    Raises:
        ProblemError: pointing to the field that is invalid, such as the limit.
    """
    if search.limit > limits.max_limit:
        message = f"is {show(search.limit)}; it must be from 1 to {limits.max_limit:,}"
        raise invalid_field(message, *place, "limit")
    text, vector = search.text, None
    # Checked here first, so that a valid search enters fewer modules.
    if text is not None and len(text) > limits.max_text_length:
        check_text(text, limits, *place)
    if search.vector is not None:
        with pointing_at(*place):
            vector = parse_vector(search.vector)
    return Query(text, vector, search.code, search.id)


def check_radius(radius: int | None, collection: CollectionBackend, *place: str | int) -> None:
    """Raise a ProblemError if `radius` exceeds the number of bits of the collection's codes."""
    if radius is not None and radius > collection.n_bits:
        message = f"is {show(radius)}; it must be from 0 to {collection.n_bits}"
        raise invalid_field(message, *place, "radius")
