"""Documents by the probability of their bits, given the real values of a query.

The query's real values w, ``float32[n_bits]``, say how sure each bit is: bit b of a document that
answers the query is 1 with the probability sigmoid(w_b). Then

    log p(bits) = sum_b log sigmoid(w_b s_b) = (sum_b w_b s_b) / 2 + constant,   s_b = 2 bit_b - 1,

since log sigmoid(x) - log sigmoid(-x) = x. So documents come in the order of the dot product of
their ±1 bits with w. The documents cost no more to store than for Hamming distances; only the query
keeps its real values: an asymmetric distance (Jégou, Douze & Schmid, "Product quantization for
nearest neighbor search", 2011; for binary codes Gordo, Perronnin, Gong & Lazebnik, "Asymmetric
distances for binary embeddings", 2014).

The values are rounded to whole numbers first, the largest to 20 bits. All sums are whole numbers
then, so that the order is the same for every engine, batch and number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from encoder.features import Floats
from index.engines.portable.weighted import weighted_distances
from index.engines.protocol import MAX_WEIGHT, Rows, Weights
from index.engines.segments import Generation
from index.rankings.protocol import ASYMMETRIC, RankedRows, Scores
from index.records import EncodedQueries


class AsymmetricRanking:
    """A :class:`~index.rankings.protocol.Ranking`: the score is the dot product of whole numbers.

    A query of which only the code is known has weights of ±1 for its bits, so that its documents
    come by Hamming distance.
    """

    name = ASYMMETRIC

    def __init__(self, generation: Generation) -> None:
        """Rank the documents of `generation`."""
        self._generation = generation

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        weights = whole_weights(queries.weights)
        totals = np.abs(weights).sum(axis=1)
        found = self._generation.search_weighted(weights, k, allowed)
        # Bits that differ are counted on the other side of the sum.
        return [
            RankedRows(rows, total - 2 * distances)
            for total, (rows, distances) in zip(totals, found, strict=True)
        ]

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`."""
        return [
            np.abs(one).sum()
            - 2 * weighted_distances(self._generation.codes_of(some), one).astype(np.int64)
            for one, some in zip(whole_weights(queries.weights), rows, strict=True)
        ]

    def shown(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return ``(1 + score / sum_b |w_b|) / 2``: the share of the weight in bits that agree."""
        totals = np.maximum(np.abs(whole_weights(queries.weights)).sum(axis=1), 1)
        return [
            ((1 + some.scores / total) / 2).tolist()
            for total, some in zip(totals, found, strict=True)
        ]


def whole_weights(weights: Floats) -> Weights:
    """Round `weights`, ``float32[Q, n_bits]``, to whole numbers within ±:data:`MAX_WEIGHT`.

    Those of a query are scaled by a power of two, the largest that keeps them within the bounds, so
    that scaling itself loses nothing.
    """
    largest = np.abs(weights).max(axis=1, initial=0).astype(np.float64)
    _, exponents = np.frexp(largest)
    steps = int(MAX_WEIGHT).bit_length() - 1 - exponents
    whole: Weights = np.rint(np.ldexp(weights.astype(np.float64), steps[:, None])).astype(np.int64)
    return whole
