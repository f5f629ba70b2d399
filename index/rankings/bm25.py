"""Documents by the words that they share with a query: BM25 over the collection's texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from foundation.errors import InputError
from index.engines.protocol import Rows
from index.lexical.bm25_formula import UNIT
from index.lexical.index import LexicalIndex, WeighedQuery
from index.lexical.matches import Matches
from index.rankings.protocol import BM25, RankedRows, Scores
from index.records import EncodedQueries, QueryWords


class Bm25Ranking:
    """A :class:`~index.rankings.protocol.Ranking` of the documents that have a term of the query.

    Scores are those of :mod:`index.lexical.bm25_formula`, in its units.
    """

    name = BM25

    def __init__(self, lexical: LexicalIndex, statistics: Sequence[float] | None = None) -> None:
        """Rank the documents of `lexical`.

        The `statistics` of an earlier ranking's result reproduce the scores of its query.
        """
        self._lexical = lexical
        self._statistics = statistics

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        return [
            RankedRows(*matches.best(k, allowed), weighed.statistics)
            for weighed, matches in self._matches(queries)
        ]

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """See :meth:`index.rankings.protocol.RankingFromAnywhere.rank_after`."""
        ((weighed, matches),) = self._matches(query)
        return RankedRows(*matches.after(score, row).best(k, allowed), weighed.statistics)

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.Ranking.score`."""
        pairs = zip(self._matches(queries), rows, strict=True)
        return [matches.scores_of(some) for (_, matches), some in pairs]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:  # noqa: ARG002
        """Return the scores of the formula."""
        return [(np.asarray(some.scores) / UNIT).tolist() for some in found]

    def anchors(
        self,
        queries: EncodedQueries,
        found: Sequence[RankedRows],  # noqa: ARG002
    ) -> list[tuple[float, float]]:
        """Return 0, which most documents have, and the score of the query's own text."""
        return [
            (0.0, self._lexical.own_score(self._lexical.weigh(*words, self._statistics)) / UNIT)
            for words in words_of(queries, self.name)
        ]

    def _matches(self, queries: EncodedQueries) -> Iterator[tuple[WeighedQuery, Matches]]:
        for words in words_of(queries, self.name):
            weighed = self._lexical.weigh(*words, self._statistics)
            yield weighed, self._lexical.matches(weighed)


def words_of(queries: EncodedQueries, ranking: str) -> list[QueryWords]:
    """Return the words of each query; see :meth:`index.records.EncodedQueries.words_of`.

    Raises:
        InputError: if a query has no text; its `position` says which.
    """
    words = []
    for position in range(len(queries)):
        one = queries.words_of(position)
        if one is None:
            message = f"is {ranking!r}, which needs a text as the query"
            raise InputError("ranking", message, position)
        words.append(one)
    return words
