"""Confidence: the probability that a hit answers its query.

The score of a ranking orders the documents for one query; scores of two queries cannot be compared.
Confidence can. Its logit is a line in the score,

    logit P = w_0 + Σ_j w_j · (p_j + q_j · score),

whose features say how much a score is, and how much of the query is known (:class:`Evidence`). No
q_j · w_j is negative, so confidence never contradicts the order of a ranking. What the features are
is said beside each ranking (:mod:`hummingbit.index.rankings`); the weights w, one set for each kind
of features (:data:`WEIGHTS`), are those of a logistic regression. They were fitted to the hits of
queries that people judged, and of queries that nothing answers, over seven corpora with the
encoders of ``hummingbit quickstart`` (the weights of codes) or the one that ships (the others), by
``hummingbit reproduce confidence --fit``, with ``--shipped`` for the latter. Without ``--fit``, the
same command measures confidence on each corpus with weights fitted to the others.

Source: Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
Likelihood Methods" (1999), who fits a line in one score.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from operator import mul
from typing import NamedTuple

OF_CODES, OF_WORDS, OF_BOTH = "codes", "words", "both"
"""The kinds of features."""

WEIGHTS: Mapping[str, tuple[float, ...]] = {
    OF_CODES: (-2.252, 1.177, 2.972, -0.865),
    OF_WORDS: (-4.104, 1.472),
    OF_BOTH: (-4.897, 1.487, 0.567),
}
"""The weights of each kind of features, w_0 first."""


class Evidence(NamedTuple):
    """What is known of a query, and of its hits by their scores.

    Feature j of a hit with a score is ``at_zero[j] + per_score[j] * score``.
    """

    kind: str
    """A key of :data:`WEIGHTS`."""
    at_zero: tuple[float, ...]
    per_score: tuple[float, ...]

    def line(self) -> Line:
        """Return the logit of the confidence by the score of a hit."""
        first, *weights = WEIGHTS[self.kind]
        intercept = first + sum(map(mul, weights, self.at_zero))
        return Line(intercept, sum(map(mul, weights, self.per_score)))


class Line(NamedTuple):
    """The logit of the confidence by the score that a hit reports."""

    intercept: float
    slope: float

    def confidence(self, score: float) -> float:
        """Return the probability that a hit with this score answers the query."""
        logit = self.intercept + self.slope * score
        if logit < 0:
            odds = math.exp(max(logit, -700.0))
            return odds / (1 + odds)
        return 1 / (1 + math.exp(-min(logit, 700.0)))

    def n_reaching(self, n_scores: int, score_at: Callable[[int], float], least: float) -> int:
        """Return how many of `n_scores` descending scores have at least this confidence."""
        return bisect_left(
            range(n_scores), True, key=lambda at: self.confidence(score_at(at)) < least
        )


def evidence_of_codes(
    agreement: float, disagreement: float, n_documents: int, known: float
) -> Evidence:
    """Return the evidence of hits whose scores are the share of a query's bits that agree.

    The features are the number of deviations by which the score exceeds that of random bits, the
    share of the query that is known, and the logarithm of the number of documents: the best of many
    random codes agrees more with a query than the best of few. `agreement` and `disagreement` are
    the deviations of a document all of whose bits agree, and of one none of whose bits do.
    """
    return Evidence(
        OF_CODES,
        (disagreement, known, math.log(max(n_documents, 1))),
        (agreement - disagreement, 0.0, 0.0),
    )


class WordEvidence(NamedTuple):
    """What the words of a query say of a score by words."""

    known_share: float
    """The share of the words' weight that is of words that documents have."""
    per_score: float
    """What a score is multiplied by.

    With the weight W = Σ idf of the words, of which a share κ is known, a score that is x times
    that of a text of the query's known words alone becomes κ x √W: the same x says more of a query
    with many rare words than of one with a common word.
    """

    @classmethod
    def of(cls, terms: Iterable[tuple[float, int]], own_score: float, most: float) -> WordEvidence:
        """Return the evidence of terms, given with their idf and how often they are repeated.

        `own_score` is the score of a text of the known terms. An idf of 0 is that of a term that
        no document has; `most` is its weight.
        """
        known = unknown = 0.0
        for idf, repeats in terms:
            known += idf * repeats
            unknown += 0 if idf else most * repeats
        weight = known + unknown
        if not weight:
            return cls(0.0, 0.0)
        share = known / weight
        return cls(share, share * math.sqrt(weight) / own_score if own_score else 0.0)
