"""Answers searches by one query: where each of them runs, and what waits together, as one batch.

Encoding, scanning codes and reading documents cost less per query in a batch. So searches that
arrive in the same round of the event loop form one batch, and those that arrive while it runs form
the next: the busier the service, the cheaper a search. No search waits for a batch to fill.

Where a search runs is decided before, by what it is (:func:`place_of`):

- on the event loop, if it takes less time than handing it to a thread and back;
- in one of a few threads, which it may wait for;
- in a thread of its own kind, if a language model reads its text: what arrives while the model
  reads is read together, and no other search waits for a model;
- among the long requests, if it builds an index, reads much, or has a filter that is new.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from anyio import CapacityLimiter, to_thread

from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.filtered import FilteredCollection
from hummingbit.index.names import PLAIN, VECTORS
from hummingbit.index.options import SearchOptions
from hummingbit.index.rankings import BY_WORDS
from hummingbit.index.records import Query, payloads_as_stored
from hummingbit.index.search import SearchResult, needs_only_words
from hummingbit.service.http.monitoring import Metrics

MAX_BATCH = 64
# The event loop answers nothing else meanwhile, so its batches are short.
MAX_LOOP_BATCH = 16

# The limits of a search on the event loop: documents, where codes alone rank them, and where words
# do or a filter leaves some out; hits, characters of the text, bytes of documents that are read.
# Hybrid searches of 20,000 documents take some 2 ms.
LOOP_DOCUMENTS, LOOP_DOCUMENTS_BY_STEPS = 1_000_000, 20_000
LOOP_HITS = 100
LOOP_LENGTH = 500
LOOP_BYTES = 256 << 10
# The limits of a search that is not long.
SHORT_HITS = 200
SHORT_LENGTH = 10_000
SHORT_VECTORS = 200
SHORT_BYTES = 16 << 20


class Place(Enum):
    """Where a search runs."""

    LOOP = "loop"
    THREAD = "thread"
    MODEL = "model"
    LONG = "long"


def place_of(
    collection: CollectionBackend | FilteredCollection, options: SearchOptions, query: Query
) -> Place:
    """Return where a search runs."""
    by_words = (options.ranking or collection.ranking) in BY_WORDS
    n_hits, length = options.most_hits + options.offset, len(query.text or "")
    if not collection.knows_filter(options.filter) or n_hits > SHORT_HITS or length > SHORT_LENGTH:
        return Place.LONG
    if _reads_vectors(options) or _has_conditions(query, options):
        return Place.LONG
    if _is_read_by_model(collection, options, query):
        return Place.MODEL
    if isinstance(collection, FilteredCollection):
        return Place.THREAD
    n_bytes = n_hits * _mean_bytes(collection) if _reads_documents(options) else 0
    counts = options.facets is not None or options.group_by is not None
    if counts or n_bytes > SHORT_BYTES or not collection.is_built_for(options.ranking):
        return Place.LONG
    has_steps = by_words or options.filter is not None
    is_small = len(collection) <= (LOOP_DOCUMENTS_BY_STEPS if has_steps else LOOP_DOCUMENTS)
    is_short = n_hits <= LOOP_HITS and length <= LOOP_LENGTH and n_bytes <= LOOP_BYTES
    return Place.LOOP if is_small and is_short else Place.THREAD


def _has_conditions(query: Query, options: SearchOptions) -> bool:
    """Tell whether a text may have phrases or ``field:value``, for which documents are read."""
    text = query.text
    return text is not None and ('"' in text or ":" in text) and options.syntax != PLAIN


def _is_read_by_model(
    collection: CollectionBackend | FilteredCollection, options: SearchOptions, query: Query
) -> bool:
    if not collection.is_read_by_model or needs_only_words(options, collection.ranking):
        return False
    return query.text is not None and query.vector is None and query.code is None


def _reads_vectors(options: SearchOptions) -> bool:
    """Tell whether a search reads so many vectors from disk that others should not wait for it."""
    rescore = options.rescore
    return rescore is not None and rescore.by == VECTORS and options.n_candidates > SHORT_VECTORS


def _reads_documents(options: SearchOptions) -> bool:
    with_text = options.with_text or options.with_passage or options.highlight
    return bool(options.with_payload) or with_text


def _mean_bytes(collection: CollectionBackend) -> float:
    return collection.bytes_on_disk() / max(len(collection), 1)


class _Waiting(NamedTuple):
    """A query whose answer somebody awaits."""

    query: Query
    answer: asyncio.Future[bytes]


class _Batch(NamedTuple):
    """Searches of one collection with the same options."""

    collection: CollectionBackend | FilteredCollection
    options: SearchOptions
    searches: list[_Waiting]


class _Lane:
    """Searches that wait for the same threads, or for the event loop if there are none."""

    def __init__(self, n_threads: int, name: str) -> None:
        self.free = n_threads
        self.threads = ThreadPoolExecutor(n_threads, name) if n_threads else None
        self.waiting: dict[object, _Batch] = {}
        self.is_scheduled = False

    def take(self, most: int) -> _Batch:
        """Remove a batch of those that have waited longest; what is beyond `most` goes on."""
        key = next(iter(self.waiting))
        batch = self.waiting.pop(key)
        if len(batch.searches) > most:
            self.waiting[key] = batch._replace(searches=batch.searches[most:])
        return batch._replace(searches=batch.searches[:most])


Write = Callable[[Any, SearchOptions, SearchResult, int, float], bytes]
"""Writes the answer to the query at a position of a batch, which took so many seconds."""


class Batcher:
    """Searches for single queries; those that wait at the same time share a batch."""

    def __init__(self, metrics: Metrics, long: CapacityLimiter, write: Write) -> None:
        """Let long searches wait for `long`. `write` runs where the search ran."""
        self._stages = metrics.stages
        self._long = long
        self._write = write
        self._lanes = {
            Place.LOOP: _Lane(0, "loop"),
            Place.THREAD: _Lane(os.cpu_count() or 1, "search"),
            Place.MODEL: _Lane(1, "model"),
        }

    async def search(
        self,
        collection: CollectionBackend | FilteredCollection,
        options: SearchOptions,
        query: Query,
        *,
        alone: bool,
    ) -> bytes:
        """Search, and return the answer; it shares no batch if it is `alone`.

        Raises:
            InputError, UnknownDocument, StoreError: as the collection's search does.
        """
        place = place_of(collection, options, query)
        if place is Place.LONG:
            work = partial(self._answer_one, collection, options, query)
            return await to_thread.run_sync(work, limiter=self._long)
        lane = self._lanes[place]
        loop = asyncio.get_running_loop()
        waiting = _Waiting(query, loop.create_future())
        # Options that are not shared, such as vectors and functions, need not be comparable.
        key = waiting.answer if alone else (collection, options)
        batch = lane.waiting.setdefault(key, _Batch(collection, options, []))
        batch.searches.append(waiting)
        self._begin_soon(loop, lane)
        return await waiting.answer

    def close(self) -> None:
        """Wait for the searches that run."""
        for lane in self._lanes.values():
            if lane.threads is not None:
                lane.threads.shutdown()

    def _begin_soon(self, loop: asyncio.AbstractEventLoop, lane: _Lane) -> None:
        """Begin after all searches that arrive in this round of the loop."""
        if lane.waiting and not lane.is_scheduled:
            lane.is_scheduled = True
            loop.call_soon(self._begin, loop, lane)

    def _begin(self, loop: asyncio.AbstractEventLoop, lane: _Lane) -> None:
        """Answer a batch on the event loop, or give the free threads one each."""
        lane.is_scheduled = False
        if lane.threads is None:
            batch = lane.take(MAX_LOOP_BATCH)
            _hand_out(batch, self._answer(batch))
            self._begin_soon(loop, lane)
            return
        while lane.free and lane.waiting:
            lane.free -= 1
            batch = lane.take(MAX_BATCH)
            answers = loop.run_in_executor(lane.threads, self._answer, batch)
            answers.add_done_callback(partial(self._finish, loop, lane, batch))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        lane: _Lane,
        batch: _Batch,
        answers: asyncio.Future[list[bytes | Exception]],
    ) -> None:
        lane.free += 1
        self._begin(loop, lane)
        _hand_out(batch, answers.result())

    def _answer(self, batch: _Batch) -> list[bytes | Exception]:
        """Search for all queries; if that fails, one by one, so that only the bad ones fail."""
        collection, options, searches = batch
        queries = [waiting.query for waiting in searches]
        try:
            return [*self._search(collection, options, queries)]
        except Exception as error:  # noqa: BLE001 - whoever awaits the answer raises it
            if len(searches) == 1:
                return [error]
            each = (batch._replace(searches=[waiting]) for waiting in searches)
            return [answer for one in each for answer in self._answer(one)]

    def _answer_one(
        self,
        collection: CollectionBackend | FilteredCollection,
        options: SearchOptions,
        query: Query,
    ) -> bytes:
        check_cancelled()  # it may have waited until its deadline
        (answer,) = self._search(collection, options, [query])
        return answer

    def _search(
        self,
        collection: CollectionBackend | FilteredCollection,
        options: SearchOptions,
        queries: Sequence[Query],
    ) -> list[bytes]:
        start = time.perf_counter()
        with payloads_as_stored():
            if isinstance(collection, FilteredCollection):
                search_start = start
                result = collection.find(queries, options)
            else:
                encoded = collection.encode_queries(queries, options)
                search_start = time.perf_counter()
                result = collection.find(encoded, options)
            end = time.perf_counter()
            self._stages["encode"].observe(search_start - start)
            self._stages["search"].observe(end - search_start)
            seconds = end - start
            return [
                self._write(collection, options, result, position, seconds)
                for position in range(len(queries))
            ]


def _hand_out(batch: _Batch, answers: Sequence[bytes | Exception]) -> None:
    for waiting, answer in zip(batch.searches, answers, strict=True):
        if waiting.answer.done():  # the request was cancelled
            continue
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)
