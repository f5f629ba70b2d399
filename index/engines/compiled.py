"""Exact search over codes by the compiled kernel.

:class:`ScanIndex` reads all codes, :class:`LookupIndex` looks up codes near the query in a table of
the distinct ones, and :class:`MultiIndex` has a table for each half of longer codes.
"""

from __future__ import annotations

import copy
import math
import weakref
from abc import abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from math import comb
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes
from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.index.engines import kernel
from hummingbit.index.engines.kernel import (
    LANES,
    TABLE_BITS,
    Bitmap,
    Keys,
    Table,
    are_set,
    group_codes,
    native,
    place_weights,
    words_of,
)
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
    check_shape_of_weights,
    no_neighbours,
)

# What the three have in common: tombstones, allowed rows and the calls of the kernel.
#
# A position is that of a row among the index's rows. Live rows and allowed rows are bitmaps of
# positions, of which a search tests one bit for each code that is near enough.


Integers = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]

# If more rows are allowed, their codes are not copied.
MAX_COPIED_ROWS = 2**17
# The lists of allowed rows that an index remembers.
REMEMBERED_LISTS = 4
# Few rows get an index like that of all, once their searches have cost as much as reading so many
# words for each row. Making it takes ten times as long, and finding the rows took longer still.
WORDS_PER_ROW = 50.0
FEWEST_IN_TABLES = 2**12
MOST_IN_TABLES = 2**20


@dataclass(slots=True)
class AllowedRows:
    """The rows that a search may find, prepared for searching."""

    array: weakref.ref[Rows]
    """The array that a caller passed as `allowed_rows`."""
    bitmap: Bitmap | None
    n_rows: int
    few: CompiledIndex | None
    """An index of these rows alone, if they are few; the bitmap is None then."""
    price: float
    """The `spent` at which these rows get tables; infinite if they get none."""
    spent: float = 0.0
    """The cost of the searches among these rows, in the unit of :meth:`CompiledIndex.work`."""


