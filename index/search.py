"""A search: its options, the pages and details of its hits, and why it finds nothing."""

from __future__ import annotations

import binascii
import json
import math
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import orjson

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.codes import Codes, code_to_hex, hamming_distance, unpack_codes
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError
from hummingbit.index.encoding import WITHOUT_CODES
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.facets import FacetResult, RankedGroups, SortField, SortPosition
from hummingbit.index.filters import (
    And,
    AnyOf,
    Filter,
    HasText,
    InRange,
    Or,
    Scalar,
    filter_to_json,
    instant_of,
    kind_of,
    read_field,
    scalars_of,
)
from hummingbit.index.highlights import Highlight, highlight
from hummingbit.index.languages import stop_terms
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.names import BM25, HAMMING, HYBRID, VECTORS
from hummingbit.index.options import FacetsOver, SearchOptions
from hummingbit.index.passages import MAX_PASSAGES, CodeColumn, Span
from hummingbit.index.payloads import select_fields
from hummingbit.index.questions import Question
from hummingbit.index.rankings import (
    BY_WORDS,
    CODES,
    RANKINGS,
    SCORERS,
    TEXTS,
    RankedRows,
    Ranking,
    RankingFromAnywhere,
    ranking_without_text,
)
from hummingbit.index.records import EncodedQueries, ScrollPage, StoredRow


def check_by_words(options: SearchOptions) -> None:
    """Raise InputError if a search needs codes; the collection has none."""
    ranking, rescore = options.ranking, options.rescore
    if ranking is not None and ranking in RANKINGS and CODES in RANKINGS[ranking].needs:
        raise InputError("ranking", f"is {ranking!r}, which needs codes; {WITHOUT_CODES}")
    if rescore is not None and rescore.by in SCORERS and TEXTS not in SCORERS[rescore.by].needs:
        raise InputError("rescore", f"by is {rescore.by!r}, which needs codes; {WITHOUT_CODES}")
    by_codes = ("radius", "rerank", "collapse_duplicates", "diversity")
    options.refuse(by_codes, f"needs codes; {WITHOUT_CODES}")


def needs_only_words(options: SearchOptions, default: str) -> bool:
    """Return whether a search takes nothing of its texts but their words.

    `default` is the ranking of a search that names none. Then a language model need not read them.
    """
    name = options.ranking or (HAMMING if options.radius is not None else default)
    ranking, rescore = RANKINGS.get(name), options.rescore
    scorer = None if rescore is None else SCORERS.get(rescore.by)
    needs = frozenset[str]() if scorer is None else scorer.needs
    shows_code = options.with_code or options.explain or options.rerank
    return ranking is not None and CODES not in ranking.needs | needs and not shows_code


def needs_words(options: SearchOptions | None, default: str) -> bool:
    """Return whether a search ranks or rescores by words; `default` is the ranking without one."""
    if options is None:
        return default in BY_WORDS
    scorer = None if options.rescore is None else SCORERS.get(options.rescore.by)
    is_rescored = scorer is not None and TEXTS in scorer.needs
    return is_rescored or (options.ranking or default) in BY_WORDS


def choose_ranking(default: str, queries: EncodedQueries, options: SearchOptions) -> str:
    """Return the ranking of a search that names none.

    It is `default`, or Hamming distance if the search has a radius or reranks, or if only the codes
    of the queries are known. If a query brings a text beside a vector or a code, it is hybrid, for
    all queries that have a text. Texts that the encoder does not take are ranked by their words.
    """
    if options.radius is not None or options.rerank:
        return HAMMING
    if queries.has_words:
        texts = [
            position for position, question in enumerate(queries.questions) if question is not None
        ]
        if all(map(queries.has_only_words, texts)):
            return default if default in BY_WORDS else BM25
        if any(queries.terms[position] is None for position in texts):
            return HYBRID
    return default if queries.weighted.any() else HAMMING


def rankings_of(queries: EncodedQueries, ranking: str, default: str) -> list[str]:
    """Return the ranking of each query of a search that named none and is ranked by `ranking`.

    A query that is only a code is ranked by distance. `default` is that of the collection.
    """
    by_words = ranking in BY_WORDS
    other = ranking_without_text(default) if by_words else ranking
    weighted: list[bool] = queries.weighted.tolist()
    return [
        ranking if by_words and question is not None else other if has_weights else HAMMING
        for has_weights, question in zip(weighted, queries.questions, strict=True)
    ]


def check_compatible(options: SearchOptions, ranking: str, queries: EncodedQueries) -> None:
    """Raise InputError unless the queries and the options are compatible with the ranking."""
    if options.hybrid is not None and ranking != HYBRID:
        message = f"applies to the ranking {HYBRID!r} only; this search uses {ranking!r}"
        raise InputError("hybrid", message)
    if options.cursor is not None and options.without_cursor:
        message = f"cannot be combined with {options.without_cursor}; use offset"
        raise InputError("cursor", message)
    if queries.has_words:
        _check_words(options, ranking, queries)
    if options.ranking in BY_WORDS and not all(queries.questions):
        _check_needs("ranking", f"is {options.ranking!r}", frozenset({TEXTS}), queries)
    if (rescore := options.rescore) is not None:
        _check_needs("rescore", f"by is {rescore.by!r}", SCORERS[rescore.by].needs, queries)
    if options.rerank and not queries.weighted.all():
        message = "needs a text or a vector as the query, for the collection's encoder to encode"
        raise InputError("rerank", message, int(queries.weighted.argmin()))


