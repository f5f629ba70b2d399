"""A collection's index at one moment, and how the next one is made of it.

Most rows lie in a large segment, the base; what was added since it was built lies in a small one,
the delta, which is built again with every write. Once the delta has grown, or much of the base has
been struck out, both become one base. Every row of the delta was inserted after every row of the
base, so the two never share a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from encoder.codes import Codes
from index.distinct import DistinctIndex, Integers
from index.protocol import Neighbours, Rows, check_search

MIN_FOLD = 4096
FOLD_FRACTION = 16
DEAD_FRACTION = 4


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """A :class:`~index.protocol.CodeIndex` that never changes; a write makes the next.

    Readers take one generation and need no lock.
    """

    number: int
    base: DistinctIndex
    delta: DistinctIndex

    @classmethod
    def build(cls, number: int, codes: Codes, rows: Rows) -> Generation:
        """Make a generation of `codes`, ``uint8[N, C]``, under ascending `rows`, ``int64[N]``."""
        return cls(number, DistinctIndex(codes, rows), DistinctIndex(codes[:0], rows[:0]))

    @property
    def n_bits(self) -> int:
        """The length of every code."""
        return self.base.n_bits

    def __len__(self) -> int:
        return len(self.base) + len(self.delta)

    def with_changes(self, number: int, codes: Codes, rows: Rows, removed: Rows) -> Generation:
        """Return the generation without the rows `removed` and with `codes` under `rows`.

        `rows` ascend and lie above every row of this generation. Rows of `removed` that are not
        there are ignored.
        """
        base, delta = self.base.without(removed), self.delta.without(removed)
        if len(rows) or delta.n_dead:
            delta = DistinctIndex(*_joined(delta.live_codes(), (codes, rows)))
        grown = len(delta) > max(MIN_FOLD, len(base) // FOLD_FRACTION)
        if grown or base.n_dead * DEAD_FRACTION > len(base) + base.n_dead:
            return self.build(number, *_joined(base.live_codes(), delta.live_codes()))
        return Generation(number, base, delta)

    def search(self, queries: Codes, k: int, radius: int | None = None) -> list[Neighbours]:
        """See :meth:`index.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius)
        found = self.base.search(queries, k, radius)
        if not len(self.delta):
            return found
        later = self.delta.search(queries, k, radius)
        return [_merged(one, other, k) for one, other in zip(found, later, strict=True)]

    def distinct_codes(self) -> tuple[Codes, Integers]:
        """Return the distinct codes, ``uint8[D, C]``, and how many rows hold each."""
        codes, counts = _joined(self.base.distinct_codes(), self.delta.distinct_codes())
        distinct, number = np.unique(codes, axis=0, return_inverse=True)
        totals = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(totals, number, counts)
        return distinct, totals

    def codes(self) -> tuple[Codes, Rows]:
        """Return every code and its row, in ascending order of rows."""
        return _joined(self.base.live_codes(), self.delta.live_codes())


def _joined(one: tuple[Codes, Integers], other: tuple[Codes, Integers]) -> tuple[Codes, Integers]:
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])


def _merged(earlier: Neighbours, later: Neighbours, k: int) -> Neighbours:
    """Merge two lists in order; the rows of `earlier` all come before those of `later`."""
    distances = np.concatenate([earlier.distances, later.distances])
    rows = np.concatenate([earlier.rows, later.rows])
    order = np.argsort(distances, kind="stable")[:k]
    return Neighbours(rows[order], distances[order])
