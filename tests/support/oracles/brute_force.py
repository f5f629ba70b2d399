"""The oracle: every distance, a full sort. It stays this simple; engines are tested against it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, hamming_distance, unpack_codes
from hummingbit.index.engines.protocol import (
    After,
    Neighbours,
    Rows,
    Weights,
    check_codes,
    check_search,
    check_weights,
)


class BruteForceIndex:
    """A :class:`CodeIndex` that measures every distance, for tests."""

    def __init__(self, codes: Codes, rows: Rows) -> None:
        """Index `codes`, ``uint8[N, C]``, under `rows`, ``int64[N]`` in ascending order."""
        check_codes(codes, rows)
        self.n_bits: int = codes.shape[1] * 8
        self._codes = codes
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def search(
        self,
        queries: Codes,
        k: int,
        radius: int | None = None,
        allowed_rows: Rows | None = None,
        after: After | None = None,
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search`."""
        check_search(self, queries, k, radius, allowed_rows)
        nearest = []
        for query in queries:
            distances = hamming_distance(self._codes, query)
            order = self._order(distances, allowed_rows, after)
            if radius is not None:
                order = order[distances[order] <= radius]
            nearest.append(Neighbours(self._rows[order[:k]], distances[order[:k]]))
        return nearest

    def search_weighted(
        self, weights: Weights, k: int, allowed_rows: Rows | None = None, after: After | None = None
    ) -> list[Neighbours]:
        """See :meth:`hummingbit.index.engines.protocol.CodeIndex.search_weighted`."""
        check_weights(self, weights, k, allowed_rows)
        bits = unpack_codes(self._codes)
        nearest = []
        for query_weights in weights:
            distances = (np.abs(query_weights) * (bits != (query_weights > 0))).sum(axis=1)
            order = self._order(distances, allowed_rows, after)
            nearest.append(Neighbours(self._rows[order[:k]], distances[order[:k]]))
        return nearest

    def _order(
        self, distances: npt.NDArray[np.int64], allowed_rows: Rows | None, after: After | None
    ) -> npt.NDArray[np.int64]:
        """Return the positions of the allowed rows in the order (distance, row)."""
        order = np.lexsort((self._rows, distances))
        if allowed_rows is not None:
            order = order[np.isin(self._rows[order], allowed_rows)]
        if after is not None:
            pairs = zip(distances[order].tolist(), self._rows[order].tolist(), strict=True)
            order = order[[pair > tuple(after) for pair in pairs]]
        return np.asarray(order, dtype=np.int64)