def _check_needs(field: str, value: str, needs: frozenset[str], queries: EncodedQueries) -> None:
    """Raise InputError unless each query has the text or the vector that is needed."""
    for position, question in enumerate(queries.questions):
        if TEXTS in needs and question is None:
            raise InputError(field, f"{value}, which needs a text as the query", position)
        if VECTORS in needs and (not queries.vectors or queries.vectors[position] is None):
            raise InputError(field, f"{value}, which needs a vector as the query", position)


def _check_words(options: SearchOptions, ranking: str, queries: EncodedQueries) -> None:
    """Raise InputError if a query by words alone is to be ranked or rescored by its code."""
    for position in range(len(queries)):
        if not queries.has_only_words(position):
            continue
        if options.radius is not None or options.rerank:
            field, needs = "radius" if options.radius is not None else "rerank", "needs"
        elif ranking not in BY_WORDS:
            field, needs = "ranking", f"is {ranking!r}, which needs"
        elif options.rescore is not None and CODES in SCORERS[options.rescore.by].needs:
            field, needs = "rescore", f"by is {options.rescore.by!r}, which needs"
        else:
            continue
        message = f"{needs} a vector or a code as the query; no encoder takes its text"
        raise InputError(field, message, position)


def check_texts_are_taken(queries: EncodedQueries, encoder: Encoder | None) -> None:
    """Raise InputError if the encoder does not take the text of a query.

    The documents of the collection have no text.
    """
    if encoder is not None and encoder.kind == "text":
        return
    for position in range(len(queries)):
        if queries.has_only_words(position):
            takes = "the collection has no encoder"
            if encoder is not None:
                takes = f"the collection's encoder takes {encoder.kind}s"
            message = f"cannot be encoded: {takes}, and no document has a text"
            raise InputError("text", message, position)


# Cursors: where a page ended, so that the next begins there whatever was written meanwhile.
#
# A cursor holds the (score, row) of the last hit of a page, the number of hits before the next
# page, the last row that had been assigned when the first page was made, and whatever else scores
# depended on then besides the documents. Documents added later have higher rows and are left out.
# Other documents keep their place in the order, so none appears twice and none is skipped. A digest
# over the search and the cursor detects a cursor that belongs to another search or was altered. It
# guards against mistakes, not against forgery: whoever can search may read any page anyway.


_NUMBERS = struct.Struct(">dqqq")
_DIGEST_SIZE = 8
# No search has more hits.
MAX_PASSED = 2**53


class Position(NamedTuple):
    """The end of a page: the hit with `score` and `row`, after `passed` hits in all."""

    score: float
    row: int
    last_row: int
    """The last row that had been assigned when the first page was made."""
    passed: int
    statistics: Mapping[str, Any] = MappingProxyType({})
    """The statistics of the scores; see :class:`hummingbit.index.rankings.RankedRows`."""


def write_cursor(position: Position, *search: object) -> str:
    """Return an opaque cursor for the search that `search` describes."""
    statistics = orjson.dumps(position.statistics) if position.statistics else b""
    packed = _NUMBERS.pack(*position[:4]) + statistics
    return _encode(packed + _digest(packed, search))


def read_cursor(cursor: str, *search: object) -> Position:
    """Return the position in a cursor that :func:`write_cursor` wrote for the same `search`.

    Raises:
        InputError: if the cursor belongs to another search, or was altered.
    """
    packed = _unseal(cursor, search)
    numbers, raw = packed[: _NUMBERS.size], packed[_NUMBERS.size :]
    try:
        score, row, last_row, passed = _NUMBERS.unpack(numbers)
        statistics = orjson.loads(raw) if raw else {}
    except (struct.error, orjson.JSONDecodeError):
        raise _refusal(cursor) from None
    if math.isnan(score) or not 0 <= passed <= MAX_PASSED or not isinstance(statistics, dict):
        raise _refusal(cursor)
    return Position(score, row, last_row, passed, statistics)


def write_sort_cursor(position: SortPosition, *listing: object) -> str:
    """Return an opaque cursor for the sorted listing that `listing` describes."""
    packed = position.to_bytes()
    return _encode(packed + _digest(packed, listing))


def read_sort_cursor(cursor: str, *listing: object) -> SortPosition:
    """Return the position in a cursor that :func:`write_sort_cursor` wrote for the same `listing`.

    Raises:
        InputError: if the cursor belongs to another listing, or was altered.
    """
    return SortPosition.of_bytes(_unseal(cursor, listing))


def _unseal(cursor: str, search: tuple[object, ...]) -> bytes:
    try:
        raw = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except (UnicodeEncodeError, binascii.Error):
        raw = b""
    packed, digest = raw[:-_DIGEST_SIZE], raw[-_DIGEST_SIZE:]
    if digest != _digest(packed, search) or _encode(raw) != cursor:
        raise _refusal(cursor)
    return packed


