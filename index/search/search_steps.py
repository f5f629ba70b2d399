"""A search: encode, rank, read, answer.

A search takes the published generation, which never changes, finds rows in it, and asks the store
for the documents of these rows. The store may be newer by then. A row number is never given to a
second document, so a row that is still there has the right id. If all rows are there, the response
reflects the generation taken. If one is gone, a writer has replaced or deleted its document. The
search is then repeated in one transaction while it holds the publishing lock, and the generation is
brought up to that transaction first, so all rows are there. A search waits for at most one commit,
and never for an encoder or for another search's first attempt.

What only some searches ask for is in ``search_options``, ``paging`` and ``hit_details``.
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
from index.errors import StoreError
from index.generations.publication import Publication
from index.generations.published import PublishedGeneration
from index.lexical.index import LexicalIndex
from index.rankings.hamming import HammingRanking
from index.rankings.protocol import BM25, BY_CODES, BY_WORDS, HAMMING, RANKINGS, RankedRows, Ranking
from index.rankings.ranking_choice import ranking_of
from index.records import EncodedQueries, Hit, Queries, Query, SearchResult, StoredRow
from index.search.cursors import Position, read_cursor
from index.search.hit_details import highlighted, hits_with_codes
from index.search.paging import Page, cursor_after, hits_after, identity_of
from index.search.search_options import SearchOptions, check_suits, default_ranking
from index.sqlite.store import Store

# What most searches say of radius, cursor, hybrid, rescore and offset. They are neither checked nor
# encoded by other modules: tests/service/test_search_path.py bounds how many a plain search enters.
USUAL = (None, None, None, None, 0)
KNOWN = frozenset({None, *RANKINGS})
# Bounds the memory of a batch whose every query asks for much, and the time of a slice of it.
HITS_AT_ONCE = 400_000
QUERIES_AT_ONCE = 100
# A search for fewer hits is done before others would have their turn.
FEW_HITS = 200
# Generations in which a search is made before it waits for the writers.
ATTEMPTS = 3


class Search:
    """One search of a collection: encoded queries, and what is wanted of them."""

    def __init__(
        self,
        name: str,
        queries: EncodedQueries,
        options: SearchOptions,
        incarnation: str,
        default: str = HAMMING,
    ) -> None:
        """Begin a search of the collection `name`; cursors belong to one `incarnation` of it.

        Where no ranking is asked for, :func:`default_ranking` says which it is.

        Raises:
            InputError: if the queries do not suit what is wanted, or the cursor is of another
                search.
        """
        self.queries = queries
        self.options = options
        self.name = name
        if default != HAMMING and not options.ranking:
            default = default_ranking(default, queries, options)
        self.ranking: str = options.ranking or default
        rescore = options.rescore
        self.by_words: bool = self.ranking in BY_WORDS
        """Whether the documents are ranked by their words, alone or with their codes."""
        self.needs_words: bool = self.by_words or (rescore is not None and rescore.by == BM25)
        """Whether the lexical index is needed."""
        self.by_distance: bool = self.ranking == HAMMING and rescore is None
        """Whether the scores are distances."""
        self.needs_codes: bool = options.with_code or options.rerank or not self.by_distance
        """Whether the codes of the hits are needed."""
        if self.by_words or options.rerank or options.hybrid or rescore or options.cursor:
            check_suits(options, self.ranking, queries)
        self._after: Position | None = None
        self._identity: tuple[object, ...] = ()
        if options.cursor is not None or options.with_cursor:
            self._identity = identity_of(name, incarnation, self.ranking, queries, options)
        if options.cursor is not None:
            self._after = read_cursor(options.cursor, *self._identity)

    @property
    def statistics(self) -> tuple[float, ...] | None:
        """What scores depended on when the first page was made; None if this is the first."""
        return None if self._after is None else self._after.statistics or None

    def pages(self, ranking: Ranking, allowed: Rows | None) -> list[Page]:
        """Return the page of each query; where `allowed` is given, only these rows are found."""
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
        """Return the hits of the pages; `known` is what is stored of their rows."""
        queries, options = self.queries, self.options
        found = [page.found for page in pages]
        shown = ranking.shown(queries, found)
        hits: list[list[Hit]] = []
        for place, one in enumerate(found):
            if place or len(one.rows) > FEW_HITS:
                checkpoint()
            hits.append(self._hits(place, one, shown[place], known))
        if options.highlight:
            hits = highlighted(hits, queries, lexical, with_text=options.with_text)
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
            highlighted=options.highlight,
        )

    def _rankings(self) -> list[str]:
        """Return what orders the hits of each query: of a code nothing is known but its bits."""
        given = self.options.ranking
        if given is not None or self.ranking == HAMMING:
            return [self.ranking] * len(self.queries.codes)
        return [self.ranking if one else HAMMING for one in self.queries.weighted.tolist()]

    def _recognized(self, place: int, found: RankedRows) -> RankedRows:
        """Return what a query found; nothing, where the ranking knows nothing of the query."""
        terms = self.queries.terms[place]
        nothing = terms is not None and not terms.recognized_terms and self.ranking in BY_CODES
        return RankedRows(found.rows[:0], found.scores[:0]) if nothing else found

    def _hits(
        self, place: int, found: RankedRows, shown: list[float], known: Mapping[int, StoredRow]
    ) -> list[Hit]:
        """Return the hits of one query, best first."""
        rows: list[int] = found.rows.tolist()
        stored = [known[row] for row in rows]
        if self.needs_codes:
            query = self.queries[place : place + 1]
            return hits_with_codes(query, self.options, rows, stored, shown)
        distances: list[int] = (-found.scores).tolist()
        return [
            Hit(id_, distance, score, row, payload, text)
            for row, distance, score, (id_, payload, text, _) in zip(
                rows, distances, shown, stored, strict=True
            )
        ]


class SearchedCollection(CollectionBase, ABC):
    """A collection as far as it is searched, wherever its documents lie."""

    def encode_queries(self, queries: Sequence[Query]) -> EncodedQueries:
        """See :meth:`index.backend.CollectionBackend.encode_queries`."""
        encoder, texts = self.encoder, [query.text for query in queries]
        if encoder is None or encoder.kind != "text" or not all(map(_is_plain, queries)):
            return encode_queries(queries, self.description, encoder, self._codes_of)
        weights, terms = encoder.read_queries([text or "" for text in texts])
        codes = pack_rows(weights > 0)
        # A text of which nothing is recognised says nothing about any bit.
        weights[[one is not None and not one.recognized_terms for one in terms]] = 0
        return EncodedQueries(codes, weights, texts, np.ones(len(texts), dtype=np.bool_), terms)

    def find(self, queries: Queries, options: SearchOptions) -> SearchResult:
        """See :meth:`index.backend.CollectionBackend.find`."""
        special = (options.radius, options.cursor, options.hybrid, options.rescore, options.offset)
        usual = special == USUAL and options.ranking in KNOWN and 1 <= options.k <= MAX_K
        if not usual:
            options.check(self.n_bits, len(queries))
        encoded = queries if isinstance(queries, EncodedQueries) else self.encode_queries(queries)
        return self._answer(Search(self.name, encoded, options, self.incarnation, self.ranking))

    @abstractmethod
    def _codes_of(self, ids: Sequence[str]) -> Mapping[str, Codes]:
        """Return the codes of the documents with some ids."""

    @abstractmethod
    def _answer(self, search: Search) -> SearchResult:
        """Return the answer to a search."""


class IndexedCollection(SearchedCollection, ABC):
    """A collection that is searched in this process, by the generation that it published."""

    store: Store
    _publication: Publication

    def _codes_of(self, ids: Sequence[str]) -> Mapping[str, Codes]:
        return self.store.read_codes_of(ids)

    def _answer(self, search: Search) -> SearchResult:
        filter_, lexical = search.options.filter, search.needs_words
        tried: PublishedGeneration | None = None
        for _ in range(ATTEMPTS):
            published, allowed = self._publication.published, None
            if published is None or filter_ is not None or lexical:
                published, allowed = self._publication.searched(filter_, lexical=lexical)
            if published is tried:
                break
            result = self._found(search, published, allowed)
            if result is not None:
                return result
            # A hit was removed since. What the writer made has mostly been published by now, and
            # to take the lock might be to wait until the next write is on disk.
            tried = published
        with self._publication.one_moment(filter_, lexical=lexical) as moment:
            result = self._found(search, *moment)
        if result is None:
            raise StoreError(f"{self.store.path}: is damaged: codes and documents do not match")
        return result

    def _found(
        self, search: Search, published: PublishedGeneration, allowed: Rows | None
    ) -> SearchResult | None:
        """Return the answer as of a generation, or None if a hit is no longer in the store."""
        generation, options = published.generation, search.options
        ranking: Ranking = HammingRanking(generation, options.radius)
        if not search.by_distance:
            ranking = ranking_of(search, published)
        pages = search.pages(ranking, allowed)
        rows = rows_of(pages)
        known = self.store.read_rows(
            rows,
            with_payload=options.with_payload,
            with_text=options.with_text or options.highlight,
            with_code=search.needs_codes,
        )
        if len(known) < len(rows):
            return None
        return search.result(
            ranking,
            pages,
            known,
            generation=generation.number,
            last_row=published.last_row,
            engine=generation.base.name,
            lexical=published.lexical,
        )


def rows_of(pages: Sequence[Page]) -> list[int]:
    """Return the rows of all hits, each once."""
    return list({row for page in pages for row in page.found.rows.tolist()})


def _page(found: RankedRows, start: int, k: int, passed: int) -> Page:
    rows, scores, statistics = found
    hits = RankedRows(rows[start : start + k], scores[start : start + k], statistics)
    n_hits = len(hits.rows)
    more = n_hits > 0 and len(rows) > start + n_hits
    tie_cut = more and bool(scores[start + n_hits] == hits.scores[-1])
    return Page(hits, more, tie_cut, passed + n_hits)


def _is_plain(query: Query) -> bool:
    """Tell whether a query is a text that can be encoded as it is."""
    text, *others = query
    usual = text is not None and text.isascii() and others == [None, None, None]
    return usual and len(text or "") <= MAX_TEXT_LENGTH
