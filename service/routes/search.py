"""The search of a collection, by one query.

What most searches send is short and says no more than a text and how many hits it wants. They take
the short way: :class:`ShortWay` stands ahead of FastAPI, which resolves what a function depends on
anew for every request and takes longer for that than a search does. Every other request is answered
by FastAPI's route. Both call :func:`search_response`.
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
    JSONAnswer,
    answer_to_json,
    search_answer,
    send_json,
)
from service.schemas.search import (
    FIELDS_OF_SEARCH,
    OF_ONE_SEARCH,
    SearchFields,
    SearchRequest,
    SearchResponse,
)
from service.settings import Settings

PATH = "/v1/collections/{name}/search"
_PATH = re.compile(r"/v1/collections/([^/]+)/search")
# What is longer is read in a thread.
LONG_VECTOR = 4096
# A longer body is parsed in slices.
SHORT_BODY = 64 << 10
# A search for more, or by a longer text, takes longer than others can be kept waiting.
CHEAP_HITS = 200
CHEAP_LENGTH = 10_000
_JSON_TYPES = {b"application/json", b"application/json; charset=utf-8"}

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


# An object comes as a tuple of its members, in which one that is named twice is twice.
_MEMBERS = JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse)


class ShortWay:
    """Answers a search whose body is short and plain; passes every other request on."""

    path = PATH
    """The template of the address, as metrics and logs have it."""

    def __init__(self, app: Service, others: ASGIApp) -> None:
        """Stand ahead of `others`, which has all routes of `app`."""
        self._app = app
        self._others = others
        self._turns: Turns = app.state.turns
        self._depth: int = app.state.settings.max_json_depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a search, or pass the request on with all of its body."""
        found = _PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        state = scope["state"]
        known = state["headers"].get(b"content-type") in _JSON_TYPES
        if found is None or not known or state["role"] < Role.READ:
            await self._others(scope, receive, send)
            return
        scope["route"], scope["app"], scope["path_params"] = self, self._app, {"name": found[1]}
        try:
            message = await receive()
            body = _body_of(message, self._depth)
            answer = None if body is None else await self._answer(state, found[1], body)
        except Exception as error:  # noqa: BLE001 - it is answered as every other route's
            await self._answer_error(scope, receive, send, error)
            return
        if body is None:
            await self._others(scope, _again(message, receive), send)
        elif answer is not None:
            await send_json(send, answer)

    async def _answer(self, state: dict[str, Any], name: str, body: SearchRequest) -> bytes | None:
        """Wait for a turn and return the answer; None if somebody else has answered."""
        turn = await self._turns.take()
        try:
            state["give_back_turn"] = turn.pass_on
            if state.get("expired"):
                return None
            return await search_response(self._app, state, name, body)
        finally:
            turn.give_back()

    async def _answer_error(
        self, scope: Scope, receive: Receive, send: Send, error: Exception
    ) -> None:
        handlers = self._app.exception_handlers
        kind = next(kind for kind in type(error).__mro__ if kind in handlers)
        response = cast(Response, handlers[kind](Request(scope, receive), error))
        await response(scope, receive, send)
        if kind is Exception:
            raise error  # for the server to log


def _body_of(message: Message, depth: int) -> SearchRequest | None:
    """Return what a body asks for; None unless it came whole, is short and has no mistake.

    Objects and lists in it are nested in at most `depth` levels.
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
        # Each unknown field would be an error of its own.
        few = len(fields) <= len(FIELDS_OF_SEARCH)
        return SearchRequest.model_validate(fields) if few else None
    except (ValueError, RecursionError, ProblemError):  # deep lists, too
        return None


def _again(message: Message, receive: Receive) -> Receive:
    """Return what receives `message` again, and then the rest."""
    first = [message]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


async def search_response(
    app: Service, state: dict[str, Any], name: str, body: SearchRequest
) -> bytes:
    """Find the documents nearest to a text, a vector, a code or another document.

    `state` is that of the request. The response is written as JSON.
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
    long = body.limit + body.offset > CHEAP_HITS or len(body.text or "") > CHEAP_LENGTH
    if long or not OF_ONE_SEARCH.isdisjoint(body.model_fields_set):
        collection = app.state.folder.collection(name)
        return await special_search(app, state, collection, body, query, is_long=long)
    options = SearchOptions(
        body.limit,
        body.radius,
        body.ranking,
        with_payload=body.with_payload,
        with_text=body.with_text,
        with_cursor=False,
    )
    try:
        answer: bytes = await app.state.batcher.search(name, options, query)
    except InputError as error:
        raise problem_at(error) from None
    return answer


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
    """Return what a search is by, which stands at `place` of the body.

    Raises:
        ProblemError: pointing to what is wrong with it, or with its limit.
    """
    if search.limit > limits.max_limit:
        message = f"is {show(search.limit)}; it must be from 1 to {limits.max_limit:,}"
        raise invalid_field(message, *place, "limit")
    text, vector = search.text, None
    # A plain search enters few modules: that of the check only if there is something wrong.
    if text is not None and len(text) > limits.max_text_length:
        check_text(text, limits, *place)
    if search.vector is not None:
        with pointing_at(*place):
            vector = parse_vector(search.vector)
    return Query(text, vector, search.code, search.id)


def check_radius(radius: int | None, collection: CollectionBackend, *place: str | int) -> None:
    """Raise a ProblemError unless codes of the collection can be as far apart as `radius`."""
    if radius is not None and radius > collection.n_bits:
        message = f"is {show(radius)}; it must be from 0 to {collection.n_bits}"
        raise invalid_field(message, *place, "radius")
