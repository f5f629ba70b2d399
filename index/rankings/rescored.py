"""The best documents of one ranking, in the order of another.

A ranking finds more candidates than are wanted, and each is scored by something else. A document
that is not among the candidates is not found: the order is exact among them, and no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from index.engines.protocol import Rows
from index.rankings.protocol import RankedRows, Ranking, RowScorer
from index.records import EncodedQueries


class Scorer(Ranking, RowScorer, Protocol):
    """A ranking that can score documents that another one found."""


class RescoredRanking:
    """A :class:`~index.rankings.protocol.Ranking` of the candidates of another one."""

    def __init__(self, candidates: Ranking, scorer: Scorer, n_candidates: int) -> None:
        """Rank the `n_candidates` best of `candidates` by the scores that `scorer` gives them."""
        self._candidates = candidates
        self._scorer = scorer
        self._n_candidates = n_candidates
        self.name = candidates.name

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        found = self._candidates.rank(queries, self._n_candidates, allowed)
        scored = self._scorer.score(queries, [one.rows for one in found])
        results = []
        for (rows, _, _), scores in zip(found, scored, strict=True):
            order = np.lexsort((rows, -scores))[:k]
            results.append(RankedRows(rows[order], scores[order]))
        return results

    def shown(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return the scores as the other ranking shows them."""
        return self._scorer.shown(queries, found)
