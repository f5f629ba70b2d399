"""A scan of all codes by FAISS, the fastest way if codes hardly repeat and do not cluster.

:class:`faiss.IndexBinaryFlat` visits the codes in the order of their numbers, keeps a later one
only if it is strictly nearer, and of the farthest drops the highest number first
(facebookresearch/faiss, pull request 2245). So its results are ordered by (distance, number),
including the boundary, and here numbers are in the order of rows. FAISS documents none of this, so
the tests compare it with the oracle.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, hamming_distance, pack_bits
from hummingbit.index.engines.protocol import (
    COPIED_FRACTION,
    FARTHEST,
    After,
    ImmutableIndex,
    Neighbours,
    Rows,
    Weights,
    check_codes,
    check_search,
    check_weights,
    no_neighbours,
    positions_of,
)
from hummingbit.index.engines.weighted import (
    nearest_positions,
    rows_after,
    weighted_distances,
    within_distance,
)

if TYPE_CHECKING:
    import faiss

Marks = npt.NDArray[np.bool_]

# CANDIDATES * k codes give a bound on the weighted distance of the k-th row.
CANDIDATES = 4


class FlatIndex(ImmutableIndex):
    """An immutable code index that FAISS scans.

    :meth:`without` removes rows: it returns an index that shares everything with this one except
    the marks of live rows. Any number of threads can search at once.
    """

    name = "flat"
    _live: Marks | None = None
    """Which positions are live; None if all are."""

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        check_codes(codes, rows)
        super().__init__(rows)
        self.n_bits = codes.shape[1] * 8
        self._scan = _scan_of(codes)

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        allowed_rows: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, allowed_rows)
        if allowed_rows is not None:
            return self._only(allowed_rows).search(queries, k, radius, None, after)
        radius = self.n_bits if radius is None else min(radius, self.n_bits)
        if after is not None:
            every = (hamming_distance(self._codes, query) for query in queries)
            return [self._rows_after(distances, k, after, radius) for distances in every]
        k = min(k, self._n_live)
        if not k or not len(queries):
            return no_neighbours(len(queries))
        return self._nearest(queries, k, radius)

    def search_weighted(
        self, weights: Weights, k: int, allowed_rows: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search_weighted`."""
        check_weights(self, weights, k, allowed_rows)
        if allowed_rows is not None:
            return self._only(allowed_rows).search_weighted(weights, k, None, after)
        if after is not None:
            every = (weighted_distances(self._codes, query) for query in weights)
            return [self._rows_after(distances, k, after, FARTHEST) for distances in every]
        k = min(k, self._n_live)
        if not k:
            return no_neighbours(len(weights))
        return [self._nearest_weighted(query, k) for query in weights]

    def without(self, rows: Rows) -> Self:
        """Return the index without `rows`; unknown rows are ignored."""
        live = np.ones(len(self._rows), np.bool_) if self._live is None else self._live.copy()
        live[positions_of(self._rows, rows)] = False
        return self._with_live(live)

    @property
    def _codes(self) -> Codes:
        """The codes at all positions, without a copy."""
        return _scanned_codes(self._scan)[:, : self.n_bits // 8]

    def _codes_at(self, positions: Rows) -> Codes:
        codes: Codes = self._codes[positions]
        return codes

    def _live_of(self, positions: Rows) -> Rows:
        return positions if self._live is None else positions[self._live[positions]]

    def _rows_after(
        self, distances: npt.NDArray[Any], k: int, after: After, limit: int
    ) -> Neighbours:
        return rows_after(self._rows, distances, k, after, live=self._live, limit=limit)

    def _only(self, allowed_rows: Rows) -> FlatIndex:
        """Return an index of the rows `allowed_rows` that a search can find."""
        positions = self._live_positions(allowed_rows)
        if len(positions) * COPIED_FRACTION < len(self._rows):
            return FlatIndex(self._codes_at(positions), self._rows[positions])
        live = np.zeros(len(self._rows), dtype=np.bool_)
        live[positions] = True
        return self._with_live(live)

    def _with_live(self, live: Marks) -> Self:
        index = copy.copy(self)
        vars(index).update(_live=live, _n_live=int(np.count_nonzero(live)))
        return index

    def _nearest(self, queries: Codes, k: int, radius: int) -> list[Neighbours]:
        queries = _pad(queries)
        if self._live is not None:
            nearest = self._search_live(queries, k, self._live)
        else:
            distances, positions = self._scan.search(queries, k)
            both = zip(self._rows[positions], distances.astype(np.int64), strict=True)
            nearest = [Neighbours(*neighbours) for neighbours in both]
        if radius == self.n_bits:
            return nearest
        ends = [np.searchsorted(some.distances, radius, side="right") for some in nearest]
        return [
            Neighbours(some.rows[:end], some.distances[:end])
            for some, end in zip(nearest, ends, strict=True)
        ]

    def _search_live(self, queries: Codes, k: int, is_live: Marks) -> list[Neighbours]:
        """Request more than `k` results, and still more while too many of them are tombstones."""
        width = k * len(self._rows) // self._n_live + 8
        answers: dict[int, Neighbours] = {}
        while len(answers) < len(queries):
            pending = [number for number in range(len(queries)) if number not in answers]
            width = min(width, len(self._rows))
            table = self._scan.search(queries[pending], width)
            for number, distances, positions in zip(pending, *table, strict=True):
                live = np.flatnonzero(is_live[positions])[:k]
                if len(live) == k:
                    rows = self._rows[positions[live]]
                    answers[number] = Neighbours(rows, distances[live].astype(np.int64))
            width *= 4
        return [answers[number] for number in range(len(queries))]

    def _nearest_weighted(self, weights: npt.NDArray[np.int64], k: int) -> Neighbours:
        limit = None
        if CANDIDATES * k < self._n_live:
            # Among all rows, the k-th weighted distance is no larger than among these.
            (near,) = self.search(pack_bits(weights[None] > 0), CANDIDATES * k)
            limit = int(np.partition(weighted_distances(self.codes_of(near.rows), weights), k)[k])
        positions, distances = within_distance(self._codes, weights, limit)
        if self._live is not None:
            live = self._live[positions]
            positions, distances = positions[live], distances[live]
        nearest = nearest_positions(positions, distances, k)
        return Neighbours(self._rows[nearest.rows], nearest.distances)


def _scan_of(codes: Codes) -> faiss.IndexBinaryFlat:
    """Return an index of FAISS with the padded `codes`, each under its position."""
    import faiss  # noqa: PLC0415 - takes a tenth of a second, and most engines do without

    padded = _pad(codes)
    scan = faiss.IndexBinaryFlat(padded.shape[1] * 8)
    scan.add(padded)
    return scan


def _scanned_codes(scan: faiss.IndexBinaryFlat) -> Codes:
    """Return the padded codes that FAISS holds, without a copy; `scan` must outlive them."""
    import faiss  # noqa: PLC0415 - as above

    size = scan.code_size
    if not scan.ntotal:
        return np.empty((0, size), dtype=np.uint8)
    vector = scan.xb  # type: ignore[attr-defined]  # the stubs leave it out
    codes: Codes = faiss.rev_swig_ptr(vector.data(), scan.ntotal * size)
    return codes.reshape(-1, size)


def _pad(codes: Codes) -> Codes:
    """Pad codes with zero bytes to 4 or a multiple of 8 bytes, lengths that FAISS scans fast."""
    size = codes.shape[1]
    width = 4 if size <= 4 else -(-size // 8) * 8
    if size == width:
        return np.ascontiguousarray(codes)
    padded = np.zeros((len(codes), width), dtype=np.uint8)
    padded[:, :size] = codes
    return padded
