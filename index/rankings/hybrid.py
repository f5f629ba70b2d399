"""Documents by their codes and their words together, with standardized scores.

The score of a document d is

    score(d) = (words(d) - mean) / deviation + weight · (codes(d) - mean') / deviation',

with the means and deviations of the scores of all documents for this query, which bring the two
parts to one scale. words(d) is BM25 with the opening of a text counted twice, with more weight for
bursty terms, and with the scores of the title and of the summary
(:mod:`index.lexical.bm25_formula`); it is 0 without a term of the query. If all documents have the
same score by words or by codes, that part is 0. A filter changes no score.

codes(d) is the asymmetric score of a query that has learned from its own best documents. Let w be
the real values of the query, and c the weights of the linear discriminant that tells the best
documents of the hybrid ranking with w itself from all documents
(:meth:`index.rankings.moments.CodeMoments.discriminant`). Then the weights of the bits are

    w / |w| + FEEDBACK · c / |c|,

so documents that resemble those found by both words and codes rank higher. This is relevance
feedback without a judge. Source: Rocchio, "Relevance feedback in information retrieval" (1971),
who uses the difference of the means instead of the discriminant; Manning, Raghavan and Schütze,
"Introduction to Information Retrieval" (2008), equation 9.3 and section 9.1.6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foundation.errors import InputError
from index.engines.protocol import Rows
from index.engines.segments import Generation
from index.lexical.index import LexicalIndex, WeighedQuery
from index.lexical.matches import Matches
from index.rankings.asymmetric import AsymmetricRanking, whole_weights
from index.rankings.bm25 import words_of
from index.rankings.moments import CodeMoments, StandardScore, sums_of_scores
from index.rankings.protocol import HYBRID, N_FEEDBACK, RankedRows, Scores
from index.records import EncodedQueries, QueryWords

DEFAULT_WEIGHT = 0.4
FEEDBACK = 2.0


class HybridRanking:
    """A :class:`~index.rankings.protocol.Ranking` of all documents."""

    name = HYBRID

    def __init__(
        self,
        generation: Generation,
        moments: CodeMoments,
        lexical: LexicalIndex,
        weight: float = DEFAULT_WEIGHT,
        *,
        n_feedback: int = N_FEEDBACK,
        statistics: Sequence[float] | None = None,
    ) -> None:
        """Rank the documents of a generation, given the moments of its codes and its texts.

        `weight` is that of the scores by codes, and a query learns from `n_feedback` documents,
        both within the bounds of :mod:`index.rankings.protocol`. The `statistics` of an earlier
        ranking's result reproduce the scores of its query.
        """
        self._codes = AsymmetricRanking(generation)
        self._generation = generation
        self._n_documents = len(generation)
        self._moments = moments
        self._lexical = lexical
        self._weight = weight
        self._n_feedback = n_feedback
        self._statistics = statistics

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`index.rankings.protocol.Ranking.rank`."""
        return [scorer.best(k, allowed) for scorer in self._scorers(queries)]

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """See :meth:`index.rankings.protocol.RowScorer.score`."""
        pairs = zip(self._scorers(queries), rows, strict=True)
        return [scorer.scores(some) for scorer, some in pairs]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:  # noqa: ARG002
        """Return the scores unchanged."""
        return [some.scores.tolist() for some in found]

    def anchors(
        self, queries: EncodedQueries, found: Sequence[RankedRows]
    ) -> list[tuple[float, float]]:
        """Return 0, the mean of all documents, and the score of the query's own text and bits."""
        anchors = []
        for words, some in zip(words_of(queries, self.name), found, strict=True):
            end = 4 + queries.weights.shape[1]
            by_words = StandardScore(*some.statistics[:2])
            by_codes = StandardScore(*some.statistics[2:4])
            weights = np.array([some.statistics[4:end]], dtype=np.float32)
            weighed = self._lexical.weigh(*words, some.statistics[end:], hybrid=True)
            own = by_words.standardize(np.array([self._lexical.own_score(weighed)]))
            equal_bits = by_codes.standardize(whole_weights(weights)[1])
            anchors.append((0.0, float(own[0] + self._weight * equal_bits[0])))
        return anchors

    def _scorers(self, queries: EncodedQueries) -> Iterator[_Scorer]:
        """Yield the scorer of each query, one at a time, because each is large."""
        for place, words in enumerate(words_of(queries, self.name)):
            query = queries[place : place + 1]
            if self._statistics is not None:
                yield self._scorer_from_statistics(query, words, self._statistics)
            else:
                if queries.is_unrecognized(place):
                    query = replace(query, weights=np.zeros_like(query.weights))
                scorer = self._scorer(query, words)
                if self._n_feedback:
                    scorer = self._with_feedback(scorer, scorer.best(self._n_feedback).rows)
                yield scorer

    def _scorer(self, query: EncodedQueries, words: QueryWords) -> _Scorer:
        weighed = self._lexical.weigh(*words, hybrid=True)
        matches = self._lexical.matches(weighed)
        by_words = self._standardization(matches)
        by_codes = self._moments.standard_score(whole_weights(query.weights)[0][0])
        return _Scorer(weighed, matches, self._codes, query, by_words, by_codes, self._weight)

    def _with_feedback(self, scorer: _Scorer, rows: Rows) -> _Scorer:
        """Return `scorer` with a query that has learned from the documents of `rows`."""
        learned = self._moments.discriminant(self._generation.codes_of(rows))
        weights = _of_length_1(scorer.query.weights[0].astype(np.float64))
        weights += FEEDBACK * _of_length_1(learned)
        query = replace(scorer.query, weights=weights[None].astype(np.float32))
        by_codes = self._moments.standard_score(whole_weights(query.weights)[0][0])
        return replace(scorer, query=query, by_codes=by_codes)

    def _scorer_from_statistics(
        self, query: EncodedQueries, words: QueryWords, statistics: Sequence[float]
    ) -> _Scorer:
        """Return the scorer whose :attr:`_Scorer.statistics` are given."""
        end = 4 + query.weights.shape[1]
        try:
            weighed = self._lexical.weigh(*words, statistics[end:], hybrid=True)
        except ValueError:
            # Cursors of earlier versions, without feedback, titles or summaries, hold fewer.
            n_expected = end + len(self._lexical.weigh(*words, hybrid=True).statistics)
            message = f"has {len(statistics)} statistics of its search, not {n_expected}"
            raise InputError("cursor", f"{message}; request the first page again") from None
        query = replace(query, weights=np.array([statistics[4:end]], dtype=np.float32))
        matches = self._lexical.matches(weighed)
        by_words, by_codes = StandardScore(*statistics[:2]), StandardScore(*statistics[2:4])
        return _Scorer(weighed, matches, self._codes, query, by_words, by_codes, self._weight)

    def _standardization(self, matches: Matches) -> StandardScore:
        sums = [sums_of_scores(scores) for _, scores in matches.parts]
        total, squares = (sum(column) for column in zip(*sums, strict=True))
        return StandardScore.of_sums(self._n_documents, total, squares)


