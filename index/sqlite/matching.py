"""For which rows a filter holds, remembered.

A row stands for one document for ever, and its payload never changes. So what was found out about
a row stays true, and after a write only the rows that it added need to be asked about. Rows that
were deleted meanwhile stay in the list; no index finds them any more. What must not happen is that
a row which a search can still find is missing: it would be if the row had been deleted by the time
it was asked about. :class:`index.collection.Collection` therefore searches the generation that a
list was completed for, no other.

For the same reason payloads can be read in slices, at one moment each: a list is complete as of the
last slice. All filters that wait at a time are answered by one pass over the payloads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from foundation.slices import checkpoint, stepping_aside
from index.engines.protocol import Rows
from index.filters import Filter, filter_to_json
from index.sqlite.document_reader import ROWS_OF_A_SLICE
from index.sqlite.store import Matching, Store

MAX_BYTES = 128 << 20
MIN_ROWS_OF_A_SLICE = 2_000
# SQLite bounds the parameters of a statement; a filter has fewer than it has characters.
LENGTH_OF_A_PASS = 16_000
MAX_OF_A_PASS = 64
SECONDS_BETWEEN_LOOKS = 0.02


class MatchingRows:
    """The lists of the filters that were used last, as many as :data:`MAX_BYTES` hold."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pass = _SharedPass(store)
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, Matching] = OrderedDict()

    def knows_filter(self, filter_: Filter) -> bool:
        """Tell whether there is a list of the filter."""
        with self._lock:
            return filter_to_json(filter_) in self._lists

    def find(self, filter_: Filter, generation: int, *, alone: bool = False) -> Matching:
        """Return the list of a filter as of `generation` if it is at hand, or as of now.

        It waits for nobody if it is `alone`, for callers that hold a lock. Within a moment of the
        store it may be as of a later one, for which it was completed before.

        Raises:
            StoreError: if the payloads cannot be read.
            Cancelled: if nobody waits for the list any more.
        """
        key = filter_to_json(filter_)
        with self._lock:
            known = self._lists.get(key)
            if known is not None:
                self._lists.move_to_end(key)
        if known is not None and known.generation == generation:
            return known
        if alone and known is not None and known.generation > generation:
            # It cannot be made an earlier one: rows that were deleted in between may be missing.
            return known
        if known is None:
            alone = alone or self._store.is_covered(filter_)
            found = self._store.matching(filter_) if alone else self._pass.find(key, filter_)
        else:
            later = self._store.matching(filter_, known.last_row)
            found = later._replace(rows=np.concatenate([known.rows, later.rows]))
        self._remember(key, found)
        return found

    def clear(self) -> None:
        """Forget every list, and with them the rows that are no longer there."""
        with self._lock:
            self._lists.clear()

    def _remember(self, key: str, found: Matching) -> None:
        # An index remembers what it made of a list that cannot change.
        found.rows.setflags(write=False)
        with self._lock:
            self._lists[key] = found
            self._lists.move_to_end(key)
            while sum(one.rows.nbytes for one in self._lists.values()) > MAX_BYTES:
                self._lists.popitem(last=False)


class _MatchingTask:
    """A filter whose rows are wanted, and those found so far."""

    def __init__(self, filter_: Filter, length: int) -> None:
        self.filter = filter_
        self.length = length
        self.waiters = 0
        self.parts: list[Rows] = []
        self.found: Matching | None = None
        self.error: Exception | None = None
        self.done = threading.Event()


class _SharedPass:
    """Reads all payloads for all filters that wait, in the thread of one of those who wait.

    Where that one's request times out, another goes on where it was. A filter that nobody waits for
    any more is left out of the next pass.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._wanted: dict[str, _MatchingTask] = {}
        self._taken: list[_MatchingTask] = []
        self._after = 0

    def find(self, key: str, filter_: Filter) -> Matching:
        """Return the rows for which the filter holds."""
        with self._lock:
            wanted = self._wanted.setdefault(key, _MatchingTask(filter_, len(key)))
            wanted.waiters += 1
        try:
            self._wait(wanted)
        finally:
            with self._lock:
                wanted.waiters -= 1
                if self._wanted.get(key) is wanted and (wanted.done.is_set() or not wanted.waiters):
                    del self._wanted[key]
        if wanted.error is not None:
            raise wanted.error
        assert wanted.found is not None  # noqa: S101 - for the type checker
        return wanted.found

    def _wait(self, wanted: _MatchingTask) -> None:
        while not wanted.done.is_set():
            checkpoint()
            if self._reading.acquire(blocking=False):
                try:
                    self._read_until(wanted)
                finally:
                    self._reading.release()
            else:
                with stepping_aside():
                    wanted.done.wait(SECONDS_BETWEEN_LOOKS)

    def _read_until(self, wanted: _MatchingTask) -> None:
        while not wanted.done.is_set():
            checkpoint()
            if not any(one.waiters for one in self._taken):
                self._take()
            try:
                self._read_slice()
            except Exception as error:  # noqa: BLE001 - it is raised where each was asked for
                for one in self._taken:
                    one.error = error
                    one.done.set()
                self._taken = []

    def _take(self) -> None:
        """Begin a pass for those that wait, as many as one statement takes."""
        self._taken, self._after, length = [], 0, 0
        with self._lock:
            for one in self._wanted.values():
                length += one.length
                if self._taken and (length > LENGTH_OF_A_PASS or len(self._taken) == MAX_OF_A_PASS):
                    break
                if not one.done.is_set():
                    one.parts = []
                    self._taken.append(one)

    def _read_slice(self) -> None:
        filters = [one.filter for one in self._taken]
        rows = max(ROWS_OF_A_SLICE // len(filters), MIN_ROWS_OF_A_SLICE)
        found = self._store.matching_slice(filters, self._after, rows)
        self._after = found[0].last_row
        for one, part in zip(self._taken, found, strict=True):
            one.parts.append(part.rows)
            if part.complete:
                one.found = part._replace(rows=np.concatenate(one.parts))
                one.done.set()
        if found[0].complete:
            self._taken = []
