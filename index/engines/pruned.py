"""Cells of codes around centres, most of which the triangle inequality excludes.

A cell holds the codes that are nearest to its centre c, the farthest of them at the distance R_c.
By the triangle inequality none of them is nearer to a query q than d(q, c) − R_c. The search first
finds the k nearest rows of the cell with the nearest centre. The farthest of these bounds the
distance of the k-th row, and only cells that can have codes as near are scanned. If these have more
than half of the codes, one scan of all codes is faster.

Orchard, "A fast nearest-neighbor search algorithm", 1991, uses the inequality in this way. Each
cell is an index of FAISS of its own: in FAISS's inverted lists the number of cells to visit is a
setting of the index, which searches in several threads would have to share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, pack_bits, unpack_codes
from hummingbit.index.engines.distinct import (
    SLACK,
    Candidates,
    DistinctIndex,
    Integers,
    join_candidates,
    limits,
    within,
)
from hummingbit.index.engines.flat import Marks, pad, scan_of
from hummingbit.index.engines.protocol import Rows

if TYPE_CHECKING:
    import faiss

CODES_PER_CELL = 16_384
MAX_CELLS = 1024
SAMPLES_PER_CELL = 64
ROUNDS = 5
# One scan of all codes is faster than scans of cells with more than this share of them.
MAX_SHARE_IN_CELLS = 0.5
# FAISS scans so many codes in the time of visiting one more cell.
CODES_PER_VISIT = 8192

Distances = npt.NDArray[np.int32]


class Cell(NamedTuple):
    """Some codes and their numbers in the index."""

    scan: faiss.IndexBinaryFlat
    numbers: Integers


class Visit(NamedTuple):
    """The codes of a cell nearest to some queries, ``(len(queries), width)``."""

    cell: Cell
    queries: Integers
    distances: Distances
    codes: Integers


class PrunedIndex(DistinctIndex):
    """A :class:`~.distinct.DistinctIndex` that scans only the cells that matter."""

    name = "pruned"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        super().__init__(codes, rows)
        n_cells = max(1, min(MAX_CELLS, self.n_distinct // CODES_PER_CELL))
        self._centres = scan_of(_centres(self._codes, n_cells))
        distances, nearest = (column[:, 0] for column in self._centres.search(self._codes, 1))
        order = np.argsort(nearest, kind="stable")
        self._sizes = np.bincount(nearest, minlength=n_cells)
        members = np.split(order, self._sizes.cumsum()[:-1])
        self._cells = [Cell(scan_of(self._codes[some]), some) for some in members]
        self._radii = np.array([distances[some].max(initial=0) for some in members])

    def work(self, queries: Codes, k: int) -> float:
        """Return the number of codes that FAISS scans in the average time of a query."""
        lookups, pending = self.lookup_work(queries, k)
        if not len(pending):
            return lookups
        needed, _ = self._cells_in_reach(pad(queries)[pending], k, self.n_bits)
        scanned = needed @ (self._sizes + CODES_PER_VISIT)
        scanned = np.where(self._is_most(needed), self.n_distinct, scanned)
        return lookups + float(scanned.sum()) / len(queries)

    def _scan_candidates(
        self, queries: Codes, pending: Integers, k: int, radius: int
    ) -> list[Candidates]:
        needed, reach = self._cells_in_reach(queries[pending], k, radius)
        whole = self._is_most(needed)
        parts = super()._scan_candidates(queries, pending[whole], k, radius)
        near = needed.any(axis=1) & ~whole
        if near.any():
            some = pending[near]
            of_cells = self._in_cells(queries[some], needed[near], reach[near], k)
            parts += [
                Candidates(some[candidates.queries], candidates.codes, candidates.distances)
                for candidates in of_cells
            ]
        return parts

    def _is_most(self, needed: Marks) -> Marks:
        """Tell for which queries the cells `needed`, ``(Q, cells)``, have most of the codes."""
        most: Marks = needed @ self._sizes > MAX_SHARE_IN_CELLS * self.n_distinct
        return most

    def _cells_in_reach(self, queries: Codes, k: int, radius: int) -> tuple[Marks, Integers]:
        """Return which cells may have the `k` nearest rows, and a bound on their distance."""
        from_centre, cells = self._centres.search(queries, len(self._cells))
        reach = np.full(len(queries), radius)
        for number in np.unique(cells[:, 0]):
            some = np.flatnonzero(cells[:, 0] == number)
            cell = self._cells[number]
            width = min(k, len(cell.numbers))
            if width:
                distances, codes = cell.scan.search(queries[some], width)
                has_k_rows = self._live_counts[cell.numbers[codes]].cumsum(axis=1) >= k
                last = distances[np.arange(len(some)), has_k_rows.argmax(axis=1)]
                reach[some] = np.where(has_k_rows[:, -1], np.minimum(last, radius), radius)
        needed = np.empty(cells.shape, dtype=np.bool_)
        near = from_centre - self._radii[cells] <= reach[:, None]
        np.put_along_axis(needed, cells, near, axis=1)
        needed[:, self._sizes == 0] = False
        return needed, reach

    def _in_cells(
        self, queries: Codes, needed: Marks, reach: Integers, k: int
    ) -> Iterator[Candidates]:
        """Yield the codes of the cells `needed` that are as near as the k-th row of these."""
        visits = list(self._visits(queries, needed, k + SLACK))
        candidates = [
            within(visit.queries, visit.codes, visit.distances, reach[visit.queries])
            for visit in visits
        ]
        every = join_candidates(candidates)
        # Every cell lists at least k codes, so these determine the distance of the k-th row.
        nearest, _ = limits(every, self._live_counts, len(queries), k, int(reach.max()))
        limit = np.minimum(nearest, reach)
        for visit in visits:
            bound = limit[visit.queries]
            # A list may lack codes that are as far as its last one.
            cut = visit.distances[:, -1] <= bound
            cut &= visit.codes.shape[1] < len(visit.cell.numbers)
            rest = ~cut
            yield within(visit.queries[rest], visit.codes[rest], visit.distances[rest], bound[rest])
            if cut.any():
                yield _in_range(visit.cell, queries, visit.queries[cut], limit)

    def _visits(self, queries: Codes, needed: Marks, width: int) -> Iterator[Visit]:
        for number in np.flatnonzero(needed.any(axis=0)):
            some, cell = np.flatnonzero(needed[:, number]), self._cells[number]
            distances, codes = cell.scan.search(queries[some], min(width, len(cell.numbers)))
            yield Visit(cell, some, distances, cell.numbers[codes])


def _in_range(cell: Cell, queries: Codes, some: Integers, limit: Integers) -> Candidates:
    """Find the codes of a cell within the limits of some of the queries."""
    ends, distances, codes = cell.scan.range_search(queries[some], int(limit[some].max()) + 1)
    owners = np.repeat(some, np.diff(ends).astype(np.int64))
    near = distances <= limit[owners]
    return Candidates(owners[near], cell.numbers[codes[near]], distances[near].astype(np.int64))


def _centres(codes: Codes, n_cells: int) -> Codes:
    """Return centres of `codes`: k-means with majorities as means, on an evenly spaced sample."""
    step = max(1, len(codes) // (n_cells * SAMPLES_PER_CELL))
    sample = np.random.default_rng(0).permutation(codes[::step])
    if not len(sample):
        return np.zeros((n_cells, codes.shape[1]), dtype=np.uint8)
    bits, centres = unpack_codes(sample), sample[:n_cells]
    for _ in range(ROUNDS):
        nearest = scan_of(centres).search(sample, 1)[1][:, 0]
        ones = np.zeros((n_cells, bits.shape[1]), dtype=np.int64)
        np.add.at(ones, nearest, bits)
        counts = np.bincount(nearest, minlength=n_cells)[:, None]
        centres = np.where(counts > 0, pack_bits(2 * ones > counts), centres)
    return centres
