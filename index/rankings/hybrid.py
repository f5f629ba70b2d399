"""Documents by their codes and their words together, with standardised scores.

Every document d of a collection scores

    score(d) = (bm25(d) - mean) / deviation + weight · (codes(d) - mean') / deviation',

the means and deviations being those of the scores of all documents for this query: the two are
brought to one scale before they are added. codes(d) is the asymmetric score, bm25(d) is 0 without a
term of the query. A filter changes no score. Where all documents score alike, by words or by codes,
that part is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index.engines.protocol import Rows, Weights
from index.engines.segments import Generation
from index.lexical.index import LexicalIndex, Matches, WeighedQuery
from index.rankings.asymmetric import AsymmetricRanking, whole_weights
from index.rankings.bm25 import texts_of
from index.rankings.moments import CodeMoments, StandardScore, sums_of_scores
from index.rankings.protocol import HYBRID, RankedRows, Scores
from index.records import EncodedQueries

DEFAULT_WEIGHT = 0.3


class HybridRanking:
    """A :class:`~index.rankings.protocol.Ranking` of all documents."""

    name = HYBRID

    def __init__(
        self,
        generation: Generation,
        moments: CodeMoments,
        lexical: LexicalIndex,
        weight: float = DEFAULT_WEIGHT,
        statistics: Sequence[float] | None = None,
    ) -> None:
        """Rank the documents of a generation, given the moments of its codes and its texts.

        The codes count with a `weight` within the bounds of :mod:`index.rankings.protocol`. With
        the statistics of what an earlier ranking found, its query scores as it did then.
        """
        self._codes = AsymmetricRanking(generation)
        self._n_documents = len(generation)
        self._moments = moments
        self._lexical = lexical
        self._weight = weight
        self._statistics = statistics

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        by_codes = self._codes.rank(queries, k, allowed)
        found = []
        for place, scorer in enumerate(self._scorers(queries)):
            best = scorer.best(k, by_codes[place], allowed)
            # The codes know nothing of such a query, so words alone find documents.
            found.append(scorer.matching(best) if queries.is_unrecognized(place) else best)
        return found

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`."""
        pairs = zip(self._scorers(queries), rows, strict=True)
        return [scorer.scores(some) for scorer, some in pairs]

    def shown(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:  # noqa: ARG002
        """Return the scores as they are."""
        return [some.scores.tolist() for some in found]

    def _scorers(self, queries: EncodedQueries) -> Iterator[_Scorer]:
        """Yield what scores the documents for each query; one at a time, for it is large."""
        weights = whole_weights(queries.weights)
        for place, text in enumerate(texts_of(queries, self.name)):
            query = queries[place : place + 1]
            yield self._scorer(query, text, weights[place])

    def _scorer(self, query: EncodedQueries, text: str, weights: Weights) -> _Scorer:
        known = self._statistics
        weighed = self._lexical.weigh(text, None if known is None else known[4:])
        matches = self._lexical.matches(weighed)
        if known is None:
            by_words = self._standard_of(matches)
            by_codes = self._moments.standard(weights)
        else:
            by_words, by_codes = StandardScore(*known[:2]), StandardScore(*known[2:4])
        return _Scorer(weighed, matches, self._codes, query, by_words, by_codes, self._weight)

    def _standard_of(self, matches: Matches) -> StandardScore:
        sums = [sums_of_scores(scores) for _, scores in matches.parts]
        total, squares = (sum(column) for column in zip(*sums, strict=True))
        return StandardScore.of_sums(self._n_documents, total, squares)


@dataclass(frozen=True, slots=True, eq=False)
class _Scorer:
    """One query: the scores by words of all documents, and how to score any of them by both."""

    weighed: WeighedQuery
    matches: Matches
    codes: AsymmetricRanking
    query: EncodedQueries
    by_words: StandardScore
    by_codes: StandardScore
    weight: float

    @property
    def statistics(self) -> tuple[float, ...]:
        """Return what :class:`HybridRanking` takes to score documents alike later."""
        words, codes = self.by_words, self.by_codes
        standards = (words.mean, words.deviation, codes.mean, codes.deviation)
        return (*standards, *self.weighed.statistics)

    def best(self, k: int, nearest: RankedRows, allowed: Rows | None) -> RankedRows:
        """Return the `k` best documents; `nearest` are the `k` best by codes alone.

        A document without a term of the query is among the `k` best only if it is among `nearest`:
        those before it there score as high by words. Of the others, those are looked at whose score
        by words would do if their codes were as near as any.
        """
        wordiest = self.matches.best(k, allowed)
        rows = np.union1d(nearest.rows, wordiest.rows)
        least = self._least_by_words(k, rows, nearest)
        others = self.matches.reaching(least, allowed).rows
        rows = np.concatenate([others, rows[self.matches.of(rows) < least]])
        scores = self.scores(rows)
        order = np.lexsort((rows, -scores))[:k]
        return RankedRows(rows[order], scores[order], self.statistics)

    def matching(self, found: RankedRows) -> RankedRows:
        """Leave out documents without a term of the query."""
        match = self.matches.of(found.rows) > 0
        return RankedRows(found.rows[match], found.scores[match], found.statistics)

    def scores(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the scores of `rows`."""
        (by_codes,) = self.codes.score(self.query, [rows])
        by_words = self.by_words.of(self.matches.of(rows))
        return np.asarray(by_words + self.weight * self.by_codes.of(by_codes))

    def _least_by_words(self, k: int, rows: Rows, nearest: RankedRows) -> int:
        """Return a score by words, above 0, that every other document among the best reaches."""
        if len(rows) < k or not self.by_words.deviation:
            return 1
        least = float(np.partition(self.scores(rows), len(rows) - k)[len(rows) - k])
        highest = self.weight * float(self.by_codes.of(nearest.scores[:1])[0])
        reached = self.by_words.mean + self.by_words.deviation * (least - highest)
        # Two units less, which is more than rounding takes.
        return max(1, math.floor(reached) - 2)
