"""The options of a search, and the checks of them."""

from __future__ import annotations

from dataclasses import dataclass

from encoder.encoder import MAX_HYBRID_WEIGHT, MIN_HYBRID_WEIGHT
from foundation.errors import InputError
from index.backend import MAX_K
from index.filters import Filter
from index.rankings.cosine import VECTORS
from index.rankings.protocol import (
    ASYMMETRIC,
    BM25,
    BY_WORDS,
    HAMMING,
    HYBRID,
    MAX_FEEDBACK,
    RANKINGS,
)
from index.records import EncodedQueries, Hybrid, Rescore

MAX_OFFSET = 100_000
MAX_OVERSAMPLE = 100
MAX_RRF = 10_000
LOGITS = "logits"
RESCORERS = (BM25, LOGITS, VECTORS)
"""What can rescore candidates: their words, the real values of the query, or their vectors."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search; :meth:`check` validates them."""

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
    with_relevance: bool = False

    def check(self, n_bits: int, n_queries: int) -> None:
        """Raise InputError unless the options are valid for `n_queries` queries of `n_bits`."""
        if not 1 <= self.k <= MAX_K:
            raise InputError("limit", f"is {self.k}; it must be from 1 to {MAX_K}")
        if self.ranking is not None:
            check_ranking(self.ranking)
        if self.radius is not None:
            self._check_radius(self.radius, n_bits)
        if not 0 <= self.offset <= MAX_OFFSET:
            hint = f"it must be from 0 to {MAX_OFFSET}; to go further, use a cursor"
            raise InputError("offset", f"is {self.offset}; {hint}")
        if self.cursor is not None and n_queries != 1:
            raise InputError("cursor", f"continues a single query; this search has {n_queries}")
        if self.cursor is not None and self.offset:
            raise InputError("offset", f"is {self.offset}; with a cursor it must be left out")
        if self.hybrid is not None:
            check_hybrid(self.hybrid)
        if self.rescore is not None:
            self._check_rescore(self.rescore)

    @property
    def n_candidates(self) -> int:
        """The number of documents to rescore for each query."""
        n_hits = self.offset + self.k
        return n_hits if self.rescore is None else self.rescore.n_candidates(n_hits)

    @property
    def has_cursors(self) -> bool:
        """Whether pages have cursors, which need scores that do not depend on other hits."""
        return self.rescore is None and (self.hybrid is None or self.hybrid.rrf is None)

    def _check_rescore(self, rescore: Rescore) -> None:
        if rescore.by not in RESCORERS:
            known = ", ".join(RESCORERS)
            raise InputError("rescore", f"by is {rescore.by[:40]!r}; it must be one of {known}")
        if not 1 <= rescore.oversample <= MAX_OVERSAMPLE:
            value = f"oversample is {rescore.oversample:g}"
            raise InputError("rescore", f"{value}; it must be from 1 to {MAX_OVERSAMPLE}")
        if self.n_candidates > MAX_OFFSET:
            value = f"oversample times (offset + limit) is {self.n_candidates:,}"
            raise InputError("rescore", f"{value}; it must be at most {MAX_OFFSET:,}")
        if self.rerank:
            raise InputError("rerank", "cannot be combined with rescore; use one of them")

    def _check_radius(self, radius: int, n_bits: int) -> None:
        if not 0 <= radius <= n_bits:
            raise InputError("radius", f"is {radius}; it must be from 0 to {n_bits}")
        if self.ranking not in {None, HAMMING}:
            message = f"is {radius}; the ranking {self.ranking!r} has no radius, only {HAMMING!r}"
            raise InputError("radius", message)


def check_ranking(ranking: str) -> None:
    """Raise InputError unless a ranking has that name."""
    if ranking not in RANKINGS:
        known = ", ".join(RANKINGS)
        raise InputError("ranking", f"is {ranking[:40]!r}; it must be one of {known}")


