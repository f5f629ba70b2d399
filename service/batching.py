"""Answers concurrent searches in batches.

Encoding, scanning codes and reading documents cost much less per query in a batch. So searches that
arrive in the same round of the event loop form one batch, and those that arrive while it runs form
the next: the busier the service, the cheaper a search. No search waits for a batch to fill, and
while there are no other requests, searches need no tasks.

A search that takes less time than handing it to a thread and back runs on the event loop. Others
run in threads, and wait while all threads are busy. What a search will cost is known from the last
of its kind (:class:`_Kind`), so the first of a kind runs in a thread. A search on the loop never
waits, for a write or for an index to be built, and reads a few documents at most; if it would, it
begins again in a thread. From there a search that needs an index to be built, or that finds large
documents, fails with :class:`hummingbit.foundation.slices.BeyondAllowance`: it would hold up all
others.

Texts that a language model reads wait for a thread of their own, so other searches never wait for a
model, and texts that arrive while it reads are read together. Searches by words alone do not need
it.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from hummingbit.foundation.slices import Allowance, BeyondAllowance, may_wait, within
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.records import Query
from hummingbit.index.search import SearchOptions, SearchResult, needs_only_words
from hummingbit.service.concurrency import SMALL_ANSWER
from hummingbit.service.http.monitoring import Metrics

MAX_BATCH = 64
# The limits of a search that runs on the event loop: the seconds (:class:`_Stopwatch`) that a query
# of its kind last took, how many such queries a batch may have, its hits, the characters of its
# text, and the bytes of payloads and texts that the batch reads. A batch then takes a few
# milliseconds. A hybrid search of 5,000 documents takes about one. With a limit of one, part of
# them ran in threads, and took a fifth more processor time.
QUICK_SECONDS = 0.002
QUICK_QUERIES = 8
QUICK_LIMIT = 100
QUICK_LENGTH = 2_000
QUICK_BYTES = 256 << 10
# After so many searches in succession that took longer, searches of a kind run in threads. One
# alone may have been slow because another program had emptied the processor's caches.
SLOW_IN_SUCCESSION = 2
# The share of the time in which a search only waited that counts as time that it took.
WAITING_SHARE = 0.1

Answer = TypeVar("Answer")
Key = tuple[str, SearchOptions]
"""The collection's name and the options, which all searches of a batch share."""


class BatchedQuery(NamedTuple):
    """A query of a collection, and the options of the search."""

    name: str
    options: SearchOptions
    query: Query


class BatchedResult(NamedTuple):
    """The result of a batch of searches, from which each response is written."""

    collection: CollectionBackend
    options: SearchOptions
    result: SearchResult
    seconds: float
    """The time of the whole batch."""


class _Kind(NamedTuple):
    """Searches of one collection that cost about the same."""

    ranking: str
    with_payload: bool | tuple[str, ...]
    with_text: bool
    length: int
    """The number of binary digits of the length of the longest text; 0 without texts."""
    group_size: int
    """The most hits in a group; 0 without groups."""


@dataclass(slots=True)
class _Pace:
    """How long a search of a kind takes."""

    seconds: float
    slow: int = 0
    """The number of slow searches since a quick one."""


class _WaitingQuery(NamedTuple, Generic[Answer]):
    query: Query
    answer: asyncio.Future[Answer]


class _Batch(NamedTuple, Generic[Answer]):
    name: str
    collection: CollectionBackend
    options: SearchOptions
    waiting: list[_WaitingQuery[Answer]]


class _Workers(Generic[Answer]):
    """Searches that wait for the same threads, by collection and options."""

    def __init__(self, n_threads: int, name: str) -> None:
        self.free = n_threads
        self.threads = ThreadPoolExecutor(n_threads, thread_name_prefix=name)
        self.waiting: dict[Key, list[_WaitingQuery[Answer]]] = {}


