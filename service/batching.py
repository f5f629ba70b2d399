"""Concurrent searches are answered together.

Encoding, scanning codes and reading documents cost much less a query for several at a time. So
searches that come in the same round of the event loop are one batch, and those that come while it
is searched are the next: the busier the service, the cheaper a search. Nobody waits for a batch to
fill.

Where a search takes less than it costs to hand it to a thread and back, it is made on the event
loop; others have threads, and wait for one while all are busy.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakSet

from index.backend import CollectionBackend
from index.collection import Collection
from index.records import Query, SearchResult
from service.http.monitoring import Metrics

MAX_BATCH = 64
# What a search may be for the event loop to make it: the seconds that a query took last, its hits,
# and the characters of its text. A batch then takes a few milliseconds at the most.
QUICK_SECONDS = 0.001
QUICK_LIMIT = 100
QUICK_LENGTH = 2_000

Answer = TypeVar("Answer")


class Asked(NamedTuple):
    """What searches must have in common to be answered together."""

    collection: CollectionBackend
    limit: int
    radius: int | None
    with_payload: bool
    ranking: str | None = None
    with_text: bool = False


class _Waiting(NamedTuple, Generic[Answer]):
    query: Query
    answer: asyncio.Future[Answer]


class _Batch(NamedTuple, Generic[Answer]):
    asked: Asked
    waiting: list[_Waiting[Answer]]


class _Answered(NamedTuple, Generic[Answer]):
    answers: list[Answer | Exception]
    seconds: float


class Batcher(Generic[Answer]):
    """Searches for single queries, those that wait at the same time together.

    `write` makes the answer of a search of its result, where the search was made.
    """

    def __init__(
        self, metrics: Metrics, write: Callable[[Asked, SearchResult, int, float], Answer]
    ) -> None:
        self._metrics = metrics
        self._write = write
        self._free = os.cpu_count() or 1
        self._workers = ThreadPoolExecutor(self._free, thread_name_prefix="search")
        self._waiting: dict[Hashable, _Batch[Answer]] = {}
        self._is_due = False
        self._quick: WeakSet[CollectionBackend] = WeakSet()

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
        self._waiting.setdefault(key, _Batch(asked, [])).waiting.append(one)
        if not self._is_due:
            self._is_due = True
            # After those that have come in this round.
            loop.call_soon(self._begin, loop)
        return await one.answer

    def close(self) -> None:
        """Wait for what is being searched."""
        self._workers.shutdown()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the quick searches, and give the others to the workers that are free."""
        self._is_due = False
        for key in [key for key, batch in self._waiting.items() if self._is_quick(batch)]:
            batch = self._take(key)
            self._hand_out(batch, self._answer_all(batch))
        while self._free and self._waiting:
            self._free -= 1
            self._start(loop)

    def _is_quick(self, batch: _Batch[Answer]) -> bool:
        asked, waiting = batch
        return (
            asked.collection in self._quick
            and asked.limit <= QUICK_LIMIT
            and len(waiting) <= MAX_BATCH
            and all(len(one.query.text or "") <= QUICK_LENGTH for one in waiting)
        )

    def _take(self, key: Hashable) -> _Batch[Answer]:
        """Take a batch off those that wait; what is too much for one goes on waiting."""
        asked, waiting = self._waiting.pop(key)
        if len(waiting) > MAX_BATCH:
            self._waiting[key] = _Batch(asked, waiting[MAX_BATCH:])
        return _Batch(asked, waiting[:MAX_BATCH])

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give a worker the searches that have waited the longest."""
        batch = self._take(next(iter(self._waiting)))
        done = loop.run_in_executor(self._workers, self._answer_all, batch)
        done.add_done_callback(lambda future: self._finish(loop, batch, future))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: _Batch[Answer],
        done: asyncio.Future[_Answered[Answer]],
    ) -> None:
        """Begin with the next, and hand the answers out."""
        if self._waiting:
            self._start(loop)
        else:
            self._free += 1
        self._hand_out(batch, done.result())

    def _hand_out(self, batch: _Batch[Answer], answered: _Answered[Answer]) -> None:
        collection, seconds = batch.asked.collection, answered.seconds / len(batch.waiting)
        # Only an index in this process takes its time on a processor, and not waiting for others.
        if isinstance(collection, Collection) and seconds <= QUICK_SECONDS:
            self._quick.add(collection)
        else:
            self._quick.discard(collection)
        for one, answer in zip(batch.waiting, answered.answers, strict=True):
            if one.answer.done():  # whoever asked has gone
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    def _answer_all(self, batch: _Batch[Answer]) -> _Answered[Answer]:
        """Search for all; if that fails, for one after the other, to tell which one it is."""
        began = time.perf_counter()
        queries = [one.query for one in batch.waiting]
        answers = self._answer_some(batch.asked, queries)
        return _Answered(answers, time.perf_counter() - began)

    def _answer_some(self, asked: Asked, queries: Sequence[Query]) -> list[Answer | Exception]:
        try:
            return list(self._answer(asked, queries))
        except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
            if len(queries) == 1:
                return [error]
        return [answer for query in queries for answer in self._answer_some(asked, [query])]

    def _answer(self, asked: Asked, queries: Sequence[Query]) -> list[Answer]:
        began = time.perf_counter()
        encoded = asked.collection.encode_queries(queries)
        searched = time.perf_counter()
        result = asked.collection.search(
            encoded,
            asked.limit,
            asked.radius,
            ranking=asked.ranking,
            with_payload=asked.with_payload,
            with_text=asked.with_text,
            with_cursor=False,
        )
        done = time.perf_counter()
        self._metrics.observe_stage("encode", searched - began)
        self._metrics.observe_stage("search", done - searched)
        seconds = done - began
        return [self._write(asked, result, place, seconds) for place in range(len(queries))]
