"""What the engines of the kernel have in common: rows, tombstones and rows that are allowed.

A row's place is its position in the index. Tombstones and allowed rows are bitmaps of places, so
that a search takes either at the price of one bit for each code that is near enough.
"""

from __future__ import annotations

import copy
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from foundation.arrays import sorted_distinct
from index.engines.compiled import kernel
from index.engines.compiled.kernel import Bitmap
from index.engines.protocol import (
    Neighbours,
    Rows,
    Weights,
    check_codes,
    check_search,
    check_weights,
    places_of,
)

Integers = npt.NDArray[np.int64]

# Where fewer of the rows are allowed, and no more than so many, a copy of their codes is searched.
FEW = 8
MANY = 2**17
REMEMBERED = 4
FARTHEST = 2**31 - 1


class Allowed(NamedTuple):
    """The rows that a search may find, as it needs them."""

    given: weakref.ref[Rows]
    bitmap: Bitmap
    n_rows: int
    few: CompiledIndex | None
    """An index of just these rows, where they are few."""


class CompiledIndex(ABC):
    """A code index that the kernel searches and that does not change once made.

    Rows can be removed: :meth:`without` returns an index that shares the codes with this one.
    Any number of threads can search at once.
    """

    name: str

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        check_codes(codes, rows)
        self.n_bits: int = codes.shape[1] * 8
        self._rows = np.ascontiguousarray(rows, dtype=np.int64)
        self._live: Bitmap | None = None
        self._n_live = len(rows)
        self._remembered: OrderedDict[int, Allowed] = OrderedDict()

    @abstractmethod
    def _codes_at(self, places: Integers) -> Codes:
        """Return the codes of some places."""

    @abstractmethod
    def _find(self, queries: Codes, wanted: tuple[Any, ...]) -> float:
        """Have the kernel search; return what it took, in words that a scan reads meanwhile."""

    @abstractmethod
    def _find_weighted(self, weights: Weights, wanted: tuple[Any, ...]) -> None:
        """Have the kernel search by weighted distance."""

    @abstractmethod
    def _scan_of(self, places: Integers) -> CompiledIndex:
        """Return an index of the rows at some places, ascending, that scans them."""

    def __len__(self) -> int:
        return self._n_live

    @property
    def n_dead(self) -> int:
        """The number of tombstones: rows that were removed and still take up room."""
        return len(self._rows) - self._n_live

    def without(self, rows: Rows) -> Self:
        """Return the index without those of `rows` that it holds; the others are ignored."""
        places = sorted_distinct(places_of(self._rows, rows))
        places = places[kernel.are_set(self._live, places)]
        if not len(places):
            return self
        live = kernel.without_places(len(self._rows), self._live, places)
        index = copy.copy(self)
        less = {"_live": live, "_n_live": self._n_live - len(places)}
        vars(index).update(less, _remembered=OrderedDict())
        return index

    def live_codes(self) -> tuple[Codes, Rows]:
        """Return the codes that a search can find and their rows, in ascending order of rows."""
        places = self._live_places()
        return self._codes_at(places), self._rows[places]

    def holds(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell which of `rows` lie between the first and the last row of this index."""
        if not len(self._rows):
            return np.zeros(len(rows), dtype=np.bool_)
        inside: npt.NDArray[np.bool_] = (rows >= self._rows[0]) & (rows <= self._rows[-1])
        return inside

    def live_rows(self, rows: Rows) -> Rows:
        """Return those of `rows`, which ascend, that a search can find."""
        places = places_of(self._rows, rows)
        return self._rows[places[kernel.are_set(self._live, places)]]

    def codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, all of which are there, in the order given."""
        return self._codes_at(places_of(self._rows, rows))

    def counted_codes(self) -> tuple[Codes, Integers]:
        """Return the codes that a search can find, each of them as often as it comes, and ones."""
        codes, _ = self.live_codes()
        return codes, np.ones(len(codes), dtype=np.int64)

    def search(
        self, queries: Codes, k: int, radius: int | None = None, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search`."""
        shape = (len(queries), self.n_bits // 8)
        fits = queries.shape == shape and queries.dtype == np.uint8
        if fits and k > 0 and radius is None and among is None:  # nothing is left to check
            return self._search(queries, k, self.n_bits, self._live, self._n_live)
        allowed = self._known(among)
        check_search(self, queries, k, radius, among if allowed is None else None)
        reach = self.n_bits if radius is None else min(radius, self.n_bits)
        if among is None:
            return self._search(queries, k, reach, self._live, self._n_live)
        allowed = allowed or self._allowed(among)
        if allowed.few is not None:
            return allowed.few.search(queries, k, radius)
        return self._search(queries, k, reach, allowed.bitmap, allowed.n_rows)

    def search_weighted(
        self, weights: Weights, k: int, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search_weighted`."""
        allowed = self._known(among)
        check_weights(self, weights, k, among if allowed is None else None)
        bitmap, n_rows = self._live, self._n_live
        if among is not None:
            allowed = allowed or self._allowed(among)
            if allowed.few is not None:
                return allowed.few.search_weighted(weights, k)
            bitmap, n_rows = allowed.bitmap, allowed.n_rows
        if not n_rows or not len(weights):
            return _nothing(len(weights))
        found = _Found(len(weights), min(k, n_rows))
        arguments = found.arguments(weights, FARTHEST, bitmap, self._rows)
        self._find_weighted(weights, arguments)
        return found.neighbours()

    def work(self, queries: Codes, k: int) -> float:
        """Return how many words a scan reads in the time that a single query takes, on average."""
        found = _Found(1, min(k, len(self._rows)))
        arguments = found.arguments(queries[:1], self.n_bits, self._live, self._rows)
        return sum(self._find(query[None], arguments) for query in queries) / len(queries)

    def _search(
        self, queries: Codes, k: int, reach: int, bitmap: Bitmap | None, n_rows: int
    ) -> list[Neighbours]:
        if not n_rows or not len(queries):
            return _nothing(len(queries))
        found = _Found(len(queries), min(k, n_rows))
        self._find(queries, found.arguments(queries, reach, bitmap, self._rows))
        return found.neighbours()

    def _known(self, among: Rows | None) -> Allowed | None:
        known = None if among is None else self._remembered.get(id(among))
        return known if known is not None and known.given() is among else None

    def _allowed(self, among: Rows) -> Allowed:
        """Find which rows are allowed; remember it of an array that cannot be written to."""
        places = places_of(self._rows, among)
        if self._live is not None:
            places = places[kernel.are_set(self._live, places)]
        few = None
        if len(places) * FEW < len(self._rows) and len(places) <= MANY:
            few = self._scan_of(places)
        bitmap = kernel.bitmap_of(len(self._rows), places)
        allowed = Allowed(weakref.ref(among), bitmap, len(places), few)
        if not among.flags.writeable:
            # Threads may add at once; then one of them is remembered for a shorter time.
            self._remembered[id(among)] = allowed
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return allowed

    def _live_places(self) -> Integers:
        places = np.arange(len(self._rows))
        return places if self._live is None else places[kernel.are_set(self._live, places)]


class _Found:
    """Room for what a search finds."""

    def __init__(self, n_queries: int, k: int) -> None:
        self._k = k
        self._rows = np.empty((n_queries, k), dtype=np.int64)
        self._distances = np.empty((n_queries, k), dtype=np.int64)
        self._counts = np.empty(n_queries, dtype=np.int64)

    def arguments(
        self, queries: npt.NDArray[Any], reach: int, bitmap: Bitmap | None, rows: Rows
    ) -> tuple[Any, ...]:
        """Return the search as the kernel takes it; the queries are filled in by the engine."""
        out = (self._rows, self._distances, self._counts)
        return (len(queries), None, self._k, reach, bitmap, rows, *out)

    def neighbours(self) -> list[Neighbours]:
        return [
            Neighbours(rows[:count], distances[:count])
            for rows, distances, count in zip(
                self._rows, self._distances, self._counts.tolist(), strict=True
            )
        ]


def _nothing(n_queries: int) -> list[Neighbours]:
    nothing = np.empty(0, dtype=np.int64)
    return [Neighbours(nothing, nothing) for _ in range(n_queries)]
