"""The step from distinct codes found to rows found, which engines with posting lists share.

For each query such an engine finds every distinct code within the distance of its k-th row. This
module turns these codes into rows in the right order.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, hamming_distance, pack_bits
from foundation.arrays import sorted_distinct
from index.engines.portable.distinct_codes import Integers, Places, Postings, as_words
from index.engines.portable.flat import FEW, FlatIndex
from index.engines.portable.weighted import rows_after, weighted_distances, within_distance
from index.engines.protocol import (
    FARTHEST,
    After,
    Neighbours,
    Rows,
    Weights,
    check_search,
    check_weights,
    places_of,
)

# These limit the memory of a batch; larger batches are not faster.
QUERIES_AT_ONCE = 256
ROWS_AT_ONCE = 2**18


class Candidates(NamedTuple):
    """Distinct codes to expand: code ``codes[i]`` is ``distances[i]`` from query ``queries[i]``."""

    queries: Integers
    codes: Integers
    distances: Integers


class PostingIndex(ABC):
    """An immutable code index over distinct codes.

    :meth:`without` removes rows: it returns an index that shares everything with this one except
    the marks of live rows. Any number of threads can search at once.
    """

    def __init__(self, n_bits: int, rows: Rows, postings: Postings) -> None:
        self.n_bits = n_bits
        self._rows = rows
        self._postings = postings
        self._live = np.ones(len(rows), dtype=np.bool_)
        self._live_counts = np.diff(postings.offsets)
        self._n_live = len(rows)

    @abstractmethod
    def _codes_of(self, numbers: Places | Integers) -> Codes:
        """Return the distinct codes of these numbers."""

    @abstractmethod
    def _candidates(self, queries: Codes, k: int, radius: int) -> list[Candidates]:
        """Find, for each query, every distinct code that may hold one of its k nearest rows."""

    def __len__(self) -> int:
        return self._n_live

    @property
    def n_dead(self) -> int:
        """The number of tombstones: removed rows that still take memory."""
        return len(self._rows) - self._n_live

    def without(self, rows: Rows) -> Self:
        """Return the index without `rows`; unknown rows are ignored."""
        places = sorted_distinct(places_of(self._rows, rows))
        places = places[self._live[places]]
        if not len(places):
            return self
        live, live_counts = self._live.copy(), self._live_counts.copy()
        live[places] = False
        np.subtract.at(live_counts, self._postings.code_of[places], 1)
        return self._with_live(live, live_counts, self._n_live - len(places))

    def live_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and their rows, in ascending order of rows."""
        if not self.n_dead:
            return self._codes_of(self._postings.code_of), self._rows
        return self._codes_of(self._postings.code_of[self._live]), self._rows[self._live]

    def holds(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which of `rows` lie between the first and the last row of this index."""
        if not len(self._rows):
            return np.zeros(len(rows), dtype=np.bool_)
        inside: npt.NDArray[np.bool_] = (rows >= self._rows[0]) & (rows <= self._rows[-1])
        return inside

    def live_rows(self, rows: Rows) -> Rows:
        """Return those of `rows`, which ascend, that a search can find."""
        places = places_of(self._rows, rows)
        return self._rows[places[self._live[places]]]

    def codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, all of which must exist, in that order."""
        return self._codes_of(self._postings.code_of[places_of(self._rows, rows)])

    def counted_codes(self) -> tuple[Codes, Integers]:
        """Return the distinct codes that a search can find and the number of rows with each."""
        live = np.flatnonzero(self._live_counts)
        return self._codes_of(live), self._live_counts[live]

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        among: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, among)
        if among is not None:
            return self._only(among).search(queries, k, radius, None, after)
        radius = self.n_bits if radius is None else min(radius, self.n_bits)
        if after is not None:
            every = (hamming_distance(self._distinct_codes(), query) for query in queries)
            return [self._rows_after(one, k, after, radius) for one in every]
        k = min(k, len(self))
        if k == 0:
            nothing = np.empty(0, dtype=np.int64)
            return [Neighbours(nothing, nothing) for _ in queries]
        if len(queries) == 1:
            return self._expand(self._candidates(queries, k, radius), 1, k)
        # Queries repeat as codes do, so each distinct query is searched once.
        words = as_words(queries)
        keys = words[:, 0] if words.shape[1] == 1 else words.view(f"V{words.shape[1] * 8}")[:, 0]
        _, firsts, same = np.unique(keys, return_index=True, return_inverse=True)
        results: list[Neighbours] = []
        at_once = max(1, min(QUERIES_AT_ONCE, ROWS_AT_ONCE // k))
        for start in range(0, len(firsts), at_once):
            batch = queries[firsts[start : start + at_once]]
            results += self._expand(self._candidates(batch, k, radius), len(batch), k)
        return [results[number] for number in same]

    def search_weighted(
        self, weights: Weights, k: int, among: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search_weighted`."""
        check_weights(self, weights, k, among)
        if among is not None:
            return self._only(among).search_weighted(weights, k, None, after)
        if after is not None:
            every = (weighted_distances(self._distinct_codes(), one) for one in weights)
            return [self._rows_after(one, k, after) for one in every]
        k = min(k, len(self))
        if k == 0:
            nothing = np.empty(0, dtype=np.int64)
            return [Neighbours(nothing, nothing) for _ in weights]
        return [self._expand([self._weighted_candidates(one, k)], 1, k)[0] for one in weights]

    def _weighted_candidates(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        """Find every distinct code as near as the k-th row by weighted distance."""
        query = pack_bits(weights[None] > 0)
        seeds = sorted_distinct(join_candidates(self._candidates(query, k, self.n_bits)).codes)
        limit = self._limit(seeds, weighted_distances(self._codes_of(seeds), weights), k)
        codes, distances = within_distance(self._distinct_codes(), weights, limit)
        live = np.flatnonzero(self._live_counts[codes])
        codes, distances = codes[live], distances[live]
        near = np.flatnonzero(distances <= self._limit(codes, distances, k))
        owners = np.zeros(len(near), dtype=np.int64)
        return Candidates(owners, codes[near], distances[near].astype(np.int64))

    def _rows_after(
        self, distances: npt.NDArray[Any], k: int, after: After, limit: int = FARTHEST
    ) -> Neighbours:
        """See :func:`index.engines.portable.weighted.rows_after`; distances are of the codes."""
        of_rows = distances[self._postings.code_of]
        return rows_after(self._rows, of_rows, k, after, live=self._live, limit=limit)

    def _limit(self, codes: Integers, distances: npt.NDArray[np.int32], k: int) -> int:
        """Return the distance of the k-th row of some codes, which have at least k rows."""
        order = np.argsort(distances, kind="stable")
        reached = self._live_counts[codes[order]].cumsum()
        return int(distances[order[np.searchsorted(reached, k)]])

    def _distinct_codes(self) -> Codes:
        """Return every distinct code, by number."""
        return self._codes_of(np.arange(len(self._live_counts)))

    def _only(self, among: Rows) -> Self | FlatIndex:
        """Return an index of the rows `among` that a search can find."""
        places = places_of(self._rows, among)
        places = places[self._live[places]]
        if len(places) * FEW < len(self._rows):
            codes = self._codes_of(self._postings.code_of[places])
            return FlatIndex(codes, self._rows[places])
        live = np.zeros(len(self._rows), dtype=np.bool_)
        live[places] = True
        code_of = self._postings.code_of[places]
        live_counts = np.bincount(code_of, minlength=len(self._live_counts))
        return self._with_live(live, live_counts, len(places))

    def _with_live(self, live: npt.NDArray[np.bool_], live_counts: Integers, n_live: int) -> Self:
        index = copy.copy(self)
        vars(index).update(_live=live, _live_counts=live_counts, _n_live=n_live)
        return index

    def _expand(self, parts: Sequence[Candidates], n_queries: int, k: int) -> list[Neighbours]:
        """Replace distinct codes by their live rows, in order, and keep the first k per query."""
        queries, codes, distances = join_candidates(parts)
        starts = self._postings.offsets[codes]
        lengths = self._postings.offsets[codes + 1] - starts
        # The k nearest rows take no more than k live ones from any posting list.
        sizes = np.minimum(lengths, k + lengths - self._live_counts[codes])
        ends = sizes.cumsum()
        within = np.arange(ends[-1] if len(ends) else 0) + (starts - ends + sizes).repeat(sizes)
        places = self._postings.places[within]
        # One number sorts by query, then distance, then place.
        keys = ((queries * (self.n_bits + 1) + distances) * len(self._rows)).repeat(sizes) + places
        if self.n_dead:
            keys = keys[self._live[places]]
        keys.sort()
        steps, places = np.divmod(keys, len(self._rows))
        rows = self._rows[places]
        if n_queries == 1:
            return [Neighbours(rows[:k], steps[:k])]
        owners, distances = np.divmod(steps, self.n_bits + 1)
        bounds = np.searchsorted(owners, np.arange(n_queries + 1)).tolist()
        return [
            Neighbours(rows[start : min(start + k, end)], distances[start : min(start + k, end)])
            for start, end in itertools.pairwise(bounds)
        ]


def join_candidates(parts: Sequence[Candidates]) -> Candidates:
    """Concatenate the parts; there may be none."""
    if len(parts) == 1:
        return parts[0]
    nothing = np.empty(0, dtype=np.int64)
    parts = [Candidates(nothing, nothing, nothing), *parts]
    return Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))
