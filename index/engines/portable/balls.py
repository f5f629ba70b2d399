"""The nearest codes by looking up every code that differs from the query in few bits.

Among a million learned codes, nearly every query has its tenth neighbour within two bits, and there
are only 1 + n + n(n - 1)/2 codes that near. Looking up all of them costs a fraction of a scan and
finds everything within a radius, ties included. (Norouzi, Punjani & Fleet, "Fast exact search in
Hamming space with multi-index hashing", 2014, start from this plain lookup. Their substrings save
lookups at larger radii, but find whole clusters in one bucket.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from index.engines.portable.distinct_codes import Integers, Words
from index.engines.portable.postings import Candidates

Lookup = Callable[[Words], tuple[Integers, Integers]]
"""Takes codes, ``(M,)``; returns the positions of the codes that exist, and their numbers."""

# Limits the memory of a batch.
LOOKUPS_AT_ONCE = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Balls:
    """The codes around any code, out to the last of some ascending radii."""

    radii: Sequence[int]
    masks: Words
    """Numbers with at most ``radii[-1]`` bits set, fewest first; a code XOR these is its ball."""
    distances: Integers
    """The number of bits that each mask sets."""

    @classmethod
    def of(cls, n_bits: int, radii: Sequence[int], dtype: npt.DTypeLike) -> Balls:
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
                found = Candidates(owners, codes, self.distances[masks])
                lim, settled = limits(found, counts, len(some), k, min(reach, radius))
                settled |= radius <= reach
                keep = settled[owners] & (found.distances <= lim[owners])
                parts.append(Candidates(some[owners[keep]], codes[keep], found.distances[keep]))
                left.append(some[~settled])
            pending = np.concatenate([pending[:0], *left])
            if not len(pending):
                break
        return parts, pending


def ball_size(n_bits: int, radius: int) -> int:
    """Return the number of codes of `n_bits` bits within `radius` of a code."""
    return sum(math.comb(n_bits, count) for count in range(radius + 1))


def limits(
    found: Candidates, counts: Integers, n_queries: int, k: int, reach: int
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Return the distance of each query's k-th row, or `reach`, and whether k rows are in reach."""
    width = reach + 1
    near = found.distances <= reach
    steps = (found.queries * width + found.distances)[near]
    rows = np.bincount(steps, counts[found.codes[near]], n_queries * width)
    reached = rows.reshape(n_queries, width).cumsum(axis=1) >= k
    settled = reached[:, -1]
    return np.where(settled, reached.argmax(axis=1), reach), settled


def _with_bits_set(n_bits: int, count: int, dtype: np.dtype[Any]) -> Words:
    """Return all numbers with exactly `count` of the `n_bits` lowest bits set."""
    chosen = itertools.chain.from_iterable(itertools.combinations(range(n_bits), count))
    places = np.fromiter(chosen, dtype).reshape(math.comb(n_bits, count), count)
    masks: Words = np.zeros(len(places), dtype)
    for column in places.T:
        masks |= np.left_shift(dtype.type(1), column)
    return masks
