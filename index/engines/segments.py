"""The index of one generation of a collection, and how the next one is made from it.

Most rows are in a large segment, the base; rows added since it was built are in small segments, the
deltas. A write adds a segment and merges the last segments while they are small, so writing one row
costs little and a search has few segments to visit. A deleted row becomes a tombstone: it stays in
its segment, and no search finds it. Once much has been added or deleted,
:meth:`IndexSnapshot.compacted` makes one base of everything. That takes long, but it changes
nothing that is in use and can run beside searches and writes.

Every row of a segment was inserted after every row of the previous segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, distinct_codes, hamming_distance
from hummingbit.index.engines.choice import AnyIndex, build
from hummingbit.index.engines.compiled import ScanIndex
from hummingbit.index.engines.flat import FlatIndex
from hummingbit.index.engines.protocol import After, Neighbours, Rows, Weights, check_search
from hummingbit.index.names import AUTO

Integers = npt.NDArray[np.int64]

MIN_FOLD = 4096
GROWTH = 4
FOLD_FRACTION = 16
DEAD_FRACTION = 4


@dataclass(frozen=True, slots=True, eq=False)
class IndexSnapshot:
    """An immutable :class:`CodeIndex`; a write makes the next one.

    Readers need no lock.
    """

    number: int
    base: AnyIndex
    index_type_reason: str
    """The reason for the index type of the base, in one sentence."""
    deltas: tuple[AnyIndex, ...] = ()
    requested_index_type: str = AUTO
    """The requested index type, which later bases use as well."""

    @classmethod
    def build(cls, number: int, codes: Codes, rows: Rows, index_type: str = AUTO) -> IndexSnapshot:
        """Index `codes`, ``uint8[N, C]``, under ascending `rows`, ``int64[N]``.

        Raises:
            ValueError: see :func:`hummingbit.index.engines.choice.build`.
        """
        base, reason = build(codes, rows, index_type)
        return cls(number, base, reason, requested_index_type=index_type)

    @property
    def n_bits(self) -> int:
        """The length of every code."""
        return self.base.n_bits

    @property
    def index_type(self) -> str:
        """The index type of the base."""
        return self.base.name

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""
        return needs_compaction(self._segments)

    def __len__(self) -> int:
        return sum(map(len, self._segments))

    def compacted(self) -> IndexSnapshot:
        """Return an equivalent generation that consists of one base."""
        return self.build(self.number, *self.codes(), self.requested_index_type)

    def with_changes(self, number: int, codes: Codes, rows: Rows, removed: Rows) -> IndexSnapshot:
        """Return the generation without the rows `removed` and with `codes` under `rows`.

        `rows` ascend and follow every row of this generation. Unknown rows in `removed` are
        ignored.
        """
        if not len(rows) and not len(removed):
            return replace(self, number=number)
        base, *deltas = (segment.without(removed) for segment in self._segments)
        deltas = [delta for delta in deltas if len(delta)]
        if len(rows):
            added = (codes, rows)
            while deltas and len(deltas[-1]) < max(MIN_FOLD, GROWTH * len(added[1])):
                added = _concatenate(deltas.pop().live_codes(), added)
            if not deltas and len(base) < MIN_FOLD:
                whole = _concatenate(base.live_codes(), added)
                return self.build(number, *whole, self.requested_index_type)
            deltas.append(build(*added).code_index)
        return replace(self, number=number, base=base, deltas=tuple(deltas))

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        allowed_rows: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search`."""
        # The segments check `allowed_rows`, once for an array that they remember.
        check_search(self, queries, k, radius, None)
        nearest = self.base.search(queries, k, radius, allowed_rows, after)
        for delta in self.deltas:
            nearest = _merge(nearest, delta.search(queries, k, radius, allowed_rows, after), k)
        return nearest

    def search_weighted(
        self, weights: Weights, k: int, allowed_rows: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search_weighted`."""
        nearest = self.base.search_weighted(weights, k, allowed_rows, after)
        for delta in self.deltas:
            nearest = _merge(nearest, delta.search_weighted(weights, k, allowed_rows, after), k)
        return nearest

    def all_live_rows(self) -> Rows:
        """Return all rows that a search can find, ascending."""
        if not self.deltas:
            return self.base.all_live_rows()
        return np.concatenate([segment.all_live_rows() for segment in self._segments])

    def live_rows(self, rows: Rows) -> Rows:
        """Return those of `rows`, which ascend, that a search can find."""
        return np.concatenate([segment.live_rows(rows) for segment in self._segments])

    def rows_between(self, firsts: Rows, lasts: Rows) -> Rows:
        """Return the rows from each of `firsts` to each of `lasts`, ascending.

        Both ascend, and no range overlaps another. Some of the rows may be tombstones.
        """
        return np.concatenate([segment.rows_between(firsts, lasts) for segment in self._segments])

    def codes_of(self, rows: Rows) -> Codes:
        """Return the codes of `rows`, ``int64[M]``, all of which must exist, in that order."""
        if not self.deltas:
            return self.base.codes_of(rows)
        codes = np.empty((len(rows), self.n_bits // 8), dtype=np.uint8)
        for segment in self._segments:
            inside = segment.holds(rows)
            codes[inside] = segment.codes_of(rows[inside])
        return codes

    def distances_of(self, rows: Rows, code: Codes) -> list[int]:
        """Return the Hamming distances of `rows`, all of which must exist, from a code."""
        if not self.deltas:
            return self.base.distances_of(rows, code)
        distances: list[int] = hamming_distance(self.codes_of(rows), code).tolist()
        return distances

    def distinct_codes(self) -> tuple[Codes, Integers]:
        """Return the distinct codes, ``uint8[D, C]``, and the number of rows with each."""
        codes, counts = reduce(
            _concatenate, (segment.counted_codes() for segment in self._segments)
        )
        if not self.deltas and not isinstance(self.base, FlatIndex | ScanIndex):
            return codes, counts
        distinct, code_of = distinct_codes(codes)
        return distinct, np.bincount(code_of, counts, len(distinct)).astype(np.int64)

    def codes(self) -> tuple[Codes, Rows]:
        """Return every code and its row, in ascending order of rows."""
        return reduce(_concatenate, (segment.live_codes() for segment in self._segments))

    @property
    def _segments(self) -> tuple[AnyIndex, ...]:
        return (self.base, *self.deltas)


class Segment(Protocol):
    """Some rows of an index."""

    def __len__(self) -> int:
        """The number of rows that a search can find."""

    @property
    def n_dead(self) -> int:
        """The number of tombstones: removed rows that still take memory."""


def needs_compaction(segments: Sequence[Segment]) -> bool:
    """Tell whether a base and its deltas should become one base."""
    added = sum(map(len, segments[1:]))
    tombstones = sum(segment.n_dead for segment in segments)
    whole = sum(map(len, segments)) + tombstones
    return added > max(MIN_FOLD, whole // FOLD_FRACTION) or tombstones * DEAD_FRACTION > whole


def _concatenate(
    earlier: tuple[Codes, Integers], later: tuple[Codes, Integers]
) -> tuple[Codes, Integers]:
    return np.concatenate([earlier[0], later[0]]), np.concatenate([earlier[1], later[1]])


def _merge(earlier: Sequence[Neighbours], later: Sequence[Neighbours], k: int) -> list[Neighbours]:
    """Merge the ordered results of each query; rows of `earlier` are below those of `later`."""
    merged = []
    for older, newer in zip(earlier, later, strict=True):
        distances = np.concatenate([older.distances, newer.distances])
        rows = np.concatenate([older.rows, newer.rows])
        order = np.argsort(distances, kind="stable")[:k]
        merged.append(Neighbours(rows[order], distances[order]))
    return merged
