"""Exact search over the distinct codes of a corpus in which codes repeat, without the kernel.

A :class:`PostingIndex` has the rows of each distinct code, its posting list. :class:`DirectIndex`
finds the codes near a query in a table of all possible codes, :class:`DistinctIndex` among the
sorted codes: it looks up those in a :class:`HammingBall`, and lets FAISS scan for the queries that
this does not answer.
"""

from __future__ import annotations

import heapq
import itertools
import math
from abc import abstractmethod
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.index.engines.flat import Marks, PortableIndex, pad, scan_of, scanned_codes
from hummingbit.index.engines.protocol import (
    Neighbours,
    Rows,
    check_codes,
)
from hummingbit.index.engines.weighted import weighted_distances, within_distance

# The distinct codes among many, and the rows of each: its posting list.
#
# Learned codes repeat: a million documents may have thirty thousand distinct codes.


Integers = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
"""Positions in an index's rows, and numbers of its codes, in four bytes to save memory."""
Words = npt.NDArray[np.unsignedinteger[Any]]
"""Codes as numbers: one of 32 or 64 bits, or several of 64."""


class Postings(NamedTuple):
    """The positions of distinct code c, ascending: ``positions[offsets[c]:offsets[c + 1]]``."""

    code_of: Positions
    """The distinct code of each position."""
    offsets: Integers
    positions: Positions


def as_words(codes: Codes) -> Words:
    """Return codes as numbers, ``(N, W)``, padded with zero bytes; W is 1 up to 64 bits."""
    padded = pad(codes)
    return padded.view(f"<u{min(padded.shape[1], 8)}")


def group(words: Words) -> tuple[Words, Postings]:
    """Return the distinct codes of ``(N, W)`` words in ascending order and their posting lists."""
    order = np.argsort(words[:, 0]) if words.shape[1] == 1 else np.lexsort(words.T)
    in_order = words[order]
    begins = np.ones(len(words), dtype=np.bool_)
    begins[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    distinct = in_order[begins]
    code_of = np.empty(len(words), dtype=np.int32)
    code_of[order] = np.cumsum(begins, dtype=np.int32) - 1
    del order, in_order, begins
    return distinct, posting_lists(code_of, len(distinct))


def distinct_codes(codes: Codes) -> tuple[Codes, Postings]:
    """Return the distinct ones of `codes`, ``uint8[D, C]``, and their posting lists."""
    words, postings = group(as_words(codes))
    return words.view(np.uint8)[:, : codes.shape[1]], postings


def posting_lists(code_of: npt.NDArray[Any], n_codes: int) -> Postings:
    """Return the posting lists of `n_codes` codes, given the code of each position."""
    # Each key has the code in its high bits and the position in its low bits: numpy sorts such
    # numbers several times faster than argsort, and equal codes stay in the order of their
    # positions.
    keys = code_of.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(code_of), dtype=np.uint64)
    keys.sort()
    offsets = np.zeros(n_codes + 1, dtype=np.int64)
    offsets[1:] = np.cumsum(np.bincount(code_of, minlength=n_codes))
    return Postings(code_of, offsets, keys.astype(np.uint32).view(np.int32))


# From distinct codes to rows.
#
# For each query an index finds every distinct code within the distance of its k-th row. Its rows
# follow in the order (distance, row).


# These limit the memory of a batch; larger batches are not faster.
QUERIES_AT_ONCE = 256
ROWS_AT_ONCE = 2**18


class Candidates(NamedTuple):
    """Distinct codes to expand: code ``codes[i]`` is ``distances[i]`` from query ``queries[i]``."""

    queries: Integers
    codes: Integers
    distances: Integers


