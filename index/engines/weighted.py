"""Distances in which every bit has a weight of its own.

A query gives bit b the whole number w_b. Its weighted distance to a code c is the sum of |w_b| over
the bits in which c differs from the code that the query likes best, which is 1 where w_b > 0 (a bit
of weight 0 costs nothing):

    d_w(c) = sum_b max(w_b, 0) - sum_b w_b c_b

With weights of ±1 it is the Hamming distance. The sum over all bits is a sum over parts of 8 or 16
bits of entries of one table a part, so a code costs a few look-ups (the lookup tables of Jégou,
Douze & Schmid, "Product quantization for nearest neighbor search", 2011, section III-B, for parts
that are bits themselves). Sums are whole numbers below 2**31, so they are the same in every order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, unpack_codes
from index.engines.protocol import Neighbours

Distances = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

# From so many codes on, larger tables pay: they take longer to fill and spare look-ups.
MANY_CODES = 2**16
# Codes measured at a time, so that what is held of them stays in the cache.
CODES_AT_ONCE = 2**15

_BITS_OF_BYTES = unpack_codes(np.arange(256, dtype=np.uint8)[:, None]).astype(np.float64)


class Tables(NamedTuple):
    """What the parts of a code cost: `parts` tables of one query, the dearest part first."""

    order: list[int]
    """Which part of a code each table is for."""
    costs: list[Distances]
    dtype: npt.DTypeLike
    """Codes seen as numbers of this type are the places in the tables."""


def tables_of(weights: npt.NDArray[np.int64], n_codes: int) -> Tables:
    """Return the tables of one query with `weights`, ``int64[n_bits]``, for `n_codes` codes."""
    # Exact in float64, whose product numpy leaves to a library.
    gains = _BITS_OF_BYTES @ weights.reshape(-1, 8).astype(np.float64).T
    best = np.maximum(weights, 0).reshape(-1, 8).sum(axis=1)
    bytes_ = (best - gains).astype(np.int32).T
    # From many codes on, parts of 16 bits pay.
    wide = n_codes >= MANY_CODES and len(bytes_) % 2 == 0
    costs = list(bytes_)
    if wide:
        # The first byte is the lower one of a little-endian number.
        pairs = zip(bytes_[1::2], bytes_[::2], strict=True)
        costs = [(high[:, None] + low).ravel() for high, low in pairs]
    order = sorted(range(len(costs)), key=lambda part: -int(costs[part].max()))
    return Tables(order, [costs[part] for part in order], np.dtype("<u2" if wide else "u1"))


def weighted_distances(codes: Codes, weights: npt.NDArray[np.int64]) -> Distances:
    """Return the weighted distance of each of `codes`, ``uint8[N, C]``, from one query."""
    numbers, distances = within_distance(codes, weights, None)
    del numbers
    return distances


def within_distance(
    codes: Codes, weights: npt.NDArray[np.int64], limit: int | None
) -> tuple[Numbers, Distances]:
    """Return the numbers of the codes at most `limit` from one query, ascending, and how far.

    A code is dropped as soon as the parts measured so far cost more.
    """
    tables = tables_of(weights, len(codes))
    found = [
        _measured(np.ascontiguousarray(codes[start : start + CODES_AT_ONCE]), start, tables, limit)
        for start in range(0, len(codes), CODES_AT_ONCE)
    ]
    if len(found) == 1:
        return found[0]
    nothing = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
    numbers, distances = zip(nothing, *found, strict=True)
    return np.concatenate(numbers), np.concatenate(distances)


def _measured(
    codes: Codes, start: int, tables: Tables, limit: int | None
) -> tuple[Numbers, Distances]:
    parts = codes.view(tables.dtype)
    numbers = None
    distances = np.zeros(len(codes), dtype=np.int32)
    for part, costs in zip(tables.order, tables.costs, strict=True):
        column = parts[:, part] if numbers is None else parts[numbers, part]
        distances += costs[column]
        if limit is not None:
            near = np.flatnonzero(distances <= limit)
            if len(near) < len(distances):
                numbers = near if numbers is None else numbers[near]
                distances = distances[near]
    if numbers is None:
        numbers = np.arange(len(codes))
    return numbers + start, distances


def nearest_places(places: Numbers, distances: Distances, k: int) -> Neighbours:
    """Return the `k` smallest of `distances` by (distance, place); `places` ascend."""
    if len(distances) > k:
        limit = np.partition(distances, k - 1)[k - 1]
        near = np.flatnonzero(distances <= limit)
        places, distances = places[near], distances[near]
    order = np.argsort(distances, kind="stable")[:k]
    return Neighbours(places[order], distances[order].astype(np.int64))
