"""Codes of up to 128 bits, looked up by their halves, each of which has a table.

A code within r + s + 1 bits of a query has its first half within r of the query's or its second
within s. So two tables settle at few lookups what one of whole codes could not (multi-index
hashing: Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with multi-index hashing",
2014). The queries that this does not settle are answered by a scan.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.compiled.kernel import LANES, TABLE_BITS, Table, native
from index.engines.compiled.scan import ScanIndex
from index.engines.protocol import Rows, check_codes

MIN_BITS = 16


class HalvesIndex(ScanIndex):
    """A :class:`~index.engines.compiled.scan.ScanIndex` that looks halves of codes up first."""

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

    def _find(self, queries: Codes, wanted: tuple[Any, ...]) -> float:
        n_queries, _, *others = wanted
        words = self._words_of(queries)
        return float(native.halves(*self._source, *self._tables, n_queries, words, *others))


def check_length(n_bits: int) -> None:
    """Raise ValueError unless codes of `n_bits` bits can be looked up by their halves."""
    if not MIN_BITS <= n_bits <= 2 * TABLE_BITS:
        most = f"halves take {MIN_BITS} to {2 * TABLE_BITS}"
        raise ValueError(f"codes have {n_bits} bits; {most}")
