"""Documents by their places in two rankings: by their codes and by their words.

The score of a document d is

    score(d) = 1 / (c + place of d by codes) + 1 / (c + place of d by words),

with places from 1; without a term of the query the second part is 0. Both places are among all
documents, whatever the filter. Source: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion
Outperforms Condorcet and Individual Rank Learning Methods" (2009), who use c = 60.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from index.engines.protocol import Rows
from index.engines.segments import Generation
from index.lexical.index import LexicalIndex
from index.rankings.asymmetric import AsymmetricRanking
from index.rankings.bm25 import words_of
from index.rankings.protocol import HYBRID, RankedRows, Scores
from index.records import EncodedQueries


class ReciprocalRanking:
    """A :class:`~index.rankings.protocol.Ranking` of all documents; it sorts all of them twice."""

    name = HYBRID

    def __init__(self, generation: Generation, lexical: LexicalIndex, constant: int) -> None:
        """Rank the documents of a generation and their texts; `constant` is c."""
        self._rows = generation.codes()[1]
        self._codes = AsymmetricRanking(generation)
        self._lexical = lexical
        self._constant = constant

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        is_allowed = (
            slice(None) if allowed is None else np.isin(self._rows, allowed, assume_unique=True)
        )
        rows = self._rows[is_allowed]
        results = []
        for scores in self._scores(queries):
            order = np.lexsort((rows, -scores[is_allowed]))[:k]
            results.append(RankedRows(rows[order], scores[is_allowed][order]))
        return results

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`."""
        pairs = zip(self._scores(queries), rows, strict=True)
        return [scores[np.searchsorted(self._rows, some)] for scores, some in pairs]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:  # noqa: ARG002
        """Return the scores unchanged."""
        return [some.scores.tolist() for some in found]

    def anchors(
        self,
        queries: EncodedQueries,  # noqa: ARG002
        found: Sequence[RankedRows],
    ) -> list[tuple[float, float]]:
        """Return the limit of the last places, and the score of the first place in both."""
        return [(0.0, 2 / (self._constant + 1))] * len(found)

    def _scores(self, queries: EncodedQueries) -> list[npt.NDArray[np.float64]]:
        totals = []
        for place, words in enumerate(words_of(queries, self.name)):
            (by_codes,) = self._codes.score(queries[place : place + 1], [self._rows])
            by_words = self._lexical.matches(self._lexical.weigh(*words)).scores_of(self._rows)
            second = np.where(by_words > 0, 1 / (self._constant + _places(by_words)), 0.0)
            totals.append(1 / (self._constant + _places(by_codes)) + second)
        return totals


def _places(scores: Scores) -> npt.NDArray[np.int64]:
    """Return the place of each score, from 1, by (score descending, row ascending)."""
    places = np.empty(len(scores), dtype=np.int64)
    places[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return places
