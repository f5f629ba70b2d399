"""The number of documents at each distance from a query, without ranking them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes
from foundation.slices import checkpoint
from index.engines.compiled import kernel
from index.engines.compiled.kernel import Keys

Counts = npt.NDArray[np.int64]

# The distances that the kernel computes between two checkpoints, in some ten milliseconds.
COMPARED_AT_ONCE = 1 << 24


class SizedCodes:
    """Distinct codes with the number of documents of each."""

    def __init__(self, codes: Codes, sizes: Counts) -> None:
        """Hold `codes`, ``uint8[N, C]``, and their `sizes`, ``int64[N]``, each below 2**31."""
        self._n_bits = codes.shape[1] * 8
        self._sizes = sizes.astype(np.int32)
        self._words = kernel.words_of(codes)
        # The kernel of an editable install may be older than this function.
        self._count = getattr(kernel.native, "count", None)
        self._groups: Keys | None = None if self._count is None else kernel.group_codes(self._words)

    def by_distance(self, queries: Codes) -> Counts:
        """Return the number of documents at each distance, ``int64[Q, n_bits + 1]``."""
        counts = np.zeros((len(queries), self._n_bits + 1), dtype=np.int64)
        words = kernel.words_of(queries)
        step = max(1, COMPARED_AT_ONCE // max(1, len(self._words))) if self._count else 1
        for start in range(0, len(queries), step):
            checkpoint()
            some = slice(start, start + step)
            self._add(words[some], counts[some])
        return counts

    def distances(self, queries: Codes) -> Counts:
        """Return the distance of every code from every query, ``int64[Q, N]``."""
        return np.stack([self._distances(query) for query in kernel.words_of(queries)])

    def _distances(self, query: Keys) -> Counts:
        distances = np.zeros(len(self._words), dtype=np.int64)
        for word, of_query in zip(self._words.T, query, strict=True):
            distances += np.bitwise_count(word ^ of_query)
        return distances

    def _add(self, queries: Keys, counts: Counts) -> None:
        if self._count is None:
            (query,) = queries
            counts[0] = np.bincount(self._distances(query), self._sizes, counts.shape[1])
            return
        n, n_words = self._words.shape
        some = (len(queries), np.ascontiguousarray(queries), counts.shape[1], counts)
        self._count(n, n_words, self._groups, self._sizes, *some)
