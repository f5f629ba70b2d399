"""What every engine promises, so that one can stand in for another."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes

Rows = npt.NDArray[np.int64]
"""Row numbers: the order of insertion. They need not be contiguous and are never reused."""


Weights = npt.NDArray[np.int64]
"""What each bit weighs for each query: ``int64[Q, n_bits]``, within ±:data:`MAX_WEIGHT`."""

MAX_WEIGHT = 2**20
MAX_ROWS = 2**31 - 1
"""The most codes in one index: positions take four bytes."""


class Neighbours(NamedTuple):
    """What one query found, nearest first; rows at the same distance in ascending order."""

    rows: Rows
    """``int64[m]``"""
    distances: npt.NDArray[np.int64]
    """``int64[m]``, Hamming distances in bits."""


class CodeIndex(Protocol):
    """Exact Hamming search over codes, each known by its row.

    The order of results is (distance, row) and nothing else decides it: not the engine, nor how
    many queries are asked at once, nor the number of threads. The first k of a search for k + 1
    are therefore the search for k.
    """

    @property
    def n_bits(self) -> int:
        """The length of every code."""

    def __len__(self) -> int:
        """The number of codes that a search can find."""

    def search(
        self, queries: Codes, k: int, radius: int | None = None, among: Rows | None = None
    ) -> list[Neighbours]:
        """Return the `k` nearest of each query, fewer where there are fewer.

        Args:
            queries: ``uint8[Q, n_bits / 8]``; Q may be zero.
            k: at least 1; it may exceed the size of the index.
            radius: where given, only codes at a distance of at most `radius` are found.
            among: where given, only these rows are found, ``int64[M]`` in ascending order. Rows
                that are not there are passed over.

        Raises:
            ValueError: if an argument is not so.
        """

    def search_weighted(
        self, weights: Weights, k: int, among: Rows | None = None
    ) -> list[Neighbours]:
        """Return the `k` nearest by weighted distance; see :mod:`index.engines.portable.weighted`.

        `weights` are ``int64[Q, n_bits]``; `k` and `among` are those of :meth:`search`. The
        distances of what is found are weighted ones.

        Raises:
            ValueError: if an argument is not so.
        """


def check_search(
    index: CodeIndex, queries: Codes, k: int, radius: int | None, among: Rows | None
) -> None:
    """Raise ValueError unless the arguments are ones that :meth:`CodeIndex.search` takes."""
    if queries.dtype != np.uint8 or queries.ndim != 2 or queries.shape[1] * 8 != index.n_bits:
        given = f"{queries.dtype}{list(queries.shape)}"
        raise ValueError(f"queries are {given}; they must be uint8[Q, {index.n_bits // 8}]")
    if radius is not None and radius < 0:
        raise ValueError(f"radius is {radius}; it must not be negative")
    _check_wanted(k, among)


def check_weights(index: CodeIndex, weights: Weights, k: int, among: Rows | None) -> None:
    """Raise ValueError unless :meth:`CodeIndex.search_weighted` takes the arguments."""
    if weights.dtype != np.int64 or weights.ndim != 2 or weights.shape[1] != index.n_bits:
        given = f"{weights.dtype}{list(weights.shape)}"
        raise ValueError(f"weights are {given}; they must be int64[Q, {index.n_bits}]")
    if weights.max(initial=0) > MAX_WEIGHT or weights.min(initial=0) < -MAX_WEIGHT:
        raise ValueError(f"weights must be within ±{MAX_WEIGHT}")
    _check_wanted(k, among)


def _check_wanted(k: int, among: Rows | None) -> None:
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    if among is not None and (among.ndim != 1 or among.dtype != np.int64):
        raise ValueError(f"among is {among.dtype}{list(among.shape)}; it must be int64[M]")
    if among is not None and (among[1:] <= among[:-1]).any():
        raise ValueError("among must ascend")


def check_codes(codes: Codes, rows: Rows) -> None:
    """Raise ValueError unless the codes are packed and have one row each, in ascending order."""
    if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] == 0:
        raise ValueError(f"codes are {codes.dtype}{list(codes.shape)}; they must be uint8[N, C]")
    if rows.shape != (len(codes),):
        raise ValueError(f"{len(codes)} codes have rows of shape {rows.shape}")
    if (rows[1:] <= rows[:-1]).any():
        raise ValueError("rows must ascend")
    if len(rows) > MAX_ROWS:
        raise ValueError(f"there are {len(rows):,} codes; an index takes {MAX_ROWS:,} at most")


def places_of(held: Rows, rows: Rows) -> npt.NDArray[np.int64]:
    """Return where those of `rows` that are among the ascending `held` stand in it."""
    if len(held) and held[-1] - held[0] == len(held) - 1:
        # Without gaps nothing has to be looked for.
        steps: Rows = rows - held[0]
        return np.asarray(steps[(steps >= 0) & (steps < len(held))])
    places = np.searchsorted(held, rows)
    there = places < len(held)
    there[there] = held[places[there]] == rows[there]
    return places[there]
