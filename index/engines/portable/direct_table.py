"""Codes of at most 16 bits: a table has a place for every possible code.

A code is its own position in the table, and the codes around a query are the query XOR the same
masks, nearest first.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from index.engines.portable.balls import Balls
from index.engines.portable.distinct_codes import Integers, Places, Words, as_words, posting_lists
from index.engines.portable.postings import Candidates, PostingIndex
from index.engines.portable.probes import nearest_codes
from index.engines.protocol import Rows, check_codes

MAX_TABLE_BITS = 16


class DirectIndex(PostingIndex):
    """A :class:`~index.engines.portable.postings.PostingIndex` over a table of all codes."""

    name = "direct"

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order.

        Raises:
            ValueError: if the shapes or types are others, the codes are longer than 16 bits, or
                the rows do not ascend.
        """
        check_codes(codes, rows)
        n_bits = codes.shape[1] * 8
        if n_bits > MAX_TABLE_BITS:
            raise ValueError(f"codes have {n_bits} bits; a table allows {MAX_TABLE_BITS} at most")
        self._balls = _balls(n_bits)
        super().__init__(n_bits, rows, posting_lists(as_words(codes)[:, 0], 2**n_bits))

    def _codes_of(self, numbers: Places | Integers | Words) -> Codes:
        words = numbers.astype("<u4")[:, None]
        return words.view(np.uint8)[:, : self.n_bits // 8]

    def _candidates(self, queries: Codes, k: int, radius: int) -> list[Candidates]:
        words = as_words(queries)[:, 0]
        parts, _ = self._balls.search(words, k, radius, self._live_counts, self._lookup)
        return parts

    def _weighted_candidates(self, weights: npt.NDArray[np.int64], k: int) -> Candidates:
        found = nearest_codes(weights, k, self._live_counts, self._lookup, np.uint32)
        return super()._weighted_candidates(weights, k) if found is None else found

    def _lookup(self, words: Words) -> tuple[Integers, Integers]:
        positions = np.flatnonzero(self._live_counts[words])
        return positions, words[positions].astype(np.int64)


@cache
def _balls(n_bits: int) -> Balls:
    return Balls.of(n_bits, [radius for radius in (1, 3, 5, n_bits) if radius <= n_bits], np.uint32)
