"""The oracle: every distance, a full sort. It stays this simple; engines are tested against it."""

from __future__ import annotations

import numpy as np

from encoder.codes import Codes, hamming_distance, unpack_codes
from index.engines.protocol import (
    Neighbours,
    Rows,
    Weights,
    check_codes,
    check_search,
    check_weights,
)


class BruteForceIndex:
    """A :class:`~index.engines.protocol.CodeIndex` that measures every distance, for tests."""

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order."""
        check_codes(codes, rows)
        self.n_bits: int = codes.shape[1] * 8
        self._codes = codes
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def search(
        self, queries: Codes, k: int, radius: int | None = None, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, among)
        return [self._search_one(query, k, radius, among) for query in queries]

    def search_weighted(
        self, weights: Weights, k: int, among: Rows | None = None
    ) -> list[Neighbours]:
        """See :meth:`index.engines.protocol.CodeIndex.search_weighted`."""
        check_weights(self, weights, k, among)
        bits = unpack_codes(self._codes)
        found = []
        for one in weights:
            distances = (np.abs(one) * (bits != (one > 0))).sum(axis=1)
            order = np.lexsort((self._rows, distances))
            if among is not None:
                order = order[np.isin(self._rows[order], among)]
            found.append(Neighbours(self._rows[order[:k]], distances[order[:k]]))
        return found

    def _search_one(
        self, query: Codes, k: int, radius: int | None, among: Rows | None
    ) -> Neighbours:
        distances = hamming_distance(self._codes, query)
        order = np.lexsort((self._rows, distances))
        if among is not None:
            order = order[np.isin(self._rows[order], among)]
        if radius is not None:
            order = order[distances[order] <= radius]
        order = order[:k]
        return Neighbours(self._rows[order], distances[order])
