"""Documents by the Hamming distance between their codes and the query's, nearest first."""

from __future__ import annotations

from collections.abc import Sequence

from encoder.codes import hamming_distance
from index.engines.protocol import After, Rows
from index.engines.segments import Generation
from index.rankings.protocol import HAMMING, RankedRows, Scores
from index.records import EncodedQueries

AGREEMENTS = (0.5, 1.0)
"""The share of bits that agree by chance, and that of equal codes."""


class HammingRanking:
    """A :class:`~index.rankings.protocol.Ranking` whose score is minus the distance in bits."""

    name = HAMMING

    def __init__(self, generation: Generation, radius: int | None = None) -> None:
        """Rank the documents of `generation`, without those farther than `radius`."""
        self._generation = generation
        self._radius = radius

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        generation = self._generation
        # Without deltas, the base holds all rows.
        index = generation if generation.deltas else generation.base
        nearest = index.search(queries.codes, k, self._radius, allowed)
        return [RankedRows(rows, -distances) for rows, distances in nearest]

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """See :meth:`index.rankings.protocol.RankingFromAnywhere.rank_after`."""
        after = After.at(-score, row)
        nearest = self._generation.search(query.codes, k, self._radius, allowed, after)
        return RankedRows(nearest[0].rows, -nearest[0].distances)

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`."""
        return [
            -hamming_distance(self._generation.codes_of(some), code)
            for code, some in zip(queries.codes, rows, strict=True)
        ]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return 1 - distance / n_bits: the share of bits that agree."""
        return bit_agreement(queries, found)

    def anchors(
        self,
        queries: EncodedQueries,  # noqa: ARG002
        found: Sequence[RankedRows],
    ) -> list[tuple[float, float]]:
        """Return :data:`AGREEMENTS`."""
        return [AGREEMENTS] * len(found)


def bit_agreement(queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
    """Return 1 - distance / n_bits for every row; the scores are minus the distances."""
    n_bits = queries.codes.shape[1] * 8
    return [[1 + score / n_bits for score in some.scores.tolist()] for some in found]
