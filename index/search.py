"""A search: a page of what a ranking finds, its hits, and the cursor of the next page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, hamming_distance, unpack_codes
from index.backend import MAX_K
from index.cursors import Position, read_cursor, write_cursor
from index.engines.protocol import Rows
from index.errors import InputError
from index.filters import Filter, filter_to_json
from index.lexical.analyzers import ANALYZERS, DEFAULT_ANALYZER
from index.lexical.highlights import highlight
from index.lexical.index import LexicalIndex
from index.rankings.protocol import (
    BM25,
    BY_CODES,
    BY_WORDS,
    HAMMING,
    HYBRID,
    MAX_WEIGHT,
    MIN_WEIGHT,
    RANKINGS,
    Ranked,
    Ranking,
)
from index.records import (
    EncodedQueries,
    Hit,
    Hybrid,
    Rescore,
    SearchResult,
    StoredRow,
)
from index.slices import checkpoint

MAX_OFFSET = 100_000
MAX_OVERSAMPLE = 100
MAX_RRF = 10_000
LOGITS = "logits"
RESCORERS = (BM25, LOGITS)
"""What can rescore candidates: their words, or the real values of the query's bits."""
# Bounds the memory of a batch whose every query asks for much, and the time of a slice of it.
HITS_AT_ONCE = 400_000
QUERIES_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Wanted:
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
            raise InputError("k", f"is {self.k}; it must be from 1 to {MAX_K}")
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
    if hybrid.codes is not None and not MIN_WEIGHT <= hybrid.codes <= MAX_WEIGHT:
        bounds = f"it must be from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}"
        raise InputError("hybrid", f"codes is {hybrid.codes:g}; {bounds}")
    if hybrid.rrf is not None and not 1 <= hybrid.rrf <= MAX_RRF:
        raise InputError("hybrid", f"rrf is {hybrid.rrf}; it must be from 1 to {MAX_RRF:,}")


class Page(NamedTuple):
    """The hits of one query, whether others come after them, and whether any has their score."""

    found: Ranked
    more: bool
    tie_cut: bool
    passed: int
    """How many hits came before the next page."""


