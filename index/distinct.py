"""Exact search over the distinct codes.

Learned codes repeat: a million documents may hold thirty thousand distinct codes. FAISS scans the
distinct codes; the documents of each come from its posting list. FAISS breaks ties as it likes and
says nothing of rows, so it is trusted with distances only: the list that it returns settles the
distance at which the k-th document lies, and where that list may have been cut inside that
distance, a range search completes it. The order of results is made here.
"""

from __future__ import annotations

import copy
import itertools
from typing import NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.protocol import Neighbours, Rows, check_codes, check_search

Integers = npt.NDArray[np.int64]

# Bounds the memory of a batch; more at once is no faster.
QUERIES_AT_ONCE = 64


class _Candidates(NamedTuple):
    """Distinct codes worth expanding: code ``codes[i]`` lies ``distances[i]`` from a query."""

    queries: Integers
    codes: Integers
    distances: Integers


class DistinctIndex:
    """A :class:`~index.protocol.CodeIndex` that does not change once it is made.

    Rows can be struck out: :meth:`without` returns an index that shares everything with this one
    except the marks of what is live. Any number of threads can search at once.
    """

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        check_codes(codes, rows)
        self.n_bits: int = codes.shape[1] * 8
        self._rows = rows
        # A place is a position in `rows`. The places of distinct code c, in ascending order, are
        # postings[offsets[c]:offsets[c + 1]]; distinct codes are numbered by their first place.
        self._code_of, self._offsets, self._postings = _group(codes)
        self._distinct = codes[self._postings[self._offsets[:-1]]]
        self._faiss = faiss.IndexBinaryFlat(_padded(self._distinct).shape[1] * 8)
        self._faiss.add(_padded(self._distinct))
        self._live = np.ones(len(rows), dtype=np.bool_)
        self._live_counts = np.diff(self._offsets)
        self._n_live = len(rows)

    def __len__(self) -> int:
        return self._n_live

    @property
    def n_dead(self) -> int:
        """The number of rows that were struck out and still take up room."""
        return len(self._rows) - self._n_live

    def without(self, rows: Rows) -> DistinctIndex:
        """Return the index without those of `rows` that it holds; the others are ignored."""
        places = np.searchsorted(self._rows, rows)
        places = places[np.append(self._rows, -1)[places] == rows]
        places = np.unique(places[self._live[places]])
        if not len(places):
            return self
        live, live_counts = self._live.copy(), self._live_counts.copy()
        live[places] = False
        np.subtract.at(live_counts, self._code_of[places], 1)
        index = copy.copy(self)
        vars(index).update(_live=live, _live_counts=live_counts, _n_live=self._n_live - len(places))
        return index

    def only(self, rows: Rows) -> DistinctIndex:
        """Return the index with none but those of `rows` that it holds."""
        places = np.searchsorted(self._rows, rows)
        places = places[np.append(self._rows, -1)[places] == rows]
        live = np.zeros(len(self._rows), dtype=np.bool_)
        live[places] = self._live[places]
        live_counts = np.bincount(self._code_of[live], minlength=len(self._distinct))
        index = copy.copy(self)
        vars(index).update(_live=live, _live_counts=live_counts, _n_live=int(live.sum()))
        return index

    def live_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and their rows, in ascending order of rows."""
        return self._distinct[self._code_of[self._live]], self._rows[self._live]

    def distinct_codes(self) -> tuple[Codes, Integers]:
        """Return the distinct codes that a search can find and how many rows hold each."""
        held = self._live_counts > 0
        return self._distinct[held], self._live_counts[held]

    def search(
        self, queries: Codes, k: int, radius: int | None = None, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, among)
        if among is not None:
            return self.only(among).search(queries, k, radius)
        radius = self.n_bits if radius is None else min(radius, self.n_bits)
        k = min(k, len(self))
        if k == 0:
            nothing = np.empty(0, dtype=np.int64)
            return [Neighbours(nothing, nothing) for _ in queries]
        results: list[Neighbours] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            batch = _padded(queries[start : start + QUERIES_AT_ONCE])
            parts = self._candidates(batch, k, radius)
            results += self._expand(parts, len(batch), k)
        return results

    def _candidates(self, queries: Codes, k: int, radius: int) -> _Candidates:
        """Find, for each query, every distinct code that may hold one of its k nearest rows."""
        parts: list[_Candidates] = []
        pending = np.arange(len(queries))
        width = min(k, len(self._distinct))
        while len(pending):
            distances, codes = self._faiss.search(queries[pending], width)
            reached = np.cumsum(self._live_counts[codes], axis=1) >= k
            # The distance of the k-th live row, where the list goes that far.
            boundary = distances[np.arange(len(pending)), reached.argmax(axis=1)]
            limit = np.where(reached[:, -1], np.minimum(boundary, radius), radius)
            # Every code nearer than the last of the list is in the list; of the codes as far as
            # the last, some may not be.
            whole = (distances[:, -1] > limit) | (width == len(self._distinct))
            parts.append(_within(pending[whole], codes[whole], distances[whole], limit[whole]))
            cut = reached[:, -1] & ~whole
            parts += self._in_range(queries, pending[cut], limit[cut])
            # Rows that were struck out took the places of others.
            pending = pending[~whole & ~cut]
            width = min(4 * width, len(self._distinct))
        return _Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _in_range(self, queries: Codes, chosen: Integers, limits: Integers) -> list[_Candidates]:
        """Find every distinct code within a query's limit, queries of the same limit together."""
        parts: list[_Candidates] = []
        for limit in np.unique(limits):
            some = chosen[limits == limit]
            # FAISS returns what is nearer than the radius, not what is as near.
            ends, distances, codes = self._faiss.range_search(queries[some], int(limit) + 1)
            owners = np.repeat(some, np.diff(ends.astype(np.int64)))
            parts.append(_Candidates(owners, codes, distances.astype(np.int64)))
        return parts

    def _expand(self, candidates: _Candidates, n_queries: int, k: int) -> list[Neighbours]:
        """Replace distinct codes by their live rows, in order, and keep k for each query."""
        codes = candidates.codes
        lengths = self._offsets[codes + 1] - self._offsets[codes]
        # The k nearest rows take no more than k live ones from any posting list.
        taken = np.minimum(lengths, k + lengths - self._live_counts[codes])
        ends = np.cumsum(taken)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - taken, taken)
        places = self._postings[np.repeat(self._offsets[codes], taken) + within]
        # One number sorts by query, then distance, then place.
        steps = candidates.queries * (self.n_bits + 1) + candidates.distances
        keys = np.repeat(steps, taken) * len(self._rows) + places
        keys = np.sort(keys[self._live[places]])
        steps, places = np.divmod(keys, len(self._rows))
        owners, distances = np.divmod(steps, self.n_bits + 1)
        starts = np.searchsorted(owners, np.arange(n_queries + 1))
        rows = self._rows[places]
        return [
            Neighbours(rows[start : min(start + k, end)], distances[start : min(start + k, end)])
            for start, end in itertools.pairwise(starts)
        ]