def check_hybrid(hybrid: Hybrid) -> None:
    """Raise InputError unless the options of a hybrid ranking are valid."""
    if hybrid.codes is not None and hybrid.rrf is not None:
        raise InputError("hybrid", "has both codes and rrf; use one of them")
    if hybrid.feedback is not None and hybrid.rrf is not None:
        raise InputError("hybrid", "has both feedback and rrf; use one of them")
    if hybrid.feedback is not None and not 0 <= hybrid.feedback <= MAX_FEEDBACK:
        reason = f"feedback is {hybrid.feedback}; it must be from 0 to {MAX_FEEDBACK}"
        raise InputError("hybrid", reason)
    if hybrid.codes is not None and not MIN_HYBRID_WEIGHT <= hybrid.codes <= MAX_HYBRID_WEIGHT:
        bounds = f"it must be from {MIN_HYBRID_WEIGHT:g} to {MAX_HYBRID_WEIGHT:g}"
        raise InputError("hybrid", f"codes is {hybrid.codes:g}; {bounds}")
    if hybrid.rrf is not None and not 1 <= hybrid.rrf <= MAX_RRF:
        raise InputError("hybrid", f"rrf is {hybrid.rrf}; it must be from 1 to {MAX_RRF:,}")


def choose_ranking(default: str, queries: EncodedQueries, options: SearchOptions) -> str:
    """Return the ranking of a search that names none.

    It is `default`, or Hamming distance if the search has a radius or reranks, or if only the codes
    of the queries are known. If a query brings a text and a vector, it is hybrid, for all queries
    that have a text.
    """
    if options.radius is not None or options.rerank or not queries.weighted.any():
        return HAMMING
    pairs = zip(queries.texts, queries.vectors, strict=False)
    has_both = any(text is not None and vector is not None for text, vector in pairs)
    return HYBRID if has_both else default


def ranking_without_text(default: str) -> str:
    """Return the ranking of queries without a text where others are ranked by their words."""
    return HAMMING if default == HAMMING else ASYMMETRIC


def rankings_of(queries: EncodedQueries, ranking: str, default: str) -> list[str]:
    """Return the ranking of each query of a search that named none and is ranked by `ranking`.

    A query that is only a code is ranked by distance. `default` is that of the collection.
    """
    other = ranking_without_text(default) if ranking in BY_WORDS else ranking
    weighted: list[bool] = queries.weighted.tolist()
    return [
        HAMMING if not has_weights else ranking if text is not None else other
        for has_weights, text in zip(weighted, queries.texts, strict=True)
    ]


def check_compatible(options: SearchOptions, ranking: str, queries: EncodedQueries) -> None:
    """Raise InputError unless the queries and the options are compatible with the ranking."""
    if options.hybrid is not None and ranking != HYBRID:
        message = f"applies to the ranking {HYBRID!r} only; this search uses {ranking!r}"
        raise InputError("hybrid", message)
    if options.cursor is not None and not options.has_cursors:
        option = "rescore" if options.rescore is not None else "rrf"
        raise InputError("cursor", f"cannot be combined with {option}; use offset")
    explicit = options.ranking in BY_WORDS
    by_words = options.rescore is not None and options.rescore.by == BM25
    for position, text in enumerate(queries.texts):
        if text is None and explicit:
            message = f"is {options.ranking!r}, which needs a text as the query"
            raise InputError("ranking", message, position)
        if text is None and by_words:
            message = f"by is {BM25!r}, which needs a text as the query"
            raise InputError("rescore", message, position)
    if options.rescore is not None and options.rescore.by == VECTORS:
        for position in range(len(queries)):
            if not queries.vectors or queries.vectors[position] is None:
                message = f"by is {VECTORS!r}, which needs a vector as the query"
                raise InputError("rescore", message, position)
    if options.rerank and not queries.weighted.all():
        message = "needs a text or a vector as the query, for the collection's encoder to encode"
        raise InputError("rerank", message, int(queries.weighted.argmin()))
