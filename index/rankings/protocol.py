"""The interface of a ranking; pages, filters and evaluations use nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from index.engines.protocol import Rows
from index.records import EncodedQueries

Scores = npt.NDArray[np.int64] | npt.NDArray[np.float64]

HAMMING = "hamming"
ASYMMETRIC = "asymmetric"
BM25 = "bm25"
HYBRID = "hybrid"
RANKINGS = (HAMMING, ASYMMETRIC, BM25, HYBRID)
"""The names of all rankings in requests and options."""
BY_CODES = frozenset({HAMMING, ASYMMETRIC})
"""The rankings that use only what the encoder knows of a text."""
BY_WORDS = frozenset({BM25, HYBRID})
"""The rankings that need the lexical index: by words alone, or by words and codes."""

N_FEEDBACK, MAX_FEEDBACK = 5, 100
"""How many of its best documents a hybrid query learns from: by default, and at most."""


class RankedRows(NamedTuple):
    """The result of one query, best first; rows with the same score in ascending order."""

    rows: Rows
    """``int64[m]``"""
    scores: Scores
    """``[m]``, descending. Integers are within ±2**53, so that a float64 holds each."""
    statistics: tuple[float, ...] = ()
    """Whatever the scores depend on besides the documents; empty in most rankings.

    A ranking of a later generation that receives it gives documents the same scores, so the pages
    of a search stay consistent while documents are written.
    """


class Ranking(Protocol):
    """Documents of one generation in the order (score descending, row ascending).

    Nothing else decides the order: not the engine, the size of the batch, or the number of threads.
    So the first k of a ranking of k + 1 are the ranking of k. A ranking never changes, and any
    number of threads can use it at once.
    """

    @property
    def name(self) -> str:
        """One of :data:`RANKINGS`."""

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """Return the `k` best documents of each query, or all if there are fewer.

        `k` is at least 1. If `allowed` is given, ``int64[M]`` in ascending order, only these rows
        are found; unknown rows in it are ignored.
        """

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return the scores that hits report, for the result of each query; higher is better."""

    def anchors(
        self, queries: EncodedQueries, found: Sequence[RankedRows]
    ) -> list[tuple[float, float]]:
        """Return two scores that hits could report, for the result of each query.

        The first is that of a document that agrees with the query by chance. The second is that of
        one that consists of the query, or about that.
        """


@runtime_checkable
class RankingFromAnywhere(Protocol):
    """A ranking in which a page costs the same however many hits precede it."""

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """Return the `k` best documents of one query that come after a score and a row.

        `k` and `allowed` are those of :meth:`Ranking.rank`. The row need not exist.
        """


class RowScorer(Protocol):
    """Something that can score documents that a ranking found."""

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """Return the scores of each query's own `rows`, all of which must exist, in that order."""
