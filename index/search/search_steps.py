"""A search: encode, rank, read, answer.

A search takes the published generation, which never changes, finds rows in it, and reads the
documents of these rows from the store. The store may be newer by then. Rows are never reused, so a
row that still exists has the right id. If all rows exist, the response reflects the generation that
was searched; an id that was read before is not read again. If a row is gone, a writer has replaced
or deleted its document. The search is then repeated in one transaction while it holds the
publishing lock; the generation is first brought up to that transaction, so all rows exist. A search
waits for at most one commit, and never for an encoder or for another search's first attempt.
What only some searches need is in ``search_options``, ``paging`` and ``hit_details``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from corpus.document import MAX_TEXT_LENGTH
from encoder.codes import Codes, pack_rows
from foundation.slices import checkpoint
from index.backend import MAX_K
from index.base import CollectionBase
from index.encoded_inputs import encode_queries
from index.engines.protocol import Rows
from index.errors import RowsRemoved, StoreError
from index.generations.publication import Publication
from index.generations.published import PublishedGeneration
from index.lexical.index import LexicalIndex
from index.rankings.hamming import HammingRanking
from index.rankings.protocol import BM25, BY_CODES, BY_WORDS, HAMMING, RANKINGS, RankedRows, Ranking
from index.rankings.ranking_choice import make_ranking
from index.records import EncodedQueries, Hit, Queries, Query, SearchResult, StoredRow
from index.search.cursors import Position, read_cursor
from index.search.hit_details import add_highlights, add_relevances, hits_with_codes
from index.search.paging import Page, cursor_after, cursor_identity, hits_after
from index.search.search_options import SearchOptions, check_compatible, choose_ranking, rankings_of
from index.sqlite.store import Store

# The radius, cursor, hybrid, rescore and offset of most searches, which need no further checks.
PLAIN_OPTIONS = (None, None, None, None, 0)
RANKING_NAMES = frozenset({None, *RANKINGS})
# These limit the memory of a batch of large pages, and the time of one of its slices.
HITS_AT_ONCE = 400_000
QUERIES_AT_ONCE = 100
# A search for at most so many hits is faster than a change of turns.
FEW_HITS = 200
# How many generations a search tries before it waits for the writers.
ATTEMPTS = 3


class Search:
    """One search of a collection: encoded queries and options."""

    def __init__(
        self,
        name: str,
        queries: EncodedQueries,
        options: SearchOptions,
        incarnation: str,
        default: str = HAMMING,
        *,
        hybrid_weight: float | None = None,
    ) -> None:
        """Begin a search of the collection `name`; cursors belong to one `incarnation` of it.

        `default` is the ranking, and `hybrid_weight` the weight of codes, of options without one.

        Raises:
            InputError: if the queries and the options are not compatible, or the cursor belongs to
                another search.
        """
        self.queries = queries
        self.options = options
        self.name = name
        self.default = default
        self.hybrid_weight = hybrid_weight
        if (default != HAMMING or queries.vectors) and not options.ranking:
            default = choose_ranking(default, queries, options)
        self.ranking: str = options.ranking or default
        rescore = options.rescore
        self.by_words: bool = self.ranking in BY_WORDS
        """Whether the documents are ranked by their words, alone or with their codes."""
        self.needs_words: bool = self.by_words or (rescore is not None and rescore.by == BM25)
        """Whether the lexical index is needed."""
        self.by_distance: bool = self.ranking == HAMMING and rescore is None
        """Whether the scores are distances."""
        self.needs_codes: bool = options.with_code or options.rerank or not self.by_distance
        with_text = options.with_text or options.highlight
        self.stored_fields = (options.with_payload, with_text, self.needs_codes)
        """Whether the payloads, the texts and the codes of the hits are needed."""
        if self.by_words or options.rerank or options.hybrid or rescore or options.cursor:
            check_compatible(options, self.ranking, queries)
        self._after: Position | None = None
        self._identity: tuple[object, ...] = ()
        if options.cursor is not None or options.with_cursor:
            self._identity = cursor_identity(name, incarnation, self.ranking, queries, options)
        if options.cursor is not None:
            self._after = read_cursor(options.cursor, *self._identity)

    @property
    def statistics(self) -> tuple[float, ...] | None:
        """The statistics of the scores of the first page; None if this is the first page."""
        return None if self._after is None else self._after.statistics or None

    def pages(self, ranking: Ranking, allowed: Rows | None) -> list[Page]:
        """Return the page of each query, limited to the rows `allowed` unless these are None."""
        queries, offset, k = self.queries, self.options.offset, self.options.k
        if self._after is not None:
            found = hits_after(self._after, ranking, queries, k, allowed)
            return [_page(found, 0, k, self._after.passed)]
        count = offset + k + 1
        step = max(1, min(HITS_AT_ONCE // count, QUERIES_AT_ONCE))
        whole = len(queries.codes) <= step
        pages: list[Page] = []
        for start in range(0, len(queries.codes), step):
            if start or count > FEW_HITS:
                checkpoint()
            some = queries if whole else queries[start : start + step]
            for place, found in enumerate(ranking.rank(some, count, allowed), start):
                pages.append(_page(self._drop_unrecognized(place, found), offset, k, offset))
        return pages

    def result(
        self,
        ranking: Ranking,
        pages: Sequence[Page],
        stored_rows: Mapping[int, StoredRow],
        *,
        generation: int,
        last_row: int,
        engine: str,
        lexical: LexicalIndex | None = None,
    ) -> SearchResult:
        """Return the hits of the pages; `stored_rows` holds the documents of their rows."""
        queries, options = self.queries, self.options
        ranked = [page.found for page in pages]
        scores = ranking.hit_scores(queries, ranked)
        hits: list[list[Hit]] = []
        for place, one in enumerate(ranked):
            if place or len(one.rows) > FEW_HITS:
                checkpoint()
            hits.append(self._hits(place, one, scores[place], stored_rows))
        if options.with_relevance:
            hits = add_relevances(hits, ranking.anchors(queries, ranked))
        if options.highlight:
            hits = add_highlights(hits, queries, lexical, with_text=options.with_text)
        cursors: list[str | None] = [None] * len(pages)
        if options.with_cursor and len(pages) == 1 and options.has_cursors:
            last = last_row if self._after is None else self._after.last_row
            cursors = [cursor_after(pages[0], last, self._identity)]
        return SearchResult(
            generation=generation,
            hits=hits,
            next_cursors=cursors,
            ties_cut=[page.tie_cut for page in pages],
            engine=engine,
            rankings=self._rankings(),
            queries=queries,
            reranked=options.rerank,
            rescored_by=None if options.rescore is None else options.rescore.by,
            candidates=0 if options.rescore is None else options.n_candidates,
            highlighted=options.highlight,
        )

    def _rankings(self) -> list[str]:
        if self.options.ranking is not None or self.ranking == HAMMING:
            return [self.ranking] * len(self.queries.codes)
        return rankings_of(self.queries, self.ranking, self.default)

    def _drop_unrecognized(self, place: int, found: RankedRows) -> RankedRows:
        """Return no rows for a query that is ranked by a code that says nothing about it."""
        terms = self.queries.terms[place]
        unknown = terms is not None and not terms.recognized_terms and self.ranking in BY_CODES
        return RankedRows(found.rows[:0], found.scores[:0]) if unknown else found

    def _hits(
        self, place: int, found: RankedRows, scores: list[float], by_row: Mapping[int, StoredRow]
    ) -> list[Hit]:
        """Return the hits of one query, best first."""
        rows: list[int] = found.rows.tolist()
        stored = [by_row[row] for row in rows]
        if self.needs_codes:
            query = self.queries[place : place + 1]
            return hits_with_codes(query, self.options, rows, stored, scores)
        negative: list[int] = found.scores.tolist()
        return [
            Hit(id_, -distance, score, row, payload, text)
            for row, distance, score, (id_, payload, text, _) in zip(
                rows, negative, scores, stored, strict=True
            )
        ]


class SearchableCollection(CollectionBase, ABC):
    """The search of a collection, wherever its documents are stored."""

    def encode_queries(self, queries: Sequence[Query]) -> EncodedQueries:
        """See :meth:`index.backend.CollectionBackend.encode_queries`."""
        encoder, texts = self.encoder, [query.text for query in queries]
        if encoder is None or encoder.kind != "text" or not all(map(_is_ascii_text, queries)):
            return encode_queries(queries, self.description, encoder, self._codes_of)
        weights, terms = encoder.read_queries([text or "" for text in texts])
        codes = pack_rows(weights > 0)
        unknown = [place for place, one in enumerate(terms) if one and not one.recognized_terms]
        if unknown:
            weights[unknown] = 0  # these texts say nothing about any bit
        weighted = np.array([True] * len(texts))
        return EncodedQueries(codes, weights, texts, weighted, terms)

    def find(self, queries: Queries, options: SearchOptions) -> SearchResult:
        """See :meth:`index.backend.CollectionBackend.find`."""
        values = (options.radius, options.cursor, options.hybrid, options.rescore, options.offset)
        in_range = options.ranking in RANKING_NAMES and 1 <= options.k <= MAX_K
        if values != PLAIN_OPTIONS or not in_range:
            options.check(self.n_bits, len(queries))
        encoded = queries if isinstance(queries, EncodedQueries) else self.encode_queries(queries)
        weight = None if self.encoder is None else self.encoder.hybrid_weight
        return self._run_search(
            Search(
                self.name, encoded, options, self.incarnation, self.ranking, hybrid_weight=weight
            )
        )

    @abstractmethod
    def _codes_of(self, ids: Sequence[str]) -> Mapping[str, Codes]:
        """Return the codes of these documents; unknown ids are left out."""

    @abstractmethod
    def _run_search(self, search: Search) -> SearchResult:
        """Run a search and return its result."""


class IndexedCollection(SearchableCollection, ABC):
    """A collection that is searched in this process, on its published generation."""

    store: Store
    _publication: Publication

    def _codes_of(self, ids: Sequence[str]) -> Mapping[str, Codes]:
        return self.store.read_codes_of(ids)

    def _run_search(self, search: Search) -> SearchResult:
        filter_, lexical = search.options.filter, search.needs_words
        tried: PublishedGeneration | None = None
        for _ in range(ATTEMPTS):
            published, allowed = self._publication.published, None
            if published is None or filter_ is not None or lexical:
                published, allowed = self._publication.search_target(filter_, lexical=lexical)
            if published is tried:
                break
            result = self._search_generation(search, published, allowed)
            if result is not None:
                return result
            # A hit was removed since. Its writer has probably published by now; taking the lock
            # could mean waiting until the next write is on disk.
            tried = published
        with self._publication.target_in_transaction(filter_, lexical=lexical) as target:
            result = self._search_generation(search, *target)
        if result is None:
            raise StoreError(f"{self.store.path}: is damaged: codes and documents do not match")
        return result

    def _search_generation(
        self, search: Search, published: PublishedGeneration, allowed: Rows | None
    ) -> SearchResult | None:
        """Search one generation; return None if a hit or candidate was removed from the store."""
        generation, options = published.generation, search.options
        ranking: Ranking = HammingRanking(generation, options.radius)
        if not search.by_distance:
            ranking = make_ranking(search, published, self.store)
        try:
            pages = search.pages(ranking, allowed)
        except RowsRemoved:
            return None
        rows, fields = rows_of(pages), search.stored_fields
        stored_rows = (
            self.store.read_rows(rows, *fields) if any(fields) else self.store.read_ids(rows)
        )
        if len(stored_rows) < len(rows):
            return None
        return search.result(
            ranking,
            pages,
            stored_rows,
            generation=generation.number,
            last_row=published.last_row,
            engine=generation.base.name,
            lexical=published.lexical,
        )


def rows_of(pages: Sequence[Page]) -> list[int]:
    """Return the rows of all hits, without duplicates."""
    return list({row for page in pages for row in page.found.rows.tolist()})


def _page(found: RankedRows, start: int, k: int, passed: int) -> Page:
    rows, scores, statistics = found
    hits = RankedRows(rows[start : start + k], scores[start : start + k], statistics)
    n_hits = len(hits.rows)
    more = n_hits > 0 and len(rows) > start + n_hits
    tie_cut = more and bool(scores[start + n_hits] == hits.scores[-1])
    return Page(hits, more, tie_cut, passed + n_hits)


def _is_ascii_text(query: Query) -> bool:
    """Tell whether a query is an ASCII text of a valid length, which needs no other check."""
    text, *others = query
    is_ascii = text is not None and text.isascii() and others == [None, None, None]
    return is_ascii and len(text or "") <= MAX_TEXT_LENGTH