class PostingIndex(PortableIndex):
    """A :class:`PortableIndex` over distinct codes."""

    def __init__(self, n_bits: int, rows: Rows, postings: Postings) -> None:
        super().__init__(rows)
        self.n_bits = n_bits
        self._postings = postings
        self._live_counts = np.diff(postings.offsets)

    @abstractmethod
    def _codes_of(self, numbers: Positions | Integers) -> Codes:
        """Return the distinct codes of these numbers."""

    @abstractmethod
    def _candidates(self, queries: Codes, k: int, radius: int) -> list[Candidates]:
        """Find, for each query, every distinct code that may hold one of its k nearest rows."""

    def counted_codes(self) -> tuple[Codes, Integers]:
        """Return the distinct codes that a search can find and the number of rows with each."""
        live = np.flatnonzero(self._live_counts)
        return self._codes_of(live), self._live_counts[live]

    def _codes_at(self, positions: Rows) -> Codes:
        return self._codes_of(self._postings.code_of[positions])

    def _nearest(self, queries: Codes, k: int, radius: int) -> list[Neighbours]:
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

    def _nearest_weighted(self, weights: npt.NDArray[np.int64], k: int) -> Neighbours:
        return self._expand([self._weighted_candidates(weights, k)], 1, k)[0]

    def _weighted_candidates(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        """Find every distinct code as near as the k-th row by weighted distance."""
        query = pack_bits(weights[None] > 0)
        seeds = sorted_distinct(join_candidates(self._candidates(query, k, self.n_bits)).codes)
        limit = self._limit(seeds, weighted_distances(self._codes_of(seeds), weights), k)
        codes, distances = within_distance(self._every_code(), weights, limit)
        live = np.flatnonzero(self._live_counts[codes])
        codes, distances = codes[live], distances[live]
        near = np.flatnonzero(distances <= self._limit(codes, distances, k))
        owners = np.zeros(len(near), dtype=np.int64)
        return Candidates(owners, codes[near], distances[near].astype(np.int64))

    def _of_rows(self, distances: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(distances[self._postings.code_of])

    def _limit(self, codes: Integers, distances: npt.NDArray[np.int32], k: int) -> int:
        """Return the distance of the k-th row of some codes, which have at least k rows."""
        order = np.argsort(distances, kind="stable")
        reached = self._live_counts[codes[order]].cumsum()
        return int(distances[order[np.searchsorted(reached, k)]])

    def _every_code(self) -> Codes:
        return self._codes_of(np.arange(len(self._live_counts)))

    def _with_live(self, live: Marks) -> Self:
        index = super()._with_live(live)
        code_of, n_codes = self._postings.code_of[live], len(self._live_counts)
        index._live_counts = np.bincount(code_of, minlength=n_codes)  # noqa: SLF001 - its own
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
        positions = self._postings.positions[within]
        # One number sorts by query, then distance, then position.
        keys = ((queries * (self.n_bits + 1) + distances) * len(self._rows)).repeat(
            sizes
        ) + positions
        if self._live is not None:
            keys = keys[self._live[positions]]
        keys.sort()
        steps, positions = np.divmod(keys, len(self._rows))
        rows = self._rows[positions]
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


# The nearest codes by looking up every code that differs from the query in few bits.
#
# Among a million learned codes, nearly every query has its tenth neighbour within two bits, and
# there are only 1 + n + n(n - 1)/2 codes that near. Looking up all of them costs a fraction of a
# scan and finds everything within a radius, ties included. (Norouzi, Punjani & Fleet, "Fast exact
# search in Hamming space with multi-index hashing", 2014, start from this plain lookup. Their
# substrings save lookups at larger radii, but find whole clusters in one bucket.)


Lookup = Callable[[Words], tuple[Integers, Integers]]
"""Takes codes, ``(M,)``; returns the positions of the codes that exist, and their numbers."""

# Limits the memory of a batch.
LOOKUPS_AT_ONCE = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class HammingBall:
    """The codes around any code, out to the last of some ascending radii."""

    radii: Sequence[int]
    masks: Words
    """Numbers with at most ``radii[-1]`` bits set, fewest first; a code XOR these is its ball."""
    distances: Integers
    """The number of bits that each mask sets."""

    @classmethod
    def of(cls, n_bits: int, radii: Sequence[int], dtype: npt.DTypeLike) -> HammingBall:
        """Make the balls of codes of `n_bits` bits, held in unsigned numbers of type `dtype`."""
        masks = [_with_bits_set(n_bits, count, np.dtype(dtype)) for count in range(radii[-1] + 1)]
        distances = np.repeat(np.arange(len(masks)), [len(some) for some in masks])
        return cls(tuple(radii), np.concatenate(masks), distances)

    def search(
        self, queries: Words, k: int, radius: int, counts: Integers, lookup: Lookup
    ) -> tuple[list[Candidates], Integers]:
        """Look within each radius in turn for the `k` nearest rows of `queries`, ``(Q,)``.

        Code c has ``counts[c]`` rows; rows beyond `radius` are not needed.

        Returns:
            Every code as near as the k-th row, for the queries that this answers; and the numbers
            of the other queries, which have fewer than `k` rows within the last of the radii.
        """
        parts: list[Candidates] = []
        pending = np.arange(len(queries))
        for reach in self.radii:
            size = int(np.searchsorted(self.distances, reach, side="right"))
            at_once = max(1, LOOKUPS_AT_ONCE // size)
            left = []
            for start in range(0, len(pending), at_once):
                some = pending[start : start + at_once]
                positions, codes = lookup((queries[some, None] ^ self.masks[:size]).ravel())
                owners, masks = np.divmod(positions, size)
                candidates = Candidates(owners, codes, self.distances[masks])
                lim, settled = limits(candidates, counts, len(some), k, min(reach, radius))
                settled |= radius <= reach
                keep = settled[owners] & (candidates.distances <= lim[owners])
                parts.append(
                    Candidates(some[owners[keep]], codes[keep], candidates.distances[keep])
                )
                left.append(some[~settled])
            pending = np.concatenate([pending[:0], *left])
            if not len(pending):
                break
        return parts, pending


def ball_size(n_bits: int, radius: int) -> int:
    """Return the number of codes of `n_bits` bits within `radius` of a code."""
    return sum(math.comb(n_bits, count) for count in range(radius + 1))


def limits(
    candidates: Candidates, counts: Integers, n_queries: int, k: int, reach: int
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return the distance of each query's k-th row, or `reach`, and whether k rows are in reach."""
    width = reach + 1
    near = candidates.distances <= reach
    steps = (candidates.queries * width + candidates.distances)[near]
    rows = np.bincount(steps, counts[candidates.codes[near]], n_queries * width)
    reached = rows.reshape(n_queries, width).cumsum(axis=1) >= k
    settled = reached[:, -1]
    return np.where(settled, reached.argmax(axis=1), reach), settled


def _with_bits_set(n_bits: int, count: int, dtype: np.dtype[Any]) -> Words:
    """Return all numbers with exactly `count` of the `n_bits` lowest bits set."""
    chosen = itertools.chain.from_iterable(itertools.combinations(range(n_bits), count))
    positions = np.fromiter(chosen, dtype).reshape(math.comb(n_bits, count), count)
    masks: Words = np.zeros(len(positions), dtype)
    for column in positions.T:
        masks |= np.left_shift(dtype.type(1), column)
    return masks


# The codes around a query in the order of their weighted distances, without measuring others.
#
# If the bits of a query are sorted by |w_b|, a code that differs from it in the bits of ranks
# r_1 < r_2 < … is at the distance |w|_(r_1) + |w|_(r_2) + …. Whatever the weights are, a set of
# ranks does not get nearer by moving to a higher rank or by adding a rank. So a fixed collection of
# sets is looked up first, and the few sets that directly follow it bound the distance of all
# others. If codes nearer than that bound have k rows, the search is complete after some hundreds of
# lookups. (The sequence of sets is that of Lv, Josephson, Wang, Charikar & Li, "Multi-probe LSH",
# 2007, section 4.5; the bound makes it exact.)


Ranks = npt.NDArray[np.intp]

# The numbers of sets to look up, at first and if these are not enough.
SETS = (100, 1_000, 8_000)
# The extra cost of each further bit, in ranks. Each query uses the one that fits its weights best.
OFFSETS = (0, 4, 16, 64, 1024)
# Half-way between them on the scale of log(1 + offset).
BOUNDS = tuple(math.sqrt((1 + a) * (1 + b)) - 1 for a, b in itertools.pairwise(OFFSETS))


class MultiProbeSets(NamedTuple):
    """Sets of ranks, counted from 0; each row is padded with the number of bits."""

    inside: Ranks
    """``[F, L]``: the sets to look up."""
    beyond: Ranks
    """``[G, L']``: every other set is at least as far as one of these."""


def nearest_codes(
    weights: npt.NDArray[np.int64], k: int, counts: Integers, lookup: Lookup, dtype: npt.DTypeLike
) -> Candidates | None:
    """Return every code as near as the k-th row of a query, or None if that needs a scan.

    `weights` are ``int64[n_bits]``. Code c has ``counts[c]`` rows; `lookup` finds codes, which are
    numbers of type `dtype`.
    """
    n_bits = len(weights)
    order = np.argsort(np.abs(weights), kind="stable")
    costs = np.append(np.abs(weights)[order], 0)
    masks = np.append(_bit_masks(n_bits, np.dtype(dtype).itemsize)[order], 0).astype(dtype)
    query = np.bitwise_or.reduce(masks[:-1], where=weights[order] > 0)
    offset = _offset(costs)
    for size in SETS:
        sets = _multi_probe_sets(n_bits, offset, size)
        distances = costs[sets.inside].sum(axis=1)
        bound = costs[sets.beyond].sum(axis=1).min() if len(sets.beyond) else None
        if bound is not None:
            chosen = np.flatnonzero(distances < bound)
            distances, inside = distances[chosen], sets.inside[chosen]
        else:
            inside = sets.inside
        positions, codes = lookup(np.bitwise_xor.reduce(masks[inside], axis=1) ^ query)
        reached_at = distances[positions]
        by_distance = np.argsort(reached_at, kind="stable")
        reached = counts[codes[by_distance]].cumsum()
        if len(reached) and (reached[-1] >= k or bound is None):
            last = min(int(np.searchsorted(reached, k)), len(reached) - 1)
            near = np.flatnonzero(reached_at <= reached_at[by_distance[last]])
            return Candidates(np.zeros(len(near), dtype=np.int64), codes[near], reached_at[near])
    return None


def _offset(costs: npt.NDArray[np.int64]) -> int:
    """Return the one of :data:`OFFSETS` that best fits a line through the lower half of `costs`."""
    half = (len(costs) - 1) // 2
    slope = max(1, int(costs[half] - costs[0])) / half
    return OFFSETS[bisect(BOUNDS, float(costs[0]) / slope)]


@cache
def _bit_masks(n_bits: int, size: int) -> npt.NDArray[np.uint64]:
    """Return, for each bit b, the number in which b alone is set, for little-endian codes."""
    bits = np.arange(n_bits)
    masks: npt.NDArray[np.uint64] = np.left_shift(
        np.uint64(1), (8 * (bits // 8) + 7 - bits % 8).astype(np.uint64)
    )
    if n_bits > 8 * size:
        raise ValueError(f"codes of {n_bits} bits are longer than {8 * size}")
    return masks


@cache
def _multi_probe_sets(n_bits: int, offset: int, size: int) -> MultiProbeSets:
    """Return the first `size` sets by the sum over their ranks of rank + 1 + `offset`."""
    waiting: list[tuple[int, tuple[int, ...]]] = [(1 + offset, (0,))]
    inside: list[tuple[int, ...]] = [()]
    while waiting and len(inside) < size:
        cost, ranks = heapq.heappop(waiting)
        inside.append(ranks)
        last = ranks[-1]
        if last + 1 < n_bits:
            heapq.heappush(waiting, (cost + 1, (*ranks[:-1], last + 1)))
            heapq.heappush(waiting, (cost + last + 2 + offset, (*ranks, last + 1)))
    return MultiProbeSets(
        _pad_sets(inside, n_bits), _pad_sets([ranks for _, ranks in waiting], n_bits)
    )


def _pad_sets(sets: list[tuple[int, ...]], n_bits: int) -> Ranks:
    width = max((len(ranks) for ranks in sets), default=0)
    rows = [(*ranks, *[n_bits] * (width - len(ranks))) for ranks in sets]
    return np.array(rows, dtype=np.intp).reshape(len(sets), width)


# Codes of at most 16 bits: a table has a position for every possible code.
#
# A code is its own position in the table, and the codes around a query are the query XOR the same
# masks, nearest first.


MAX_DIRECT_TABLE_BITS = 16


class DirectIndex(PostingIndex):
    """A :class:`PostingIndex` over a table of all codes."""

    name = "direct"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, the codes are longer than 16 bits, or
                the rows do not ascend.
        """
        check_codes(codes, rows)
        n_bits = codes.shape[1] * 8
        if n_bits > MAX_DIRECT_TABLE_BITS:
            raise ValueError(
                f"codes have {n_bits} bits; a table allows {MAX_DIRECT_TABLE_BITS} at most"
            )
        self._ball = _ball(n_bits)
        super().__init__(n_bits, rows, posting_lists(as_words(codes)[:, 0], 2**n_bits))

    def _codes_of(self, numbers: Positions | Integers | Words) -> Codes:
        words = numbers.astype("<u4")[:, None]
        return words.view(np.uint8)[:, : self.n_bits // 8]

    def _candidates(self, queries: Codes, k: int, radius: int) -> list[Candidates]:
        words = as_words(queries)[:, 0]
        parts, _ = self._ball.search(words, k, radius, self._live_counts, self._lookup)
        return parts

    def _weighted_candidates(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        nearest = nearest_codes(weights, k, self._live_counts, self._lookup, np.uint32)
        return super()._weighted_candidates(weights, k) if nearest is None else nearest

    def _lookup(self, words: Words) -> tuple[Integers, Integers]:
        positions = np.flatnonzero(self._live_counts[words])
        return positions, words[positions].astype(np.int64)


@cache
def _ball(n_bits: int) -> HammingBall:
    return HammingBall.of(
        n_bits, [radius for radius in (1, 3, 5, n_bits) if radius <= n_bits], np.uint32
    )


# Sorted codes.
#
# If codes are dense, a query's nearest codes are looked up. For the queries that this does not
# answer, mostly outliers, FAISS scans the distinct codes. The list that it returns gives the
# distance of the k-th row. If the list may have been cut at that distance, a range search completes
# it.


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
        _, pending = self._lookups.ball.search(
            words, k, self.n_bits, self._live_counts, self._lookups.find
        )
        # Most answered queries need the first radius only; the others go up to the last.
        share = len(pending) / len(queries)
        lookups = self.n_bits + share * len(self._lookups.ball.masks)
        return lookups * CODES_PER_LOOKUP, pending

    def _weighted_candidates(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        nearest = None
        if self._lookups is not None:
            lookups = self._lookups
            nearest = nearest_codes(
                weights, k, self._live_counts, lookups.find, lookups.words.dtype
            )
        return super()._weighted_candidates(weights, k) if nearest is None else nearest

    def _every_code(self) -> Codes:
        return self._codes[:, : self.n_bits // 8]

    def _codes_of(self, numbers: Positions | Integers) -> Codes:
        return self._codes[numbers, : self.n_bits // 8]

    def _candidates(self, queries: Codes, k: int, radius: int) -> list[Candidates]:
        parts: list[Candidates] = []
        pending = np.arange(len(queries))
        padded = pad(queries)
        if self._lookups is not None:
            words = as_words(padded)[:, 0]
            parts, pending = self._lookups.ball.search(
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
    ball: HammingBall
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
        return cls(words, HammingBall.of(n_bits, radii, words.dtype), table, shift)

    def find(self, words: Words) -> tuple[Integers, Integers]:
        """See :data:`Lookup`."""
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