class Search:
    """One search of a collection: encoded queries, and what is wanted of them."""

    def __init__(
        self,
        name: str,
        queries: EncodedQueries,
        wanted: Wanted,
        incarnation: str,
        default: str = HAMMING,
    ) -> None:
        """Begin a search of the collection `name`; a cursor belongs to one `incarnation` of it.

        Where no ranking is asked for, it is `default`, but by Hamming distance if there is a radius
        or re-ranking, or nothing is known of the queries but their codes.

        Raises:
            InputError: if the cursor is of another search, or was altered; or if hits are to be
                re-ranked for a query of which only the code is known.
        """
        self.queries = queries
        self.wanted = wanted
        self.name = name
        self._incarnation = incarnation
        bits_only = wanted.radius is not None or wanted.rerank or not queries.weighted.any()
        self.ranking: str = wanted.ranking or (HAMMING if bits_only else default)
        self._check_ranking()
        self._after: Position | None = None
        if wanted.cursor is not None:
            self._after = read_cursor(wanted.cursor, *self._identity())
        if wanted.rerank and not queries.weighted.all():
            message = "needs a query that the collection's encoder encodes: a text or a vector"
            raise InputError("rerank", message, int(queries.weighted.argmin()))

    @property
    def needs_words_to_rank(self) -> bool:
        """Whether the documents are ranked by their words, alone or with their codes."""
        return self.ranking in BY_WORDS

    @property
    def needs_words(self) -> bool:
        """Whether the lexical index is needed."""
        rescore = self.wanted.rescore
        return self.needs_words_to_rank or (rescore is not None and rescore.by == BM25)

    @property
    def statistics(self) -> tuple[float, ...] | None:
        """What scores depended on when the first page was made; None if this is the first."""
        return None if self._after is None else self._after.statistics or None

    @property
    def needs_codes(self) -> bool:
        """Whether the codes of the hits are needed."""
        return self.wanted.with_code or self.wanted.rerank or not self._scores_are_distances

    @property
    def _scores_are_distances(self) -> bool:
        return self.ranking == HAMMING and self.wanted.rescore is None

    def pages(self, ranking: Ranking, allowed: Rows | None) -> list[Page]:
        """Return the page of each query; where `allowed` is given, only these rows are found."""
        if self._after is not None:
            return [self._page_after(self._after, ranking, allowed)]
        offset, k = self.wanted.offset, self.wanted.k
        count = offset + k + 1
        step = max(1, min(HITS_AT_ONCE // count, QUERIES_AT_ONCE))
        pages: list[Page] = []
        for start in range(0, len(self.queries), step):
            checkpoint()
            ranked = ranking.rank(self.queries[start : start + step], count, allowed)
            for place, found in enumerate(ranked, start):
                pages.append(_page(self._recognized(place, found), offset, k, offset))
        return pages

    def result(
        self,
        ranking: Ranking,
        pages: Sequence[Page],
        known: Mapping[int, StoredRow],
        *,
        generation: int,
        last_row: int,
        engine: str,
        lexical: LexicalIndex | None = None,
    ) -> SearchResult:
        """Return the hits of the pages; `known` is what is stored of their rows.

        `lexical` knows which words are rare, for highlights.
        """
        found = [page.found for page in pages]
        shown = ranking.shown(self.queries, found)
        cursors: list[str | None] = [None] * len(pages)
        if len(pages) == 1 and self.wanted.with_cursor and self.wanted.has_cursors:
            cursors = [self._next_cursor(pages[0], last_row)]
        return SearchResult(
            generation=generation,
            hits=self._highlighted(
                [self._in_turn(place, found, shown, known) for place in range(len(pages))], lexical
            ),
            next_cursors=cursors,
            ties_cut=[page.tie_cut for page in pages],
            engine=engine,
            rankings=[self._ranking_of(place) for place in range(len(pages))],
            queries=self.queries,
            reranked=self.wanted.rerank,
            rescored_by=None if self.wanted.rescore is None else self.wanted.rescore.by,
        )

    def _check_ranking(self) -> None:
        """Raise InputError unless the queries and all else that is wanted suit the ranking."""
        wanted = self.wanted
        if wanted.hybrid is not None and self.ranking != HYBRID:
            message = f"is for the ranking {HYBRID!r}; this search is ranked by {self.ranking!r}"
            raise InputError("hybrid", message)
        if wanted.cursor is not None and not wanted.has_cursors:
            what = "rescore" if wanted.rescore is not None else "rrf"
            raise InputError("cursor", f"cannot be followed beside {what}; use offset")
        explicit = wanted.ranking in BY_WORDS
        by_words = wanted.rescore is not None and wanted.rescore.by == BM25
        for position, text in enumerate(self.queries.texts):
            if text is None and explicit:
                message = f"is {wanted.ranking!r}, which needs a query that is a text"
                raise InputError("ranking", message, position)
            if text is None and by_words:
                message = f"by is {BM25!r}, which needs a query that is a text"
                raise InputError("rescore", message, position)

    def _ranking_of(self, place: int) -> str:
        """Return what orders the hits of a query: of a code nothing is known but its bits."""
        if self.wanted.ranking is None and not self.queries.weighted[place]:
            return HAMMING
        return self.ranking

    def _recognized(self, place: int, found: Ranked) -> Ranked:
        """Return what a query found; nothing, where the ranking knows nothing of the query."""
        if self._ranking_of(place) in BY_CODES and self.queries.is_unrecognized(place):
            return Ranked(found.rows[:0], found.scores[:0])
        return found

    def _in_turn(
        self,
        place: int,
        found: Sequence[Ranked],
        shown: Sequence[list[float]],
        known: Mapping[int, StoredRow],
    ) -> list[Hit]:
        checkpoint()
        return self._hits(place, found[place], shown[place], known)

    def _page_after(self, after: Position, ranking: Ranking, allowed: Rows | None) -> Page:
        """Find the page after a position, among the rows there were when the first was made."""
        k = self.wanted.k
        count = after.passed + k + 1
        while True:
            (found,) = ranking.rank(self.queries, count, allowed)
            exhausted = len(found.rows) < count
            old = found.rows <= after.last_row
            rows, scores = found.rows[old], found.scores[old]
            later = (scores < after.score) | ((scores == after.score) & (rows > after.row))
            hits = Ranked(rows[later], scores[later], found.statistics)
            # Documents that were added since lie before the page and took the places of others.
            if exhausted or len(hits.rows) > k:
                return _page(hits, 0, k, after.passed)
            count *= 2

    def _hits(
        self, place: int, found: Ranked, shown: list[float], known: Mapping[int, StoredRow]
    ) -> list[Hit]:
        """Return the hits of one query, best first."""
        rows = found.rows.tolist()
        stored = [known[row] for row in rows]
        codes = _stacked(stored, self.queries) if self.needs_codes else None
        if codes is None or self._scores_are_distances:
            distances: list[int] = (-found.scores).tolist()
        else:
            distances = hamming_distance(codes, self.queries.codes[place]).tolist()
        with_code = self.wanted.with_code
        hits = [
            Hit(
                id_, distance, score, row, payload, text, code.hex() if with_code and code else None
            )
            for row, distance, score, (id_, payload, text, code) in zip(
                rows, distances, shown, stored, strict=True
            )
        ]
        if codes is None or not self.wanted.rerank:
            return hits
        return _reranked(hits, codes, self.queries.weights[place].astype(np.float64))

    def _highlighted(self, hits: list[list[Hit]], lexical: LexicalIndex | None) -> list[list[Hit]]:
        """Add passages to hits where they are wanted, and take texts away that are not."""
        if not self.wanted.highlight:
            return hits
        analyzer = ANALYZERS[DEFAULT_ANALYZER] if lexical is None else lexical.analyzer
        for place in range(len(hits)):
            text = self.queries.words_of(place)
            if text is None:
                continue
            weights = dict.fromkeys(analyzer.terms(text), 1.0)
            if lexical is not None:
                weights = {one.term: one.idf for one in lexical.weigh(text).terms if one.idf}
            hits[place] = [
                replace(hit, highlight=highlight(hit.text, weights, analyzer))
                if hit.text is not None
                else hit
                for hit in hits[place]
            ]
        if self.wanted.with_text:
            return hits
        return [[replace(hit, text=None) for hit in some] for some in hits]

    def _next_cursor(self, page: Page, last_row: int) -> str | None:
        """Return the cursor of the page after this one, or None if this is the last."""
        if not page.more:
            return None
        if self._after is not None:
            last_row = self._after.last_row
        rows, scores, statistics = page.found
        position = Position(float(scores[-1]), int(rows[-1]), last_row, page.passed, statistics)
        return write_cursor(position, *self._identity())

    def _identity(self) -> tuple[object, ...]:
        """Return what a cursor is bound to."""
        queries, wanted = self.queries, self.wanted
        shown = None if wanted.filter is None else filter_to_json(wanted.filter)
        asked = (queries.codes.tobytes(), queries.weights.tobytes(), *queries.texts)
        ranking = (self.ranking, wanted.hybrid)
        return (self.name, self._incarnation, *ranking, *asked, wanted.radius, shown)


def rows_of(pages: Sequence[Page]) -> list[int]:
    """Return the rows of all hits, each once."""
    if len(pages) == 1:
        rows: list[int] = pages[0].found.rows.tolist()
        return rows
    return list({row for page in pages for row in page.found.rows.tolist()})


def _page(found: Ranked, start: int, k: int, passed: int) -> Page:
    rows, scores, statistics = found
    hits = Ranked(rows[start : start + k], scores[start : start + k], statistics)
    n_hits = len(hits.rows)
    more = n_hits > 0 and len(rows) > start + n_hits
    tie_cut = more and bool(scores[start + n_hits] == hits.scores[-1])
    return Page(hits, more, tie_cut, passed + n_hits)


def _stacked(stored: Sequence[StoredRow], queries: EncodedQueries) -> Codes:
    packed = b"".join(code or b"" for _, _, _, code in stored)
    return np.frombuffer(packed, dtype=np.uint8).reshape(len(stored), queries.codes.shape[1])


def _reranked(hits: list[Hit], codes: Codes, margins: npt.NDArray[np.float64]) -> list[Hit]:
    """Return the hits by (rerank_score, distance, row).

    The score is the sum over b of |alpha_b - c_b|, with alpha_b = sigmoid(margin_b), the query's
    probability that bit b is 1, and c_b the bit of the hit's code.
    """
    # In terms of exp(-|m|), which cannot overflow.
    small = np.exp(-np.abs(margins))
    alpha = np.where(margins >= 0, 1 / (1 + small), small / (1 + small))
    scores = np.abs(alpha - unpack_codes(codes)).sum(axis=1).tolist()
    scored = [replace(hit, rerank_score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: (hit.rerank_score or 0.0, hit.distance, hit.row))