def _refusal(cursor: str) -> InputError:
    message = "it must be the next_cursor of a page of the same search"
    return InputError("cursor", f"is {cursor[:60]!r}; {message}")


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _digest(packed: bytes, search: tuple[object, ...]) -> bytes:
    text = "\0".join(repr(part) for part in search).encode("utf-8", "surrogatepass")
    return blake2b(packed + text, digest_size=_DIGEST_SIZE).digest()


class Hit(NamedTuple):
    """A document that a search found.

    `payload`, `text` and `code`, in hexadecimal, are None unless requested. `distance` is the
    Hamming distance from the query's code, or None if words alone rank. `score` is the
    score of the ranking, higher is better; see
    :meth:`hummingbit.index.rankings.Ranking.hit_scores`. `highlight` is a passage of the text, if
    requested and if query and document both have a text. `rerank_score` is set in a reranked search
    only: the sum over the bits of |alpha_b - c_b|, the query's probability of a 1 minus the stored
    bit.
    """

    id: str
    distance: int | None
    score: float
    row: int
    payload: Mapping[str, Any] | None = None
    text: str | None = None
    code: str | None = None
    rerank_score: float | None = None
    highlight: Highlight | None = None
    passage: Span | None = None
    confidence: float | None = None


class Group(NamedTuple):
    """The hits that share a value of the field of `group_by`, best first."""

    id: Scalar
    hits: list[Hit]


@dataclass(kw_only=True, eq=False)
class QueryResult:
    """What a search tells of one query beside its hits.

    The responses of a service and the hits of the library have these fields.
    """

    generation: int
    """The generation of the collection that was searched: the number of writes before it."""
    ranking: str
    """The ranking that ordered the hits."""
    recognized_terms: int | None = None
    """The number of words of the query that the encoder knows; None if it is not a text."""
    corrected: list[tuple[str, str]] = field(default_factory=list)
    """Unknown words of the query, each with the word that was searched for in its place."""
    expanded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Words of the query, each with the words that were searched for besides: those near in
    meaning, or those that begin with it."""
    warnings: list[str] = field(default_factory=list)
    """Why a search with a filter found nothing, and what was not read as a condition."""
    next_cursor: str | None = None
    """Where the next page begins, in a search with `with_cursor`; None on the last page."""
    query_code: str | None = None
    """The code of the query, in hexadecimal, in a search with `with_code`."""
    groups: Sequence[Group] = ()
    """The groups of a search with `group_by`, which has no hits besides, best first."""
    facets: Sequence[FacetResult] = ()
    """The counts of values of a search with `facets`."""
    facets_over: FacetsOver | None = None
    """Which documents `facets` count."""


class SearchResult(NamedTuple):
    """The hits of each query, all on one generation of the collection.

    Hits are ordered by (score descending, row), or by (rerank_score, distance, row) if `reranked`.
    `next_cursors` continue the search of a single query; they are None if nothing is left or there
    are several queries. `ties_cut` tells whether documents with the score of the last hit are
    missing. `engine` names the engine, and `rankings` the ranking of each query. If `rescored_by`
    is not None, that ranking only chose at most `candidates` documents, and `rescored_by` ordered
    them. `queries` are the encoded queries.
    """

    generation: int
    hits: list[list[Hit]]
    next_cursors: list[str | None]
    ties_cut: list[bool]
    engine: str
    rankings: list[str]
    queries: EncodedQueries
    reranked: bool = False
    rescored_by: str | None = None
    candidates: int = 0
    highlighted: bool = False
    """Whether passages were requested."""
    by_words: bool = False
    """Whether words rank, alone or with codes."""
    groups: Sequence[Sequence[Group]] | None = None
    """The groups of each query by their best hits, which then has no `hits`; None without."""
    facets: Sequence[Sequence[FacetResult]] | None = None
    """The facets of each query; None unless requested."""
    facets_over: Sequence[FacetsOver] = ()
    """Which documents the facets of each query count."""

    def of_query(self, position: int, *, with_code: bool = True) -> QueryResult:
        """Return what the search tells of the query at a `position`.

        Its warnings are of its syntax, and do not say why there are no hits.
        """
        question, terms = self.queries.questions[position], self.queries.terms[position]
        is_text = question is not None and terms is not None and not question.syntax.is_only_filter
        return QueryResult(
            generation=self.generation,
            ranking=self.rescored_by or self.rankings[position],
            recognized_terms=terms.recognized_terms if is_text and terms is not None else None,
            corrected=[] if question is None else [*question.corrected],
            expanded=question.expanded if question is not None and self.by_words else {},
            warnings=[] if question is None else question.warnings,
            next_cursor=self.next_cursors[position],
            query_code=code_to_hex(self.queries.codes[position]) if with_code else None,
            groups=() if self.groups is None else self.groups[position],
            facets=() if self.facets is None else self.facets[position],
            facets_over=None if self.facets is None else self.facets_over[position],
        )


def rerank_hits(hits: list[Hit], codes: Codes, margins: npt.NDArray[np.float64]) -> list[Hit]:
    """Return the hits ordered by (rerank_score, distance, row).

    The rerank score is the sum over b of |alpha_b - c_b|, where alpha_b = sigmoid(margin_b) is the
    query's probability that bit b is 1, and c_b is the bit of the hit's code.
    """
    # exp(-|m|) cannot overflow.
    exponentials = np.exp(-np.abs(margins))
    alpha = np.where(margins >= 0, 1, exponentials) / (1 + exponentials)
    scores = np.abs(alpha - unpack_codes(codes)).sum(axis=1).tolist()
    scored = [hit._replace(rerank_score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: (hit.rerank_score or 0.0, hit.distance or 0, hit.row))


def add_highlights(
    hits: list[list[Hit]],
    queries: EncodedQueries,
    lexical: LexicalIndex | None,
    *,
    with_text: bool,
    analyzer: Analyzer | None = None,
) -> list[list[Hit]]:
    """Add highlights to the hits of each query, and drop their texts unless `with_text`.

    `lexical`, if there is one, gives rare words a higher weight. The terms are those of its
    analyzer, or of `analyzer`. Stop words of the analyzer's
    language are not marked, unless the query has no other words or has them in a phrase.
    """
    analyzer = analyzer or ANALYZERS[DEFAULT_ANALYZER] if lexical is None else lexical.analyzer
    for position in range(len(hits)):
        question = queries.questions[position]
        if question is None:
            continue
        terms = _marked_terms(question, lexical, analyzer)
        unmarked = _unmarked(terms, question, analyzer)
        weights = {
            term: weight for term, weight in terms.items() if weight and term not in unmarked
        }
        hits[position] = [
            hit._replace(highlight=_highlight_hit(hit.text, hit.passage, weights, analyzer))
            if hit.text is not None
            else hit
            for hit in hits[position]
        ]
    if with_text:
        return hits
    return [[hit._replace(text=None) for hit in query_hits] for query_hits in hits]


def _marked_terms(
    question: Question, lexical: LexicalIndex | None, analyzer: Analyzer
) -> dict[str, float]:
    """Return the terms that a question matches, and how much each counts; 0 if none has it."""
    if lexical is None or question.words is None:
        corrected = (known for _, known in question.corrected)
        return dict.fromkeys(analyzer.terms(" ".join([question.text, *corrected])), 1.0)
    terms: dict[str, float] = {}
    for word in lexical.weigh(question).words:
        for term in word.terms:
            terms[term.term] = max(term.weight, terms.get(term.term, 0.0))
    return terms


def _unmarked(terms: Collection[str], question: Question, analyzer: Analyzer) -> frozenset[str]:
    """Return the stop words of a query, unless its `terms` are nothing else, or in a phrase."""
    stop = stop_terms(analyzer)
    if stop.issuperset(terms):
        return frozenset()
    return stop.difference(*map(analyzer.terms, question.syntax.phrases))


def _highlight_hit(
    text: str, passage: Span | None, weights: Mapping[str, float], analyzer: Analyzer
) -> Highlight:
    """Highlight a text, or the passage that ranked it."""
    if passage is None:
        return highlight(text, weights, analyzer)
    of_passage = highlight(text[passage.start : passage.end], weights, analyzer)
    return of_passage._replace(start=passage.start + of_passage.start)


class Page(NamedTuple):
    """The hits of one query, whether more follow, and whether the next has the last hit's score."""

    ranked: RankedRows
    more: bool
    tie_cut: bool
    passed: int
    """The number of hits before the next page."""


