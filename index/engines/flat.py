"""A scan of all codes by FAISS, the fastest way if codes hardly repeat and do not cluster.

:class:`faiss.IndexBinaryFlat` visits the codes in the order of their numbers, keeps a later one
only if it is strictly nearer, and of the farthest drops the highest number first
(facebookresearch/faiss, pull request 2245). So its results are ordered by (distance, number),
including the boundary, and here numbers are in the order of rows. FAISS documents none of this, so
the tests compare it with the oracle.
"""

from __future__ import annotations

import copy

import faiss
import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, hamming_distance, pack_bits
from hummingbit.index.engines.protocol import (
    FARTHEST,
    After,
    Neighbours,
    Rows,
    Weights,
    check_codes,
    check_search,
    check_weights,
    places_of,
)
from hummingbit.index.engines.weighted import (
    nearest_places,
    rows_after,
    weighted_distances,
    within_distance,
)

Marks = npt.NDArray[np.bool_]

# If fewer than 1 / FEW of the rows are allowed, a copy of their codes is searched.
FEW = 8
# MANY * k candidates give a bound on the weighted distance of the k-th row.
MANY = 4


class FlatIndex:
    """An immutable code index that scans all codes.

    :meth:`without` removes rows: it returns an index that shares the codes with this one. Any
    number of threads can search at once.
    """

    name = "flat"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        check_codes(codes, rows)
        self.n_bits: int = codes.shape[1] * 8
        self._rows = rows
        self._scan = scan_of(codes)
        self._live: Marks | None = None
        self._n_live = len(rows)

    def __len__(self) -> int:
        return self._n_live

    @property
    def n_dead(self) -> int:
        """The number of tombstones: removed rows that still take memory."""
        return len(self._rows) - self._n_live

    def without(self, rows: Rows) -> FlatIndex:
        """Return the index without `rows`; unknown rows are ignored."""
        places = places_of(self._rows, rows)
        live = np.ones(len(self._rows), dtype=np.bool_) if self._live is None else self._live.copy()
        live[places] = False
        return self._with_live(live)

    def live_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and their rows, in ascending order of rows."""
        codes = self._all_codes()
        if self._live is None:
            return codes.copy(), self._rows
        return codes[self._live], self._rows[self._live]

    def holds(self, rows: Rows) -> Marks:
        """Tell which of `rows` lie between the first and the last row of this index."""
        if not len(self._rows):
            return np.zeros(len(rows), dtype=np.bool_)
        inside: Marks = (rows >= self._rows[0]) & (rows <= self._rows[-1])
        return inside

    def live_rows(self, rows: Rows) -> Rows:
        """Return those of `rows`, which ascend, that a search can find."""
        places = places_of(self._rows, rows)
        if self._live is not None:
            places = places[self._live[places]]
        return self._rows[places]

    def codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, all of which must exist, in that order."""
        codes: Codes = self._all_codes()[places_of(self._rows, rows)]
        return codes

    def counted_codes(self) -> tuple[Codes, npt.NDArray[np.int64]]:
        """Return the codes that a search can find, with repetitions, and a count of 1 for each."""
        codes, _ = self.live_codes()
        return codes, np.ones(len(codes), dtype=np.int64)

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        among: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, among)
        if among is not None:
            return self._only(among).search(queries, k, radius, None, after)
        if after is not None:
            limit = FARTHEST if radius is None else radius
            every = (hamming_distance(self._all_codes(), query) for query in queries)
            return [
                rows_after(self._rows, one, k, after, live=self._live, limit=limit) for one in every
            ]
        k = min(k, self._n_live)
        if not k or not len(queries):
            nothing = np.empty(0, dtype=np.int64)
            return [Neighbours(nothing, nothing) for _ in queries]
        if self._live is None:
            distances, places = self._scan.search(pad(queries), k)
            found = [
                Neighbours(*one)
                for one in zip(self._rows[places], distances.astype(np.int64), strict=True)
            ]
        else:
            found = self._search_live(pad(queries), k, self._live)
        return found if radius is None else [_within(one, radius) for one in found]

    def _search_live(self, queries: Codes, k: int, is_live: Marks) -> list[Neighbours]:
        """Request more than `k` results, and still more while too many of them are tombstones."""
        width = k * len(self._rows) // self._n_live + 8
        found: dict[int, Neighbours] = {}
        while len(found) < len(queries):
            pending = [number for number in range(len(queries)) if number not in found]
            width = min(width, len(self._rows))
            table = self._scan.search(queries[pending], width)
            for number, distances, places in zip(pending, *table, strict=True):
                live = np.flatnonzero(is_live[places])[:k]
                if len(live) == k:
                    rows = self._rows[places[live]]
                    found[number] = Neighbours(rows, distances[live].astype(np.int64))
            width *= 4
        return [found[number] for number in range(len(queries))]

    def search_weighted(
        self, weights: Weights, k: int, among: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search_weighted`."""
        check_weights(self, weights, k, among)
        if among is not None:
            return self._only(among).search_weighted(weights, k, None, after)
        if after is not None:
            every = (weighted_distances(self._all_codes(), one) for one in weights)
            return [rows_after(self._rows, one, k, after, live=self._live) for one in every]
        return [self._search_one_weighted(one, k) for one in weights]

    def _search_one_weighted(self, weights: npt.NDArray[np.int64], k: int) -> Neighbours:
        limit = None
        if MANY * k < self._n_live:
            # Among all rows, the k-th weighted distance is no larger than among these.
            (near,) = self.search(pack_bits(weights[None] > 0), MANY * k)
            limit = int(np.partition(weighted_distances(self.codes_of(near.rows), weights), k)[k])
        places, distances = within_distance(self._all_codes(), weights, limit)
        if self._live is not None:
            live = self._live[places]
            places, distances = places[live], distances[live]
        nearest = nearest_places(places, distances, k)
        return Neighbours(self._rows[nearest.rows], nearest.distances)

    def _all_codes(self) -> Codes:
        """Return the codes of all rows, without a copy."""
        return scanned_codes(self._scan)[:, : self.n_bits // 8]

    def _only(self, among: Rows) -> FlatIndex:
        """Return an index of the rows `among` that a search can find."""
        places = places_of(self._rows, among)
        if self._live is not None:
            places = places[self._live[places]]
        if len(places) * FEW < len(self._rows):
            return FlatIndex(self._all_codes()[places], self._rows[places])
        live = np.zeros(len(self._rows), dtype=np.bool_)
        live[places] = True
        return self._with_live(live)

    def _with_live(self, live: Marks) -> FlatIndex:
        index = copy.copy(self)
        vars(index).update(_live=live, _n_live=int(np.count_nonzero(live)))
        return index


def scan_of(codes: Codes) -> faiss.IndexBinaryFlat:
    """Return an index of FAISS with the padded `codes`, each under its position."""
    padded = pad(codes)
    scan = faiss.IndexBinaryFlat(padded.shape[1] * 8)
    scan.add(padded)
    return scan


def scanned_codes(scan: faiss.IndexBinaryFlat) -> Codes:
    """Return the padded codes that FAISS holds, without a copy; `scan` must outlive them."""
    size = scan.code_size
    if not scan.ntotal:
        return np.empty((0, size), dtype=np.uint8)
    vector = scan.xb  # type: ignore[attr-defined]  # the stubs leave it out
    codes: Codes = faiss.rev_swig_ptr(vector.data(), scan.ntotal * size)
    return codes.reshape(-1, size)


def pad(codes: Codes) -> Codes:
    """Pad codes with zero bytes to 4 or a multiple of 8 bytes, lengths that FAISS scans fast."""
    size = codes.shape[1]
    width = 4 if size <= 4 else -(-size // 8) * 8
    if size == width:
        return np.ascontiguousarray(codes)
    padded = np.zeros((len(codes), width), dtype=np.uint8)
    padded[:, :size] = codes
    return padded


def _within(found: Neighbours, radius: int) -> Neighbours:
    end = int(np.searchsorted(found.distances, radius, side="right"))
    return Neighbours(found.rows[:end], found.distances[:end])