class CompiledIndex(ImmutableIndex):
    """An immutable code index that the kernel searches.

    :meth:`without` removes rows: it returns an index that shares the codes with this one. Any
    number of threads can search at once.
    """

    name: str
    _bytes: npt.NDArray[np.intp]
    """The position of each byte of a code in its words."""
    _n_words: int

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        check_codes(codes, rows)
        super().__init__(np.ascontiguousarray(rows, dtype=np.int64))
        self.n_bits = codes.shape[1] * 8
        self._live: Bitmap | None = None
        self._remembered: OrderedDict[int, AllowedRows] = OrderedDict()
        self._last_positions: tuple[Rows, Positions | None] | None = None
        self._last_placed: tuple[Weights, Weights] | None = None

    @abstractmethod
    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        """Search with the kernel; return the cost, in words that a scan reads in the same time.

        The `arguments` follow the number of queries and the queries.
        """

    @abstractmethod
    def _find_weighted(
        self, weights: Weights, arguments: tuple[Any, ...], floor: tuple[int, ...]
    ) -> None:
        """Search by weighted distance with the kernel, from a floor on."""

    def without(self, rows: Rows) -> Self:
        """Return the index without `rows`; unknown rows are ignored."""
        positions = sorted_distinct(self._live_positions(rows))
        if not len(positions):
            return self
        live = kernel.without_positions(len(self._rows), self._live, positions)
        index, n_live = copy.copy(self), self._n_live - len(positions)
        vars(index).update(_live=live, _n_live=n_live, _remembered=OrderedDict())
        return index

    def _live_of(self, positions: Rows) -> Rows:
        return positions if self._live is None else positions[are_set(self._live, positions)]

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        allowed_rows: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search`."""
        shape = (len(queries), self.n_bits // 8)
        fits = queries.shape == shape and queries.dtype == np.uint8
        if fits and k > 0 and radius is None and allowed_rows is None and after is None:
            # Nothing is left to check.
            return self._search(queries, k, self.n_bits, self._live, self._n_live)[0]
        allowed = self._remembered_rows(allowed_rows)
        if not fits or k < 1 or radius is not None or allowed is None:
            check_search(self, queries, k, radius, allowed_rows if allowed is None else None)
        reach = self.n_bits if radius is None else min(radius, self.n_bits)
        floor = self._floor(after)
        if allowed_rows is None:
            return self._search(queries, k, reach, self._live, self._n_live, floor)[0]
        allowed = allowed or self._find_allowed(allowed_rows)
        few = self._few_of(allowed, allowed_rows)
        if few is None:
            nearest, cost = self._search(queries, k, reach, allowed.bitmap, allowed.n_rows, floor)
        else:
            nearest, cost = few._search(queries, k, reach, None, len(few), few._floor(after))  # noqa: SLF001
        allowed.spent += cost
        return nearest

    def search_weighted(
        self, weights: Weights, k: int, allowed_rows: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search_weighted`."""
        allowed = None if allowed_rows is None else self._remembered_rows(allowed_rows)
        # The kernel checks the size of the weights.
        check_shape_of_weights(self, weights, k, allowed_rows if allowed is None else None)
        bitmap, n_rows = self._live, self._n_live
        if allowed_rows is not None:
            allowed = allowed or self._find_allowed(allowed_rows)
            few = self._few_of(allowed, allowed_rows)
            allowed.spent += len(weights) * allowed.n_rows * self.n_bits / 64
            if few is not None:
                return few.search_weighted(weights, k, None, after)
            bitmap, n_rows = allowed.bitmap, allowed.n_rows
        if not n_rows or not len(weights):
            return no_neighbours(len(weights))
        results = _Results(len(weights), min(k, n_rows))
        arguments = results.arguments(FARTHEST, bitmap, self._rows)
        self._find_weighted(weights, arguments, self._floor(after))
        return results.neighbours()

    @property
    @abstractmethod
    def coded(self) -> tuple[Any, ...]:
        """The code at each position, as arguments of the kernel.

        These are the number of positions and the words of a code, the number of distinct codes,
        these, and the number of the code at each position or None.
        """

    @abstractmethod
    def _words_of(self, codes: Codes) -> Keys:
        """Return codes as numbers of 64 bits, ``(N, W)``, padded with zero bytes."""

    def placed(self, weights: Weights) -> Weights:
        """Return the weights of queries, ``int64[Q, n_bits]``, in the order of :attr:`coded`.

        Those of the last weights are kept, because a hybrid search needs them twice.
        """
        last = self._last_placed
        if last is None or last[0] is not weights:
            last = self._last_placed = weights, place_weights(weights, self._bytes, self._n_words)
        return last[1]

    def codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, all of which must exist, in that order."""
        words = np.empty((len(rows), self._n_words), dtype=np.uint64)
        rows = np.ascontiguousarray(rows)
        native.codes(*self.coded, self._rows, len(rows), rows, words)
        codes: Codes = words.view(np.uint8)
        return codes if codes.shape[1] == len(self._bytes) else codes[:, self._bytes]

    def distances_of(self, rows: Rows, code: Codes) -> list[int]:
        """Return the Hamming distances of `rows`, all of which must exist, from a code.

        Reading the codes of ten rows and comparing them takes numpy three times as long.
        """
        measured = np.empty(len(rows), dtype=np.int64)
        query = self._words_of(code[None])
        rows = np.ascontiguousarray(rows)
        native.distances(*self.coded, self._rows, len(rows), rows, query, measured)
        distances: list[int] = measured.tolist()
        return distances

    def positions_of_rows(self, rows: Rows) -> Positions | None:
        """Return the position of each of the ascending `rows`, -1 if it has none.

        It is None if the rows are those of the index. The answer for the last rows is kept.
        """
        last = self._last_positions
        if last is not None and last[0] is rows:
            return last[1]
        positions = None
        if not np.array_equal(rows, self._rows):
            positions = np.searchsorted(self._rows, rows).astype(np.int32)
            positions[positions == len(self._rows)] = 0
            is_held = (
                self._rows[positions] == rows if len(self._rows) else np.zeros(len(rows), bool)
            )
            positions[~is_held] = -1
        self._last_positions = rows, positions
        return positions

    def work(self, queries: Codes, k: int) -> float:
        """Return the number of words that a scan reads in the average time of a single query."""
        results = _Results(1, min(k, len(self._rows)))
        arguments = results.arguments(self.n_bits, self._live, self._rows)
        return sum(self._find(query[None], arguments) for query in queries) / len(queries)

    def _search(  # noqa: PLR0917 - the arguments of the kernel
        self,
        queries: Codes,
        k: int,
        reach: int,
        bitmap: Bitmap | None,
        n_rows: int,
        floor: tuple[int, ...] = (),
    ) -> tuple[list[Neighbours], float]:
        """Return the nearest codes of each query, and the cost."""
        if not n_rows or not len(queries):
            return no_neighbours(len(queries)), 0.0
        results = _Results(len(queries), min(k, n_rows))
        cost = self._find(queries, (*results.arguments(reach, bitmap, self._rows), *floor))
        return results.neighbours(), cost

    def _floor(self, after: After | None) -> tuple[int, ...]:
        """Return the distance and the position after which the kernel finds codes; or nothing."""
        if after is None:
            return ()
        return (after.distance, int(np.searchsorted(self._rows, after.row, side="right")))

    def _remembered_rows(self, allowed_rows: Rows | None) -> AllowedRows | None:
        allowed = None if allowed_rows is None else self._remembered.get(id(allowed_rows))
        return allowed if allowed is not None and allowed.array() is allowed_rows else None

    def _find_allowed(self, allowed_rows: Rows) -> AllowedRows:
        """Prepare allowed rows for searching; remember them if the array is read-only."""
        positions = self._live_positions(allowed_rows)
        are_few = len(positions) * COPIED_FRACTION < len(self._rows)
        few = None
        if are_few and len(positions) <= MAX_COPIED_ROWS:
            few = ScanIndex(self._codes_at(positions), self._rows[positions])
        fit = are_few and FEWEST_IN_TABLES <= len(positions) <= MOST_IN_TABLES
        gain = fit and not isinstance(few, type(self))
        price = WORDS_PER_ROW * len(positions) if gain else math.inf
        bits = None if few is not None else kernel.bitmap_of(len(self._rows), positions)
        allowed = AllowedRows(weakref.ref(allowed_rows), bits, len(positions), few, price)
        if not allowed_rows.flags.writeable:
            # If threads add entries at the same time, one may be dropped early, which is harmless.
            self._remembered[id(allowed_rows)] = allowed
            while len(self._remembered) > REMEMBERED_LISTS:
                self._remembered.popitem(last=False)
        return allowed

    def _few_of(self, allowed: AllowedRows, allowed_rows: Rows) -> CompiledIndex | None:
        """Return an index of the rows `allowed_rows` alone, if they are few."""
        if allowed.spent >= allowed.price:
            # If threads get here at the same time, two may make the tables, which is harmless.
            positions = self._live_positions(allowed_rows)
            allowed.few = type(self)(self._codes_at(positions), self._rows[positions])
            allowed.price = math.inf
        return allowed.few


