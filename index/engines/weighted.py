"""Distances in which every bit has a weight of its own.

A query gives bit b the integer weight w_b. Its weighted distance to a code c is the sum of |w_b|
over the bits in which c differs from the query's best code, which is 1 where w_b > 0 (a bit of
weight 0 costs nothing):

    d_w(c) = sum_b max(w_b, 0) - sum_b w_b c_b

With weights of ±1 it is the Hamming distance. The bits are cut into parts of 8 or 16, and a table
for each part holds its partial sums, so a code costs a few lookups (as with the lookup tables of
Jégou, Douze & Schmid, "Product quantization for nearest neighbor search", 2011, section III-B).
Sums are integers below 2**31, so they do not depend on the order of addition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.index.engines.protocol import FARTHEST, After, Neighbours, Rows

Distances = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]

# From so many codes on, tables of two bytes pay: they take longer to fill and save lookups.
MIN_CODES_FOR_PAIRS = 2**16
# Up to so many codes, a product of their bits takes less time than tables take to fill.
FEW_CODES = 256
# Once fewer codes than this are near enough, they no longer pay for the remaining bytes.
MIN_CODES_BY_PAIRS = 2**13
# The number of codes that are measured at a time, so that they stay in the cache.
CODES_AT_ONCE = 2**15

_BITS_OF_BYTES = unpack_codes(np.arange(256, dtype=np.uint8)[:, None]).astype(np.float64)


class Tables:
    """The costs of the bytes of a code for one query, singly and in pairs."""

    def __init__(self, weights: npt.NDArray[np.int64]) -> None:
        """Compute the tables of the weights of a query, ``int64[n_bits]``."""
        by_byte = weights.reshape(-1, 8)
        # The numbers are exact in float64, whose matrix product is fast.
        gains = _BITS_OF_BYTES @ by_byte.astype(np.float64).T
        best = np.maximum(by_byte, 0).sum(axis=1)
        self.of_byte: Distances = np.ascontiguousarray((best - gains).T, dtype=np.int32)
        """``int32[C, 256]``"""
        self._of_pair: dict[int, Distances] = {}

    def bytes_in_order(self) -> list[int]:
        """Return the positions of the bytes of a code, those with the highest costs first."""
        order: list[int] = np.argsort(-self.of_byte.max(axis=1), kind="stable").tolist()
        return order

    def pairs_in_order(self) -> list[int]:
        """Do as :meth:`bytes_in_order` for pairs of neighbouring bytes."""
        most = self.of_byte.max(axis=1).reshape(-1, 2).sum(axis=1)
        order: list[int] = np.argsort(-most, kind="stable").tolist()
        return order

    def of_pair(self, pair: int) -> Distances:
        """Return the costs of bytes ``2 pair`` and ``2 pair + 1``, ``int32[65536]``.

        The index is a little-endian number: its low byte is the first one.
        """
        if pair not in self._of_pair:
            low, high = self.of_byte[2 * pair], self.of_byte[2 * pair + 1]
            self._of_pair[pair] = (high[:, None] + low).ravel()
        return self._of_pair[pair]


def weighted_distances(codes: Codes, weights: npt.NDArray[np.int64]) -> Distances:
    """Return the weighted distance of each of `codes`, ``uint8[N, C]``, from one query."""
    if len(codes) > FEW_CODES:
        return within_distance(codes, weights, None)[1]
    # The numbers are exact in float64, whose matrix product is fast.
    gains = unpack_codes(codes).astype(np.float64) @ weights
    distances: Distances = (np.maximum(weights, 0).sum() - gains).astype(np.int32)
    return distances


def within_distance(
    codes: Codes, weights: npt.NDArray[np.int64], limit: int | None
) -> tuple[Integers, Distances]:
    """Return the positions of the codes within `limit` of one query, ascending, and distances.

    A code is dropped as soon as its parts so far cost more.
    """
    tables = Tables(weights)
    measure = (
        _by_pairs if len(codes) >= MIN_CODES_FOR_PAIRS and codes.shape[1] % 2 == 0 else _by_bytes
    )
    parts = [
        measure(np.ascontiguousarray(codes[start : start + CODES_AT_ONCE]), tables, limit)
        for start in range(0, len(codes), CODES_AT_ONCE)
    ]
    if len(parts) == 1:
        return parts[0]
    nothing = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
    numbers, distances = zip(nothing, *parts, strict=True)
    sizes = [len(some) for some in numbers]
    starts = np.repeat(np.arange(-1, len(parts)) * CODES_AT_ONCE, sizes)
    return np.concatenate(numbers) + starts, np.concatenate(distances)


def _by_bytes(codes: Codes, tables: Tables, limit: int | None) -> tuple[Integers, Distances]:
    """Add up the costs of the bytes."""
    numbers = np.arange(len(codes))
    distances = np.zeros(len(codes), dtype=np.int32)
    for byte in tables.bytes_in_order():
        distances += tables.of_byte[byte].take(_column(codes, byte, numbers))
        numbers, distances = _within(numbers, distances, limit)
    return numbers, distances


def _by_pairs(codes: Codes, tables: Tables, limit: int | None) -> tuple[Integers, Distances]:
    """Add up the costs of the pairs of bytes, or of single bytes once few codes are left.

    The tables of pairs are filled once for all codes.
    """
    pairs = codes.view("<u2")
    numbers = np.arange(len(codes))
    distances = np.zeros(len(codes), dtype=np.int32)
    for pair in tables.pairs_in_order():
        if len(numbers) >= MIN_CODES_BY_PAIRS:
            distances += tables.of_pair(pair).take(_column(pairs, pair, numbers))
        else:
            for byte in (2 * pair, 2 * pair + 1):
                distances += tables.of_byte[byte].take(_column(codes, byte, numbers))
        numbers, distances = _within(numbers, distances, limit)
    return numbers, distances


def _column(codes: npt.NDArray[Any], column: int, numbers: Integers) -> npt.NDArray[Any]:
    return codes[:, column] if len(numbers) == len(codes) else codes[numbers, column]


def _within(
    numbers: Integers, distances: Distances, limit: int | None
) -> tuple[Integers, Distances]:
    """Drop the codes that already cost more than `limit`."""
    if limit is None:
        return numbers, distances
    near = np.flatnonzero(distances <= limit)
    if len(near) == len(distances):
        return numbers, distances
    return numbers[near], distances[near]


def nearest_positions(positions: Integers, distances: Distances, k: int) -> Neighbours:
    """Return the `k` smallest of `distances` by (distance, position); `positions` ascend."""
    if len(distances) > k:
        limit = np.partition(distances, k - 1)[k - 1]
        near = np.flatnonzero(distances <= limit)
        positions, distances = positions[near], distances[near]
    order = np.argsort(distances, kind="stable")[:k]
    return Neighbours(positions[order], distances[order].astype(np.int64))


def rows_after(
    rows: Rows,
    distances: npt.NDArray[Any],
    k: int,
    after: After,
    *,
    live: npt.NDArray[np.bool_] | None,
    limit: int = FARTHEST,
) -> Neighbours:
    """Return the `k` nearest rows that come after a position in the order (distance, row).

    Of the ascending `rows`, only those marked in `live` and within `limit` are found.
    """
    later = distances > after.distance
    first = int(np.searchsorted(rows, after.row, side="right"))
    later[first:] |= distances[first:] == after.distance
    later &= distances <= limit
    if live is not None:
        later &= live
    positions = np.flatnonzero(later)
    nearest = nearest_positions(positions, distances[positions], k)
    return Neighbours(rows[nearest.rows], nearest.distances)