class _BatchOutcome(NamedTuple, Generic[Answer]):
    answers: list[Answer | Exception]
    seconds: float
    """How long the batch took, as :class:`_Stopwatch` counts."""
    n_bytes: int = 0
    """The bytes of payloads and texts that the batch read."""


class _Stopwatch:
    """Measures what work costs its thread: processor time, or a share of a long wait.

    Where other programs want the processor, a search takes longer, but no less in a thread, which
    waits for the processor more often. What waits much longer than it computes waits for a disk.
    """

    def __init__(self) -> None:
        self._start, self._computed = time.perf_counter(), time.thread_time()

    def seconds(self) -> float:
        """Return the processor seconds so far, or :data:`WAITING_SHARE` of all seconds if more."""
        elapsed = time.perf_counter() - self._start
        return max(time.thread_time() - self._computed, WAITING_SHARE * elapsed)


class Batcher(Generic[Answer]):
    """Searches for single queries; those that wait at the same time share a batch.

    `write` makes the answer to the query at a position of the batch. It runs where the search ran.
    """

    def __init__(
        self,
        open_collection: Callable[[str], CollectionBackend],
        metrics: Metrics,
        write: Callable[[BatchedResult, int], Answer],
    ) -> None:
        """Search the collections that `open_collection` returns by name."""
        self._open_collection = open_collection
        self._stages = metrics.stages
        self._write = write
        self._workers: _Workers[Answer] = _Workers(os.cpu_count() or 1, "search")
        self._model_workers: _Workers[Answer] = _Workers(1, "model")
        self._is_scheduled = False
        self.requests: Sized = ()
        """The requests that the server is answering; empty if that is not known."""
        # Of each kind whose searches are quick.
        self._paces: WeakKeyDictionary[CollectionBackend, dict[_Kind, _Pace]]
        self._paces = WeakKeyDictionary()
        # The names by which quick searches have come, so that others are not looked up twice.
        self._quick_names: set[str] = set()

    async def search(self, name: str, options: SearchOptions, query: Query) -> Answer:
        """Search the collection `name` and return the answer.

        Raises:
            UnknownCollection, CollectionUnavailable: if it does not exist, or cannot be opened.
            InputError, UnknownDocument, StoreError: as the collection's search does.
            BeyondAllowance: if an index must be built first, or the hits are large.
        """
        loop = asyncio.get_running_loop()
        waiting: _WaitingQuery[Answer] = _WaitingQuery(query, loop.create_future())
        collection = self._open_collection(name)
        is_read_by_model = _is_read_by_model(collection, options, query)
        workers = self._model_workers if is_read_by_model else self._workers
        workers.waiting.setdefault((name, options), []).append(waiting)
        if len(self.requests) == 1:
            # There is no other request that this one could form a batch with.
            self._begin(loop)
        elif not self._is_scheduled:
            self._is_scheduled = True
            # It runs after all searches that arrive in this round of the loop.
            loop.call_soon(self._begin, loop)
        return await waiting.answer

    def answer_now(self, searches: Sequence[BatchedQuery | None]) -> list[Answer | None]:
        """Answer the searches that are quick, if there is no other request; None for the others.

        While another request computes, a search on the event loop may wait for the interpreter
        several times, and nothing else could be answered meanwhile. What fails is None, too.
        """
        answers: list[Answer | None] = [None] * len(searches)
        if self.requests:
            return answers
        positions: dict[Key, list[int]] = {}
        for position, search in enumerate(searches):
            if search is not None:
                positions.setdefault(search[:2], []).append(position)
        for key, some in positions.items():
            queries = [
                search.query for position in some if (search := searches[position]) is not None
            ]
            for position, answer in zip(some, self._answer_quickly(*key, queries), strict=True):
                answers[position] = answer
        return answers

    def close(self) -> None:
        """Wait for the searches that run."""
        for workers in (self._workers, self._model_workers):
            workers.threads.shutdown()

    def _answer_quickly(
        self, name: str, options: SearchOptions, queries: Sequence[Query]
    ) -> Sequence[Answer | None]:
        """Return the answers of searches that are quick; None for others and for what fails."""
        none = [None] * len(queries)
        if name not in self._quick_names or len(queries) > MAX_BATCH:
            return none
        try:
            collection = self._open_collection(name)
        except Exception:  # noqa: BLE001 - :meth:`search` raises it
            return none
        outcome = self._answer_on_loop(collection, options, queries)
        if outcome is None:
            return none
        return [None if isinstance(answer, Exception) else answer for answer in outcome.answers]

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the quick searches, and give others to the free threads."""
        self._is_scheduled = False
        for key in [*self._workers.waiting]:
            batch = self._take(self._workers, key)
            if batch is None:
                continue
            queries = [search.query for search in batch.waiting]
            outcome = self._answer_on_loop(batch.collection, batch.options, queries)
            if outcome is None:
                self._workers.waiting[key] = [*batch.waiting, *self._workers.waiting.pop(key, [])]
            else:
                self._quick_names.add(batch.name)
                _hand_out(batch, outcome)
        for workers in (self._workers, self._model_workers):
            self._fill(loop, workers)

    def _answer_on_loop(
        self, collection: CollectionBackend, options: SearchOptions, queries: Sequence[Query]
    ) -> _BatchOutcome[Answer] | None:
        """Answer searches that are quick; return None if they are not."""
        kind = _kind_of(collection, options, queries)
        pace = self._paces.get(collection, {}).get(kind)
        if pace is None or options.most_hits > QUICK_LIMIT or any(map(_is_long, queries)):
            return None
        if any(_is_read_by_model(collection, options, query) for query in queries):
            return None
        n = len(queries)
        if n > QUICK_QUERIES and pace.seconds * n > QUICK_SECONDS * QUICK_QUERIES:
            return None
        try:
            with within(Allowance(QUICK_BYTES)):
                outcome = self._answer_batch(collection, options, queries)
        except BeyondAllowance:
            del self._paces[collection][kind]
            return None
        self._note_time(collection, kind, outcome.seconds / n)
        return outcome

    def _take(self, workers: _Workers[Answer], key: Key) -> _Batch[Answer] | None:
        """Remove a batch from the waiting searches; those beyond its size go on waiting.

        If the collection cannot be opened, all of its searches fail, and None is returned.
        """
        name, options = key
        waiting = workers.waiting.pop(key)
        try:
            collection = self._open_collection(name)
        except Exception as error:  # noqa: BLE001 - :meth:`search` raises it
            for search in waiting:
                if not search.answer.done():
                    search.answer.set_exception(error)
            return None
        if len(waiting) > MAX_BATCH:
            workers.waiting[key] = waiting[MAX_BATCH:]
        return _Batch(name, collection, options, waiting[:MAX_BATCH])

    def _fill(self, loop: asyncio.AbstractEventLoop, workers: _Workers[Answer]) -> None:
        """Give the free threads their searches, those that have waited longest first."""
        while workers.free and workers.waiting:
            batch = self._take(workers, next(iter(workers.waiting)))
            if batch is not None:
                self._start(loop, workers, batch)

    def _start(
        self, loop: asyncio.AbstractEventLoop, workers: _Workers[Answer], batch: _Batch[Answer]
    ) -> None:
        workers.free -= 1
        queries = [search.query for search in batch.waiting]
        outcome = loop.run_in_executor(
            workers.threads, self._answer_in_thread, batch.collection, batch.options, queries
        )
        outcome.add_done_callback(lambda future: self._finish(loop, workers, batch, future))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        workers: _Workers[Answer],
        batch: _Batch[Answer],
        outcome: asyncio.Future[_BatchOutcome[Answer]],
    ) -> None:
        """Start the next batch, and hand out the answers of this one."""
        workers.free += 1
        self._fill(loop, workers)
        result = outcome.result()
        if not any(isinstance(answer, BeyondAllowance) for answer in result.answers):
            queries = [search.query for search in batch.waiting]
            kind = _kind_of(batch.collection, batch.options, queries)
            # What reads too much for the event loop would begin there and then begin again here.
            is_small = result.n_bytes <= QUICK_BYTES
            seconds = result.seconds / len(queries) if is_small else math.inf
            self._note_time(batch.collection, kind, seconds)
            if kind in self._paces.get(batch.collection, {}):
                self._quick_names.add(batch.name)
        _hand_out(batch, result)

    def _note_time(self, collection: CollectionBackend, kind: _Kind, seconds: float) -> None:
        """Note how long a query of a kind took."""
        # A collection elsewhere spends its time waiting, which would block the event loop.
        if collection.is_local and seconds <= QUICK_SECONDS:
            self._paces.setdefault(collection, {})[kind] = _Pace(seconds)
            return
        paces = self._paces.get(collection, {})
        if kind in paces:
            paces[kind].slow += 1
            if paces[kind].slow == SLOW_IN_SUCCESSION:
                del paces[kind]

    def _answer_in_thread(
        self, collection: CollectionBackend, options: SearchOptions, queries: Sequence[Query]
    ) -> _BatchOutcome[Answer]:
        allowance = Allowance(SMALL_ANSWER, waits=True)
        with within(allowance):
            outcome = self._answer_batch(collection, options, queries)
        return outcome._replace(n_bytes=allowance.held)

    def _answer_batch(
        self, collection: CollectionBackend, options: SearchOptions, queries: Sequence[Query]
    ) -> _BatchOutcome[Answer]:
        """Search for all queries; if that fails, one by one, so that only the bad ones fail.

        Raises:
            BeyondAllowance: on the event loop, if the searches must run elsewhere.
        """
        stopwatch = _Stopwatch()
        answers: list[Answer | Exception]
        try:
            answers = [*self._search_batch(collection, options, queries)]
        except Exception as error:
            if isinstance(error, BeyondAllowance) and not may_wait():
                raise
            answers = [error]
            if len(queries) > 1:
                alone = self._answer_in_thread if may_wait() else self._answer_batch
                outcomes = (alone(collection, options, [query]) for query in queries)
                answers = [answer for outcome in outcomes for answer in outcome.answers]
        return _BatchOutcome(answers, stopwatch.seconds())

    def _search_batch(
        self, collection: CollectionBackend, options: SearchOptions, queries: Sequence[Query]
    ) -> list[Answer]:
        start = time.perf_counter()
        encoded = collection.encode_queries(queries, options)
        search_start = time.perf_counter()
        result = collection.find(encoded, options)
        end = time.perf_counter()
        self._stages["encode"].observe(search_start - start)
        self._stages["search"].observe(end - search_start)
        batched = BatchedResult(collection, options, result, end - start)
        return [self._write(batched, position) for position in range(len(queries))]


def _is_long(query: Query) -> bool:
    return query.text is not None and len(query.text) > QUICK_LENGTH


def _is_read_by_model(collection: CollectionBackend, options: SearchOptions, query: Query) -> bool:
    if not collection.is_read_by_model or needs_only_words(options, collection.ranking):
        return False
    return query.text is not None and query.vector is None and query.code is None


def _kind_of(
    collection: CollectionBackend, options: SearchOptions, queries: Sequence[Query]
) -> _Kind:
    longest = max(len(query.text or "") for query in queries)
    ranking = options.ranking or collection.ranking
    group_size = 0 if options.group_by is None else options.group_size
    return _Kind(ranking, options.with_payload, options.with_text, longest.bit_length(), group_size)


def _hand_out(batch: _Batch[Answer], outcome: _BatchOutcome[Answer]) -> None:
    for search, answer in zip(batch.waiting, outcome.answers, strict=True):
        if search.answer.done():  # the request was cancelled
            continue
        if isinstance(answer, Exception):
            search.answer.set_exception(answer)
        else:
            search.answer.set_result(answer)
