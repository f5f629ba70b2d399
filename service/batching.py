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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from index.backend import CollectionBackend
from index.collection import Collection
from index.records import Query, SearchResult
from index.search.search_options import SearchOptions
from service.http.monitoring import Metrics

MAX_BATCH = 64
# What a search may be for the event loop to make it: the seconds that a query took last, its hits,
# and the characters of its text. A batch then takes a few milliseconds at the most.
QUICK_SECONDS = 0.001
QUICK_LIMIT = 100
QUICK_LENGTH = 2_000

Answer = TypeVar("Answer")
Key = tuple[str, SearchOptions]
"""What searches must have in common to be answered together: the collection's name, and all that
is wanted besides the query."""


class BatchedResult(NamedTuple):
    """What a batch of searches found, for one of them to be written."""

    collection: CollectionBackend
    options: SearchOptions
    result: SearchResult
    seconds: float
    """How long all of them took together."""


class _WaitingQuery(NamedTuple, Generic[Answer]):
    query: Query
    answer: asyncio.Future[Answer]


class _Batch(NamedTuple, Generic[Answer]):
    name: str
    collection: CollectionBackend
    options: SearchOptions
    waiting: list[_WaitingQuery[Answer]]


class _BatchOutcome(NamedTuple, Generic[Answer]):
    answers: list[Answer | Exception]
    seconds: float


class Batcher(Generic[Answer]):
    """Searches for single queries, those that wait at the same time together.

    `write` makes the answer of a search, told by its place, where the search was made.
    """

    def __init__(
        self,
        collection_of: Callable[[str], CollectionBackend],
        metrics: Metrics,
        write: Callable[[BatchedResult, int], Answer],
    ) -> None:
        """Search the collections that `collection_of` returns for a name."""
        self._collection_of = collection_of
        self._stages = metrics.stages
        self._write = write
        self._free = os.cpu_count() or 1
        self._workers = ThreadPoolExecutor(self._free, thread_name_prefix="search")
        self._waiting: dict[Key, list[_WaitingQuery[Answer]]] = {}
        self._is_due = False
        # By name: if another collection takes the name, its first search is made where that one's
        # last belonged.
        self._quick: set[str] = set()

    async def search(self, name: str, options: SearchOptions, query: Query) -> Answer:
        """Return the answer of one search of the collection `name`.

        Raises:
            UnknownCollection, CollectionUnavailable: if it is not there, or cannot be opened.
            InputError, UnknownDocument, StoreError: as the search of the collection does.
        """
        loop = asyncio.get_running_loop()
        one: _WaitingQuery[Answer] = _WaitingQuery(query, loop.create_future())
        self._waiting.setdefault((name, options), []).append(one)
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
        for key, waiting in [*self._waiting.items()]:
            name, options = key
            short = options.k <= QUICK_LIMIT and len(waiting) <= MAX_BATCH
            if name in self._quick and short and not any(map(_is_long, waiting)):
                batch = self._take(key)
                if batch is not None:
                    self._hand_out(batch, self._answer_all(batch))
        while self._free and self._waiting:
            self._start(loop)

    def _take(self, key: Key) -> _Batch[Answer] | None:
        """Take a batch off those that wait; what is too much for one goes on waiting.

        There is none if the collection cannot be had; who waited for it is told.
        """
        name, options = key
        waiting = self._waiting.pop(key)
        try:
            collection = self._collection_of(name)
        except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
            for one in waiting:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return None
        if len(waiting) > MAX_BATCH:
            self._waiting[key] = waiting[MAX_BATCH:]
        return _Batch(name, collection, options, waiting[:MAX_BATCH])

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give a worker the searches that have waited the longest."""
        batch = self._take(next(iter(self._waiting)))
        if batch is None:
            return
        self._free -= 1
        done = loop.run_in_executor(self._workers, self._answer_all, batch)
        done.add_done_callback(lambda future: self._finish(loop, batch, future))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: _Batch[Answer],
        done: asyncio.Future[_BatchOutcome[Answer]],
    ) -> None:
        """Begin with the next, and hand the answers out."""
        self._free += 1
        while self._free and self._waiting:
            self._start(loop)
        self._hand_out(batch, done.result())

    def _hand_out(self, batch: _Batch[Answer], answered: _BatchOutcome[Answer]) -> None:
        seconds = answered.seconds / len(batch.waiting)
        # Only an index in this process takes its time on a processor, and not waiting for others.
        if isinstance(batch.collection, Collection) and seconds <= QUICK_SECONDS:
            self._quick.add(batch.name)
        else:
            self._quick.discard(batch.name)
        for one, answer in zip(batch.waiting, answered.answers, strict=True):
            if one.answer.done():  # whoever asked has gone
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

    def _answer_all(self, batch: _Batch[Answer]) -> _BatchOutcome[Answer]:
        """Search for all; if that fails, for one after the other, to tell which one it is."""
        began = time.perf_counter()
        answers = self._answer_some(batch, [one.query for one in batch.waiting])
        return _BatchOutcome(answers, time.perf_counter() - began)

    def _answer_some(
        self, batch: _Batch[Answer], queries: Sequence[Query]
    ) -> list[Answer | Exception]:
        try:
            return [*self._answer(batch.collection, batch.options, queries)]
        except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
            if len(queries) == 1:
                return [error]
        return [answer for query in queries for answer in self._answer_some(batch, [query])]

    def _answer(
        self, collection: CollectionBackend, options: SearchOptions, queries: Sequence[Query]
    ) -> list[Answer]:
        began = time.perf_counter()
        encoded = collection.encode_queries(queries)
        searched = time.perf_counter()
        result = collection.find(encoded, options)
        done = time.perf_counter()
        self._stages["encode"].observe(searched - began)
        self._stages["search"].observe(done - searched)
        found = BatchedResult(collection, options, result, done - began)
        return [self._write(found, place) for place in range(len(queries))]


def _is_long(one: _WaitingQuery[Answer]) -> bool:
    return one.query.text is not None and len(one.query.text) > QUICK_LENGTH
