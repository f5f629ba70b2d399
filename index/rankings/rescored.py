"""The best documents of one ranking, in the order of another.

One ranking finds more candidates than hits, and another scores them. A document that is not among
the candidates is not found; among them the order is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from index.engines.protocol import Rows
from index.rankings.protocol import RankedRows, Ranking, RowScorer
from index.records import EncodedQueries


class Scorer(RowScorer, Protocol):
    """What scores documents that a ranking found."""

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return the scores that hits report, for the result of each query; higher is better."""

    def anchors(
        self, queries: EncodedQueries, found: Sequence[RankedRows]
    ) -> list[tuple[float, float]]:
        """See :meth:`index.rankings.protocol.Ranking.anchors`."""


class RescoredRanking:
    """A :class:`~index.rankings.protocol.Ranking` of the candidates of another one."""

    def __init__(self, candidates: Ranking, scorer: Scorer, n_candidates: int) -> None:
        """Rank the `n_candidates` best of `candidates` by the scores of `scorer`."""
        self._candidates = candidates
        self._scorer = scorer
        self._n_candidates = n_candidates
        self.name = candidates.name

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        candidates = self._candidates.rank(queries, self._n_candidates, allowed)
        all_scores = self._scorer.score(queries, [one.rows for one in candidates])
        results = []
        for (rows, _, _), scores in zip(candidates, all_scores, strict=True):
            order = np.lexsort((rows, -scores))[:k]
            results.append(RankedRows(rows[order], scores[order]))
        return results

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return the scores that the other ranking reports."""
        return self._scorer.hit_scores(queries, found)

    def anchors(
        self, queries: EncodedQueries, found: Sequence[RankedRows]
    ) -> list[tuple[float, float]]:
        """Return the anchors of the other ranking."""
        return self._scorer.anchors(queries, found)