class _Results:
    """The buffers for the results of a search."""

    def __init__(self, n_queries: int, k: int) -> None:
        self._k = k
        self._rows = np.empty((n_queries, k), dtype=np.int64)
        self._distances = np.empty((n_queries, k), dtype=np.int64)
        self._counts = np.empty(n_queries, dtype=np.int64)

    def arguments(self, reach: int, bitmap: Bitmap | None, rows: Rows) -> tuple[Any, ...]:
        """Return the arguments of the kernel after the queries."""
        return (self._k, reach, bitmap, rows, self._rows, self._distances, self._counts)

    def neighbours(self) -> list[Neighbours]:
        found = zip(self._rows, self._distances, self._counts.tolist(), strict=True)
        return [Neighbours(rows[:count], distances[:count]) for rows, distances, count in found]


# A scan of all codes by the kernel.


class ScanIndex(CompiledIndex):
    """A :class:`CompiledIndex` that scans all codes."""

    name = "scan"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        super().__init__(codes, rows)
        self._bytes = self._positions_of_bytes(codes.shape[1])
        words = self._words_of(codes)
        self._n_words = words.shape[1]
        self._groups = group_codes(words)

    @property
    def _source(self) -> tuple[Any, ...]:
        """The codes as arguments of the kernel."""
        return (len(self._rows), self._n_words, self._groups)

    def _positions_of_bytes(self, code_size: int) -> npt.NDArray[np.intp]:
        """Return the position of each byte of a code in its words."""
        return np.arange(code_size)

    def _words_of(self, codes: Codes) -> Keys:
        """Return codes as numbers of 64 bits, ``(N, W)``, padded with zero bytes."""
        n_words = int(self._bytes[-1]) // 8 + 1
        if len(self._bytes) == 8 * n_words:
            return np.ascontiguousarray(codes).view("<u8")
        padded = np.zeros((len(codes), 8 * n_words), dtype=np.uint8)
        padded[:, self._bytes] = codes
        return padded.view("<u8")

    @property
    def coded(self) -> tuple[Any, ...]:
        """See :attr:`CompiledIndex.coded`."""
        n = len(self._rows)
        return (n, self._n_words, n, self._groups, None)

    def _codes_at(self, positions: Integers) -> Codes:
        words = np.ascontiguousarray(self._groups[positions >> 3, :, positions & 7])
        codes: Codes = words.view(np.uint8).reshape(len(positions), 8 * self._n_words)
        return codes if codes.shape[1] == len(self._bytes) else codes[:, self._bytes]

    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        words = self._words_of(queries)
        return float(native.scan(*self._source, len(queries), words, *arguments))

    def _find_weighted(
        self, weights: Weights, arguments: tuple[Any, ...], floor: tuple[int, ...]
    ) -> None:
        placed = self.placed(weights)
        # The weights stand in for the queries, which this function does not read.
        native.scan_weighted(*self._source, len(weights), placed, *arguments, placed, *floor)