def hits_after(
    after: Position, ranking: Ranking, query: EncodedQueries, k: int, allowed: Rows | None
) -> RankedRows:
    """Return the hits of one query after a position, more than `k` of them if there are so many.

    Only documents that existed when the first page was made are found.
    """
    # Some rankings find the hits before the page again.
    passed = 0 if isinstance(ranking, RankingFromAnywhere) else after.passed
    count = passed + k + 1
    while True:
        if isinstance(ranking, RankingFromAnywhere):
            ranked = ranking.rank_after(query, count, after.score, after.row, allowed)
        else:
            (ranked,) = ranking.rank(query, count, allowed)
        exhausted = len(ranked.rows) < count
        rows, scores, _ = ranked
        later = (scores < after.score) | ((scores == after.score) & (rows > after.row))
        hits = ranked.select(later & (rows <= after.last_row))
        # Documents that were added since may have displaced hits of this page.
        if exhausted or len(hits.rows) > k:
            return hits
        count *= 2


def cursor_after(page: Page, last_row: int, identity: tuple[object, ...]) -> str | None:
    """Return the cursor of the page after this one, or None if this is the last."""
    if not page.more:
        return None
    last = float(page.ranked.scores[-1]), int(page.ranked.rows[-1])
    position = Position(*last, last_row, page.passed, page.ranked.statistics)
    return write_cursor(position, *identity)


def cursor_identity(
    name: str, incarnation: str, ranking: str, queries: EncodedQueries, options: SearchOptions
) -> tuple[object, ...]:
    """Return the values that bind a cursor to its search."""
    filter_json = None if options.filter is None else filter_to_json(options.filter)
    read = [question and question.syntax for question in queries.questions]
    query_key: tuple[object, ...] = (queries.codes.tobytes(), queries.weights.tobytes(), *read)
    if ranking in BY_WORDS and None not in queries.terms:
        # How a text is encoded is in the cursor, since it depends on the words of documents.
        query_key = (*read,)
    search = (name, incarnation, ranking, options.hybrid, *query_key, options.radius, filter_json)
    least = options.score_threshold
    return search if least is None else (*search, least)


