"""Searches that cannot share a batch: expensive ones, and those with filters or further options.

:func:`short_or_long` begins a read as a short one, and moves it to a lane if it proves long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, MutableMapping
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from encoder.explanation import explain_text
from foundation.slices import Allowance, BeyondAllowance, within
from index.backend import CollectionBackend
from index.filters import Filter
from index.rankings.cosine import VECTORS
from index.records import Hybrid, Query
from index.search.empty_results import reasons_for_none, with_warnings
from service.lanes import SMALL_ANSWER
from service.schemas.checks import parse_body_filter, pointing_at
from service.schemas.results import add_codes, add_differing_bits, answer_to_json, search_answer
from service.schemas.search import SearchRequest

Answer = TypeVar("Answer")
Work = Callable[[], Answer]

# A search that reads more vectors waits in the lane of long reads.
CHEAP_VECTORS = 200


async def special_search(
    app: FastAPI,
    state: dict[str, Any],
    collection: CollectionBackend,
    body: SearchRequest,
    query: Query,
    *,
    is_long: bool,
) -> bytes:
    """Answer a search in a thread; one with a new filter, or a long one, waits in its lane.

    Whether a search needs an index that is not built, or finds large documents, shows only when it
    runs. It then begins again in a lane. `state` is that of the request's scope.
    """
    filter_ = parse_body_filter(body.filter)
    work = partial(_search_alone, app, collection, body, query, filter_)
    if filter_ is not None and not collection.knows_filter(filter_):
        return await _in_filter_thread(app, state, work)
    if is_long or _reads_many_vectors(body):
        return await in_long_lane(app, state, work)
    return await short_or_long(app, state, work)


async def short_or_long(
    app: FastAPI, state: MutableMapping[str, Any], work: Work[Answer]
) -> Answer:
    """Do `work` in a thread; if it takes long there, do it again in a lane.

    `state` is that of the request's scope.
    """
    try:
        return await run_in_threadpool(_short, work)
    except BeyondAllowance as error:
        if error.builds:
            return await _in_filter_thread(app, state, work)
    return await in_long_lane(app, state, work)


def _short(work: Work[Answer]) -> Answer:
    with within(Allowance(SMALL_ANSWER, waits=True)):
        return work()


async def in_long_lane(app: FastAPI, state: MutableMapping[str, Any], work: Work[Answer]) -> Answer:
    """Do `work` in the lane of long reads."""
    async with app.state.long_reads.place(state):
        return await run_in_threadpool(work)


async def _in_filter_thread(
    app: FastAPI, state: MutableMapping[str, Any], work: Work[Answer]
) -> Answer:
    """Do `work`, which mostly waits until an index or the matches of a filter are complete."""
    async with app.state.filters.place(state):
        run = partial(copy_context().run, work)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(app.state.filter_threads, run)


def _reads_many_vectors(body: SearchRequest) -> bool:
    """Tell whether a search reads so many vectors from disk that others should not wait for it."""
    if body.rescore is None or body.rescore.by != VECTORS:
        return False
    return body.rescore.to_rescore().n_candidates(body.limit + body.offset) > CHEAP_VECTORS


def _search_alone(
    app: FastAPI,
    collection: CollectionBackend,
    body: SearchRequest,
    query: Query,
    filter_: Filter | None,
) -> bytes:
    """Run one search and return the response as JSON."""
    start = time.perf_counter()
    with pointing_at():
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
            hybrid=None if body.hybrid is None else Hybrid(**body.hybrid.model_dump()),
            rescore=None if body.rescore is None else body.rescore.to_rescore(),
            highlight=body.highlight,
        )
    seconds = time.perf_counter() - start
    app.state.metrics.stages["search"].observe(seconds)
    answer = search_answer(
        collection,
        result,
        0,
        body.limit,
        body.radius,
        with_payload=body.with_payload,
        with_text=body.with_text,
        seconds=seconds,
    )
    if body.with_cursor or body.cursor is not None:
        answer["next_cursor"] = result.next_cursors[0]
    if body.with_code:
        add_codes(answer, result, 0)
    if body.explain:
        add_differing_bits(answer, result, 0)
        if query.text is not None and collection.encoder is not None:
            terms = explain_text(collection.encoder, query.text)
            answer["query_terms"] = [term._asdict() for term in terms]
    is_first_page = body.cursor is None and not body.offset
    if is_first_page and not answer["hits"]:
        answer = with_warnings(answer, reasons_for_none(collection, filter_))
    return answer_to_json(answer, app.state.settings.max_response_bytes)
