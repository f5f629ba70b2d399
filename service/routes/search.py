"""The search of a collection by one query.

Most searches are short and have no more than a text and a limit. :class:`FastPath` answers them
before they reach FastAPI, which resolves a route's dependencies anew for every request; that takes
longer than such a search. FastAPI's route answers all others. Both call :func:`search_response`.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, NoReturn, cast

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from corpus.document import parse_vector
from foundation.errors import InputError
from index.backend import CollectionBackend
from index.records import Query
from index.search.search_options import SearchOptions
from service.batching import BatchedResult
from service.http.admission import Turns
from service.http.bodies.field_errors import show
from service.http.bodies.json_parser import parse_json
from service.http.gateway import Service
from service.http.problems import ProblemError, invalid_field
from service.http.roles import READ, Role
from service.http.routing import JSONRoute
from service.routes.special_search import special_search
from service.schemas.checks import (
    check_fingerprint,
    check_text,
    pointing_at,
    problem_at,
)
from service.schemas.results import (
    SENT_AT_ONCE,
    JSONAnswer,
    answer_to_json,
    search_answer,
    send_json,
)
from service.schemas.search import (
    SEARCH_FIELDS,
    SINGLE_SEARCH_FIELDS,
    SearchFields,
    SearchRequest,
    SearchResponse,
)
from service.settings import Settings

PATH = "/v1/collections/{name}/search"
_PATH = re.compile(r"/v1/collections/([^/]+)/search")
# A vector with more numbers is parsed in a thread.
LONG_VECTOR = 4096
# A longer body is parsed in slices.
SHORT_BODY = 64 << 10
# A search for more hits, or by a longer text, waits in the lane of long reads.
CHEAP_HITS = 200
CHEAP_LENGTH = 10_000
_JSON_TYPES = {b"application/json", b"application/json; charset=utf-8"}

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


# It returns an object as a tuple of its members, so that a repeated key can be seen.
_MEMBERS = JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse)


class FastPath:
    """Answers searches with a short and valid body, and passes every other request on."""

    path = PATH
    """The route's template, for metrics and logs."""

    def __init__(self, app: Service, next_app: ASGIApp) -> None:
        """Pass other requests to `next_app`, which has all routes of `app`."""
        self._app = app
        self._next = next_app
        self._turns: Turns = app.state.turns
        self._depth: int = app.state.settings.max_json_depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a search, or pass the request on with its whole body."""
        state, name = scope["state"], _searched_collection(scope)
        if name is None:
            await self._next(scope, receive, send)
            return
        scope["route"], scope["app"], scope["path_params"] = self, self._app, {"name": name}
        body, answer = None, state.get("answer")
        try:
            if answer is None:
                message = await receive()
                body = _parse_body(message, self._depth)
                answer = None if body is None else await self._respond_in_turn(state, name, body)
            if answer is not None:
                await send_json(scope, send, answer)
        except Exception as error:  # noqa: BLE001 - handled as in every other route
            await self._respond_with_error(scope, receive, send, error)
            return
        if body is None and answer is None:
            await self._next(scope, _replay(message, receive), send)

    def answer_now(self, scope: Scope, body: bytes) -> bytes | None:
        """Answer a search that the batcher can answer at once, or return None."""
        state, name = scope["state"], _searched_collection(scope)
        if name is None or self._turns.are_taken:
            return None
        search = _parse_body({"body": body}, self._depth)
        if search is None or not _has_plain_fields(search) or search.radius is not None:
            return None
        app_state = self._app.state
        try:
            query = query_of(search, app_state.settings)
            answer: bytes | None = app_state.batcher.answer_now(name, _options(search), query)
        except Exception:  # noqa: BLE001 - the task that answers it then reports the error
            return None
        if answer is not None and len(answer) > SENT_AT_ONCE:
            state["answer"], answer = answer, None  # a task sends it, in parts
        scope["route"] = self
        return answer

    async def _respond_in_turn(
        self, state: dict[str, Any], name: str, body: SearchRequest
    ) -> bytes | None:
        """Wait for a turn and return the response; None if the gateway has responded."""
        turn = await self._turns.take()
        try:
            state["give_back_turn"] = turn.pass_on
            if state.get("expired"):
                return None
            return await search_response(self._app, state, name, body)
        finally:
            turn.give_back()

    async def _respond_with_error(
        self, scope: Scope, receive: Receive, send: Send, error: Exception
    ) -> None:
        handlers = self._app.exception_handlers
        kind = next(kind for kind in type(error).__mro__ if kind in handlers)
        response = cast(Response, handlers[kind](Request(scope, receive), error))
        await response(scope, receive, send)
        if kind is Exception:
            raise error  # for the server to log


def _searched_collection(scope: Scope) -> str | None:
    """Return the name in the path of a search in JSON by a caller who may read, or None."""
    state = scope["state"]
    path = _PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
    is_json = state["headers"].get(b"content-type") in _JSON_TYPES
    return path[1] if path is not None and is_json and state["role"] >= Role.READ else None


def _parse_body(message: Message, depth: int) -> SearchRequest | None:
    """Parse a body that arrived whole, is short and valid; return None for any other.

    Its objects and lists may be nested in at most `depth` levels.
    """
    raw = message.get("body", b"")
    if message.get("more_body", False) or not 0 < len(raw) <= SHORT_BODY:
        return None
    try:
        if raw.count(b"{") == 1:
            members = _MEMBERS.decode(raw.decode())
            fields = dict(members) if isinstance(members, tuple) else {}
            if len(fields) != len(members):
                return None
        else:
            fields = parse_json(raw, depth)
        if not isinstance(fields, dict):
            return None
        # A body with more fields has unknown ones, and pydantic would report an error for each.
        has_few_fields = len(fields) <= len(SEARCH_FIELDS)
        return SearchRequest.model_validate(fields) if has_few_fields else None
    except (ValueError, RecursionError, ProblemError):  # RecursionError: deeply nested lists
        return None


def _replay(message: Message, receive: Receive) -> Receive:
    """Return a function that receives `message` again, and then the rest."""
    first = [message]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


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
    if is_long or not _has_plain_fields(body):
        collection = app.state.folder.collection(name)
        return await special_search(app, state, collection, body, query, is_long=is_long)
    try:
        answer: bytes = await app.state.batcher.search(name, _options(body), query)
    except InputError as error:
        raise problem_at(error) from None
    return answer


def _has_plain_fields(body: SearchRequest) -> bool:
    """Tell whether a search has only fields that searches in a batch can have."""
    # With a vector, the text needs the word index, which the event loop must not wait for.
    has_both = body.text is not None and body.vector is not None
    return not has_both and SINGLE_SEARCH_FIELDS.isdisjoint(body.model_fields_set)


def _options(body: SearchRequest) -> SearchOptions:
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


def write_search(batched: BatchedResult, place: int, *, max_bytes: int) -> bytes:
    """Write the response to the search at `place` of a batch."""
    collection, options, result, seconds = batched
    answer = search_answer(
        collection,
        result,
        place,
        options.k,
        options.radius,
        with_payload=options.with_payload,
        with_text=options.with_text,
        seconds=seconds,
    )
    return answer_to_json(answer, max_bytes)


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