# A search: encode, rank, read, answer.
#
# A search takes the published generation, which never changes, finds rows in it, and reads the
# documents of these rows from the store. The store may be newer by then. Rows are never reused, so
# a row that still exists has the right id. If all rows exist, the response reflects the generation
# that was searched; an id that was read before is not read again. If a row is gone, a writer has
# replaced or deleted its document. The search is then repeated in one transaction while it holds
# the publishing lock; the generation is first brought up to that transaction, so all rows exist. A
# search waits for at most one commit, and never for an encoder or for another search's first
# attempt.


# These limit the memory of a batch of large pages, and the time of one of its slices.
HITS_AT_ONCE = 400_000
QUERIES_AT_ONCE = 100
# A search for at most so many hits is faster than a change of turns.
FEW_HITS = 200


class Search:
    """One search of a collection: encoded queries and options."""

    def __init__(
        self,
        name: str,
        queries: EncodedQueries,
        options: SearchOptions,
        incarnation: str,
        default: str,
        *,
        hybrid_weight: float,
        code_column: CodeColumn,
    ) -> None:
        """Begin a search of the collection `name`; cursors belong to one `incarnation` of it.

        `default` is the ranking of options without one, and `hybrid_weight` the weight of codes.
        `code_column` says whether the documents have passages.

        Raises:
            InputError: if the queries and the options are not compatible, or the cursor belongs to
                another search.
        """
        self.queries = queries
        self.options = options
        self.name = name
        self.default = default
        weight = None if options.hybrid is None else options.hybrid.codes
        self.codes_weight: float = hybrid_weight if weight is None else weight
        """The weight of codes beside words in the hybrid ranking."""
        self.code_column = code_column
        if (default != HAMMING or queries.has_words) and not options.ranking:
            default = choose_ranking(default, queries, options)
        self.ranking: str = options.ranking or default
        rescore = options.rescore
        self.by_words: bool = self.ranking in BY_WORDS
        """Whether the documents are ranked by their words, alone or with their codes."""
        self.has_syntax = self.has_only_filters = False
        for question in queries.questions:
            if question is not None and not question.syntax.is_plain:
                self.has_syntax = True
                self.has_only_filters = self.has_only_filters or question.syntax.is_only_filter
        """Whether a query has phrases, excluded words or conditions, and consists of these."""
        self.needs_words: bool = (
            self.by_words
            or (rescore is not None and TEXTS in SCORERS[rescore.by].needs)
            or self.has_syntax
        )
        """Whether the lexical index is needed."""
        self.by_distance: bool = (
            self.ranking == HAMMING
            and rescore is None
            and not options.is_thinned
            and options.score_threshold is None
            and not self.has_only_filters
        )
        """Whether the scores are distances."""
        self.shows_codes: bool = options.with_code or options.explain or options.rerank
        """Whether the codes of hits are needed, and not only their distances."""
        if options.with_passage and not self.code_column.has_passages:
            message = f"collection {name!r} has no passages"
            raise InputError("with_passage", message)
        with_text = options.with_text or options.highlight or options.with_passage
        # Codes are in the index, but the bounds of passages are stored with those of a document.
        with_bounds = self.code_column.has_passages and (
            self.shows_codes or with_text or not self.by_distance
        )
        self.stored_fields = (bool(options.with_payload), with_text, with_bounds)
        """Whether the payloads, the texts and the stored codes of the hits are read."""
        is_special = options.rerank or options.hybrid or rescore or options.cursor
        if self.by_words or is_special or queries.has_words:
            check_compatible(options, self.ranking, queries)
        self._after: Position | None = None
        self._identity: tuple[object, ...] = ()  # empty if no page needs a cursor
        if options.cursor is not None or options.with_cursor:
            self._identity = cursor_identity(name, incarnation, self.ranking, queries, options)
        if options.cursor is not None:
            self._after = read_cursor(options.cursor, *self._identity)

    @property
    def statistics(self) -> Mapping[str, Any] | None:
        """The statistics of the scores of the first page; None if this is the first page."""
        return None if self._after is None else self._after.statistics or None

    def pages(
        self, ranking: Ranking, allowed: Rows | None, restricted: Mapping[int, Rows] | None = None
    ) -> list[Page]:
        """Return the page of each query, limited to the rows `allowed` unless these are None.

        `restricted` are the rows of queries that allow fewer, by the position of the query.
        """
        queries, offset, k = self.queries, self.options.offset, self.options.k
        restricted = restricted or {}
        count = offset + k + 1
        # Queries that allow other rows are ranked apart.
        step = 1 if restricted else max(1, min(HITS_AT_ONCE // count, QUERIES_AT_ONCE))
        pages: list[Page] = []
        n_queries = len(queries)
        for start in range(0, n_queries, step):
            if start or restricted or count > FEW_HITS:
                check_cancelled()
            some = queries if n_queries <= step else queries[start : start + step]
            rows = restricted.get(start, allowed)
            if self._after is not None:
                ranked = hits_after(self._after, ranking, some, k, rows)
                pages.append(_page(ranked, 0, k, self._after.passed))
                continue
            for position, found in enumerate(ranking.rank(some, count, rows), start):
                ranked = found.select(slice(0)) if self.finds_nothing(position) else found
                pages.append(_page(ranked, offset, k, offset))
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
        codes: IndexSnapshot | None = None,
        lexical: LexicalIndex | None = None,
        analyzer: Analyzer | None = None,
    ) -> SearchResult:
        """Return the hits of the pages; `stored_rows` holds the documents of their rows.

        `codes` are those of the generation; without them, codes that are needed were stored.
        `analyzer` is that of the texts, where their words are not indexed.
        """
        queries, options = self.queries, self.options
        hits: list[list[Hit]] = []
        for position, page in enumerate(pages):
            ranked = page.ranked
            scores = ranking.hit_scores(queries, position, ranked)
            some = self._hits(position, ranked, scores, stored_rows, codes)
            if options.has_confidences:
                line = ranking.evidence(queries, position, ranked).line()
                some = [hit._replace(confidence=line.confidence(hit.score)) for hit in some]
            if isinstance(fields := options.with_payload, tuple):
                payloads = [select_fields(hit.payload or {}, fields) for hit in some]
                pairs = zip(some, payloads, strict=True)
                some = [hit._replace(payload=payload) for hit, payload in pairs]
            hits.append(some)
        if options.highlight:
            with_text = options.with_text or options.with_passage
            hits = add_highlights(hits, queries, lexical, with_text=with_text, analyzer=analyzer)
        cursors: list[str | None] = [None] * len(pages)
        if self._identity and len(pages) == 1 and options.has_cursors:
            last = self.code_column.last_index_row(last_row)
            last = last if self._after is None else self._after.last_row
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
            by_words=self.by_words,
        )

    def _rankings(self) -> list[str]:
        if self.options.ranking is not None or self.ranking == HAMMING:
            return [self.ranking] * len(self.queries.codes)
        return rankings_of(self.queries, self.ranking, self.default)

    def each_query(
        self, allowed: Rows | None, restricted: Mapping[int, Rows]
    ) -> Iterator[tuple[EncodedQueries, Rows | None]]:
        """Yield each query, none where its code says nothing of it, and the rows it may find."""
        for position in range(len(self.queries)):
            query = self.queries[position : position + 1]
            rows = restricted.get(position, allowed)
            yield (query[:0] if self.finds_nothing(position) else query), rows

    def facets_over(self, position: int) -> FacetsOver:
        """Return which documents the facets of a query count, if any has a word of it."""
        options = self.options
        if options.facet_depth is not None:
            return "best"
        is_bounded = options.radius is not None or options.score_threshold is not None
        if is_bounded or self.queries.is_only_filter(position):
            return "found"
        return "words" if self.by_words and self.queries.questions[position] is not None else "best"

    def finds_nothing(self, position: int) -> bool:
        """Tell whether a query is ranked by a code that says nothing about it."""
        terms = self.queries.terms[position]
        if self.by_words or terms is None or terms.recognized_terms:
            return False
        return not self.queries.is_only_filter(position)

    def _hits(
        self,
        position: int,
        ranked: RankedRows,
        scores: list[float],
        by_row: Mapping[int, StoredRow],
        held: IndexSnapshot | None,
    ) -> list[Hit]:
        """Return the hits of one query, best first."""
        column, options = self.code_column, self.options
        rows: list[int] = ranked.rows.tolist()
        if not rows:
            return []
        documents = [*map(column.document_row, rows)] if column.has_passages else rows
        ids, payloads, texts, codes_of = zip(*map(by_row.__getitem__, documents), strict=True)
        if self.by_distance and not self.stored_fields[2] and not self.shows_codes:
            distances: list[Any] = (-ranked.scores).tolist()
            return [*map(Hit, ids, distances, scores, documents, payloads, texts)]
        query = self.queries[position : position + 1]
        columns = [code or b"" for code in codes_of]
        codes = self._codes_of_hits(ranked.rows, columns, held)
        distances = _distances(query, ranked.rows, codes, held)
        hits = [*map(Hit, ids, distances, scores, documents, payloads, texts)]
        if codes is not None and (options.with_code or options.explain):
            pairs = zip(hits, codes, strict=True)
            hits = [hit._replace(code=code_to_hex(code) or None) for hit, code in pairs]
        if column.has_passages:
            spans = map(column.span, columns, (row % MAX_PASSAGES for row in rows))
            hits = [hit._replace(passage=span) for hit, span in zip(hits, spans, strict=True)]
        if codes is None or not options.rerank:
            return hits
        return rerank_hits(hits, codes, query.weights[0].astype(np.float64))

    def _codes_of_hits(
        self, rows: Rows, columns: Sequence[bytes], held: IndexSnapshot | None
    ) -> Codes | None:
        """Return the codes of hits, from `columns` that were stored; None if nothing needs them."""
        size = self.queries.codes.shape[1]
        if self.code_column.has_passages:
            numbers = (rows % MAX_PASSAGES).tolist()
            columns = [*map(self.code_column.code_of_passage, columns, numbers)]
        elif held is not None:
            return held.codes_of(rows) if self.shows_codes and size else None
        return np.frombuffer(b"".join(columns), np.uint8).reshape(len(rows), size)


