"""The short way of most searches, ahead of FastAPI.

FastAPI resolves a route's dependencies anew for every request, which takes longer than a search
with a text and a limit. :class:`FastPath` answers searches with a short and valid body. Like the
route, its tasks call :func:`service.routes.search.search_response`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import orjson
from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from index.records import Query
from index.search.search_options import SearchOptions
from index.search.search_steps import RANKING_NAMES
from service.batching import BatchedQuery, BatchedResult
from service.http.admission import Turns
from service.http.bodies.json_parser import parse_json
from service.http.gateway import Service
from service.http.problems import ProblemError
from service.http.roles import Role
from service.http.starts import Arrival
from service.routes.search import has_plain_fields, options_of, query_of, search_response
from service.schemas.results import SENT_AT_ONCE, answer_to_json, search_answer, send_json
from service.schemas.search import SEARCH_FIELDS, SearchRequest
from service.settings import Settings

PATH = "/v1/collections/{name}/search"
_PATH = re.compile(r"/v1/collections/([^/]+)/search")
# A longer body is parsed in slices.
SHORT_BODY = 64 << 10
# The types that orjson reads as Python's parser does, and those of the fields of most searches.
_FLAT = frozenset({str, int, bool, type(None)})
_PLAIN_FIELDS = frozenset(
    {("text", str), ("limit", int), ("ranking", str), ("with_payload", bool), ("with_text", bool)}
)
_JSON_TYPES = {b"application/json", b"application/json; charset=utf-8"}


class FastPath:
    """Answers searches with a short and valid body, and passes every other request on."""

    path = PATH
    """The route's template, for metrics and logs."""

    def __init__(self, app: Service, next_app: ASGIApp) -> None:
        """Pass other requests to `next_app`, which has all routes of `app`."""
        self._app = app
        self._next = next_app
        self._turns: Turns = app.state.turns
        self._settings: Settings = app.state.settings
        self._depth = self._settings.max_json_depth

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

    def answer_now(self, arrived: Sequence[Arrival | None]) -> list[bytes | None]:
        """Answer the searches that the batcher can answer at once; the other answers are None."""
        answers: list[bytes | None] = [None] * len(arrived)
        if self._turns.are_taken:
            return answers
        searches = [None if one is None else self._read_search(*one) for one in arrived]
        found: list[bytes | None] = self._app.state.batcher.answer_now(searches)
        for place, (one, answer) in enumerate(zip(arrived, found, strict=True)):
            if one is not None and answer is not None:
                scope, _ = one
                scope["route"] = self
                if len(answer) <= SENT_AT_ONCE:
                    answers[place] = answer
                else:
                    scope["state"]["answer"] = answer  # a task sends it, in parts
        return answers

    def _read_search(self, scope: Scope, body: bytes) -> BatchedQuery | None:
        """Return what a request searches for, or None if only a task can answer it."""
        name = _searched_collection(scope)
        fields = None if name is None else _parse_fields(body, self._depth)
        if name is None or fields is None:
            return None
        plain = _plain_search(name, fields, self._settings)
        search = None if plain is not None else _validated(fields)
        if search is None or search.radius is not None or not has_plain_fields(search):
            return plain
        try:
            return BatchedQuery(name, options_of(search), query_of(search, self._settings))
        except ProblemError:  # the task reports it
            return None

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
    is_whole = not message.get("more_body", False)
    fields = _parse_fields(message.get("body", b""), depth) if is_whole else None
    return None if fields is None else _validated(fields)


def _parse_fields(raw: bytes, depth: int) -> dict[str, Any] | None:
    """Return the fields of a short body, or None if it is not JSON or has too many of them."""
    if not 0 < len(raw) <= SHORT_BODY:
        return None
    fields: object
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        fields = None
    # orjson keeps the last value of a repeated key, and makes floats of long integers.
    is_flat = isinstance(fields, dict) and _FLAT.issuperset(map(type, fields.values()))
    if not is_flat or raw.count(b":") != len(fields):  # type: ignore[arg-type]
        try:
            fields = parse_json(raw, depth)
        except (ProblemError, RecursionError):  # RecursionError: deeply nested lists
            return None
    # A body with more fields has unknown ones, and pydantic would report an error for each.
    return fields if isinstance(fields, dict) and len(fields) <= len(SEARCH_FIELDS) else None


def _validated(fields: dict[str, Any]) -> SearchRequest | None:
    try:
        return SearchRequest.model_validate(fields)
    except (ValueError, RecursionError):
        return None


def _plain_search(name: str, fields: dict[str, Any], limits: Settings) -> BatchedQuery | None:
    """Return the search of a text with usual fields, which needs no model; None for any other."""
    if not _PLAIN_FIELDS.issuperset(zip(fields, map(type, fields.values()), strict=True)):
        return None
    text, limit, ranking = fields.get("text"), fields.get("limit", 10), fields.get("ranking")
    is_short = text is not None and len(text) <= limits.max_text_length
    if not is_short or not 1 <= limit <= limits.max_limit or ranking not in RANKING_NAMES:
        return None
    with_payload, with_text = fields.get("with_payload", False), fields.get("with_text", False)
    return BatchedQuery(name, _plain_options(limit, ranking, with_payload, with_text), Query(text))


@lru_cache(maxsize=128)
def _plain_options(
    limit: int, ranking: str | None, with_payload: bool, with_text: bool
) -> SearchOptions:
    return SearchOptions(
        limit,
        ranking=ranking,
        with_payload=with_payload,
        with_text=with_text,
        with_cursor=False,
    )


def _replay(message: Message, receive: Receive) -> Receive:
    """Return a function that receives `message` again, and then the rest."""
    first = [message]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


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
