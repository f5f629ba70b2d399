"""Lookup of codes of up to 128 bits by their halves, each of which has a table.

If a code is within r + s + 1 bits of a query, its first half is within r bits of the query's, or
its second half is within s bits. So two tables need few lookups, unlike one table of whole codes
(multi-index hashing: Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with
multi-index hashing", 2014). Queries that would need too many lookups are answered by a scan.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.compiled.compiled_index import Integers
from index.engines.compiled.kernel import LANES, TABLE_BITS, Table, native
from index.engines.compiled.scan import ScanIndex
from index.engines.protocol import Rows, check_codes

MIN_BITS = 16
# A scan reads so many words in the time of one lookup; the kernel uses the same number.
WORDS_PER_LOOKUP = 25.0


class HalvesIndex(ScanIndex):
    """A :class:`~index.engines.compiled.scan.ScanIndex` that first looks up halves of codes."""

    name = "halves"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, the codes have fewer than 16 or more than
                128 bits, or the rows do not ascend.
        """
        check_codes(codes, rows)
        check_length(codes.shape[1] * 8)
        super().__init__(codes, rows)
        words = self._words_of(codes)
        n_bytes = (codes.shape[1] - codes.shape[1] // 2, codes.shape[1] // 2)
        arguments: list[Any] = []
        for half, size in enumerate(n_bytes):
            table = Table.of(words[:, half], 8 * size)
            rest = np.zeros(len(words) + LANES, dtype=np.uint64)
            np.take(words[:, 1 - half], table.places, out=rest[: len(words)])
            arguments += [*table.arguments, rest]
        self._tables = tuple(arguments)

    def _places_of_bytes(self, code_size: int) -> npt.NDArray[np.intp]:
        first = code_size - code_size // 2
        return np.concatenate([np.arange(first), 8 + np.arange(code_size // 2)])

    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        n_queries, _, *others = arguments
        words = self._words_of(queries)
        return float(native.halves(*self._source, *self._tables, n_queries, words, *others))


def least_work(distances: Integers, n_bits: int, n_rows: int) -> float:
    """Return a lower bound of the average work of looking up halves, without making tables.

    `distances`, ``int64[Q]``, are those of the farthest row that each query must find. The unit is
    that of :meth:`~.compiled_index.CompiledIndex.work`. Counted are the lookups within r in one
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
        one, two = steps, steps[::-1]
        possible = (one < len(first)) & (two < len(second))
        lookups = (first[one[possible]] + second[two[possible]]).min(initial=np.inf)
        least.append(min(lookups, scan))
    return float(np.mean(least))


def check_length(n_bits: int) -> None:
    """Raise ValueError unless codes of `n_bits` bits can be looked up by their halves."""
    if not MIN_BITS <= n_bits <= 2 * TABLE_BITS:
        limits = f"halves need {MIN_BITS} to {2 * TABLE_BITS}"
        raise ValueError(f"codes have {n_bits} bits; {limits}")