def _distances(
    query: EncodedQueries, rows: Rows, codes: Codes | None, held: IndexSnapshot | None
) -> list[Any]:
    """Return the Hamming distances of hits from a query; None for each if it has only words."""
    if query.has_only_words(0) or query.is_only_filter(0):
        return [None] * len(rows)
    if codes is None and held is not None:
        return held.distances_of(rows, query.codes[0])
    distances: list[int] = hamming_distance(codes, query.codes[0]).tolist()  # type: ignore[arg-type]
    return distances


def rows_of(pages: Sequence[Page], column: CodeColumn) -> list[int]:
    """Return the rows of the documents of all hits, without duplicates."""
    rows: set[int] = set()
    for page in pages:
        rows.update(page.ranked.rows.tolist())
    return list({*map(column.document_row, rows)} if column.has_passages else rows)


def pages_of_groups(groups: Sequence[RankedGroups]) -> list[Page]:
    """Return the hits of all groups of each query as a page."""
    return [Page(some.ranked, more=False, tie_cut=False, passed=0) for some in groups]


def in_groups(result: SearchResult, groups: Sequence[RankedGroups]) -> SearchResult:
    """Return a result whose hits, those of :func:`pages_of_groups`, are in groups."""
    grouped: list[list[Group]] = []
    for hits, some in zip(result.hits, groups, strict=True):
        rest = iter(hits)
        pairs = zip(some.values, some.sizes, strict=True)
        grouped.append([Group(value, [*islice(rest, size)]) for value, size in pairs])
    return result._replace(hits=[[] for _ in grouped], groups=grouped)


