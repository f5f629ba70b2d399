"""What every ranking promises, so that pages, filters and evaluations know rankings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

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
"""The names of all rankings, as requests and options have them."""
BY_CODES = frozenset({HAMMING, ASYMMETRIC})
"""Those that know no more of a text than its encoder does."""
BY_WORDS = frozenset({BM25, HYBRID})
"""Those that need the lexical index: by words alone, or with codes."""

MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0
"""What the codes may weigh in a hybrid ranking; a difference in either score is not lost then."""
N_FEEDBACK, MAX_FEEDBACK = 5, 100
"""How many of its best documents a query of a hybrid ranking learns from: usually, and at most."""


class RankedRows(NamedTuple):
    """What one query found, best first; rows with the same score in ascending order."""

    rows: Rows
    """``int64[m]``"""
    scores: Scores
    """``[m]``, descending. Whole numbers are within ±2**53, so that a float64 holds each."""
    statistics: tuple[float, ...] = ()
    """All that the scores depend on besides the documents themselves: nothing in most rankings.

    A ranking of a later generation that is given it scores documents as this one does, so that the
    pages of a search hold while documents are written.
    """


class Ranking(Protocol):
    """Documents of one generation in the order (score descending, row ascending).

    Nothing else decides the order: not the engine, nor how many queries are asked at once, nor the
    number of threads. The first k of a ranking of k + 1 are therefore the ranking of k. A ranking
    never changes; any number of threads can use it at once.
    """

    @property
    def name(self) -> str:
        """One of :data:`RANKINGS`."""

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """Return the `k` best documents of each query, fewer where there are fewer.

        `k` is at least 1. Where `allowed` is given, ``int64[M]`` in ascending order, only these
        rows are found; rows that are not there are passed over.
        """

    def shown(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        """Return the scores of what each query found as hits show them: higher is better."""


class RowScorer(Protocol):
    """A ranking that can score documents that another one found."""

    def score(self, queries: EncodedQueries, rows: Sequence[Rows]) -> list[Scores]:
        """Return the score of each query's own `rows`, which are there, in the order given."""
