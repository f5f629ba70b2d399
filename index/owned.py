"""The index of the documents that a limited key owns, as if no others were in the collection.

Scores, corrections, phrases and whatever else a search returns depend on the frequencies of words
and on the codes of all documents. So a limited key is not answered by the index of the collection
with some rows hidden: it has codes, words and moments of its own documents only. They are made when
the key first searches, from the texts of its documents. Each later search adds what was written
since. The documents of one key take the same memory a second time, and the least recently used are
dropped (:data:`MOST_DOCUMENTS`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.index.engines.protocol import Rows, rows_without
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.filters import And, Filter, filter_to_json
from hummingbit.index.generations import (
    Compactable,
    PublishedGeneration,
    PublishedIndex,
    SearchTarget,
)
from hummingbit.index.languages import analyzer_of, find_language
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.names import AUTO
from hummingbit.index.store.fields import MatchingRows
from hummingbit.index.store.store import LANGUAGE_TEXTS, Store

MOST_DOCUMENTS = 2
"""The indexes of all keys together have so many times the documents of the collection."""
FEW_DOCUMENTS = 200_000
"""They may have so many, however small the collection is."""
INDEXED_AT_ONCE = 4000
"""The words of so many documents are indexed between two checkpoints."""
# How often a search takes a newer generation because another one has brought the index to it.
ATTEMPTS = 3


class OwnedIndexes:
    """The most recently used indexes of a collection, by the filters of the keys."""

    def __init__(self, store: Store, index: PublishedIndex) -> None:
        self._store = store
        self._index = index
        self._lock = threading.Lock()
        self._owned: OrderedDict[str, OwnedIndex] = OrderedDict()

    def of(self, filter_: Filter) -> OwnedIndex:
        """Return the index of the documents that match a filter."""
        key = filter_to_json(filter_)
        with self._lock:
            owned = self._owned.setdefault(key, OwnedIndex(self._store, self._index, filter_))
            self._owned.move_to_end(key)
            published = self._index.published
            documents = 0 if published is None else len(published.generation)
            most = max(FEW_DOCUMENTS, MOST_DOCUMENTS * documents)
            sizes = {name: len(index) for name, index in self._owned.items()}
            while sum(sizes.values()) > most and len(sizes) > 1:
                oldest = next(iter(sizes))
                del sizes[oldest], self._owned[oldest]
        return owned


@dataclass(frozen=True, eq=False)
class _Owned:
    """The documents of one generation that match the filter."""

    generation: IndexSnapshot
    last_row: int
    """The last row of the index that was ever in it."""
    lexical: LexicalIndex | None = None
    """The words of the documents up to some row; None until a search needs them."""
    words_up_to: int = -1
    moments: CodeMoments | None = None
    """The moments of the codes; present if `lexical` is."""
    language: str | None = None
    """The language of the texts, once there are enough of them to be sure."""


class OwnedIndex:
    """What a search reads of a :class:`.PublishedIndex`, limited to the rows of a filter."""

    def __init__(self, store: Store, index: PublishedIndex, filter_: Filter) -> None:
        self._store = store
        self._index = index
        self._filter = filter_
        self._lock = threading.Lock()
        self._owned: _Owned | None = None
        # The generation and the matching rows of the last search, and what they are limited to.
        self._last: tuple[IndexSnapshot, Rows, PublishedGeneration] | None = None

    def __len__(self) -> int:
        owned = self._owned
        return 0 if owned is None else len(owned.generation)

    def current_with_lexical(self) -> PublishedGeneration:
        """Return the published generation with the words of the own documents."""
        return self.search_target(None, lexical=True).published

    def search_target(self, filter_: Filter | None, *, lexical: bool = False) -> SearchTarget:
        """See :meth:`.PublishedIndex.search_target`."""
        for _ in range(ATTEMPTS):
            published, allowed = self._index.search_target(self._joined(filter_))
            matching = self._index.matching(self._filter)
            if matching.generation == published.generation.number:
                own = self._limited(published, matching.rows, lexical=lexical)
                if own is not None:
                    return SearchTarget(own, None if filter_ is None else allowed)
        with self.target_in_transaction(filter_, lexical=lexical) as target:
            return target

    @contextmanager
    def target_in_transaction(
        self, filter_: Filter | None, *, lexical: bool = False
    ) -> Iterator[SearchTarget]:
        """See :meth:`.PublishedIndex.target_in_transaction`."""
        while True:
            with self._index.target_in_transaction(self._joined(filter_)) as target:
                published, allowed = target
                matching = self._index.matching(self._filter)
                if matching.generation == published.generation.number:
                    own = self._limited(published, matching.rows, lexical=lexical, anew=True)
                    if own is not None:
                        yield SearchTarget(own, None if filter_ is None else allowed)
                        return

    def matching(self, filter_: Filter) -> MatchingRows:
        """See :meth:`.PublishedIndex.matching`; rows of other documents may be among them."""
        return self._index.matching(filter_)

    def knows_filter(self, filter_: Filter | None) -> bool:
        """Tell whether little is left to do before a search with a filter."""
        return self._last is not None and self._index.knows_filter(self._joined(filter_))

    def analyzer(self) -> Analyzer:
        """Return the analyzer of the own texts."""
        lexical = self.current_with_lexical().lexical
        return ANALYZERS[DEFAULT_ANALYZER] if lexical is None else lexical.analyzer

    def _joined(self, filter_: Filter | None) -> Filter:
        return self._filter if filter_ is None else And((self._filter, filter_))

    def _limited(
        self, published: PublishedGeneration, rows: Rows, *, lexical: bool, anew: bool = False
    ) -> PublishedGeneration | None:
        """Return a generation of the collection, limited to matching `rows` of documents.

        It is None if the texts of the generation cannot be read any more, or if a later one was
        limited meanwhile; `anew`, it is then made from the beginning.
        """
        last = self._last
        is_last = last is not None and last[0] is published.generation and last[1] is rows
        if last is not None and is_last and (not lexical or self._is_current(last[2].lexical)):
            return last[2]
        with self._lock, self._store.read_transaction():
            own = self._owned
            if own is not None and own.generation.number > published.generation.number:
                own = None
                if not anew:
                    return None
            if self._store.generation() != published.generation.number:
                return None
            kept = self._index_rows(published.generation, rows)
            own = self._owned = self._brought_to(own, published.generation, kept)
            if lexical or own.lexical is not None:
                # What a request that times out has read serves the next one.
                for more in self._with_words(own):
                    own = self._owned = more
            documents = len(self._store.code_column.document_rows(kept))
            limited = PublishedGeneration(
                own.generation, published.last_row, documents, own.lexical, own.moments
            )
            self._last = published.generation, rows, limited
            return limited

    def _index_rows(self, generation: IndexSnapshot, rows: Rows) -> Rows:
        """Return the rows of the index of a generation that belong to documents with `rows`."""
        return generation.live_rows(self._store.code_column.rows_of_documents(rows, generation))

    def _brought_to(self, own: _Owned | None, generation: IndexSnapshot, rows: Rows) -> _Owned:
        """Return the documents with `rows` of a generation, made from an earlier one if it can be.

        The words of those that were added are still missing.
        """
        number, last = generation.number, int(rows[-1]) if len(rows) else 0
        if own is None:
            return _Owned(IndexSnapshot.build(number, generation.codes_of(rows), rows), last)
        before = own.generation.all_live_rows()
        removed = rows_without(before, rows)
        added = rows_without(rows, before)
        if len(added) and added[0] <= own.last_row:
            # The payload of an earlier document was changed.
            return self._brought_to(None, generation, rows)
        codes, gone = generation.codes_of(added), own.generation.codes_of(removed)
        index = own.generation.with_changes(number, codes, added, removed)
        lexical, moments = own.lexical, own.moments
        return replace(
            own,
            generation=_compact(index),
            last_row=max(last, own.last_row),
            lexical=lexical and _compact(lexical.with_changes(number, [], removed)),
            moments=moments and moments.with_changes(codes, gone),
        )

    def _with_words(self, own: _Owned) -> Iterator[_Owned]:
        """Yield the documents with more and more of their words, at last with all."""
        analyzer, forms, language = self._analysis(own)
        column, number = self._store.code_column, own.generation.number
        lexical, up_to = own.lexical, own.words_up_to
        is_new = lexical is None or (lexical.analyzer, lexical.forms) != (analyzer, forms)
        if lexical is None or is_new:
            lexical, up_to = LexicalIndex.build(number, analyzer, (), forms=forms), -1
        moments = own.moments or CodeMoments.of_codes(*own.generation.distinct_codes())
        own = replace(own, language=language, moments=moments)
        rows = own.generation.all_live_rows()
        documents = column.document_rows(rows[rows > up_to])
        for start in range(0, len(documents), INDEXED_AT_ONCE):
            some = documents[start : start + INDEXED_AT_ONCE]
            lexical = lexical.with_changes(number, [*self._store.texts_of(some)], rows[:0])
            yield replace(own, lexical=lexical, words_up_to=column.last_index_row(int(some[-1])))
        up_to = column.last_index_row(int(documents[-1])) if len(documents) else up_to
        lexical = lexical.compacted() if is_new else _compact(lexical)
        yield replace(own, lexical=lexical, words_up_to=up_to)

    def _analysis(self, own: _Owned) -> tuple[Analyzer, bool, str | None]:
        """Return the analyzer, whether there are other forms of words, and a sure language.

        A language that is to be found is that of the own texts.
        """
        setting, _ = self._store.language()
        if setting is None:
            return ANALYZERS[DEFAULT_ANALYZER], False, None
        if setting != AUTO:
            return analyzer_of(setting), True, None
        if own.language is not None:
            return analyzer_of(own.language), True, own.language
        rows = self._store.code_column.document_rows(own.generation.all_live_rows())
        texts = self._store.texts_of(rows[:LANGUAGE_TEXTS])
        language, is_sure = find_language(text for _, text in texts)
        settled = language if is_sure or len(rows) >= LANGUAGE_TEXTS else None
        return analyzer_of(language), True, settled

    def _is_current(self, lexical: LexicalIndex | None) -> bool:
        """Tell whether words are there, and of a language that was not set to another since."""
        if lexical is None:
            return False
        setting, _ = self._store.language()
        return setting in (None, AUTO) or lexical.analyzer == analyzer_of(setting)


Index = TypeVar("Index", bound=Compactable)


def _compact(index: Index) -> Index:
    return index.compacted() if index.needs_compaction else index
