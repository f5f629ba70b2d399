"""A collection: an encoder, a store and an index that stay consistent; a search's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from hummingbit.corpus.document import MAX_TEXT_LENGTH, Document
from hummingbit.corpus.field_types import FieldType
from hummingbit.encoder.analyzers import VISIBLE, Analyzer, WordExpression
from hummingbit.encoder.codes import Codes, pack_rows
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.memory import give_back_memory
from hummingbit.foundation.processes import ProcessLock
from hummingbit.index.answers import answer_to
from hummingbit.index.backend import BATCH_SIZE, MAX_COMPLETIONS, AnyCollection, CheckReplaced
from hummingbit.index.encoding import (
    WITHOUT_CODES,
    batches,
    encode_documents,
    encode_queries,
    last_of_each_id,
    query_inputs,
)
from hummingbit.index.engines.protocol import Rows, rows_in_both, rows_without
from hummingbit.index.errors import EncoderMismatch, RowsRemoved, StoreError
from hummingbit.index.facets import (
    Facet,
    FacetResult,
    RankedGroups,
    SortField,
    check_is_no_order,
    count_facet,
    position_at,
    rank_groups,
    sorted_rows,
)
from hummingbit.index.filters import And, Exists, Filter, check_indexed_fields, filter_to_json
from hummingbit.index.generations import PublishedGeneration, PublishedIndex, Writer
from hummingbit.index.labels import Annotations
from hummingbit.index.languages import check_language
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.names import ASYMMETRIC, AUTO, BM25, HAMMING, MAX_K, PLAIN
from hummingbit.index.operations import Answer, Work, ask
from hummingbit.index.options import (
    FACET_DEPTH,
    FacetsOver,
    SearchOptions,
    check_hybrid_weight,
    check_ranking,
)
from hummingbit.index.owned import OwnedIndex, OwnedIndexes
from hummingbit.index.passages import (
    PASSAGE_BITS,
    CodeColumn,
    DocumentCodes,
    PassageCodes,
    Passages,
)
from hummingbit.index.payloads import PayloadsUpdated, PayloadUpdate
from hummingbit.index.query_syntax import QueryText, read_query_text
from hummingbit.index.questions import Question, Reader
from hummingbit.index.rankings import (
    BY_WORDS,
    DEFAULT_WEIGHT,
    OF_MODELS,
    BestPassages,
    Bm25Ranking,
    HammingRanking,
    Ranking,
    SearchedDocuments,
    make_ranking,
)
from hummingbit.index.recommendations import check_examples, recommendation_query
from hummingbit.index.records import (
    CodedPayloads,
    DeleteResult,
    EncodedQueries,
    IngestReport,
    Queries,
    Query,
    ScrollPage,
    StoredDocument,
    UpsertResult,
    Verification,
)
from hummingbit.index.schema import Description
from hummingbit.index.search import (
    Position,
    Search,
    SearchResult,
    absent_fields,
    check_by_words,
    check_texts_are_taken,
    explain_no_hits,
    in_groups,
    needs_only_words,
    needs_words,
    pages_of_groups,
    read_cursor,
    read_sort_cursor,
    rows_of,
    write_cursor,
    write_sort_cursor,
)
from hummingbit.index.store.columns import Column, Mask
from hummingbit.index.store.fields import PayloadFields, damaged_columns
from hummingbit.index.store.store import Block, Changes, Store, verify_store

# Requests and options use the name `filter`; the builtin is not needed here.


def check_encoder(description: Description, encoder: Encoder | None) -> None:
    """Raise EncoderMismatch unless `encoder` made the codes of the collection."""
    expected = description.encoder_fingerprint
    actual = None if encoder is None else encoder.fingerprint
    if actual != expected:
        message = (
            f"collection {description.name!r} was made with encoder {description.encoder_name!r},"
            f" fingerprint {expected}; this encoder has fingerprint {actual}. To change the"
            " encoder, index the documents again."
        )
        raise EncoderMismatch(message)
    if encoder is not None and encoder.n_bits != description.n_bits:
        bits = f"codes of {description.n_bits} bits, but its encoder makes {encoder.n_bits}"
        raise EncoderMismatch(f"collection {description.name!r} has {bits}")


def _is_ascii_text(query: Query) -> bool:
    """Tell whether a query is an ASCII text of a valid length, which needs no other check."""
    text, vector, code, id_ = query
    is_text = text is not None and vector is None and code is None and id_ is None
    return is_text and len(text or "") <= MAX_TEXT_LENGTH and (text or "").isascii()


FIELDS_KEPT = 1024
CANDIDATES_AT_ONCE = 100
MUCH_DELETED = 1 << 20
_LAST_WORD = WordExpression(r"\w{2,}$")
# How many generations a search tries before it waits for the writers.
ATTEMPTS = 3


# A collection: an encoder, a store and an index that stay consistent.
#
# **Writes** are described in :mod:`hummingbit.index.generations`. Once a write returns, it is
# durable and every later search sees it.
#
# **Searches** are described in :mod:`hummingbit.index.search`.
#
# **Readers.** A process that only reads works in the same way. The writer may commit at any time;
# :meth:`Collection.follow`, called regularly, publishes what was committed since.


class Collection:
    """An :class:`CollectionBackend` over a store. All methods are thread-safe."""

    _live: tuple[tuple[int, int], Mask] = ((-1, 0), np.zeros(0, dtype=np.bool_))
    _within: Filter | None = None
    """That of the documents to which :meth:`within` limits searches."""
    _fields: tuple[int, dict[str, bool]] = (-1, {})
    """Whether documents of a generation have a field, by filters."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder | None = None,
        *,
        engine: str = "auto",
        indexed: bool = True,
    ) -> None:
        """Open the collection in `store`, which is closed with it; `encoder` made its codes.

        `engine` is the index type; see :func:`hummingbit.index.engines.choice.build`. Without
        `indexed`, the first search builds the index, and writes before it need none.

        Raises:
            EncoderMismatch: if the collection was made with another encoder, or without one.
            StoreError: if the store is damaged.
        """
        description = store.description
        check_encoder(description, encoder)
        self.description = description
        self.name: str = description.name
        self.incarnation = store.incarnation
        self.n_bits: int = description.n_bits
        self.encoder: Encoder | None = encoder
        self.is_read_by_model: bool = encoder is not None and encoder.is_slow
        self.encoder_kind: str | None = None if encoder is None else encoder.kind
        self.encoder_name: str | None = description.encoder_name
        self.encoder_fingerprint: str | None = description.encoder_fingerprint
        self.engine_setting: str = description.engine
        self.keep_vectors: str = description.keep_vectors
        self.passages: Passages | None = description.passages
        self.store = store
        self.ranking: str = store.default_ranking() or HAMMING
        self.own_hybrid_weight = store.hybrid_weight()
        self._write_lock = ProcessLock(store.connections.process)
        self._statistics: tuple[tuple[int, int], dict[str, Any]] | None = None
        """The generation and its size that were measured last, and the statistics of the codes."""
        self._payload_fields = PayloadFields(store)
        self._published_index = PublishedIndex(
            store, self._write_lock, engine, self._payload_fields
        )
        self._searched: PublishedIndex | OwnedIndex = self._published_index
        self._owned = OwnedIndexes(store, self._published_index)
        self._writer = Writer(store, self._write_lock, self._published_index, self._payload_fields)
        self.annotations = Annotations(store, self._write_lock, self._published_index)
        if store.writable:
            self._published_index.forget_later_words()
        if indexed:
            self.build_index()

    @property
    def hybrid_weight(self) -> float:
        """See :attr:`hummingbit.index.backend.CollectionBackend.hybrid_weight`."""
        # Earlier versions fitted a weight to encoders of words, for another formula.
        default = DEFAULT_WEIGHT
        if self.encoder is not None and self.is_read_by_model:
            default = self.encoder.hybrid_weight or OF_MODELS
        return self.own_hybrid_weight or default

    def called(self, name: str) -> Collection:
        """See :meth:`hummingbit.index.backend.CollectionBackend.called`."""
        same = copy(self)
        vars(same).update(name=name, description=replace(self.description, name=name))
        return same

    def ask(
        self,
        operation: str,
        body: Mapping[str, Any],
        filter: Filter | None = None,  # noqa: A002
    ) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.AnyCollection.ask`."""
        return ask(self, operation, body, filter)

    def get_many(self, ids: Sequence[str]) -> Iterator[StoredDocument | None]:
        """See :meth:`hummingbit.index.backend.AnyCollection.get_many`."""
        return map(self.get, ids)

    def explain_no_hits(self, filter: Filter | None) -> list[str]:  # noqa: A002
        """See :func:`hummingbit.index.search.explain_no_hits`."""
        return explain_no_hits(self, filter)

    def search(
        self,
        queries: Queries,
        k: int,
        radius: int | None = None,
        **options: Any,
    ) -> SearchResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.search`.

        All queries are answered on the same generation. A query by id also finds the document
        itself.
        """
        return self.find(queries, SearchOptions(k, radius, **options))

    def _last_of_each_id(
        self, documents: Sequence[Document], codes: DocumentCodes
    ) -> tuple[list[Document], DocumentCodes]:
        """Keep the last document of each id, and its code or those of its passages.

        Raises:
            InputError: unless there is a code of `n_bits` for each document or passage.
        """
        shape = (len(documents), self.n_bits // 8)
        if isinstance(codes, PassageCodes):
            if self.passages is None or len(codes) != len(documents):
                raise InputError("codes", "are those of passages; the collection has none")
        elif codes.dtype != np.uint8 or codes.shape != shape:
            actual = f"{codes.dtype}{list(codes.shape)}"
            raise InputError("codes", f"are {actual}; they must be uint8{list(shape)}")
        last = sorted({document.id: at for at, document in enumerate(documents)}.values())
        return [documents[at] for at in last], codes[last]

    def _scroll_key(self, limit: int, filter_: Filter | None) -> tuple[str, str, str, str | None]:
        """Return the values that bind a cursor to this scroll.

        Raises:
            InputError: if `limit` is not from 1 to :data:`MAX_K`.
        """
        if not 1 <= limit <= MAX_K:
            raise InputError("limit", f"is {limit}; it must be from 1 to {MAX_K}")
        filter_json = None if filter_ is None else filter_to_json(filter_)
        return ("scroll", self.name, self.incarnation, filter_json)

    def answer(self, query: Query, options: Mapping[str, Any]) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.AnyCollection.answer`."""
        parsed = SearchOptions.of_request(options)
        return self._answer(parsed, partial(self.find, [query], parsed))

    def recommendation(
        self,
        positive: Sequence[Query],
        negative: Sequence[Query],
        options: Mapping[str, Any],
        strategy: str,
    ) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.AnyCollection.recommendation`."""
        parsed = SearchOptions.of_request(options)
        return self._answer(parsed, partial(self.recommend, positive, negative, parsed, strategy))

    def _answer(self, options: SearchOptions, search: Callable[[], SearchResult]) -> dict[str, Any]:
        return answer_to(self, options, search)

    def encode_queries(
        self, queries: Sequence[Query], options: SearchOptions | None = None
    ) -> EncodedQueries:
        """See :meth:`hummingbit.index.backend.CollectionBackend.encode_queries`."""
        encoder = self.encoder
        takes_texts = encoder is not None and encoder.kind == "text"
        if takes_texts and options is not None:
            takes_texts = not needs_only_words(options, self.ranking)
        default, are_simple = self.ranking, True
        for query in queries:
            is_read = takes_texts and query.vector is None and query.code is None
            if query.text is not None and not is_read:
                default = BM25  # a text that is not encoded is ranked by its words
            are_simple = are_simple and _is_ascii_text(query)
        questions = self._read(queries, options, by_words=needs_words(options, default))
        if are_simple and not takes_texts:
            return EncodedQueries.of_words(questions, self.n_bits)
        if encoder is None or not are_simple:
            return encode_queries(
                queries,
                self.description,
                encoder,
                self._codes_of,
                questions,
                takes_texts=takes_texts,
            )
        inputs = query_inputs(queries, questions, range(len(queries)), encoder)
        weights, terms = encoder.read_queries(inputs, correct=False)
        codes = pack_rows(weights > 0)
        for position, of_text in enumerate(terms):
            if of_text is not None and not of_text.recognized_terms:
                weights[position] = 0  # this text says nothing about any bit
        weighted = np.array([True] * len(questions))
        return EncodedQueries(codes, weights, questions, weighted, terms)

    def _with_words(self, queries: EncodedQueries, options: SearchOptions) -> EncodedQueries:
        """Return queries whose texts are read by the words of documents, if the search needs it."""
        if not needs_words(options, BM25 if queries.has_words else self.ranking):
            return queries
        if not any(question and question.words is None for question in queries.questions):
            return queries
        syntaxes = [None if read is None else read.syntax for read in queries.questions]
        questions = self._reader(by_words=True).read_all(syntaxes, expand=options.expand)
        return replace(queries, questions=questions)

    def _read(
        self, queries: Sequence[Query], options: SearchOptions | None, *, by_words: bool
    ) -> list[Question | None]:
        """Return the question that each text asks, None where there is no text.

        They are read by the words of documents where the search is `by_words`, and in collections
        where words rank also where these could change what the encoder reads.
        """
        syntaxes = [self._syntax(query.text, options) for query in queries]
        if not any(syntaxes):
            return [None] * len(queries)
        expand = options is None or options.expand
        questions = self._reader(by_words=by_words).read_all(syntaxes, expand=expand)
        if by_words or self.ranking not in BY_WORDS:
            return questions
        if all(question is None or question.is_settled for question in questions):
            return questions
        return self._reader(by_words=True).read_all(syntaxes, expand=expand)

    def _syntax(self, text: str | None, options: SearchOptions | None) -> QueryText | None:
        if text is None:
            return None
        if options is not None and options.syntax == PLAIN:
            return QueryText(VISIBLE.normalize(text))
        within = None if options is None else options.filter
        return read_query_text(text, partial(self._has_field, within=within))

    @property
    def _encoder_of_texts(self) -> Encoder | None:
        encoder = self.encoder
        return encoder if encoder is not None and encoder.kind == "text" else None

    def find(self, queries: Queries, options: SearchOptions) -> SearchResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.find`."""
        if not self.n_bits:
            check_by_words(options)
        options.check(self.n_bits, len(queries))
        encoded = (
            self._with_words(queries, options)
            if isinstance(queries, EncodedQueries)
            else self.encode_queries(queries, options)
        )
        search = Search(
            self.name,
            encoded,
            options,
            self.incarnation,
            self.ranking,
            hybrid_weight=self.hybrid_weight,
            code_column=self.description.code_column,
        )
        return self._run_search(search)

    def within(self, filter: Filter) -> Collection:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.within`."""
        own = copy(self)
        vars(own).update(_searched=self._owned.of(filter), _within=filter, _live=Collection._live)
        return own

    def recommend(
        self,
        positive: Sequence[Query],
        negative: Sequence[Query],
        options: SearchOptions,
        strategy: str,
    ) -> SearchResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.recommend`."""
        if not self.n_bits:
            raise InputError("collection", f"{self.name!r} cannot recommend: {WITHOUT_CODES}")
        check_examples(positive, negative, strategy)
        examples = [*positive, *negative]
        try:
            encoded = self.encode_queries(examples, SearchOptions(1, syntax=PLAIN))
        except InputError as error:
            at, n = error.position or 0, len(positive)
            field, position = ("positive", at) if at < n else ("negative", at - n)
            raise InputError(field, f"{error.field} {error.reason}", position) from None
        query = recommendation_query(encoded, examples, len(positive), strategy)
        result = self.find(query, replace(options, ranking=ASYMMETRIC, with_cursor=False))
        return result._replace(rankings=[strategy])

    def _reader(self, *, by_words: bool) -> Reader:
        """Return what reads questions by the words of the encoder, and `by_words` of documents."""
        lexical = self._searched.current_with_lexical().lexical if by_words else None
        if lexical is None:
            return Reader(None, self._encoder_of_texts)
        return lexical.reader(self._encoder_of_texts)

    def complete(self, text: str, limit: int) -> list[str]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.complete`."""
        if not 1 <= limit <= MAX_COMPLETIONS:
            raise InputError("limit", f"is {limit}; it must be from 1 to {MAX_COMPLETIONS}")
        text = VISIBLE.normalize(text)
        last = _LAST_WORD.of(text).search(text)
        if last is None:
            raise InputError("text", "must end with a word of two characters or more")
        lexical = self._searched.current_with_lexical().lexical
        prefixes = [] if lexical is None else lexical.analyzer.split(last[0])
        if lexical is None or not prefixes:
            return []
        return [text[: last.start()] + word for word in lexical.complete(prefixes[-1], limit)]

    def _codes_of(self, ids: Sequence[str]) -> Mapping[str, Codes]:
        return self.store.read_codes_of(ids)

    def _has_field(self, field: str, within: Filter | None) -> bool:
        """Tell whether a document has a field, or one that a filter allows, and keep the answer."""
        if self._within is not None:
            within = self._within if within is None else And((self._within, within))
        if field in self.indexed_fields and within is None:
            return True
        generation = self.generation
        if self._fields[0] != generation or len(self._fields[1]) > FIELDS_KEPT:
            self._fields = generation, {}
        known = self._fields[1]
        filter_ = Exists(field) if within is None else And((within, Exists(field)))
        key = filter_to_json(filter_)
        if key not in known:
            known[key] = bool(self.scroll(1, filter=filter_).documents)
        return known[key]

    def _run_search(self, search: Search) -> SearchResult:
        work = partial(self._search_generation, search)
        return self._on_generation(search.options.filter, work, lexical=search.needs_words)

    def _on_generation(
        self,
        filter_: Filter | None,
        work: Callable[[PublishedGeneration, Rows | None], Answer | None],
        *,
        lexical: bool = False,
    ) -> Answer:
        """Return what `work` makes of a generation and the rows that match, None without a filter.

        It returns None if the store has changed since, and is called again on another generation.
        """
        tried: PublishedGeneration | None = None
        for _ in range(ATTEMPTS):
            published, allowed = self._searched.search_target(filter_, lexical=lexical)
            if published is tried:
                break
            answer = work(published, allowed)
            if answer is not None:
                return answer
            # The writer has probably published by now; taking the lock could mean waiting until the
            # next write is on disk.
            tried = published
        with self._searched.target_in_transaction(filter_, lexical=lexical) as target:
            answer = work(*target)
        if answer is None:
            raise StoreError(f"{self.store.path}: is damaged: codes and documents do not match")
        return answer

    def _search_generation(
        self, search: Search, published: PublishedGeneration, allowed: Rows | None
    ) -> SearchResult | None:
        """Search one generation; return None if a hit or candidate was removed from the store."""
        generation, options = published.generation, search.options
        column = search.code_column
        ranking, counted = self._rankings(search, published)
        try:
            restricted = self._restricted(search, published, allowed)
            if restricted is None:
                return None
            tables = published, allowed, restricted
            groups = facets = None
            if options.group_by is None:
                pages = search.pages(ranking, allowed, restricted)
            else:
                groups = self._groups(search, options.group_by, ranking, *tables)
                pages = pages_of_groups(groups)
            if options.facets is not None:
                facets = self._facets(search, options.facets, counted, *tables)
        except RowsRemoved:
            return None
        rows = rows_of(pages, column)
        fields = search.stored_fields
        stored_rows = (
            self.store.read_rows(rows, *fields) if any(fields) else self.store.read_ids(rows)
        )
        if len(stored_rows) < len(rows):
            return None
        if options.with_payload and self.store.last_payload_change() > generation.number:
            return None
        result = search.result(
            ranking,
            pages,
            stored_rows,
            generation=generation.number,
            last_row=published.last_row,
            engine=generation.base.name,
            codes=generation,
            lexical=published.lexical,
            analyzer=self._analyzer(published) if options.highlight else None,
        )
        if groups is not None:
            result = in_groups(result, groups)
        if facets is None:
            return result
        counted, over = [*zip(*facets, strict=True)] or [(), ()]
        return result._replace(facets=counted, facets_over=over)

    def _rankings(self, search: Search, published: PublishedGeneration) -> tuple[Ranking, Ranking]:
        """Return the ranking of a search, and that of the documents that its facets count."""
        generation, options, column = published.generation, search.options, search.code_column
        if search.by_distance and not column.has_passages:
            by_distance = HammingRanking(generation, options.radius)
            return by_distance, by_distance
        vectors = self.store.read_vectors, self.store.description.keep_vectors
        texts = published.lexical, published.moments
        documents = SearchedDocuments(generation, *texts, *vectors, column)
        ranking = counted = make_ranking(search, documents)
        if self.n_bits and search.queries.has_words and not published.lexical:
            check_texts_are_taken(search.queries, self.encoder)
        if options.facets is not None and options.score_threshold is None:
            # What reorders or thins the first candidates would leave few to be counted.
            nearest = copy(search)
            nearest.options = replace(options, rescore=None, diversity=None)
            counted = make_ranking(nearest, documents)
        return ranking, counted

    def _analyzer(self, published: PublishedGeneration) -> Analyzer | None:
        """Return the analyzer for highlights of texts whose words are not indexed."""
        return self._searched.analyzer() if published.lexical is None else None

    def _column(self, field: str, published: PublishedGeneration) -> Column:
        """Return the column of a field at a generation.

        Raises:
            RowsRemoved: if the store is at another one.
        """
        number = published.generation.number
        column = self._payload_fields.column(field, number)
        if column.generation != number:
            raise RowsRemoved("the store changed while a column was read")
        return column

    def _groups(  # noqa: PLR0917 - a search and what it is limited to
        self,
        search: Search,
        field: str,
        ranking: Ranking,
        published: PublishedGeneration,
        allowed: Rows | None,
        restricted: Mapping[int, Rows],
    ) -> list[RankedGroups]:
        """Return the groups of each query by a field."""
        by = self._column(field, published)
        sizes = search.options.k, search.options.group_size
        return [
            rank_groups(ranking, query, by, search.code_column, rows, *sizes)
            for query, rows in search.each_query(allowed, restricted)
        ]

    def _facets(  # noqa: PLR0917 - a search and what it is limited to
        self,
        search: Search,
        facets: Sequence[Facet],
        ranking: Ranking,
        published: PublishedGeneration,
        allowed: Rows | None,
        restricted: Mapping[int, Rows],
    ) -> list[tuple[list[FacetResult], FacetsOver]]:
        """Return the facets of each query, and over what they are."""
        columns = [self._column(facet.field, published) for facet in facets]
        column, everything = search.code_column, max(1, len(published.generation))

        def mask(by: Ranking, query: EncodedQueries, count: int, rows: Rows | None) -> Mask:
            found = np.zeros(published.last_row + 1, dtype=np.bool_)
            for ranked in by.rank(query, count, rows):
                found[column.document_row(ranked.rows)] = True
            return found

        counted: list[tuple[list[FacetResult], FacetsOver]] = []
        for position, (query, rows) in enumerate(search.each_query(allowed, restricted)):
            over = search.facets_over(position)
            if over == "words":
                selected = mask(_ranking_by_words(published, column), query, everything, rows)
                if search.ranking != BM25 and not selected.any():
                    over = "best"
            if over == "best":
                depth = search.options.facet_depth or FACET_DEPTH
                selected = mask(ranking, query, depth, rows)
            elif search.queries.is_only_filter(position):
                selected = self._selected(published, rows)
            elif over == "found":
                selected = mask(ranking, query, everything, rows)
            counted.append(([*map(count_facet, facets, columns, repeat(selected))], over))
        return counted

    def _selected(self, published: PublishedGeneration, allowed: Rows | None) -> Mask:
        """Return which rows up to the last are those of documents, and allowed."""
        live = self._live_rows(published)
        if allowed is None:
            return live
        selected = np.zeros(len(live), dtype=np.bool_)
        selected[allowed[allowed < len(live)]] = True
        return selected & live

    def _live_rows(self, published: PublishedGeneration) -> Mask:
        # Documents that expire leave a generation, whose number stays.
        key = published.generation.number, len(published.generation)
        known, live = self._live
        if known != key:
            rows = self.store.code_column.document_rows(published.generation.all_live_rows())
            live = np.zeros(published.last_row + 1, dtype=np.bool_)
            live[rows] = True
            self._live = key, live
        return live

    def tabulate(self, filter_: Filter | None, fields: Sequence[str], work: Work[Answer]) -> Answer:
        """See :meth:`hummingbit.index.operations.Documents.tabulate`.

        If `work` returns None, the store changed meanwhile, and it is called again.
        """

        def tabulate(published: PublishedGeneration, allowed: Rows | None) -> Answer | None:
            try:
                columns = [self._column(field, published) for field in fields]
                return work(published, self._selected(published, allowed), columns)
            except RowsRemoved:
                return None

        return self._on_generation(filter_, tabulate)

    def _sorted_page(
        self,
        limit: int,
        cursor: str | None,
        filter_: Filter | None,
        sort: Sequence[SortField],
    ) -> ScrollPage:
        key = (*self._scroll_key(limit, filter_), *sort)
        after = None if cursor is None else read_sort_cursor(cursor, *key)

        def page(
            published: PublishedGeneration, selected: Mask, columns: list[Column]
        ) -> ScrollPage | None:
            for sorted_by, column in zip(sort, columns, strict=True):
                if not column.sizes.any():
                    check_is_no_order(sorted_by.field)
            rows = sorted_rows(sort, columns, selected, limit + 1, after).tolist()
            documents = {
                document.row: document for document in self.store.read_documents(rows[:limit])
            }
            changed = self.store.last_payload_change() > published.generation.number
            if len(documents) < len(rows[:limit]) or changed:
                return None
            following = None
            if len(rows) > limit:
                last = published.last_row if after is None else after.last_row
                end = position_at(sort, columns, rows[limit - 1], last)
                following = write_sort_cursor(end, *key)
            return ScrollPage([documents[row] for row in rows[:limit]], following)

        return self.tabulate(filter_, [field.field for field in sort], page)

    def _restricted(
        self, search: Search, published: PublishedGeneration, allowed: Rows | None
    ) -> dict[int, Rows] | None:
        """Return the rows of each query whose syntax allows only some, by its position.

        It is None if a condition was evaluated on another generation.
        """
        restricted: dict[int, Rows] = {}
        queries, every = search.queries, allowed
        if every is None and (queries.left_out or search.has_syntax):
            every = search.code_column.document_rows(published.generation.all_live_rows())
        if every is None:
            return restricted
        if queries.left_out:
            examples = np.array(self.store.rows_of(queries.left_out), dtype=np.int64)
            restricted[0] = rows_without(every, np.sort(examples))
        for position, question in enumerate(queries.questions):
            if question is None or question.syntax.is_plain:
                continue
            read, rows = question.syntax, every
            if read.filter is not None:
                matching = self._searched.matching(read.filter)
                if matching.generation != published.generation.number:
                    return None
                rows = rows_in_both(rows, matching.rows)
            restricted[position] = self._rows_by_words(read, published, rows)
        return restricted

    def _rows_by_words(self, read: QueryText, published: PublishedGeneration, rows: Rows) -> Rows:
        """Return those of `rows` that have the phrases of a query and nothing that it excludes.

        A phrase that no document has is not required.
        """
        lexical = published.lexical
        if lexical is None:
            raise RuntimeError("a phrase needs a lexical index; none is published")
        for phrase in read.phrases:
            with_phrase = self._rows_with_phrase(lexical, phrase)
            if len(with_phrase):
                rows = rows_in_both(rows, with_phrase)
        for phrase in read.excluded:
            rows = rows_without(rows, self._rows_with_phrase(lexical, phrase))
        return rows

    def _rows_with_phrase(self, lexical: LexicalIndex, phrase: str) -> Rows:
        """Return the rows of the texts that have the words of a phrase next to each other."""
        terms = [term for term, *_ in lexical.words_of(phrase)]
        rows = self.store.code_column.document_rows(lexical.rows_with_all(terms))
        if len(terms) < 2:
            return rows
        with_phrase: list[int] = []
        for start in range(0, len(rows), CANDIDATES_AT_ONCE):
            check_cancelled()
            some: list[int] = rows[start : start + CANDIDATES_AT_ONCE].tolist()
            stored = self.store.read_rows(some, False, True, False)
            texts = {row: stored[row][2] or "" for row in some if row in stored}
            have = lexical.have_phrase([*texts.values()], terms)
            with_phrase += [row for row, has in zip(texts, have, strict=True) if has]
        return np.array(with_phrase, dtype=np.int64)

    def is_built_for(self, ranking: str | None) -> bool:
        """See :meth:`hummingbit.index.backend.CollectionBackend.is_built_for`."""
        published = self._published_index.published
        if published is None or not (self.ranking in BY_WORDS or ranking in BY_WORDS):
            return published is not None
        lexical, encoder = published.lexical, self.encoder
        if lexical is None:
            return False
        return encoder is None or encoder.knows_neighbours(lexical.analyzer)

    def build_index(self) -> None:
        """Build the index and the encoder's tables, where missing, so that no search has to.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        if self.encoder is not None:
            self.encoder.prepare()
        if self.ranking not in BY_WORDS:
            self._published_index.current()
            return
        lexical = self._published_index.current_with_lexical().lexical
        if self.encoder is not None and lexical is not None:
            self.encoder.prepare_neighbours(lexical.analyzer)

    def ingest(
        self,
        documents: Iterable[Document],
        *,
        jobs: int = 1,
        progress: Callable[[int], object] | None = None,
        refused: Callable[[str, str], object] | None = None,  # noqa: ARG002 - none is refused
    ) -> IngestReport:
        """See :meth:`hummingbit.index.backend.AnyCollection.ingest`."""
        from hummingbit.index.ingestion import ingest  # noqa: PLC0415 - it imports this module's users

        report = ingest(self, documents, jobs=jobs, progress=progress)
        self.save_words()
        self._writer.save_columns(read=True)
        return report

    def save_words(self) -> None:
        """Write the file of the word index where it is missing or far behind, for later processes.

        The index is built first; searches and writes of other threads wait meanwhile.
        """
        if self.ranking in BY_WORDS:
            with self._write_lock:
                self._published_index.save_words(build=True)

    @property
    def generation(self) -> int:
        """The number of writes so far that changed something."""
        built = self._published_index.built_generation()
        return self.store.generation() if built is None else built.number

    @property
    def last_row(self) -> int:
        """See :attr:`hummingbit.index.backend.CollectionBackend.last_row`."""
        return self.store.last_row()

    def __len__(self) -> int:
        published = self._published_index.published
        return self.store.count() if published is None else published.documents

    def upsert(
        self,
        documents: Iterable[Document],
        *,
        batch_size: int = BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """See :meth:`upsert`; an error undoes the whole write.

        There may be any number of documents. Other writes wait until this one is done.
        """

        def encoded_batches() -> Iterator[tuple[list[Document], DocumentCodes]]:
            for batch in batches(documents, batch_size):
                distinct = last_of_each_id(batch)
                yield distinct, encode_documents(distinct, self.encoder, self.n_bits, self.passages)
                if progress is not None:
                    progress(len(batch))

        return self._writer.upsert(encoded_batches(), check=check)

    def upsert_encoded(
        self,
        documents: Sequence[Document],
        codes: DocumentCodes,
        bookmark: tuple[str, str] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """See :meth:`upsert_encoded`; an error undoes it all."""
        return self._writer.upsert(iter([self._last_of_each_id(documents, codes)]), bookmark, check)

    def read_bookmark(self, key: str) -> str | None:
        """Return the last value stored under `key`, or None."""
        return self.store.read_bookmark(key)

    def set_bookmark(self, key: str, value: str | None) -> None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.set_bookmark`."""
        with self._writing() as changes:
            changes.set_bookmark(key, value)
            changes.commit_bookmark()

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.new_or_changed`."""
        return self._writer.new_or_changed(documents)

    def existing_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that belong to documents of the collection."""
        return set(self.store.read_marks(list(dict.fromkeys(ids))))

    def ids_within(self, ids: Sequence[str], filter: Filter) -> set[str]:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.ids_within`."""
        with self.store.read_transaction():
            matching = self._payload_fields.rows(filter).rows
            rows = self.store.row_of_each(ids)
        found = np.isin(np.fromiter(rows.values(), np.int64, len(rows)), matching)
        return {id_ for id_, is_within in zip(rows, found.tolist(), strict=True) if is_within}

    def delete(self, ids: Sequence[str], *, within: Filter | None = None) -> DeleteResult:
        """See :meth:`hummingbit.index.backend.CollectionBackend.delete`."""
        return self._writer.delete(ids, within)

    def delete_where(self, filter: Filter) -> DeleteResult:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.delete_where`."""
        return self._writer.delete_where(filter)

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], if_generation: int | None = None
    ) -> PayloadsUpdated:
        """See :meth:`hummingbit.index.backend.AnyCollection.update_payloads`."""
        return self._writer.update_payloads(updates, if_generation)

    def get(self, id_: str) -> StoredDocument | None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.get`."""
        return self.store.get(id_)

    def knows_filter(self, filter: Filter | None) -> bool:  # noqa: A002
        """See :meth:`hummingbit.index.backend.CollectionBackend.knows_filter`."""
        if filter is None or self._within is not None:
            return self._searched.knows_filter(filter)
        return self._payload_fields.knows_filter(filter)

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002
        """Return the number of documents, or of those that match the filter."""
        if filter is None:
            return len(self)
        if self._published_index.built_generation() is None:
            with self.store.read_transaction():
                return self.store.count_rows(self._payload_fields.rows(filter).rows)
        published, rows = self._published_index.search_target(filter)
        if rows is None:
            return 0
        if self.passages is not None:
            rows = rows << PASSAGE_BITS  # a document has a first passage
        return len(published.generation.live_rows(rows))

    def scroll(
        self,
        limit: int,
        cursor: str | None = None,
        filter: Filter | None = None,  # noqa: A002
        sort: Sequence[SortField] = (),
    ) -> ScrollPage:
        """See :meth:`hummingbit.index.backend.CollectionBackend.scroll`."""
        if sort:
            return self._sorted_page(limit, cursor, filter, sort)
        key = self._scroll_key(limit, filter)
        start = None if cursor is None else read_cursor(cursor, *key)
        after, up_to = (0, None) if start is None else (start.row, start.last_row)
        with self.store.read_transaction():
            rows = None if filter is None else self._payload_fields.rows(filter).rows
            documents, last_row = self.store.scroll(limit + 1, after, up_to, rows)
        if len(documents) <= limit:
            return ScrollPage(documents, None)
        last = last_row if up_to is None else up_to
        passed = limit if start is None else start.passed + limit
        position = Position(0, documents[limit - 1].row, last, passed)
        return ScrollPage(documents[:limit], write_cursor(position, *key))

    def documents_after(self, row: int, limit: int) -> list[StoredDocument]:
        """Return the first `limit` documents after `row`, in the order of rows."""
        return self.store.scroll(limit, row, None)[0]

    def payloads_changed_since(self, generation: int) -> list[StoredDocument]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.payloads_changed_since`."""
        return self.store.payloads_changed_since(generation)

    def all_documents(self) -> list[StoredDocument]:
        """Return all documents of one generation, in the order of rows."""
        return self.store.read_contents()

    def set_ranking(self, ranking: str) -> None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.set_ranking`."""
        check_ranking(ranking)
        if not self.n_bits:
            check_by_words(SearchOptions(1, ranking=ranking))
        with self._writing() as changes:
            changes.set_default_ranking(ranking)
        self.ranking = ranking

    def set_hybrid_weight(self, weight: float | None) -> None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.set_hybrid_weight`."""
        check_hybrid_weight(weight)
        if not self.n_bits and weight is not None:
            raise InputError("hybrid_weight", f"needs codes; {WITHOUT_CODES}")
        with self._writing() as changes:
            changes.set_hybrid_weight(weight)
        self.own_hybrid_weight = weight

    @property
    def language(self) -> str | None:
        """See :attr:`hummingbit.index.backend.CollectionBackend.language`.

        Within a filter, a language that is to be found is None: the collection's was found in other
        documents, too.
        """
        setting, found = self.store.language()
        if setting != AUTO:
            return setting
        return found if self._within is None else None

    def set_language(self, language: str) -> None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.set_language`."""
        with self._writing() as changes:
            changes.set_language(language if language == AUTO else check_language(language))
        # The next search by words indexes the texts anew.
        self._published_index.drop_other_language()

    @property
    def indexed_fields(self) -> tuple[str, ...]:
        """See :attr:`hummingbit.index.backend.CollectionBackend.indexed_fields`."""
        return tuple(self.store.indexed_fields())

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> list[str]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.set_indexed_fields`."""
        self._writer.set_indexed_fields(check_indexed_fields(fields), progress)
        return absent_fields(self, fields)

    @property
    def field_types(self) -> Mapping[str, FieldType]:
        """See :attr:`hummingbit.index.backend.CollectionBackend.field_types`."""
        return self.store.field_types()

    def remember_field_types(self, types: Mapping[str, FieldType]) -> None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.remember_field_types`."""
        if types.items() - self.field_types.items():
            with self._writing() as changes:
                changes.remember_field_types(types)

    @contextmanager
    def _writing(self) -> Iterator[Changes]:
        with self._write_lock, self.store.writing() as changes:
            yield changes

    def coded_payloads(self, *, with_given_labels: bool) -> CodedPayloads:
        """See :meth:`hummingbit.index.backend.CollectionBackend.coded_payloads`."""
        return self.store.read_payloads(with_given_labels=with_given_labels)

    def labelled_codes(self, label_field: str = "label") -> tuple[Codes, list[tuple[str, ...]]]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.labelled_codes`."""
        return self.store.read_labels(label_field)

    def verify(self) -> Verification:
        """See :meth:`hummingbit.index.backend.CollectionBackend.verify`.

        The check covers one generation; searches and writes continue meanwhile.
        """
        with ExitStack() as stack:
            with self._published_index.lock:
                connection = stack.enter_context(self.store.read_transaction())
                generation = self._published_index.catch_up().generation
            verification = verify_store(
                connection, self.description.code_column, Block(*generation.codes())
            )
            verification.problems.extend(damaged_columns(connection))
        warnings = self.store.warnings()
        # The missing files of a dropped collection would be called a problem.
        self.store.check_open()
        return replace(verification, problems=[*warnings, *verification.problems])

    @contextmanager
    def holding_writes(self) -> Iterator[None]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.holding_writes`."""
        with self.store.holding_writes() as others:
            if others:
                self.follow()
            yield

    def follow(self) -> bool:
        """Publish what another process has written since.

        Return False if another store has replaced this one.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        if self.store.is_replaced():
            return False
        self._published_index.follow()
        self.ranking = self.store.default_ranking() or HAMMING
        self.own_hybrid_weight = self.store.hybrid_weight()
        return True

    def compact(self) -> None:
        """See :meth:`hummingbit.index.backend.CollectionBackend.compact`; writes wait meanwhile."""
        before = self.bytes_on_disk()
        self._writer.compact()
        self._published_index.wait()
        # Collecting garbage visits every object of the process, for whatever little there is.
        if before - self.bytes_on_disk() >= MUCH_DELETED:
            give_back_memory()

    def remove_expired(self) -> None:
        """Delete the documents that have expired, which no read returns any more.

        Raises:
            StoreError: if the collection cannot be written.
        """
        self._writer.remove_expired()

    def stats(self) -> dict[str, Any]:
        """See :meth:`hummingbit.index.backend.CollectionBackend.stats`."""
        published = self._published_index.current()
        generation = published.generation
        # Documents that expire leave the generation.
        measured, state = self._statistics, (generation.number, len(generation))
        if measured is None or measured[0] != state:
            # Searches need not import it.
            from hummingbit.index.code_statistics import code_statistics  # noqa: PLC0415

            measured = self._statistics = state, code_statistics(generation)
        statistics = measured[1]
        return {
            "name": self.name,
            "documents": published.documents,
            "n_bits": self.n_bits,
            "encoder": self.encoder_name,
            "encoder_kind": self.encoder_kind,
            "encoder_fingerprint": self.encoder_fingerprint,
            "generation": generation.number,
            "engine_setting": self.engine_setting,
            "keep_vectors": self.keep_vectors,
            "passages": None if self.passages is None else asdict(self.passages),
            "n_passages": None if self.passages is None else len(generation),
            "ranking": self.ranking,
            "hybrid_weight": self.hybrid_weight,
            "own_hybrid_weight": self.own_hybrid_weight,
            "language": self.language,
            "indexed_fields": list(self.indexed_fields),
            "engine": generation.index_type,
            "engine_reason": generation.index_type_reason,
            **statistics,
            "bytes_on_disk": self.bytes_on_disk(),
            "problems": [*self.store.warnings(), *self.store.problems],
        }

    def reading(self) -> AbstractContextManager[object]:
        """See :meth:`hummingbit.index.backend.AnyCollection.reading`."""
        return self.store.read_transaction()

    def bytes_on_disk(self) -> int:
        """Return the size of the store and its write-ahead log."""
        return self.store.bytes_on_disk()

    @property
    def compactions(self) -> int:
        """How often the index was compacted since the collection was opened."""
        return self._published_index.compactions

    def prepare_fork(self) -> None:
        """Close all connections, so that this process and a forked child can both use the store.

        They share the memory of the index. The caller's must be the only thread. Connections are
        opened again when needed.
        """
        self._published_index.wait()
        self.store.release()

    def end_writing(self) -> None:
        """Refuse writes from now on, after one in progress; reads go on until :meth:`close`."""
        with self._write_lock:
            self.store.end_writing()

    def close(self) -> None:
        """Close the store after a write and a compaction in progress have finished."""
        with suppress(StoreError):  # closed before, or its files are gone
            if self.store.writable:
                self._writer.remove_expired()
                self._writer.save_columns()
        self._published_index.wait()
        with self._write_lock:
            with suppress(StoreError):
                self._published_index.save_words()
            self.store.close()


PAGE = 1000


def _ranking_by_words(published: PublishedGeneration, column: CodeColumn) -> Ranking:
    """Return the ranking whose hits are the documents with a word of a query."""
    assert published.lexical is not None  # noqa: S101 - a search that counts these needs words
    ranking = Bm25Ranking(published.lexical)
    return BestPassages(ranking, published.generation, column) if column.has_passages else ranking


def pages_of(
    collection: AnyCollection,
    filter: Filter | None = None,  # noqa: A002
    sort: Sequence[SortField] = (),
) -> Iterator[list[StoredDocument]]:
    """Yield the documents in the order of `sort` or of rows; see :meth:`AnyCollection.scroll`."""
    cursor: str | None = None
    while True:
        page = collection.scroll(PAGE, cursor, filter, sort)
        yield page.documents
        cursor = page.next_cursor
        if cursor is None:
            return
