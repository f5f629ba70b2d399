"""The codes around a query in the order of their weighted distances, without measuring others.

If the bits of a query are sorted by |w_b|, a code that differs from it in the bits of ranks
r_1 < r_2 < … is at the distance |w|_(r_1) + |w|_(r_2) + …. Whatever the weights are, a set of ranks
does not get nearer by moving to a higher rank or by adding a rank. So a fixed collection of sets is
looked up first, and the few sets that directly follow it bound the distance of all others. If codes
nearer than that bound have k rows, the search is complete after some hundreds of lookups. (The
sequence of sets is that of Lv, Josephson, Wang, Charikar & Li, "Multi-probe LSH", 2007, section
4.5; the bound makes it exact.)
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from index.engines.portable.balls import Lookup
from index.engines.portable.distinct_codes import Integers
from index.engines.portable.postings import Candidates

Places = npt.NDArray[np.intp]

# The numbers of sets to look up, at first and if these are not enough.
SETS = (100, 1_000, 8_000)
# The extra cost of each further bit, in ranks. Each query uses the one that fits its weights best.
OFFSETS = (0, 4, 16, 64, 1024)
# Half-way between them on the scale of log(1 + offset).
BOUNDS = tuple(math.sqrt((1 + a) * (1 + b)) - 1 for a, b in itertools.pairwise(OFFSETS))


class Probes(NamedTuple):
    """Sets of ranks, counted from 0; each row is padded with the number of bits."""

    inside: Places
    """``[F, L]``: the sets to look up."""
    beyond: Places
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
        probes = _probes(n_bits, offset, size)
        distances = costs[probes.inside].sum(axis=1)
        bound = costs[probes.beyond].sum(axis=1).min() if len(probes.beyond) else None
        if bound is not None:
            chosen = np.flatnonzero(distances < bound)
            distances, inside = distances[chosen], probes.inside[chosen]
        else:
            inside = probes.inside
        places, codes = lookup(np.bitwise_xor.reduce(masks[inside], axis=1) ^ query)
        found = distances[places]
        by_distance = np.argsort(found, kind="stable")
        reached = counts[codes[by_distance]].cumsum()
        if len(reached) and (reached[-1] >= k or bound is None):
            last = min(int(np.searchsorted(reached, k)), len(reached) - 1)
            near = np.flatnonzero(found <= found[by_distance[last]])
            return Candidates(np.zeros(len(near), dtype=np.int64), codes[near], found[near])
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
    one: npt.NDArray[np.uint64] = np.left_shift(
        np.uint64(1), (8 * (bits // 8) + 7 - bits % 8).astype(np.uint64)
    )
    if n_bits > 8 * size:
        raise ValueError(f"codes of {n_bits} bits are longer than {8 * size}")
    return one


@cache
def _probes(n_bits: int, offset: int, size: int) -> Probes:
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
    return Probes(_pad_sets(inside, n_bits), _pad_sets([ranks for _, ranks in waiting], n_bits))


def _pad_sets(sets: list[tuple[int, ...]], n_bits: int) -> Places:
    width = max((len(ranks) for ranks in sets), default=0)
    rows = [(*ranks, *[n_bits] * (width - len(ranks))) for ranks in sets]
    return np.array(rows, dtype=np.intp).reshape(len(sets), width)