def _of_length_1(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scale `values` to length 1, unless all are 0; the sum is exact, so it is always the same."""
    length = math.sqrt(math.fsum(values * values))
    return values / length if length else values


@dataclass(frozen=True, slots=True, eq=False)
class _Scorer:
    """One query: the scores by words of all documents, and the scores of any by both."""

    weighed: WeighedQuery
    matches: Matches
    codes: AsymmetricRanking
    query: EncodedQueries
    by_words: StandardScore
    by_codes: StandardScore
    weight: float

    @property
    def statistics(self) -> tuple[float, ...]:
        """The statistics with which :class:`HybridRanking` reproduces the scores."""
        words, codes = self.by_words, self.by_codes
        standards = (words.mean, words.deviation, codes.mean, codes.deviation)
        return (*standards, *self.query.weights[0].tolist(), *self.weighed.statistics)

    def best(self, k: int, allowed: Rows | None = None) -> RankedRows:
        """Return the `k` best documents.

        A document without a term of the query can be among them only if it is among the `k` best by
        codes alone, because no document scores less by words. Of the other documents, only those
        are scored whose score by words would suffice if their codes were as near as any.
        """
        (nearest,) = self.codes.rank(self.query, k, allowed)
        best_by_words = self.matches.best(k, allowed)
        rows = np.union1d(nearest.rows, best_by_words.rows)
        least = self._least_by_words(k, rows, nearest)
        others = self.matches.at_least(least, allowed).rows
        rows = np.concatenate([others, rows[self.matches.scores_of(rows) < least]])
        scores = self.scores(rows)
        if self.query.is_unrecognized(0):
            # The code of such a query says nothing, so only words find documents.
            match = self.matches.scores_of(rows) > 0
            rows, scores = rows[match], scores[match]
        order = np.lexsort((rows, -scores))[:k]
        return RankedRows(rows[order], scores[order], self.statistics)

    def scores(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the scores of `rows`."""
        (by_codes,) = self.codes.score(self.query, [rows])
        by_words = self.by_words.standardize(self.matches.scores_of(rows))
        return np.asarray(by_words + self.weight * self.by_codes.standardize(by_codes))

    def _least_by_words(self, k: int, rows: Rows, nearest: RankedRows) -> int:
        """Return the least score by words, above 0, with which others could be among the best."""
        if len(rows) < k or not self.by_words.deviation:
            return 1
        least = float(np.partition(self.scores(rows), len(rows) - k)[len(rows) - k])
        highest = self.weight * float(self.by_codes.standardize(nearest.scores[:1])[0])
        reached = self.by_words.mean + self.by_words.deviation * (least - highest)
        # Two units cover the rounding.
        return max(1, math.floor(reached) - 2)
