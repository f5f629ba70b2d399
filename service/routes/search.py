"""Searches over REST: by one query, ahead of FastAPI where that is enough, or by many."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np
import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hummingbit.corpus.document import parse_code, parse_vector
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.slices import Allowance, BeyondAllowance, checkpoint, within
from hummingbit.index.answers import answer_to, search_answer
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.query_syntax import both
from hummingbit.index.rankings import HAMMING, RANKINGS, VECTORS
from hummingbit.index.records import Query
from hummingbit.index.search import (
    SearchOptions,
    SearchResult,
    explain_no_groups,
    with_warnings,
)
from hummingbit.service.batching import BatchedQuery, BatchedResult
from hummingbit.service.concurrency import SMALL_ANSWER
from hummingbit.service.http.admission import Turns
from hummingbit.service.http.bodies import parse_json, show
from hummingbit.service.http.gateway import Service
from hummingbit.service.http.keys import FILTERED_READ, Role
from hummingbit.service.http.problems import ProblemError, invalid_field
from hummingbit.service.http.protocol import Arrival
from hummingbit.service.http.routing import JSONRoute
from hummingbit.service.routes.dependencies import (
    FILTERED_LONG_READ,
    CollectionOf,
    Limits,
    encoder_name,
    is_seen_whole,
    render,
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
    SEARCH_FIELDS,
    SENT_AT_ONCE,
    JSONAnswer,
    RecommendRequest,
    SearchBatch,
    SearchFields,
    SearchRequest,
    answer_to_json,
    send_json,
)
from hummingbit.service.settings import Settings

# Searches that cannot share a batch: expensive ones, and those with filters or further options.
#
# :func:`short_or_long` begins a read as a short one, and makes it a long read if it proves long.


Answer = TypeVar("Answer")
Work = Callable[[], Answer]

# A search that reads more vectors waits among the long reads.
CHEAP_VECTORS = 200


async def search_in_thread(
    app: FastAPI,
    state: dict[str, Any],
    collection: CollectionBackend,
    options: SearchOptions,
    query: Query,
    *,
    is_long: bool,
) -> bytes:
    """Answer a search in a thread; one with a new filter, or a long one, waits for a limiter.

    Whether a search needs an index that is not built, or finds large documents, shows only when it
    runs. It then begins again there. `state` is that of the request's scope.
    """
    work = partial(_search_alone, app, collection, options, query)
    if not collection.knows_filter(options.filter):
        return await _in_filter_thread(app, state, work)
    if is_long or _reads_many_vectors(options):
        return await in_long_read(app, state, work)
    return await short_or_long(app, state, work)


async def short_or_long(
    app: FastAPI, state: MutableMapping[str, Any], work: Work[Answer]
) -> Answer:
    """Do `work` in a thread; if it takes long there, do it again as a long read.

    `state` is that of the request's scope.
    """
    try:
        return await run_in_threadpool(_short, work)
    except BeyondAllowance as error:
        if error.builds:
            return await _in_filter_thread(app, state, work)
    return await in_long_read(app, state, work)


def _short(work: Work[Answer]) -> Answer:
    with within(Allowance(SMALL_ANSWER, waits=True)):
        return work()


async def in_long_read(app: FastAPI, state: MutableMapping[str, Any], work: Work[Answer]) -> Answer:
    """Do `work` as a long read."""
    async with app.state.long_reads.slot(state):
        return await run_in_threadpool(work)


async def _in_filter_thread(
    app: FastAPI, state: MutableMapping[str, Any], work: Work[Answer]
) -> Answer:
    """Do `work`, which mostly waits until an index or the matches of a filter are complete."""
    async with app.state.filters.slot(state):
        run = partial(copy_context().run, work)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(app.state.filter_threads, run)


def _reads_many_vectors(options: SearchOptions) -> bool:
    """Tell whether a search reads so many vectors from disk that others should not wait for it."""
    rescore = options.rescore
    return rescore is not None and rescore.by == VECTORS and options.n_candidates > CHEAP_VECTORS


def _search_alone(
    app: FastAPI, collection: CollectionBackend, options: SearchOptions, query: Query
) -> bytes:
    """Run one search and return the response as JSON."""

    def search() -> SearchResult:
        start = time.perf_counter()
        with pointing_at():
            result = collection.find([query], options)
        app.state.metrics.stages["search"].observe(time.perf_counter() - start)
        return result

    answer = answer_to(collection, options, search)
    return answer_to_json(answer, app.state.settings.max_response_bytes)


# The search of a collection by one query.
#
# Most searches are answered by :class:`FastPath`, all others by FastAPI's route here.


# A vector with more numbers is parsed in a thread.
LONG_VECTOR = 4096
# A longer text is no query that a person types.
MAX_COMPLETED = 256
# A search for more hits, or by a longer text, waits among the long reads.
CHEAP_HITS = 200
CHEAP_LENGTH = 10_000

router = APIRouter(prefix="/v1/collections/{name}", tags=["search"], route_class=JSONRoute)


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
    with pointing_at():
        options = body.options()
    if options.radius is not None or body.encoder_fingerprint is not None:
        collection = visible_collection(state, app.state.folder, name)
        check_fingerprint(collection, body.encoder_fingerprint)
        check_radius(options.radius, collection)
    if body.vector is not None and len(body.vector) > LONG_VECTOR:
        query = await run_in_threadpool(query_of, body, options.k, settings)
    else:
        query = query_of(body, options.k, settings)
    is_long = options.most_hits + options.offset > CHEAP_HITS or len(body.text or "") > CHEAP_LENGTH
    is_whole = is_seen_whole(state, app.state.folder, name)
    if is_long or not body.has_plain_fields() or not is_whole:
        collection = visible_collection(state, app.state.folder, name)
        return await search_in_thread(app, state, collection, options, query, is_long=is_long)
    try:
        answer: bytes = await app.state.batcher.search(name, options, query)
    except InputError as error:
        raise problem_at(error) from None
    except BeyondAllowance:
        collection = visible_collection(state, app.state.folder, name)
        return await search_in_thread(app, state, collection, options, query, is_long=False)
    return answer


@router.post("/search", response_model=SearchResponse, **FILTERED_READ, summary="Search")
async def search(request: Request, name: str, body: SearchRequest) -> Response:
    """Find the documents nearest to a text, a vector, a code or another document."""
    return JSONAnswer(await search_response(request.app, request.scope["state"], name, body))


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


# Most searches bypass FastAPI.
#
# FastAPI resolves a route's dependencies anew for every request, which takes longer than a search
# with a text and a limit. :class:`FastPath` answers searches with a short and valid body. Like the
# route, its tasks call :func:`search_response`.


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
        searches = [None if body is None else self._read_search(*body) for body in arrived]
        written: list[bytes | None] = self._app.state.batcher.answer_now(searches)
        for position, (body, answer) in enumerate(zip(arrived, written, strict=True)):
            if body is not None and answer is not None:
                scope, _ = body
                scope["route"] = self
                if len(answer) <= SENT_AT_ONCE:
                    answers[position] = answer
                else:
                    scope["state"]["answer"] = answer  # a task sends it, in parts
        return answers

    def _read_search(self, scope: Scope, body: bytes) -> BatchedQuery | None:
        """Return what a request searches for, or None if only a task can answer it."""
        name = _searched_collection(scope)
        if name is None or not is_seen_whole(scope["state"], self._app.state.folder, name):
            return None
        fields = _parse_fields(body, self._depth)
        if fields is None:
            return None
        plain = _plain_search(name, fields, self._settings)
        search = None if plain is not None else _validated(fields)
        if search is None or not search.has_plain_fields():
            return plain
        options = search.options()
        if options.radius is not None:
            return plain
        try:
            return BatchedQuery(name, options, query_of(search, options.k, self._settings))
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
    is_known = ranking is None or ranking in RANKINGS
    if not is_short or not 1 <= limit <= limits.max_limit or not is_known:
        return None
    options = {**fields}
    del options["text"]
    return BatchedQuery(name, _plain_options(**options), Query(text))


@lru_cache(maxsize=128)
def _plain_options(**fields: Any) -> SearchOptions:
    return SearchOptions.of_request(fields)


def _replay(message: Message, receive: Receive) -> Receive:
    """Return a function that receives `message` again, and then the rest."""
    first = [message]

    async def receive_again() -> Message:
        return first.pop() if first else await receive()

    return receive_again


def write_search(batched: BatchedResult, position: int, *, max_bytes: int) -> bytes:
    """Write the response to the search at a `position` of a batch."""
    collection, options, result, seconds = batched
    answer = search_answer(collection, result, position, options, seconds)
    if options.group_by is not None:
        answer = with_warnings(
            answer, explain_no_groups(collection, options.group_by, answer.get("groups"))
        )
    conditions = result.queries[position : position + 1].conditions
    if conditions and not answer["hits"] and not answer.get("groups"):
        answer = with_warnings(answer, collection.explain_no_hits(both(*conditions)))
    return answer_to_json(answer, max_bytes)


ENCODED_AT_ONCE = 64


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
    with pointing_at():
        common = body.options()
    if common.rescore is not None:
        _check_same_hits(searches)
        hits = len(searches) * common.rescore.n_candidates(largest)
    if hits > limits.max_hits:
        rule = f"the number of searches times the largest limit may be {limits.max_hits:,} at most"
        raise invalid_field(f"may find {hits:,} documents; {rule}", "searches")
    results = _search(collection, body, searches, common, limits)
    return JSONAnswer(answer_to_json({"results": results}, limits.max_response_bytes))


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
    with pointing_at():
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
    return JSONAnswer(answer_to_json(answer, limits.max_response_bytes))


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
            location = None if error.position is None else start + error.position
            raise InputError(error.field, error.reason, location) from None
    return np.concatenate(codes)


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
