"""Exact search over the distinct codes of a corpus in which codes repeat.

Where codes are dense, a query's nearest codes are looked up (:mod:`index.engines.portable.balls`).
FAISS scans the distinct codes for the queries that this does not settle, mostly outliers. The list
that it returns settles the distance of the k-th row. If the list may have been cut inside that
distance, a range search completes it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.portable.balls import Balls, ball_size
from index.engines.portable.flat import held_codes, pad, scan_of
from index.engines.portable.postings import (
    Candidates,
    Integers,
    Places,
    PostingIndex,
    Words,
    as_words,
    group,
)
from index.engines.portable.probes import nearest_codes
from index.engines.protocol import Rows, check_codes

MAX_RADIUS = 3
# FAISS scans so many codes in the time of one lookup.
CODES_PER_LOOKUP = 64
MAX_TABLE_BITS = 25
# Asking FAISS for some more codes than are needed costs little and settles most ties.
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
        self._codes = held_codes(self._scan)
        self._lookups = _Lookups.over(as_words(self._codes)[:, 0], self.n_bits)

    @property
    def n_distinct(self) -> int:
        """The number of distinct codes, those of tombstones included."""
        return len(self._codes)

    def work(self, queries: Codes, k: int) -> float:
        """Return how many codes FAISS could scan in the time that a query takes, on average."""
        lookups, pending = self.looked_up(queries, k)
        return lookups + len(pending) / len(queries) * self.n_distinct

    def looked_up(self, queries: Codes, k: int) -> tuple[float, Integers]:
        """Return what lookups cost, as :meth:`work` has it, and which queries they leave open."""
        if self._lookups is None:
            return 0.0, np.arange(len(queries))
        words = as_words(queries)[:, 0]
        _, pending = self._lookups.balls.search(
            words, k, self.n_bits, self._live_counts, self._lookups.find
        )
        # Queries that are settled mostly are within the first radius; the others go to the last.
        share = len(pending) / len(queries)
        lookups = self.n_bits + share * len(self._lookups.balls.masks)
        return lookups * CODES_PER_LOOKUP, pending

    def _weighted(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        found = None
        if self._lookups is not None:
            lookups = self._lookups
            found = nearest_codes(weights, k, self._live_counts, lookups.find, lookups.words.dtype)
        return super()._weighted(weights, k) if found is None else found

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
            parts += self._scanned(padded, pending[start : start + SCANS_AT_ONCE], k, radius)
        return parts

    def _scanned(self, queries: Codes, pending: Integers, k: int, radius: int) -> list[Candidates]:
        parts: list[Candidates] = []
        width = min(k + SLACK, len(self._codes))
        while len(pending):
            distances, codes = self._scan.search(queries[pending], width)
            reached = self._live_counts[codes].cumsum(axis=1) >= k
            # The distance of the k-th live row, where the list goes that far.
            boundary = distances[np.arange(len(pending)), reached.argmax(axis=1)]
            limit = np.where(reached[:, -1], np.minimum(boundary, radius), radius)
            # Every code nearer than the last of the list is in the list; of the codes as far as
            # the last, some may not be.
            whole = (distances[:, -1] > limit) | (width == len(self._codes))
            parts.append(within(pending[whole], codes[whole], distances[whole], limit[whole]))
            cut = reached[:, -1] & ~whole
            parts += self._in_range(queries, pending[cut], limit[cut])
            # Tombstones took the places of other rows.
            pending = pending[~whole & ~cut]
            width = min(4 * width, len(self._codes))
        return parts

    def _in_range(self, queries: Codes, chosen: Integers, limits: Integers) -> list[Candidates]:
        """Find every distinct code within a query's limit, queries of the same limit together."""
        parts: list[Candidates] = []
        for limit in np.unique(limits):
            some = chosen[limits == limit]
            # FAISS returns what is nearer than the radius, not what is as near.
            ends, distances, codes = self._scan.range_search(queries[some], int(limit) + 1)
            owners = np.repeat(some, np.diff(ends.astype(np.int64)))
            parts.append(Candidates(owners, codes, distances.astype(np.int64)))
        return parts


class _Lookups(NamedTuple):
    """Finds codes among sorted ones. A table of hashes turns away nearly all that are not there."""

    words: Words
    """The distinct codes, ascending."""
    balls: Balls
    table: npt.NDArray[np.bool_]
    shift: np.uint64

    @classmethod
    def over(cls, words: Words, n_bits: int) -> _Lookups | None:
        """Return None where lookups would not pay: codes are few for their length, or long."""
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
        there = self.words.take(numbers, mode="clip") == words
        return positions[there], numbers[there]


def _hashes(words: Words, shift: np.uint64) -> Integers:
    spread = words.astype(np.uint64) * SPREAD
    spread >>= shift
    return spread.view(np.int64)


def within(
    queries: Integers, codes: Integers, distances: npt.NDArray[np.int32], limits: Integers
) -> Candidates:
    """List the entries of a table, one row a query, that are within the query's limit."""
    near = distances <= limits[:, None]
    owners = np.repeat(queries, near.sum(axis=1))
    return Candidates(owners, codes[near], distances[near].astype(np.int64))