def _group(codes: Codes) -> tuple[Integers, Integers, Integers]:
    """Return the code of each place, and the offsets and places of the posting lists."""
    n = len(codes)
    words = np.zeros((n, -(-codes.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : codes.shape[1]] = codes
    keys = words.view(np.uint64)
    # A stable sort: the places of equal codes stay in ascending order.
    order = np.lexsort(keys.T)
    starts_group = np.ones(n, dtype=np.bool_)
    starts_group[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    firsts = order[starts_group]
    # Number the groups by their first place instead of by their key.
    number = np.empty(len(firsts), dtype=np.int64)
    number[np.argsort(firsts)] = np.arange(len(firsts))
    code_of = np.empty(n, dtype=np.int64)
    code_of[order] = number[np.cumsum(starts_group) - 1]
    offsets = np.zeros(len(firsts) + 1, dtype=np.int64)
    offsets[1:] = np.cumsum(np.bincount(code_of, minlength=len(firsts)))
    return code_of, offsets, np.argsort(code_of, kind="stable")


def _padded(codes: Codes) -> Codes:
    """Add zero bytes up to a multiple of 4: distances stay, and FAISS has fast paths for those."""
    size = -(-codes.shape[1] // 4) * 4
    padded = np.zeros((len(codes), size), dtype=np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded


def _within(
    queries: Integers, codes: Integers, distances: npt.NDArray[np.int32], limits: Integers
) -> _Candidates:
    """List the entries of a table, one row a query, that are within the query's limit."""
    near = distances <= limits[:, None]
    owners = np.repeat(queries, near.sum(axis=1))
    return _Candidates(owners, codes[near], distances[near].astype(np.int64))