def _page(ranked: RankedRows, start: int, k: int, passed: int) -> Page:
    hits = ranked.select(slice(start, start + k))
    n_hits = len(hits.rows)
    more = n_hits > 0 and len(ranked.rows) > start + n_hits
    tie_cut = more and bool(ranked.scores[start + n_hits] == hits.scores[-1])
    return Page(hits, more, tie_cut, passed + n_hits)


KINDS: dict[type, str] = {str: "strings", float: "numbers", bool: "booleans"}
LONGEST_SIMILAR = 64
SAMPLE = 100
"""So many documents are looked at, in the order of insertion, however large a collection is.

They take about a millisecond. More would let clients keep a service busy with such searches.
"""
MAX_CHARACTERS = 4 << 20
"""No further page of documents is read once their texts have so many characters."""
PAGE = 50


class HasPages(Protocol):
    """A collection whose documents can be read."""

    def scroll(self, limit: int, cursor: str | None = None) -> ScrollPage:
        """See :meth:`hummingbit.index.backend.AnyCollection.scroll`."""


def explain_no_hits(collection: HasPages, filter_: Filter | None) -> list[str]:
    """Return why no document of a collection passes a filter, as :func:`explain_empty` does."""
    if filter_ is None:
        return []
    payloads, are_all = _first_payloads(collection)
    return explain_empty(filter_, payloads, are_all=are_all)


def absent_fields(collection: HasPages, fields: Sequence[str]) -> list[str]:
    """Return a sentence for each of the `fields` that no document of a collection has."""
    if not fields:
        return []
    payloads, are_all = _first_payloads(collection)
    absent = [field for field in fields if payloads and _values_in(payloads, field) is None]
    number = "" if are_all else f"{len(payloads):,}"
    return [_absent(field, number) for field in absent]


def explain_no_values(collection: HasPages, counted: Sequence[FacetResult]) -> list[str]:
    """Return a sentence for each facet that counts nothing because no document has its field."""
    fields = [facet.field for facet in counted if facet.missing and not facet.documents]
    return [f"facets: {sentence}" for sentence in absent_fields(collection, fields)]


def explain_no_groups(
    collection: HasPages, group_by: str | None, groups: Collection[Any] | None
) -> list[str]:
    """Return a sentence if there are no `groups` because no document has their field."""
    if group_by is None or groups:
        return []
    return [f"group_by: {sentence}" for sentence in absent_fields(collection, [group_by])]


def explain_no_order(
    collection: HasPages, sort: Sequence[SortField], first: Mapping[str, Any]
) -> list[str]:
    """Return a sentence for each field of a listing's order that no document has.

    `first` is the payload of its first document; documents without a field come last.
    """
    fields = [key.field for key in sort if read_field(first, key.field) is None]
    return [f"sort: {sentence}" for sentence in absent_fields(collection, fields)]


