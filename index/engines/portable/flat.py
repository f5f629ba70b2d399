"""Every code, scanned by FAISS: nothing is faster where codes hardly repeat and do not cluster.

:class:`faiss.IndexBinaryFlat` looks at the codes in the order of their numbers, keeps a later one
only where it is strictly nearer, and of the farthest drops the highest number first
(facebookresearch/faiss, pull request 2245). What it returns is therefore in the order (distance,
number), the boundary included; and numbers stand in the order of rows here. FAISS documents none
of this, so the tests hold it to the oracle.
"""

from __future__ import annotations

import copy

import faiss
import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, pack_bits
from index.engines.portable.weighted import nearest_places, weighted_distances, within_distance
from index.engines.protocol import (
    Neighbours,
    Rows,
    Weights,
    check_codes,
    check_search,
    check_weights,
    places_of,
)

Marks = npt.NDArray[np.bool_]

# With fewer of the rows allowed, a copy of their codes is searched; with more, all of them.
FEW = 8
# So many times k candidates tell how near the k-th must be by weighted distance.
MANY = 4


class FlatIndex:
    """A code index that scans all codes and does not change once made.

    Rows can be removed: :meth:`without` returns an index that shares the codes with this one.
    Any number of threads can search at once.
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
        """The number of tombstones: rows that were removed and still take up room."""
        return len(self._rows) - self._n_live

    def without(self, rows: Rows) -> FlatIndex:
        """Return the index without those of `rows` that it holds; the others are ignored."""
        places = places_of(self._rows, rows)
        live = np.ones(len(self._rows), dtype=np.bool_) if self._live is None else self._live.copy()
        live[places] = False
        return self._with_live(live)

    def live_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and their rows, in ascending order of rows."""
        codes = held_codes(self._scan)[:, : self.n_bits // 8]
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
        """Return the codes of `rows`, all of which are there, in the order given."""
        codes: Codes = held_codes(self._scan)[places_of(self._rows, rows), : self.n_bits // 8]
        return codes

    def counted_codes(self) -> tuple[Codes, npt.NDArray[np.int64]]:
        """Return the codes that a search can find, each of them as often as it comes, and ones."""
        codes, _ = self.live_codes()
        return codes, np.ones(len(codes), dtype=np.int64)

    def search(
        self, queries: Codes, k: int, radius: int | None = None, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, among)
        if among is not None:
            return self._only(among).search(queries, k, radius)
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
        """Ask for more than `k`, and for more again where too many of them are tombstones."""
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
        self, weights: Weights, k: int, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search_weighted`."""
        check_weights(self, weights, k, among)
        if among is not None:
            return self._only(among).search_weighted(weights, k)
        return [self._search_one_weighted(one, k) for one in weights]

    def _search_one_weighted(self, weights: npt.NDArray[np.int64], k: int) -> Neighbours:
        limit = None
        if MANY * k < self._n_live:
            # Of the nearest by Hamming distance, k are as near as the k-th must be, or nearer.
            (near,) = self.search(pack_bits(weights[None] > 0), MANY * k)
            limit = int(np.partition(weighted_distances(self.codes_of(near.rows), weights), k)[k])
        codes = held_codes(self._scan)[:, : self.n_bits // 8]
        places, distances = within_distance(codes, weights, limit)
        if self._live is not None:
            live = self._live[places]
            places, distances = places[live], distances[live]
        nearest = nearest_places(places, distances, k)
        return Neighbours(self._rows[nearest.rows], nearest.distances)

    def _only(self, among: Rows) -> FlatIndex:
        """Return an index of those of the rows `among` that a search can find."""
        places = places_of(self._rows, among)
        if self._live is not None:
            places = places[self._live[places]]
        if len(places) * FEW < len(self._rows):
            codes = held_codes(self._scan)[places, : self.n_bits // 8]
            return FlatIndex(codes, self._rows[places])
        live = np.zeros(len(self._rows), dtype=np.bool_)
        live[places] = True
        return self._with_live(live)

    def _with_live(self, live: Marks) -> FlatIndex:
        index = copy.copy(self)
        vars(index).update(_live=live, _n_live=int(np.count_nonzero(live)))
        return index


def scan_of(codes: Codes) -> faiss.IndexBinaryFlat:
    """Return an index of FAISS that holds `codes`, padded, each under its position."""
    padded = pad(codes)
    scan = faiss.IndexBinaryFlat(padded.shape[1] * 8)
    scan.add(padded)
    return scan


def held_codes(scan: faiss.IndexBinaryFlat) -> Codes:
    """Return the padded codes that FAISS holds, without a copy; `scan` must outlive them."""
    size = scan.code_size
    if not scan.ntotal:
        return np.empty((0, size), dtype=np.uint8)
    vector = scan.xb  # type: ignore[attr-defined]  # the stubs leave it out
    held: Codes = faiss.rev_swig_ptr(vector.data(), scan.ntotal * size)
    return held.reshape(-1, size)


def pad(codes: Codes) -> Codes:
    """Add zero bytes up to 4, or to a multiple of 8: distances stay, and FAISS is fast on those."""
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
