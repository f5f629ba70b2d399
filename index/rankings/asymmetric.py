"""Documents by the probability of their bits, given the real values of a query.

The query's real values w, ``float32[n_bits]``, say how certain each bit is: bit b of a relevant
document is 1 with the probability sigmoid(w_b). Then

    log p(bits) = sum_b log sigmoid(w_b s_b) = (sum_b w_b s_b) / 2 + constant,   s_b = 2 bit_b - 1,

since log sigmoid(x) - log sigmoid(-x) = x. So documents are ordered by the dot product of their ±1
bits with w. Documents are stored as for Hamming distances and only the query keeps its real values,
which makes this an asymmetric distance (Jégou, Douze & Schmid, "Product quantization for nearest
neighbor search", 2011; for binary codes Gordo, Perronnin, Gong & Lazebnik, "Asymmetric distances
for binary embeddings", 2014).

The values are first rounded to integers, the largest to 20 bits. All sums are then integers, so the
order is the same for every engine, batch and number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from encoder.features import Floats
from index.engines.compiled import kernel
from index.engines.portable.weighted import weighted_distances
from index.engines.protocol import MAX_WEIGHT, After, Rows, Weights
from index.engines.segments import Generation
from index.rankings.hamming import AGREEMENTS
from index.rankings.protocol import ASYMMETRIC, RankedRows, Scores
from index.records import EncodedQueries


class AsymmetricRanking:
    """A :class:`~index.rankings.protocol.Ranking` by the dot product with integer weights.

    A query that is only a code has the weights ±1, so it ranks documents by Hamming distance.
    """

    name = ASYMMETRIC

    def __init__(self, generation: Generation) -> None:
        """Rank the documents of `generation`."""
        self._generation = generation

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        weights, totals = whole_weights(queries.weights)
        nearest = self._generation.search_weighted(weights, k, allowed)
        # A bit that differs counts -|w|, where an equal one counts |w|.
        return [
            RankedRows(rows, total - 2 * distances)
            for total, (rows, distances) in zip(totals.tolist(), nearest, strict=True)
        ]

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """See :meth:`index.rankings.protocol.RankingFromAnywhere.rank_after`."""
        weights, (total,) = whole_weights(query.weights)
        total = int(total)
        after = After.at((total - score) / 2, row)
        (nearest,) = self._generation.search_weighted(weights, k, allowed, after)
        return RankedRows(nearest.rows, total - 2 * nearest.distances)

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`."""
        return [
            total - 2 * weighted_distances(self._generation.codes_of(some), one).astype(np.int64)
            for one, total, some in zip(*whole_weights(queries.weights), rows, strict=True)
        ]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return ``(1 + score / sum_b |w_b|) / 2``: the share of the weight in bits that agree."""
        totals = np.maximum(whole_weights(queries.weights)[1], 1)
        return [
            ((1 + some.scores / total) / 2).tolist()
            for total, some in zip(totals, found, strict=True)
        ]

    def anchors(
        self,
        queries: EncodedQueries,  # noqa: ARG002
        found: Sequence[RankedRows],
    ) -> list[tuple[float, float]]:
        """Return :data:`index.rankings.hamming.AGREEMENTS`."""
        return [AGREEMENTS] * len(found)


def whole_weights(weights: Floats) -> tuple[Weights, npt.NDArray[np.int64]]:
    """Round `weights`, ``float32[Q, n_bits]`` and finite, to integers within ±:data:`MAX_WEIGHT`.

    Each query's weights are scaled by the largest power of two that keeps them within the bounds,
    so scaling itself loses nothing.

    Returns:
        The weights, and the sum of their absolute values for each query.
    """
    max_bits = int(MAX_WEIGHT).bit_length() - 1
    if kernel.native is not None:
        return kernel.round_weights(weights, max_bits)
    largest = np.abs(weights).max(axis=1, initial=0).astype(np.float64)
    _, exponents = np.frexp(largest)
    scaled = np.ldexp(weights.astype(np.float64), (max_bits - exponents)[:, None])
    whole: Weights = np.rint(scaled).astype(np.int64)
    return whole, np.abs(whole).sum(axis=1)