def with_warnings(answer: Mapping[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Return an answer with further `warnings`; without any, it lacks the field."""
    all_warnings = [*answer.get("warnings", ()), *warnings]
    return {**answer, "warnings": all_warnings} if all_warnings else {**answer}


def _first_payloads(collection: HasPages) -> tuple[list[Mapping[str, Any]], bool]:
    """Return the payloads of the first documents, and whether these are all."""
    payloads: list[Mapping[str, Any]] = []
    characters, cursor = 0, None
    while len(payloads) < SAMPLE and characters < MAX_CHARACTERS:
        page = collection.scroll(PAGE, cursor)
        payloads += [document.payload for document in page.documents]
        characters += sum(len(document.text or "") for document in page.documents)
        cursor = page.next_cursor
        if cursor is None:
            return payloads, True
    return payloads, False


def explain_empty(
    filter_: Filter, payloads: Sequence[Mapping[str, Any]], *, are_all: bool
) -> list[str]:
    """Return a sentence for each condition of a filter that no document with `payloads` can meet.

    `are_all` tells whether these are all documents; otherwise the sentences say how many they are.
    Conditions inside ``not`` are left out, and so are those that only ask whether a field exists.
    Of several ways to read a bound, as a number and as a date, the sentence is about the first.
    """
    if not payloads:
        return []
    number = "" if are_all else f"{len(payloads):,}"
    return [*_reasons(filter_, payloads, number)]


def _reasons(filter_: Filter, payloads: Sequence[Mapping[str, Any]], number: str) -> dict[str, str]:
    """Return why a filter cannot be met: sentences, and after each the field that it is about."""
    if isinstance(filter_, And):
        reasons = [_reasons(part, payloads, number) for part in filter_.parts]
        return {sentence: field for found in reasons for sentence, field in found.items()}
    if isinstance(filter_, Or):
        reasons = [_reasons(part, payloads, number) for part in filter_.parts]
        if not all(reasons):  # one of them may be met
            return {}
        of_fields: dict[str, str] = {}
        for found in reasons:
            for sentence, field in found.items():
                of_fields.setdefault(field, sentence)
        return {sentence: field for field, sentence in of_fields.items()}
    if not isinstance(filter_, ValueCondition):
        return {}
    sentence = _sentence(filter_, _values_in(payloads, filter_.field), number)
    return {sentence: filter_.field} if sentence else {}


ValueCondition = AnyOf | InRange | HasText


def _sentence(condition: ValueCondition, held: Sequence[Scalar] | None, number: str) -> str:
    """Return why a condition cannot be met if its field holds the values `held`.

    `held` is None if no document has the field. `number` is how many documents were looked at, or
    nothing if these are all. The sentence is empty if the condition can be met.
    """
    field = condition.field
    if held is None:
        return f"filter: {_absent(field, number)}"
    values = _values(condition)
    kinds, kinds_held = set(map(kind_of, values)), set(map(kind_of, held))
    where = f" in the first {number} documents" if number else ""
    value = json.dumps(values[0], ensure_ascii=False)
    if kinds.isdisjoint(kinds_held):
        holds = _names(kinds_held) or "objects"
        return f"filter: {field!r} holds {holds}{where}; {value} finds {_names(kinds)} only"
    if isinstance(condition, InRange) and condition.is_of_instants:
        texts = [text for text in held if isinstance(text, str)]
        if not any(instant_of(text) is not None for text in texts):
            example = json.dumps(texts[0], ensure_ascii=False)
            dates = "dates and times of ISO 8601 only"
            return (
                f"filter: {field!r} holds strings such as {example}{where}; {value} finds {dates}"
            )
    if isinstance(condition, AnyOf) and not _may_hold(condition, held):
        similar = _similar(values[0], held)
        return f"filter: {_no_document(number)} has {value} in {field!r}{similar}"
    return ""


def _may_hold(condition: AnyOf, held: Sequence[Scalar]) -> bool:
    """Tell whether a value is one of those held, or no name that somebody may have misspelt.

    Numbers may be absent, and equal instants can be written differently.
    """
    known = {value for value in held if isinstance(value, str)}
    return any(
        not isinstance(value, str) or value in known or instant_of(value) is not None
        for value in condition.values
    )


def _similar(value: Scalar, held: Sequence[Scalar]) -> str:
    """Return which short texts among those held are like a value, or nothing."""
    if not isinstance(value, str) or len(value) > LONGEST_SIMILAR:
        return ""
    texts = {text: None for text in held if isinstance(text, str) and len(text) <= LONGEST_SIMILAR}
    near = get_close_matches(value, texts, n=3)
    return f"; similar: {', '.join(map(repr, near))}" if near else ""


def _absent(field: str, number: str) -> str:
    return f"{_no_document(number)} has the field {field!r}"


def _no_document(number: str) -> str:
    return f"none of the first {number} documents" if number else "no document"


def _names(kinds: Iterable[type]) -> str:
    return " and ".join(name for kind, name in KINDS.items() if kind in kinds)


def _values_in(payloads: Sequence[Mapping[str, Any]], field: str) -> list[Scalar] | None:
    """Return the values that a field holds, or None if no payload has it."""
    values = [value for payload in payloads if (value := read_field(payload, field)) is not None]
    return [scalar for value in values for scalar in scalars_of(value)] if values else None


def _values(condition: ValueCondition) -> tuple[Scalar, ...]:
    if isinstance(condition, HasText):
        return (condition.part,)
    return condition.values if isinstance(condition, AnyOf) else tuple(condition.bounds.values())
