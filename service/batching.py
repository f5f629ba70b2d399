"""Concurrent searches are answered together.

A search that finds a free worker begins at once. Those that come while every worker is busy are
searched in one batch when one is free: encoding, scanning codes and reading documents cost much
less a query for several at a time, so the busier the service, the cheaper a search. Nobody waits
for a batch to fill.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from encoder.codes import Codes
from index.backend import CollectionBackend
from index.records import Query, SearchResult
from service.metrics import Metrics

MAX_BATCH = 64

Answer = TypeVar("Answer")


class Asked(NamedTuple):
    """What searches must have in common to be answered together."""

    collection: CollectionBackend
    limit: int
    radius: int | None
    with_payload: bool


class _Waiting(NamedTuple, Generic[Answer]):
    query: Query
    answer: asyncio.Future[Answer]


class Batcher(Generic[Answer]):
    """Searches for single queries, those that wait at the same time together.

    `write` makes the answer of a search of its result, in the worker's thread.
    """

    def __init__(
        self, metrics: Metrics, write: Callable[[Asked, SearchResult, int, float], Answer]
    ) -> None:
        self._metrics = metrics
        self._write = write
        self._free = os.cpu_count() or 1
        self._workers = ThreadPoolExecutor(self._free, thread_name_prefix="search")
        self._waiting: dict[Hashable, tuple[Asked, list[_Waiting[Answer]]]] = {}

    async def search(self, asked: Asked, query: Query) -> Answer:
        """Return the answer of one search.

        Raises:
            InputError, UnknownDocument, StoreError: as the search of the collection does.
        """
        loop = asyncio.get_running_loop()
        one: _Waiting[Answer] = _Waiting(query, loop.create_future())
        # Two collections are the same if they are one object: one that was dropped and made again
        # under its name is another.
        key = (id(asked.collection), *asked[1:])
        self._waiting.setdefault(key, (asked, []))[1].append(one)
        if self._free:
            self._free -= 1
            self._start(loop)
        return await one.answer

    def close(self) -> None:
        """Wait for what is being searched."""
        self._workers.shutdown()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give a worker the searches that have waited the longest."""
        key = next(iter(self._waiting))
        asked, waiting = self._waiting.pop(key)
        if len(waiting) > MAX_BATCH:
            self._waiting[key] = (asked, waiting[MAX_BATCH:])
        batch = waiting[:MAX_BATCH]
        done = loop.run_in_executor(
            self._workers, self._answer_all, asked, [one.query for one in batch]
        )
        done.add_done_callback(lambda future: self._finish(loop, batch, future))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: Sequence[_Waiting[Answer]],
        done: asyncio.Future[list[Answer | Exception]],
    ) -> None:
        """Hand the answers out, and begin with the next."""
        if self._waiting:
            self._start(loop)
        else:
            self._free += 1
        for one, answer in zip(batch, done.result(), strict=True):
            if one.answer.done():  # whoever asked has gone
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    def _answer_all(self, asked: Asked, queries: Sequence[Query]) -> list[Answer | Exception]:
        """Search for all; if that fails, for one after the other, to tell which one it is."""
        try:
            return list(self._answer(asked, queries))
        except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
            if len(queries) == 1:
                return [error]
        return [answer for query in queries for answer in self._answer_all(asked, [query])]

    def _answer(self, asked: Asked, queries: Sequence[Query]) -> list[Answer]:
        began = time.perf_counter()
        codes = asked.collection.encode_queries(queries)
        encoded = time.perf_counter()
        result = asked.collection.search(
            _as_queries(codes), asked.limit, asked.radius, with_payload=asked.with_payload
        )
        searched = time.perf_counter()
        self._metrics.observe_stage("encode", encoded - began)
        self._metrics.observe_stage("search", searched - encoded)
        seconds = searched - began
        return [self._write(asked, result, place, seconds) for place in range(len(queries))]


def _as_queries(codes: Codes) -> list[Query]:
    digits, width = codes.tobytes().hex(), codes.shape[1] * 2
    return [Query(code=digits[at : at + width]) for at in range(0, len(digits), width)]
