"""What an index of codes does, and what its implementations share: rows, tombstones and checks.

The index types differ in speed and memory only: each returns the results of the oracle,
:class:`~tests.support.oracles.brute_force.BruteForceIndex`. Some take codes of certain lengths
only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.foundation.arrays import numbers_of_runs

Rows = npt.NDArray[np.int64]
"""Row numbers: the order of insertion. They need not be contiguous and are never reused."""


Weights = npt.NDArray[np.int64]
"""The weight of each bit for each query, ``int64[Q, n_bits]``; see :func:`max_bit_weight`."""

MAX_BIT_WEIGHT = 2**20
_BITS_AT_FULL_WEIGHT = 1024
MAX_ROWS = 2**31 - 1
"""The most codes in one index: positions take four bytes."""


FARTHEST = 2**31 - 1
"""No distance is larger, weighted or not."""


@cache
def max_bit_weight(n_bits: int) -> int:
    """Return the largest weight of a bit in codes of `n_bits`, a power of two.

    It is :data:`MAX_BIT_WEIGHT` up to 1,024 bits, and less beyond, so that a weighted distance is
    at most 2**30 and fits 32 bits.
    """
    return MAX_BIT_WEIGHT >> (max(0, n_bits - 1) // _BITS_AT_FULL_WEIGHT).bit_length()


COPIED_FRACTION = 8
"""If fewer than 1 / COPIED_FRACTION of the rows are allowed, a copy of their codes is searched."""


class After(NamedTuple):
    """A position in the order (distance, row), at which the hits of earlier pages end."""

    distance: int
    row: int

    @classmethod
    def at(cls, distance: float, row: int) -> After | None:
        """Return the position of a hit, or None if every hit comes after it."""
        return cls(int(min(distance, FARTHEST)), row) if distance >= 0 else None


class Neighbours(NamedTuple):
    """The result of one query, nearest first; rows at the same distance in ascending order."""

    rows: Rows
    """``int64[m]``"""
    distances: npt.NDArray[np.int64]
    """``int64[m]``, Hamming distances in bits."""


class CodeIndex(Protocol):
    """Exact Hamming search over codes, each of which has a row.

    Results are ordered by (distance, row). Nothing else decides the order: not the engine, the
    number of queries in a batch, or the number of threads. So the first k results of a search for
    k + 1 are those of a search for k.
    """

    @property
    def n_bits(self) -> int:
        """The length of every code."""

    def __len__(self) -> int:
        """The number of codes that a search can find."""

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        allowed_rows: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """Return the `k` nearest codes of each query, or all if there are fewer.

        Args:
            queries: ``uint8[Q, n_bits / 8]``; Q may be zero.
            k: at least 1; it may exceed the size of the index.
            radius: if given, only codes at a distance of at most `radius` are found.
            allowed_rows: if given, only these rows are found, ``int64[M]`` in ascending order.
                Unknown rows are ignored.
            after: if given, only what comes after this position in the order is found. Its row need
                not exist.

        Raises:
            ValueError: if an argument is invalid.
        """

    def search_weighted(
        self, weights: Weights, k: int, allowed_rows: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """Return the `k` nearest by weighted distance; see :mod:`.weighted`.

        `weights` are ``int64[Q, n_bits]``; the other arguments are those of :meth:`search`. The
        distances of the results, and of `after`, are weighted distances.

        Raises:
            ValueError: if an argument is invalid.
        """


class ImmutableIndex(ABC):
    """The rows of a :class:`CodeIndex` in memory, some of which may be tombstones.

    A row's position is its position among the ascending `rows` of the index. Any number of threads
    can search at once.
    """

    n_bits: int

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._n_live = len(rows)

    @abstractmethod
    def _codes_at(self, positions: Rows) -> Codes:
        """Return the codes at some positions."""

    @abstractmethod
    def _live_of(self, positions: Rows) -> Rows:
        """Return those of `positions` that are no tombstones, in that order."""

    def __len__(self) -> int:
        return self._n_live

    @property
    def n_dead(self) -> int:
        """The number of tombstones: removed rows that still take memory."""
        return len(self._rows) - self._n_live

    def all_live_rows(self) -> Rows:
        """Return the rows that a search can find, ascending."""
        if not self.n_dead:
            return self._rows
        return self._rows[self._live_of(np.arange(len(self._rows)))]

    def live_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and their rows, in ascending order of rows."""
        positions = self._live_of(np.arange(len(self._rows)))
        return self._codes_at(positions), self._rows[positions]

    def counted_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and the number of rows of each.

        Unless the index groups equal codes, they repeat, each with a count of 1.
        """
        codes, _ = self.live_codes()
        return codes, np.ones(len(codes), dtype=np.int64)

    def holds(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which of `rows` lie between the first and the last row of this index."""
        if not len(self._rows):
            return np.zeros(len(rows), dtype=np.bool_)
        inside: npt.NDArray[np.bool_] = (rows >= self._rows[0]) & (rows <= self._rows[-1])
        return inside

    def live_rows(self, rows: Rows) -> Rows:
        """Return those of `rows`, which ascend, that a search can find."""
        return self._rows[self._live_positions(rows)]

    def rows_between(self, firsts: Rows, lasts: Rows) -> Rows:
        """Return the rows from each of `firsts` to each of `lasts`, tombstones included.

        Both ascend, and no range overlaps another.
        """
        starts = np.searchsorted(self._rows, firsts)
        lengths = np.searchsorted(self._rows, lasts, side="right") - starts
        return self._rows[numbers_of_runs(starts, lengths)]

    def codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, all of which must exist, in that order."""
        return self._codes_at(positions_of(self._rows, rows))

    def distances_of(self, rows: Rows, code: Codes) -> list[int]:
        """Return the Hamming distances of `rows`, all of which must exist, from a code."""
        distances: list[int] = hamming_distance(self.codes_of(rows), code).tolist()
        return distances

    def _live_positions(self, rows: Rows) -> Rows:
        """Return the positions of those of `rows` that a search can find."""
        return self._live_of(positions_of(self._rows, rows))


def no_neighbours(n_queries: int) -> list[Neighbours]:
    """Return the results of queries that find nothing."""
    nothing = np.empty(0, dtype=np.int64)
    return [Neighbours(nothing, nothing) for _ in range(n_queries)]


def check_search(
    index: CodeIndex, queries: Codes, k: int, radius: int | None, allowed_rows: Rows | None
) -> None:
    """Raise ValueError unless the arguments of :meth:`CodeIndex.search` are valid."""
    if queries.dtype != np.uint8 or queries.ndim != 2 or queries.shape[1] * 8 != index.n_bits:
        actual = f"{queries.dtype}{list(queries.shape)}"
        raise ValueError(f"queries are {actual}; they must be uint8[Q, {index.n_bits // 8}]")
    if radius is not None and radius < 0:
        raise ValueError(f"radius is {radius}; it must not be negative")
    _check_k_and_allowed_rows(k, allowed_rows)


def check_weights(index: CodeIndex, weights: Weights, k: int, allowed_rows: Rows | None) -> None:
    """Raise ValueError unless the arguments of :meth:`CodeIndex.search_weighted` are valid."""
    check_shape_of_weights(index, weights, k, allowed_rows)
    most = max_bit_weight(index.n_bits)
    if weights.max(initial=0) > most or weights.min(initial=0) < -most:
        raise ValueError(f"weights must be within ±{most}")


def check_shape_of_weights(
    index: CodeIndex, weights: Weights, k: int, allowed_rows: Rows | None
) -> None:
    """Do as :func:`check_weights`, except that the weights may be of any size."""
    if weights.dtype != np.int64 or weights.ndim != 2 or weights.shape[1] != index.n_bits:
        actual = f"{weights.dtype}{list(weights.shape)}"
        raise ValueError(f"weights are {actual}; they must be int64[Q, {index.n_bits}]")
    if k < 1 or allowed_rows is not None:
        _check_k_and_allowed_rows(k, allowed_rows)


def _check_k_and_allowed_rows(k: int, allowed_rows: Rows | None) -> None:
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    if allowed_rows is not None and (allowed_rows.ndim != 1 or allowed_rows.dtype != np.int64):
        actual = f"{allowed_rows.dtype}{list(allowed_rows.shape)}"
        raise ValueError(f"allowed_rows is {actual}; it must be int64[M]")
    if allowed_rows is not None and (allowed_rows[1:] <= allowed_rows[:-1]).any():
        raise ValueError("allowed_rows must ascend")


def check_codes(codes: Codes, rows: Rows) -> None:
    """Raise ValueError unless the codes are packed and have one row each, in ascending order."""
    if codes.dtype != np.uint8 or codes.ndim != 2:
        raise ValueError(f"codes are {codes.dtype}{list(codes.shape)}; they must be uint8[N, C]")
    if rows.shape != (len(codes),):
        raise ValueError(f"{len(codes)} codes have rows of shape {rows.shape}")
    if (rows[1:] <= rows[:-1]).any():
        raise ValueError("rows must ascend")
    if len(rows) > MAX_ROWS:
        raise ValueError(f"there are {len(rows):,} codes; an index holds {MAX_ROWS:,} at most")


def positions_of(index_rows: Rows, rows: Rows) -> npt.NDArray[np.int64]:
    """Return the positions of `rows` in the ascending `index_rows`; unknown rows are ignored."""
    if len(index_rows) and index_rows[-1] - index_rows[0] == len(index_rows) - 1:
        # Rows without gaps need no search.
        offsets: Rows = rows - index_rows[0]
        return np.asarray(offsets[(offsets >= 0) & (offsets < len(index_rows))])
    positions = np.searchsorted(index_rows, rows)
    known = positions < len(index_rows)
    known[known] = index_rows[positions[known]] == rows[known]
    return positions[known]


def rows_in_both(rows: Rows, others: Rows) -> Rows:
    """Return what two ascending lists have in common; numpy would sort both."""
    few, many = (rows, others) if len(rows) <= len(others) else (others, rows)
    return many[positions_of(many, few)]


def rows_without(rows: Rows, removed: Rows) -> Rows:
    """Return the ascending `rows` without those of another ascending list."""
    are_kept = np.ones(len(rows), dtype=np.bool_)
    are_kept[positions_of(rows, removed)] = False
    return rows[are_kept]
