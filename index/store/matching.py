"""The rows that match a filter, cached.

A row always means the same document. So after a write only the added rows must be tested, and those
whose payloads it changed, which the store lists. Rows that were deleted meanwhile stay in the list;
no index finds them. But a row that a search can still find must not be missing, as it would be if
it had been deleted before it was tested. So
:meth:`hummingbit.index.generations.PublishedIndex.search_target` pairs a list with exactly the
generation for which it is complete.

For the same reason payloads can be read in slices, each in a transaction of its own: what changed
since the first slice is tested again after the last. One pass over the payloads serves all filters
that wait.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from hummingbit.foundation.slices import checkpoint, stepping_aside
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.filters import Filter, filter_to_json
from hummingbit.index.store.columns import FieldColumns
from hummingbit.index.store.store import ROWS_OF_A_SLICE, Matching, Store

MAX_BYTES = 128 << 20
MIN_ROWS_OF_A_SLICE = 2_000
# SQLite limits the columns of a statement to 2,000. A filter has one in five characters at most.
LENGTH_OF_A_PASS = 8_000
MAX_OF_A_PASS = 64
POLL_SECONDS = 0.02


class MatchingRows:
    """The lists of the most recent filters, limited by :data:`MAX_BYTES`."""

    def __init__(self, store: Store, columns: FieldColumns | None = None) -> None:
        """Find rows by the indexes of fields, by their cached `columns`, or by the payloads."""
        self._store = store
        self._columns = columns
        self._pass = _SharedPass(store)
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, Matching] = OrderedDict()

    def knows_filter(self, filter_: Filter) -> bool:
        """Tell whether the list of the filter is cached."""
        with self._lock:
            return filter_to_json(filter_) in self._lists

    def find(self, filter_: Filter, generation: int, *, alone: bool = False) -> Matching:
        """Return the list of a filter, of `generation` if it is cached, or else of now.

        With `alone`, for callers that hold a lock, it does not wait for other requests. Inside a
        read transaction, the list may be that of a later generation, which completed it before.

        Raises:
            StoreError: if the payloads cannot be read.
            Cancelled: if the request has timed out.
        """
        key = filter_to_json(filter_)
        with self._lock:
            cached = self._lists.get(key)
            if cached is not None:
                self._lists.move_to_end(key)
        if cached is not None and cached.generation == generation:
            return cached
        if alone and cached is not None and cached.generation > generation:
            # It is no use for an earlier one: rows that were deleted in between may be missing.
            return cached
        if cached is not None:
            matching = self._store.rematch(filter_, cached)
        elif alone or self._store.is_covered(filter_):
            matching = self._store.matching(filter_)
        else:
            by_columns = None if self._columns is None else self._columns.matching(filter_)
            matching = by_columns or self._pass.find(key, filter_)
        self._cache(key, matching)
        return matching

    def clear(self) -> None:
        """Drop every list, and with them the rows of deleted documents."""
        with self._lock:
            self._lists.clear()

    def _cache(self, key: str, matching: Matching) -> None:
        # Indexes cache what they derive from an array that cannot change.
        matching.rows.setflags(write=False)
        with self._lock:
            self._lists[key] = matching
            self._lists.move_to_end(key)
            while (
                sum(rows_of_filter.rows.nbytes for rows_of_filter in self._lists.values())
                > MAX_BYTES
            ):
                self._lists.popitem(last=False)


class _MatchingTask:
    """A filter whose matching rows somebody waits for, and those found so far."""

    def __init__(self, filter_: Filter, length: int) -> None:
        self.filter = filter_
        self.length = length
        self.waiters = 0
        self.parts: list[Rows] = []
        self.first_generation = 0
        self.result: Matching | None = None
        self.error: Exception | None = None
        self.done = threading.Event()


class _SharedPass:
    """Reads all payloads once for all waiting filters, in the thread of one waiting request.

    If that request times out, another continues at the same place. A filter that nobody waits for
    is left out of the next pass.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._tasks: dict[str, _MatchingTask] = {}
        self._batch: list[_MatchingTask] = []
        self._after = 0

    def find(self, key: str, filter_: Filter) -> Matching:
        """Return the rows that match the filter."""
        with self._lock:
            task = self._tasks.setdefault(key, _MatchingTask(filter_, len(key)))
            task.waiters += 1
        try:
            self._wait(task)
        finally:
            with self._lock:
                task.waiters -= 1
                if self._tasks.get(key) is task and (task.done.is_set() or not task.waiters):
                    del self._tasks[key]
        if task.error is not None:
            raise task.error
        assert task.result is not None  # noqa: S101 - for the type checker
        return task.result

    def _wait(self, task: _MatchingTask) -> None:
        while not task.done.is_set():
            checkpoint()
            if self._read_lock.acquire(blocking=False):
                try:
                    self._read_until(task)
                finally:
                    self._read_lock.release()
            else:
                with stepping_aside():
                    task.done.wait(POLL_SECONDS)

    def _read_until(self, task: _MatchingTask) -> None:
        while not task.done.is_set():
            checkpoint()
            if not any(task.waiters for task in self._batch):
                self._begin_pass()
            try:
                self._read_slice()
            except Exception as error:  # noqa: BLE001 - each waiting request raises it
                for waiting in self._batch:
                    waiting.error = error
                    waiting.done.set()
                self._batch = []

    def _begin_pass(self) -> None:
        """Begin a pass for the waiting filters, as many as fit into one statement."""
        self._batch, self._after, length = [], 0, 0
        with self._lock:
            for task in self._tasks.values():
                length += task.length
                if self._batch and (length > LENGTH_OF_A_PASS or len(self._batch) == MAX_OF_A_PASS):
                    break
                if not task.done.is_set():
                    task.parts = []
                    self._batch.append(task)

    def _read_slice(self) -> None:
        filters = [task.filter for task in self._batch]
        rows = max(ROWS_OF_A_SLICE // len(filters), MIN_ROWS_OF_A_SLICE)
        parts = self._store.matching_slice(filters, self._after, rows)
        self._after = parts[0].last_row
        for task, part in zip(self._batch, parts, strict=True):
            if not task.parts:
                task.first_generation = part.generation
            task.parts.append(part.rows)
            if part.complete:
                result = part._replace(rows=np.concatenate(task.parts))
                if part.generation != task.first_generation:
                    result = result._replace(generation=task.first_generation)
                    result = self._store.rematch(task.filter, result)
                task.result = result
                task.done.set()
        if parts[0].complete:
            self._batch = []
