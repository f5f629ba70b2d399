"""What can be asked of a search besides its queries, and what cannot."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foundation.errors import InputError
from index.backend import MAX_K
from index.filters import Filter
from index.rankings.protocol import (
    BM25,
    BY_WORDS,
    HAMMING,
    HYBRID,
    MAX_FEEDBACK,
    MAX_WEIGHT,
    MIN_WEIGHT,
    RANKINGS,
)
from index.records import EncodedQueries, Hybrid, Rescore

MAX_OFFSET = 100_000
MAX_OVERSAMPLE = 100
MAX_RRF = 10_000
LOGITS = "logits"
RESCORERS = (BM25, LOGITS)
"""What can rescore candidates: their words, or the real values of the query's bits."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What is asked of a search besides its queries; :meth:`check` says what can be."""

    k: int
    radius: int | None = None
    ranking: str | None = None
    filter: Filter | None = None
    offset: int = 0
    cursor: str | None = None
    with_payload: bool = False
    with_text: bool = False
    with_code: bool = False
    with_cursor: bool = True
    rerank: bool = False
    hybrid: Hybrid | None = None
    rescore: Rescore | None = None
    highlight: bool = False

    def check(self, n_bits: int, n_queries: int) -> None:
        """Raise InputError unless a search of `n_queries` queries takes all of this."""
        if not 1 <= self.k <= MAX_K:
            raise InputError("limit", f"is {self.k}; it must be from 1 to {MAX_K}")
        if self.ranking is not None:
            check_ranking(self.ranking)
        if self.radius is not None:
            self._check_radius(self.radius, n_bits)
        if not 0 <= self.offset <= MAX_OFFSET:
            hint = f"it must be from 0 to {MAX_OFFSET}; a cursor goes on from there"
            raise InputError("offset", f"is {self.offset}; {hint}")
        if self.cursor is not None and n_queries != 1:
            raise InputError("cursor", f"continues one query; there are {n_queries}")
        if self.cursor is not None and self.offset:
            raise InputError("offset", f"is {self.offset}; beside a cursor it must be left out")
        if self.hybrid is not None:
            check_hybrid(self.hybrid)
        if self.rescore is not None:
            self._check_rescore(self.rescore)

    @property
    def n_candidates(self) -> int:
        """How many documents are rescored for each query."""
        oversample = 1.0 if self.rescore is None else self.rescore.oversample
        return math.ceil(oversample * (self.offset + self.k))

    @property
    def has_cursors(self) -> bool:
        """Whether pages can be followed by cursors: whether a document's score is its own."""
        return self.rescore is None and (self.hybrid is None or self.hybrid.rrf is None)

    def _check_rescore(self, rescore: Rescore) -> None:
        if rescore.by not in RESCORERS:
            known = ", ".join(RESCORERS)
            raise InputError("rescore", f"by is {rescore.by[:40]!a}; it must be one of {known}")
        if not 1 <= rescore.oversample <= MAX_OVERSAMPLE:
            given = f"oversample is {rescore.oversample:g}"
            raise InputError("rescore", f"{given}; it must be from 1 to {MAX_OVERSAMPLE}")
        if self.n_candidates > MAX_OFFSET:
            most = f"oversample times offset and limit is {self.n_candidates:,}"
            raise InputError("rescore", f"{most}; it must be at most {MAX_OFFSET:,}")
        if self.rerank:
            raise InputError("rerank", "cannot be asked for beside rescore")

    def _check_radius(self, radius: int, n_bits: int) -> None:
        if not 0 <= radius <= n_bits:
            raise InputError("radius", f"is {radius}; it must be from 0 to {n_bits}")
        if self.ranking not in {None, HAMMING}:
            message = f"is {radius}; the ranking {self.ranking!r} takes none, only {HAMMING!r} does"
            raise InputError("radius", message)


def check_ranking(ranking: str) -> None:
    """Raise InputError unless there is a ranking of that name."""
    if ranking not in RANKINGS:
        known = ", ".join(RANKINGS)
        raise InputError("ranking", f"is {ranking[:40]!a}; it must be one of {known}")


def check_hybrid(hybrid: Hybrid) -> None:
    """Raise InputError unless a hybrid ranking can be put together so."""
    if hybrid.codes is not None and hybrid.rrf is not None:
        raise InputError("hybrid", "has codes and rrf; it must have one of them")
    if hybrid.feedback is not None and hybrid.rrf is not None:
        raise InputError("hybrid", "has feedback and rrf, which takes none")
    if hybrid.feedback is not None and not 0 <= hybrid.feedback <= MAX_FEEDBACK:
        reason = f"feedback is {hybrid.feedback}; it must be from 0 to {MAX_FEEDBACK}"
        raise InputError("hybrid", reason)
    if hybrid.codes is not None and not MIN_WEIGHT <= hybrid.codes <= MAX_WEIGHT:
        bounds = f"it must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}"
        raise InputError("hybrid", f"codes is {hybrid.codes:g}; {bounds}")
    if hybrid.rrf is not None and not 1 <= hybrid.rrf <= MAX_RRF:
        raise InputError("hybrid", f"rrf is {hybrid.rrf}; it must be from 1 to {MAX_RRF:,}")


def default_ranking(default: str, queries: EncodedQueries, options: SearchOptions) -> str:
    """Return what orders the hits of a search that names no ranking.

    That is `default`, but Hamming distance if there is a radius or re-ranking, or nothing is known
    of the queries but their codes.
    """
    bits_only = options.radius is not None or options.rerank or not queries.weighted.any()
    return HAMMING if bits_only else default


def check_suits(options: SearchOptions, ranking: str, queries: EncodedQueries) -> None:
    """Raise InputError unless the queries and the options suit the ranking."""
    if options.hybrid is not None and ranking != HYBRID:
        message = f"is for the ranking {HYBRID!r}; this search is ranked by {ranking!r}"
        raise InputError("hybrid", message)
    if options.cursor is not None and not options.has_cursors:
        what = "rescore" if options.rescore is not None else "rrf"
        raise InputError("cursor", f"cannot be followed beside {what}; use offset")
    explicit = options.ranking in BY_WORDS
    by_words = options.rescore is not None and options.rescore.by == BM25
    for position, text in enumerate(queries.texts):
        if text is None and explicit:
            message = f"is {options.ranking!r}, which needs a query that is a text"
            raise InputError("ranking", message, position)
        if text is None and by_words:
            message = f"by is {BM25!r}, which needs a query that is a text"
            raise InputError("rescore", message, position)
    if options.rerank and not queries.weighted.all():
        message = "needs a query that the collection's encoder encodes: a text or a vector"
        raise InputError("rerank", message, int(queries.weighted.argmin()))
