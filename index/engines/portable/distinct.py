"""Exact search over the distinct codes of a corpus in which codes repeat.

If codes are dense, a query's nearest codes are looked up (:mod:`index.engines.portable.balls`). For
the queries that this does not answer, mostly outliers, FAISS scans the distinct codes. The list
that it returns gives the distance of the k-th row. If the list may have been cut at that distance,
a range search completes it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.portable.balls import Balls, ball_size
from index.engines.portable.distinct_codes import Integers, Places, Words, as_words, group
from index.engines.portable.flat import pad, scan_of, scanned_codes
from index.engines.portable.postings import Candidates, PostingIndex
from index.engines.portable.probes import nearest_codes
from index.engines.protocol import Rows, check_codes

MAX_RADIUS = 3
# FAISS scans so many codes in the time of one lookup.
CODES_PER_LOOKUP = 64
MAX_TABLE_BITS = 25
# Requesting some more codes than needed from FAISS costs little and resolves most ties.
SLACK = 54
SCANS_AT_ONCE = 64
# 2**64 divided by the golden ratio: a number multiplied by it spreads over the high bits.
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class DistinctIndex(PostingIndex):
    """A posting index over the distinct codes in ascending order."""

    name = "distinct"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        check_codes(codes, rows)
        words, postings = group(as_words(codes))
        super().__init__(codes.shape[1] * 8, rows, postings)
        self._scan = scan_of(words.view(np.uint8))
        self._codes = scanned_codes(self._scan)
        self._lookups = _Lookups.over(as_words(self._codes)[:, 0], self.n_bits)

    @property
    def n_distinct(self) -> int:
        """The number of distinct codes, including those of tombstones."""
        return len(self._codes)

    def work(self, queries: Codes, k: int) -> float:
        """Return the number of codes that FAISS scans in the average time of a query."""
        lookups, pending = self.lookup_work(queries, k)
        return lookups + len(pending) / len(queries) * self.n_distinct

    def lookup_work(self, queries: Codes, k: int) -> tuple[float, Integers]:
        """Return the cost of lookups in the unit of :meth:`work`, and the unanswered queries."""
        if self._lookups is None:
            return 0.0, np.arange(len(queries))
        words = as_words(queries)[:, 0]
        _, pending = self._lookups.balls.search(
            words, k, self.n_bits, self._live_counts, self._lookups.find
        )
        # Most answered queries need the first radius only; the others go up to the last.
        share = len(pending) / len(queries)
        lookups = self.n_bits + share * len(self._lookups.balls.masks)
        return lookups * CODES_PER_LOOKUP, pending

    def _weighted_candidates(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        found = None
        if self._lookups is not None:
            lookups = self._lookups
            found = nearest_codes(weights, k, self._live_counts, lookups.find, lookups.words.dtype)
        return super()._weighted_candidates(weights, k) if found is None else found

    def _distinct_codes(self) -> Codes:
        return self._codes[:, : self.n_bits // 8]

    def _codes_of(self, numbers: Places | Integers) -> Codes:
        return self._codes[numbers, : self.n_bits // 8]

    def _candidates(self, queries: Codes, k: int, radius: int) -> list[Candidates]:
        parts: list[Candidates] = []
        pending = np.arange(len(queries))
        padded = pad(queries)
        if self._lookups is not None:
            words = as_words(padded)[:, 0]
            parts, pending = self._lookups.balls.search(
                words, k, radius, self._live_counts, self._lookups.find
            )
        for start in range(0, len(pending), SCANS_AT_ONCE):
            parts += self._scan_candidates(
                padded, pending[start : start + SCANS_AT_ONCE], k, radius
            )
        return parts

    def _scan_candidates(
        self, queries: Codes, pending: Integers, k: int, radius: int
    ) -> list[Candidates]:
        parts: list[Candidates] = []
        width = min(k + SLACK, len(self._codes))
        while len(pending):
            distances, codes = self._scan.search(queries[pending], width)
            reached = self._live_counts[codes].cumsum(axis=1) >= k
            # The distance of the k-th live row, if the list goes that far.
            boundary = distances[np.arange(len(pending)), reached.argmax(axis=1)]
            limit = np.where(reached[:, -1], np.minimum(boundary, radius), radius)
            # The list has every code nearer than its last one, but maybe not every code as far.
            whole = (distances[:, -1] > limit) | (width == len(self._codes))
            parts.append(within(pending[whole], codes[whole], distances[whole], limit[whole]))
            cut = reached[:, -1] & ~whole
            parts += self._in_range(queries, pending[cut], limit[cut])
            # Tombstones displaced other rows, so a longer list is needed.
            pending = pending[~whole & ~cut]
            width = min(4 * width, len(self._codes))
        return parts

    def _in_range(self, queries: Codes, chosen: Integers, limits: Integers) -> list[Candidates]:
        """Find every distinct code within a query's limit, queries of the same limit together."""
        parts: list[Candidates] = []
        for limit in np.unique(limits):
            some = chosen[limits == limit]
            # The radius of FAISS is exclusive.
            ends, distances, codes = self._scan.range_search(queries[some], int(limit) + 1)
            owners = np.repeat(some, np.diff(ends.astype(np.int64)))
            parts.append(Candidates(owners, codes, distances.astype(np.int64)))
        return parts


class _Lookups(NamedTuple):
    """Finds codes among sorted ones; a table of hashes rejects nearly all codes not among them."""

    words: Words
    """The distinct codes, ascending."""
    balls: Balls
    table: npt.NDArray[np.bool_]
    shift: np.uint64

    @classmethod
    def over(cls, words: Words, n_bits: int) -> _Lookups | None:
        """Return None if lookups do not pay, because codes are few for their length, or long."""
        worth = len(words) // CODES_PER_LOOKUP
        radii = [r for r in range(1, MAX_RADIUS + 1) if ball_size(n_bits, r) <= worth]
        if n_bits > 64 or not radii:
            return None
        n_hash_bits = min(MAX_TABLE_BITS, math.ceil(math.log2(16 * len(words))))
        shift = np.uint64(64 - n_hash_bits)
        table = np.zeros(2**n_hash_bits, dtype=np.bool_)
        table[_hashes(words, shift)] = True
        return cls(words, Balls.of(n_bits, radii, words.dtype), table, shift)

    def find(self, words: Words) -> tuple[Integers, Integers]:
        """See :data:`index.engines.portable.balls.Lookup`."""
        positions = np.flatnonzero(self.table.take(_hashes(words, self.shift)))
        words = words[positions]
        numbers = np.searchsorted(self.words, words)
        exists = self.words.take(numbers, mode="clip") == words
        return positions[exists], numbers[exists]


def _hashes(words: Words, shift: np.uint64) -> Integers:
    spread = words.astype(np.uint64) * SPREAD
    spread >>= shift
    return spread.view(np.int64)


def within(
    queries: Integers, codes: Integers, distances: npt.NDArray[np.int32], limits: Integers
) -> Candidates:
    """Return the entries of a table, with one row for each query, within the query's limit."""
    near = distances <= limits[:, None]
    owners = np.repeat(queries, near.sum(axis=1))
    return Candidates(owners, codes[near], distances[near].astype(np.int64))
