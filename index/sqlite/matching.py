"""For which rows a filter holds, remembered.

A row stands for one document for ever, and its payload never changes. So what was found out about
a row stays true, and after a write only the rows that it added need to be asked about. Rows that
were deleted meanwhile stay in the list; no index finds them any more. What must not happen is that
a row which a search can still find is missing: it would be if the row had been deleted by the time
it was asked about. :class:`index.collection.Collection` therefore searches the generation that a
list was completed for, no other.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from index.filters import Filter, filter_to_json
from index.sqlite.store import Matching, Store

MAX_BYTES = 128 << 20


class MatchingRows:
    """The lists of the filters that were used last, as many as :data:`MAX_BYTES` hold."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, Matching] = OrderedDict()

    def of(self, filter_: Filter, generation: int) -> Matching:
        """Return the list of a filter as of `generation` if it is at hand, or as of now.

        Raises:
            StoreError: if the payloads cannot be read.
        """
        key = filter_to_json(filter_)
        with self._lock:
            known = self._lists.get(key)
            if known is not None:
                self._lists.move_to_end(key)
        if known is not None and known.generation == generation:
            return known
        if known is None:
            found = self._store.matching(filter_)
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
        with self._lock:
            self._lists[key] = found
            self._lists.move_to_end(key)
            while sum(one.rows.nbytes for one in self._lists.values()) > MAX_BYTES:
                self._lists.popitem(last=False)
