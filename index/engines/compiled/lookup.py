"""Lookup of codes of at most 64 bits by the kernel: every code around the query, nearest first.

Learned codes repeat and are close together, so the tenth neighbour of nearly every query is within
two bits. Few codes are that near, and looking up all of them takes far less time than a scan. For
queries that this does not answer, mostly outliers, the kernel scans the distinct codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from encoder.codes import Codes
from index.engines.compiled.compiled_index import CompiledIndex, Integers
from index.engines.compiled.kernel import (
    TABLE_BITS,
    Keys,
    Table,
    are_set,
    native,
    place_weights,
)
from index.engines.compiled.scan import ScanIndex
from index.engines.protocol import Rows, Weights, check_codes


class LookupIndex(CompiledIndex):
    """A :class:`~.compiled_index.CompiledIndex` over a table of the distinct codes."""

    name = "lookup"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, the codes are longer than 64 bits, or the
                rows do not ascend.
        """
        check_codes(codes, rows)
        n_bits = codes.shape[1] * 8
        check_length(n_bits)
        super().__init__(codes, rows)
        self._bytes = np.arange(codes.shape[1])
        self._code_of = np.empty(len(codes), dtype=np.int32)
        self._table = Table.of(_words_of(codes), n_bits, self._code_of)

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

    def _codes_at(self, places: Integers) -> Codes:
        return self._codes(self._table.keys[self._code_of[places]])

    def _scan_of(self, places: Integers) -> CompiledIndex:
        return ScanIndex(self._codes_at(places), self._rows[places])

    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        n_queries, _, *others = arguments
        words = _words_of(queries)
        return float(native.lookup(*self._table.arguments, n_queries, words, *others))

    def _find_weighted(
        self, weights: Weights, arguments: tuple[Any, ...], floor: tuple[int, ...]
    ) -> None:
        n_queries, _, *others = arguments
        placed = place_weights(weights, self._bytes, 1)
        native.lookup_weighted(*self._table.arguments, n_queries, placed, *others, placed, *floor)


def check_length(n_bits: int) -> None:
    """Raise ValueError unless codes of `n_bits` bits can be looked up."""
    if n_bits > TABLE_BITS:
        raise ValueError(f"codes have {n_bits} bits; lookups allow {TABLE_BITS} at most")


def _words_of(codes: Codes) -> Keys:
    if codes.shape[1] == 8:
        return np.ascontiguousarray(codes).view("<u8")[:, 0]
    padded = np.zeros((len(codes), 8), dtype=np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view("<u8")[:, 0]
