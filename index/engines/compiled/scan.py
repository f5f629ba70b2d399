"""A scan of all codes by the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.compiled.compiled_index import CompiledIndex, Integers
from index.engines.compiled.kernel import Keys, group_codes, native, place_weights
from index.engines.protocol import Rows, Weights


class ScanIndex(CompiledIndex):
    """A :class:`~index.engines.compiled.compiled_index.CompiledIndex` that scans all codes."""

    name = "scan"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, or the rows do not ascend.
        """
        super().__init__(codes, rows)
        self._bytes = self._places_of_bytes(codes.shape[1])
        words = self._words_of(codes)
        self._n_words = words.shape[1]
        self._groups = group_codes(words)

    @property
    def _source(self) -> tuple[Any, ...]:
        """The codes as arguments of the kernel."""
        return (len(self._rows), self._n_words, self._groups)

    def _places_of_bytes(self, code_size: int) -> npt.NDArray[np.intp]:
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

    def _codes_at(self, places: Integers) -> Codes:
        words = np.ascontiguousarray(self._groups[places >> 3, :, places & 7])
        codes: Codes = words.view(np.uint8).reshape(len(places), 8 * self._n_words)
        return codes if codes.shape[1] == len(self._bytes) else codes[:, self._bytes]

    def _scan_of(self, places: Integers) -> CompiledIndex:
        return ScanIndex(self._codes_at(places), self._rows[places])

    def _find(self, queries: Codes, arguments: tuple[Any, ...]) -> float:
        n_queries, _, *others = arguments
        words = self._words_of(queries)
        return float(native.scan(*self._source, n_queries, words, *others))

    def _find_weighted(
        self, weights: Weights, arguments: tuple[Any, ...], floor: tuple[int, ...]
    ) -> None:
        n_queries, _, *others = arguments
        placed = place_weights(weights, self._bytes, self._n_words)
        # The weights stand in for the queries, which this function does not read.
        native.scan_weighted(*self._source, n_queries, placed, *others, placed, *floor)