# Lookup of codes of at most 64 bits by the kernel: every code around the query, nearest first.
#
# Learned codes repeat and are close together, so the tenth neighbour of nearly every query is
# within two bits. Few codes are that near, and looking up all of them takes far less time than a
# scan. For queries that this does not answer, mostly outliers, the kernel scans the distinct codes.


class LookupIndex(CompiledIndex):
    """A :class:`CompiledIndex` over a table of the distinct codes."""

    name = "lookup"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, the codes are longer than 64 bits, or the
                rows do not ascend.
        """
        super().__init__(codes, rows)
        check_lookup_length(self.n_bits)
        self._bytes, self._n_words = np.arange(codes.shape[1]), 1
        self._code_of = np.empty(len(codes), dtype=np.int32)
        self._table = Table.of(words_of(codes)[:, 0], self.n_bits, self._code_of)

    @property
    def n_distinct(self) -> int:
        """The number of distinct codes, including those of tombstones."""
        return self._table.n_keys

    def counted_codes(self) -> tuple[Codes, Integers]:
        """Return the distinct codes that a search can find and the number of rows with each."""
        code_of = self._code_of
        if self._live is not None:
            code_of = code_of[are_set(self._live, np.arange(len(code_of)))]
        counts = np.bincount(code_of, minlength=self.n_distinct)
        live = np.flatnonzero(counts)
        return self._codes(self._table.keys[live]), counts[live]

    def _codes(self, words: Keys) -> Codes:
        codes: Codes = words[:, None].view(np.uint8)[:, : self.n_bits // 8]
        return codes

    @property
    def coded(self) -> tuple[Any, ...]:
        """See :attr:`CompiledIndex.coded`."""
        return (len(self._rows), 1, self.n_distinct, self._table.keys, self._code_of)

    def _words_of(self, codes: Codes) -> Keys:
        return words_of(codes)

    def _codes_at(self, positions: Integers) -> Codes:
        return self._codes(self._table.keys[self._code_of[positions]])

    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        words = words_of(queries)[:, 0]
        return float(native.lookup(*self._table.arguments, len(queries), words, *arguments))

    def _find_weighted(
        self, weights: Weights, arguments: tuple[Any, ...], floor: tuple[int, ...]
    ) -> None:
        placed, table = self.placed(weights), self._table.arguments
        native.lookup_weighted(*table, len(weights), placed, *arguments, placed, *floor)


def check_lookup_length(n_bits: int) -> None:
    """Raise ValueError unless codes of `n_bits` bits can be looked up."""
    if n_bits > TABLE_BITS:
        raise ValueError(f"codes have {n_bits} bits; lookups allow {TABLE_BITS} at most")


# Multi-index hashing of codes of up to 128 bits: their halves are looked up in two tables.
#
# If a code is within r + s + 1 bits of a query, its first half is within r bits of the query's, or
# its second half is within s bits. So two tables need few lookups, unlike one table of whole codes
# (multi-index hashing: Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with
# multi-index hashing", 2014). Queries that would need too many lookups are answered by a scan.


MIN_BITS = 16
# A scan reads so many words in the time of one lookup; the kernel uses the same number.
WORDS_PER_LOOKUP = 25.0


class MultiIndex(ScanIndex):
    """A :class:`ScanIndex` that first looks up halves of codes (multi-index hashing)."""

    name = "halves"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, the codes have fewer than 16 or more than
                128 bits, or the rows do not ascend.
        """
        check_codes(codes, rows)
        check_multi_index_length(codes.shape[1] * 8)
        super().__init__(codes, rows)
        words = self._words_of(codes)
        n_bytes = (codes.shape[1] - codes.shape[1] // 2, codes.shape[1] // 2)
        arguments: list[Any] = []
        for half, size in enumerate(n_bytes):
            table = Table.of(words[:, half], 8 * size)
            rest = np.zeros(len(words) + LANES, dtype=np.uint64)
            np.take(words[:, 1 - half], table.positions, out=rest[: len(words)])
            arguments += [*table.arguments, rest]
        self._tables = tuple(arguments)

    def _positions_of_bytes(self, code_size: int) -> npt.NDArray[np.intp]:
        first = code_size - code_size // 2
        return np.concatenate([np.arange(first), 8 + np.arange(code_size // 2)])

    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        words, source = self._words_of(queries), (*self._source, *self._tables)
        return float(native.halves(*source, len(queries), words, *arguments))


def least_multi_index_work(distances: Integers, n_bits: int, n_rows: int) -> float:
    """Return a lower bound of the average work of looking up halves, without making tables.

    `distances`, ``int64[Q]``, are those of the farthest row that each query must find. The unit is
    that of :meth:`CompiledIndex.work`. Counted are the lookups within r in one
    half and s in the other, where r + s + 1 is the distance, or a scan if that is cheaper. The
    contents of the buckets are not counted.
    """
    n_bytes = n_bits // 8
    sizes = [8 * (n_bytes - n_bytes // 2), 8 * (n_bytes // 2)]
    up_to = [
        np.cumsum([comb(bits, reach) for reach in range(bits + 1)], dtype=np.float64)
        for bits in sizes
    ]
    # Entry r + 1 is the cost of all lookups within r; entry 0 is that of none.
    first, second = (WORDS_PER_LOOKUP * np.append(0.0, steps) for steps in up_to)
    scan = 2.0 * n_rows
    least = []
    for distance in distances.tolist():
        steps = np.arange(distance + 2)
        of_first, of_second = steps, steps[::-1]
        possible = (of_first < len(first)) & (of_second < len(second))
        lookups = (first[of_first[possible]] + second[of_second[possible]]).min(initial=np.inf)
        least.append(min(lookups, scan))
    return float(np.mean(least))


def check_multi_index_length(n_bits: int) -> None:
    """Raise ValueError unless codes of `n_bits` bits can be looked up by their halves."""
    if not MIN_BITS <= n_bits <= 2 * TABLE_BITS:
        limits = f"halves need {MIN_BITS} to {2 * TABLE_BITS}"
        raise ValueError(f"codes have {n_bits} bits; {limits}")
