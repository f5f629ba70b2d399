"""The generation that searches see, and how a write makes and publishes the next one.

One thread at a time writes. It deletes and inserts rows within one SQLite transaction, and makes
the next generation in memory beside the published one. Then it takes the publishing lock, commits
and publishes; nothing slow follows the commit. So while the lock is held, the published generation
is that of the store. An error before the commit undoes the transaction and publishes nothing. A
write returns after both steps, so it is durable and every later search sees it.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.codes import Codes
from hummingbit.foundation.processes import ProcessLock
from hummingbit.foundation.slices import count_in_inner_stage, inner_stage
from hummingbit.index import word_file
from hummingbit.index.backend import CheckReplaced
from hummingbit.index.engines.protocol import Rows, rows_without
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.errors import GenerationChanged, store_error
from hummingbit.index.filters import Filter, ids_of
from hummingbit.index.languages import analyzer_of
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.names import AUTO, NONE
from hummingbit.index.passages import DocumentCodes
from hummingbit.index.payloads import PayloadsUpdated, PayloadUpdate
from hummingbit.index.records import DeleteResult, UpsertResult
from hummingbit.index.store.columns import TooManyValuesError
from hummingbit.index.store.fields import MatchingRows, PayloadFields
from hummingbit.index.store.store import Changes, Store, document_checksums
from hummingbit.index.word_file import SavedWords, Stamp


class PublishedGeneration(NamedTuple):
    """A generation, and the last row of a document that had been assigned by then."""

    generation: IndexSnapshot
    last_row: int
    documents: int
    lexical: LexicalIndex | None = None
    """The texts of the same generation; None until a search needs them."""
    moments: CodeMoments | None = None
    """The moments of its codes; present if `lexical` is."""

    def words_after(
        self,
        number: int,
        added_texts: Callable[[], list[tuple[int, str]]],
        codes: Codes,
        removed: Rows,
    ) -> tuple[LexicalIndex | None, CodeMoments | None]:
        """Return the lexical index and the moments after a write, or None if there are none.

        Only if there are, texts are read.
        """
        if self.lexical is None or self.moments is None:
            return None, None
        gone = self.generation.codes_of(self.generation.live_rows(np.sort(removed)))
        lexical = self.lexical.with_changes(number, added_texts(), removed)
        return lexical, self.moments.with_changes(codes, gone)


class SavedMoments(NamedTuple):
    """The words of a file, and the moments of the codes of a generation that it was compared to."""

    words: SavedWords
    generation: IndexSnapshot
    moments: CodeMoments


class IndexedTexts(NamedTuple):
    """An index of the texts up to a row."""

    lexical: LexicalIndex
    last_row: int
    saved: SavedMoments | None = None
    """What a file gives, if the index comes from one."""


class SearchTarget(NamedTuple):
    """What to search: a generation, and the rows that match the filter; None without a filter."""

    published: PublishedGeneration
    allowed_rows: Rows | None


# Rebuilding an index in a thread of its own, while searches and writes continue.
#
# A compaction takes the index of a generation, of codes or of texts, and builds an equivalent one.
# Writes that arrive meanwhile are recorded and replayed on it. Most are replayed before any lock is
# taken, so a write that waits for the publication waits for the replay of a few writes only.


WRITES_UNDER_LOCK = 4


class Compactable(Protocol):
    """An immutable index of one generation."""

    @property
    def number(self) -> int:
        """The number of the generation."""

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or free much memory."""

    def compacted(self) -> Self:
        """Return an equivalent index in one segment."""

    def with_changes(self, *write: Any) -> Self:
        """Return the index of the next generation."""


Index = TypeVar("Index", bound=Compactable)


class Compaction(Generic[Index]):
    """At most one rebuild at a time."""

    def __init__(self, finish: Callable[[Compaction[Index], Index], Index | None]) -> None:
        """Call `finish` with the rebuilt index; it takes the locks, replays and publishes.

        It returns the published index, which is rebuilt again if writes have made that necessary,
        or None if nothing was published.
        """
        self._finish = finish
        self._lock = threading.Lock()
        self._writes: list[tuple[Any, ...]] = []
        self._thread: threading.Thread | None = None

    def record_write(self, write: tuple[Any, ...], after: Index) -> None:
        """Record a write while a rebuild runs; otherwise start one if `after` needs it.

        `write` are the arguments of ``with_changes``, and `after` is its result. Called with the
        write lock held, before `after` is searched.
        """
        with self._lock:
            if self._thread is not None:
                self._writes.append(write)
            elif after.needs_compaction:
                self._thread = threading.Thread(
                    target=self._run, args=(after,), name="compaction", daemon=True
                )
                self._thread.start()

    def replay(self, index: Index, leave: int = 0) -> Index:
        """Return `index` with the recorded writes; the last `leave` of them may be missing."""
        while True:
            with self._lock:
                if len(self._writes) <= leave:
                    return index
                writes, self._writes = self._writes, []
            for write in writes:
                index = index.with_changes(*write)

    def wait(self) -> None:
        """Wait until no rebuild is running."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, index: Index) -> None:
        try:
            published: Index | None = index
            while published is not None and published.needs_compaction:
                rebuilt = self.replay(published.compacted(), leave=WRITES_UNDER_LOCK)
                published = self._finish(self, rebuilt)
        finally:
            with self._lock:
                self._writes = []
                self._thread = None


# The generation that searches see, and how the next one replaces it.
#
# The lexical index of the texts is built from the store when it is first needed, while writes
# continue. What was written meanwhile is added under the publishing lock. From then on every write
# makes the next lexical index and publishes it with its generation.
#
# The lock does not stop the commits of another process. :meth:`PublishedIndex.follow`, called
# regularly, publishes them; :meth:`PublishedIndex.target_in_transaction` publishes those before a
# transaction.


_log = logging.getLogger("hummingbit.index")


class PublishedIndex:
    """The index of one store that searches see. Writers hold `write_lock`."""

    def __init__(
        self, store: Store, write_lock: ProcessLock, engine: str, fields: PayloadFields
    ) -> None:
        """Publish nothing yet: the index is built when :meth:`current` is first called."""
        self.lock = ProcessLock(store.connections.process)
        self._store = store
        self._write_lock = write_lock
        self._engine = engine
        self._published: PublishedGeneration | None = None
        self._next_expiry = math.inf
        # The thread that holds the lock for as long as it reads.
        self._reader: int | None = None
        self._fields = fields
        self._compaction = Compaction(self._finish_compaction)
        self.compactions = 0
        """How often the index was rebuilt in the background."""
        self._build_lock = ProcessLock(store.connections.process)
        self._lexical_compaction = Compaction(self._finish_lexical_compaction)
        self._folder = store.path.parent
        self._saving: threading.Thread | None = None

    @property
    def published(self) -> PublishedGeneration | None:
        """The published generation, without expired documents; None if the index was not built."""
        self._store.connections.process.check()
        if self._next_expiry <= time.time() and self._reader != threading.get_ident():
            with self.lock:
                self._drop_expired()
        return self._published

    def built_generation(self) -> IndexSnapshot | None:
        """Return the published generation, or None if the index was not built."""
        published = self.published
        return None if published is None else published.generation

    def current(self) -> PublishedGeneration:
        """Return the published generation; the index is built if it was not.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.published
        if published is None:
            with self.lock:
                published = self.catch_up()
        return published

    def current_with_lexical(self) -> PublishedGeneration:
        """Return the published generation with its lexical index, which is built if it was not.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.current()
        while published.lexical is None:
            with self._build_lock:
                published = self.current()
                if published.lexical is None:
                    indexed = self._index_texts(published.generation)
                    with self.lock, self._store.read_transaction():
                        published = self._publish_texts(indexed)
                    if indexed.saved is None:
                        self._save_soon(published, indexed)
        return published

    def search_target(self, filter_: Filter | None, *, lexical: bool = False) -> SearchTarget:
        """Return what to search; with `lexical`, it includes the lexical index."""
        published = self.current_with_lexical() if lexical else self.current()
        if filter_ is None:
            return SearchTarget(published, None)
        number = published.generation.number
        matching = self._fields.rows(filter_, number)
        if matching.generation == number:
            return SearchTarget(published, matching.rows)
        # A write came in between. The columns are nearly complete by now, so little is left to do.
        with self.target_in_transaction(filter_, lexical=lexical) as target:
            return target

    @contextmanager
    def target_in_transaction(
        self, filter_: Filter | None, *, lexical: bool = False
    ) -> Iterator[SearchTarget]:
        """Yield what to search as of a read transaction of the store.

        Whatever this thread reads of the store inside the block belongs to the same transaction.
        """
        with (
            self.lock,
            self._read_by_this_thread(),
            self._store.read_transaction(),
        ):
            published = self.catch_up()
            if lexical and published.lexical is None:
                published = self._publish_texts(self._index_texts(published.generation))
            rows = None if filter_ is None else self._fields.rows(filter_).rows
            yield SearchTarget(published, rows)

    @contextmanager
    def _read_by_this_thread(self) -> Iterator[None]:
        """Note which thread holds the lock, so that its reads inside the block do not take it."""
        self._reader = threading.get_ident()
        try:
            yield
        finally:
            self._reader = None

    def matching(self, filter_: Filter) -> MatchingRows:
        """Return the rows that match a filter, and the generation that this was found for."""
        return self._fields.rows(filter_, self.current().generation.number)

    def knows_filter(self, filter_: Filter | None) -> bool:
        """See :meth:`hummingbit.index.store.fields.PayloadFields.knows_filter`."""
        return filter_ is None or self._fields.knows_filter(filter_)

    def publish(self, changes: Changes, codes: Codes, rows: Rows, removed: Rows) -> int:
        """Commit `changes`, publish them, and return the number of their generation.

        Called with the write lock held.
        """
        number = changes.generation + 1
        changes.prepare()
        with self.lock:
            if self._published is None:
                changes.commit()
                return number
            before = self.catch_up(changes.generation)
        after = before.generation.with_changes(number, codes, rows, removed)
        added_texts = cache(changes.added_texts)
        lexical, moments = before.words_after(number, added_texts, codes, removed)
        with self.lock:
            if lexical is None:
                # The lexical index may have been built meanwhile.
                now = self.catch_up(changes.generation)
                if now.generation is before.generation:  # nothing has expired since
                    lexical, moments = now.words_after(number, added_texts, codes, removed)
            changes.commit()
            last = changes.last_row, changes.documents
            self._published = PublishedGeneration(after, *last, lexical, moments)
            # The next read looks for what has expired.
            self._next_expiry = 0.0 if changes.has_expiries else math.inf
            self._drop_other_language()
            lexical = self._published.lexical
        self._compaction.record_write((number, codes, rows, removed), after)
        if lexical is not None:
            self._lexical_compaction.record_write((number, added_texts(), removed), lexical)
        return number

    def follow(self) -> None:
        """Publish what another process has committed, if the index was built.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.published
        if published is None:
            return
        if published.generation.number != self._store.generation():
            with self.lock, self._store.read_transaction():
                self.catch_up()
        self.drop_other_language()

    def forget_later_words(self) -> None:
        """Delete a file of the word index that the store has not reached.

        Raises:
            StoreError: if the store cannot be read.
        """
        try:
            word_file.remove_later(self._folder, self._stamp(self._store.last_row()))
        except OSError as error:
            raise store_error(self._store.path, error, "cannot be written: ") from error

    def _stamp(self, last_row: int) -> Stamp:
        generation, documents = self._store.generation(), self._store.count()
        return Stamp(self._store.incarnation, generation, last_row, documents)

    def save_words(self, *, build: bool = False) -> None:
        """Write the file of the word index if it is missing or far behind the store.

        Small collections get none, and nobody may write to some folders. With `build`, the index is
        built for that if it was not. Called with the write lock held.
        """
        published = self.published
        if not build and (published is None or published.lexical is None):
            return
        header, folder = word_file.header_in(self._folder), self._folder
        last_row, documents = self._store.last_row(), self._store.count()
        missing = documents
        if header is not None and header.stamp.incarnation == self._store.incarnation:
            missing = last_row - header.stamp.last_row + abs(documents - header.stamp.documents)
        if not word_file.is_far_behind(documents, missing, self._store.bytes_on_disk()):
            return
        published = self.current_with_lexical()
        self._end_saving()
        lexical = published.lexical
        if lexical is not None and os.access(folder, os.W_OK):
            if not lexical.is_compact:
                lexical = lexical.compacted()
            self._write_words(published, lexical, published.last_row)

    def drop_other_language(self) -> None:
        """Drop the lexical index if it is of another language than the store's."""
        with self.lock:
            self._drop_other_language()

    def compact(self) -> None:
        """Rebuild the published generation. Called with the write lock held."""
        published = self.published
        if published is not None:
            lexical = None if published.lexical is None else published.lexical.compacted()
            generation = published.generation.compacted()
            with self.lock:
                # The lexical index may have been built meanwhile.
                now = self.catch_up()
                if now.generation is not published.generation:  # documents have expired since
                    generation = now.generation.compacted()
                    lexical = None if now.lexical is None else now.lexical.compacted()
                lexical = now.lexical if lexical is None else lexical
                self._published = now._replace(generation=generation, lexical=lexical)
        self._fields.clear()

    def wait(self) -> None:
        """Wait until no compaction runs in the background."""
        self._compaction.wait()
        self._lexical_compaction.wait()
        self._end_saving()

    def catch_up(self, number: int | None = None) -> PublishedGeneration:
        """Bring the published generation up to the store's and return it.

        The store may be ahead because another process wrote, or because an interrupt came between
        a commit and its publication. Called with the lock held.
        """
        committed = self._store.generation() if number is None else number
        published = self._published
        if published is None or published.generation.number > committed:
            self._published, self._next_expiry = self._rebuild(), 0.0
        elif published.generation.number < committed:
            self._published, self._next_expiry = self._apply_later_rows(published), 0.0
        return self._drop_expired()

    def _drop_expired(self) -> PublishedGeneration:
        """Remove from the published generation what has expired, and return it.

        It keeps its number: the store has the documents until a write removes them. Called with the
        lock held, after a generation was published.
        """
        published = self._published
        assert published is not None  # noqa: S101 - for the type checker
        if self._next_expiry > time.time():
            return published
        expired, following = self._store.expired()
        before = published.generation
        gone = before.live_rows(expired)
        if len(gone):
            no_codes = np.empty((0, self._store.description.n_bits // 8), dtype=np.uint8)
            write = before.number, no_codes, gone[:0], gone
            after = before.with_changes(*write)
            lexical, moments = published.words_after(before.number, list, no_codes, gone)
            if lexical is not None:
                self._lexical_compaction.record_write((before.number, [], gone), lexical)
            self._compaction.record_write(write, after)
            published = published._replace(generation=after, lexical=lexical, moments=moments)
        if len(expired):
            rows = self._store.code_column.document_rows(published.generation.all_live_rows())
            published = published._replace(documents=len(rows))
        self._published, self._next_expiry = published, following
        return published

    def _apply_later_rows(self, before: PublishedGeneration) -> PublishedGeneration:
        """Return the store's generation, made from an earlier one."""
        with self._store.read_transaction():
            later = self._store.read_later(before.last_row)
            if len(later.rows) > len(before.generation):
                return self._rebuild()
            number, codes, rows, removed = later.write
            after = before.generation.with_changes(*later.write)
            expired = self._store.expired()[0]
            if len(after) != later.n_codes - _n_missing(expired, after):
                # Blocks were folded since, so the list of removed rows is incomplete.
                rows_before = before.generation.all_live_rows()
                rows_now = self._store.read_codes().rows
                removed = rows_without(rows_before, rows_now)
                after = before.generation.with_changes(number, codes, rows, removed)
            if len(after) != later.n_codes - _n_missing(expired, after):
                return self._rebuild()
            added_texts = cache(lambda: [*self._store.texts(before.last_row)])
            lexical, moments = before.words_after(number, added_texts, codes, removed)
            if lexical is not None:
                self._lexical_compaction.record_write((number, added_texts(), removed), lexical)
        self._compaction.record_write((number, codes, rows, removed), after)
        return PublishedGeneration(after, later.last_row, later.documents, lexical, moments)

    def _rebuild(self) -> PublishedGeneration:
        """Return the store's generation, made from all codes."""
        with inner_stage("indexing the codes"):
            number, codes, rows, last_row, documents = self._store.read_codes()
            # Running compactions rebuild an index that is now obsolete; their results are dropped.
            self._compaction = Compaction(self._finish_compaction)
            self._lexical_compaction = Compaction(self._finish_lexical_compaction)
            generation = IndexSnapshot.build(number, codes, rows, self._engine)
        return PublishedGeneration(generation, last_row, documents)

    def _finish_compaction(
        self, compaction: Compaction[IndexSnapshot], generation: IndexSnapshot
    ) -> IndexSnapshot | None:
        published = self._publish_rebuilt(compaction, generation, "generation")
        if published is not None:
            self.compactions += 1
            self._fields.clear()
        return published

    def _finish_lexical_compaction(
        self, compaction: Compaction[LexicalIndex], lexical: LexicalIndex
    ) -> LexicalIndex | None:
        return self._publish_rebuilt(compaction, lexical, "lexical")

    def _publish_rebuilt(
        self, compaction: Compaction[Index], index: Index, field: str
    ) -> Index | None:
        """Publish a rebuilt index in a field of the published generation, and return it."""
        with self._write_lock:
            index = compaction.replay(index)
            with self.lock:
                index = compaction.replay(index)  # what has expired since
                published = self._published
                if compaction not in (self._compaction, self._lexical_compaction):
                    return None
                if published is None or published.generation.number != index.number:
                    return None
                rebuilt: dict[str, Any] = {field: index}
                self._published = published._replace(**rebuilt)
        return index

    def _index_texts(self, generation: IndexSnapshot) -> IndexedTexts:
        """Return an index of the texts up to some row: that of the file, or else one of the store.

        It may hold a text that a writer deletes in the meantime.
        """
        analyzer, forms = self._analysis()
        last_row, began = self._store.last_row(), time.perf_counter()
        stamp = self._stamp(last_row)
        n_bits = self._store.description.n_bits
        loaded = word_file.load(self._folder, stamp, analyzer, forms=forms, n_bits=n_bits)
        if loaded is not None:
            saved, saved_row = loaded
            codes, rows = generation.codes()
            if word_file.fits(saved, rows, codes):
                moments = word_file.moments_now(saved, rows, codes)
                return IndexedTexts(
                    saved.lexical, saved_row, SavedMoments(saved, generation, moments)
                )
            _log.info("the word index in %s has other codes than the store", self._folder)
        stage = count_in_inner_stage("indexing the words of the texts", len(generation))
        with stage as advance:
            documents = _counted(self._store.texts(up_to=last_row), advance)
            lexical = LexicalIndex.build(0, analyzer, documents, forms=forms)
        about = len(lexical), self._store.description.name, time.perf_counter() - began
        _log.info("indexed the words of %d texts of %s in %.1f s", *about)
        return IndexedTexts(lexical, last_row)

    def _end_saving(self) -> None:
        """Wait until the file of the word index is written."""
        saving = self._saving
        if saving is not None:
            saving.join()

    def _save_soon(self, published: PublishedGeneration, indexed: IndexedTexts) -> None:
        """Write the file of an index that was built just now, in a thread of its own."""
        lexical = indexed.lexical
        documents = published.documents
        is_small = not word_file.is_far_behind(documents, documents, self._store.bytes_on_disk())
        if is_small or not os.access(self._folder, os.W_OK):
            return
        arguments = published, lexical, indexed.last_row
        self._saving = threading.Thread(target=self._write_words, args=arguments, name="words")
        self._saving.start()

    def _write_words(
        self, published: PublishedGeneration, lexical: LexicalIndex, last_row: int
    ) -> None:
        """Write the file of an index of the texts up to a row; an error is logged."""
        if published.moments is None:
            return
        number, documents = published.generation.number, published.documents
        stamp = Stamp(self._store.incarnation, number, last_row, documents)
        codes, rows = published.generation.codes()
        try:
            saved = SavedWords(lexical, rows, codes, published.moments)
            word_file.save(self._folder, stamp, saved)
        except OSError as error:
            # It is derived: the next process builds the index anew.
            _log.warning("writing the word index failed: %s", error)

    def analyzer(self) -> Analyzer:
        """Return the analyzer of the texts, whether or not their words are indexed."""
        return self._analysis()[0]

    def _analysis(self) -> tuple[Analyzer, bool]:
        """Return the analyzer of the lexical index, and whether it has the other forms of words."""
        setting, found = self._store.language()
        if setting is None:
            return ANALYZERS[DEFAULT_ANALYZER], False
        language = found or (self._store.guess_language() if setting == AUTO else setting)
        return analyzer_of(language), True

    def _drop_other_language(self) -> None:
        """Drop a lexical index whose language is not the one that was set or found since.

        Called with the lock held.
        """
        published = self._published
        if published is None or published.lexical is None:
            return
        setting, found = self._store.language()
        if setting == AUTO and found is None:
            return
        analyzer, forms = self._analysis()
        if (published.lexical.analyzer, published.lexical.forms) != (analyzer, forms):
            self._lexical_compaction = Compaction(self._finish_lexical_compaction)
            self._published = published._replace(lexical=None, moments=None)

    def _publish_texts(self, indexed: IndexedTexts) -> PublishedGeneration:
        """Bring an index of texts up to date and publish it. Called with the lock held."""
        published = self.catch_up()
        generation, (lexical, last_row, saved) = published.generation, indexed
        indexed_rows = lexical.rows()
        live = generation.live_rows(indexed_rows)
        removed = indexed_rows[:0]
        if len(live) < len(indexed_rows):
            removed = rows_without(indexed_rows, live)
        documents = list(self._store.texts(last_row))
        if saved is None:
            moments = CodeMoments.of_codes(*generation.distinct_codes())
        elif saved.generation is generation:
            moments = saved.moments
        else:  # another was published since the file was compared
            codes, rows = generation.codes()
            moments = word_file.moments_now(saved.words, rows, codes)
        lexical = lexical.with_changes(generation.number, documents, removed)
        self._published = published = published._replace(lexical=lexical, moments=moments)
        return published


COUNTED_AT_ONCE = 1000


def _counted(
    texts: Iterable[tuple[int, str]], advance: Callable[[int], object]
) -> Iterator[tuple[int, str]]:
    """Yield texts, and tell after each thousand how many more were read."""
    for number, text in enumerate(texts, 1):
        yield text
        if number % COUNTED_AT_ONCE == 0:
            advance(COUNTED_AT_ONCE)


def _n_missing(expired: Rows, generation: IndexSnapshot) -> int:
    """Return how many of the `expired` rows, which the store has, a generation lacks."""
    return len(expired) - len(generation.live_rows(expired))


EXPIRED_AT_ONCE = 1000


class Writer:
    """Writes to one store and publishes the result. One writer at a time holds `lock`."""

    def __init__(
        self,
        store: Store,
        lock: ProcessLock,
        published_index: PublishedIndex,
        fields: PayloadFields,
    ) -> None:
        self._store = store
        self._lock = lock
        self._published_index = published_index
        self._fields = fields

    def upsert(
        self,
        encoded: Iterator[tuple[list[Document], DocumentCodes]],
        bookmark: tuple[str, str] | None = None,
        check: CheckReplaced | None = None,
    ) -> UpsertResult:
        """Insert the documents of all batches, or replace those with the same id.

        An id may occur again in a later batch, but not within one. `bookmark`, a key and a value,
        is committed with the documents. `check` takes the documents that a batch replaces.

        Raises:
            StoreError: if the store cannot be written.
            Exception: whatever `encoded` or `check` raises.
        """
        # The first batch, often the only one, is encoded before the lock is taken.
        first = [*islice(encoded, 1)]
        with self._lock, self._store.writing() as changes:
            rows, codes = [np.empty(0, dtype=np.int64)], [self._no_codes()]
            removed: list[int] = []
            expired = changes.expired_rows()
            written: set[str] = set()
            for batch, batch_codes in chain(first, encoded):
                ids = [document.id for document in batch]
                if check is not None:
                    check(changes.payloads_of([id_ for id_ in ids if id_ not in written]))
                    written.update(ids)
                removed += changes.delete(ids)
                inserted = changes.insert(batch, batch_codes)
                rows.append(inserted.rows)
                codes.append(inserted.codes)
            added, removed_rows = np.concatenate(rows), np.array(removed, dtype=np.int64)
            if bookmark is not None:
                changes.set_bookmark(*bookmark)
            if not len(added):
                changes.commit_bookmark()
                return UpsertResult(0, changes.generation, 0)
            remaining = ~np.isin(added, removed_rows)
            number = self._published_index.publish(
                changes, np.concatenate(codes)[remaining], added[remaining], removed_rows
            )
            return UpsertResult(
                self._number_of_documents(added[remaining]),
                number,
                self._number_of_documents(
                    removed_rows[~np.isin(removed_rows, added) & ~np.isin(removed_rows, expired)]
                ),
            )

    def delete(self, ids: Sequence[str], within: Filter | None = None) -> DeleteResult:
        """Delete the documents with these ids that match a filter, and their annotations.

        Raises:
            StoreError: if the store cannot be written.
        """
        unique = list(dict.fromkeys(ids))

        def delete(changes: Changes) -> list[int]:
            rows = changes.delete(unique, within)
            left = () if within is None else changes.payloads_of(unique)
            changes.delete_annotations([id_ for id_ in unique if id_ not in left])
            return rows

        return self._delete(delete)

    def delete_where(self, filter_: Filter) -> DeleteResult:
        """Delete the documents whose payload matches the filter, and their annotations.

        Raises:
            StoreError: if the store cannot be written.
        """

        def delete(changes: Changes) -> list[int]:
            rows = changes.delete_rows(self._fields.rows(filter_).rows)
            changes.delete_annotations(None)
            return rows

        # Columns are read for long. What is found before the lock is taken is completed under it.
        self._fields.rows(filter_)
        return self._delete(delete)

    def remove_expired(self) -> None:
        """Delete the documents that have expired; other writes may come in between.

        Raises:
            StoreError: if the store cannot be written.
        """
        while len(self._store.expired()[0]):
            self._delete(lambda changes: changes.delete_expired(EXPIRED_AT_ONCE))

    def update_payloads(
        self, updates: Sequence[PayloadUpdate], if_generation: int | None = None
    ) -> PayloadsUpdated:
        """Change the payloads of documents; all updates or none.

        Raises:
            GenerationChanged: if the store is at another generation than `if_generation`.
            StoreError: if the store cannot be written.
        """
        # As in delete_where.
        self._rows_of_filters(updates)
        with self._lock, self._store.writing() as changes:
            matching = self._rows_of_filters(updates)
            if if_generation is not None and changes.generation != if_generation:
                message = f"is at generation {changes.generation}, not {if_generation}"
                name = self._store.description.name
                raise GenerationChanged(f"collection {name!r} {message}; nothing was written")
            matched, updated = changes.update_payloads(updates, matching)
            if not updated:
                return PayloadsUpdated(matched, 0, changes.generation)
            no_rows = np.empty(0, dtype=np.int64)
            number = self._published_index.publish(changes, self._no_codes(), no_rows, no_rows)
            return PayloadsUpdated(matched, updated, number)

    def new_or_changed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the documents that the store does not yet hold in exactly this form.

        An unchanged text or vector has an unchanged code, because the encoder never changes. A
        vector counts as unchanged if what the collection keeps of it is; one that is not kept at
        all counts as changed.
        """
        keep_vectors = self._store.description.keep_vectors
        marks = self._store.read_marks(list({document.id: None for document in documents}))
        stored = [document for document in documents if self._may_be_stored(document, marks)]
        codes = [marks[document.id][0] for document in stored]
        checksums = document_checksums(stored, codes, keep_vectors)
        unchanged = {
            id(document)
            for document, checksum in zip(stored, checksums, strict=True)
            if checksum == marks[document.id][1]
        }
        return [document for document in documents if id(document) not in unchanged]

    def _rows_of_filters(self, updates: Sequence[PayloadUpdate]) -> list[Rows | None]:
        """Return the rows that match the filter of each update; None if ids give them."""
        filters = (update.filter for update in updates)
        return [
            None
            if filter_ is None or ids_of(filter_) is not None
            else self._fields.rows(filter_).rows
            for filter_ in filters
        ]

    def set_indexed_fields(
        self, fields: Sequence[str], progress: Callable[[], object] | None = None
    ) -> None:
        """Index these fields and no others; other writes may come in between.

        Raises:
            StoreError: if the store cannot be written.
        """
        with self._lock, self._store.writing() as changes:
            changes.set_indexed_fields(fields)
        for field in fields:
            with suppress(TooManyValuesError):
                self._fields.column(field)
            self.save_columns()
            if progress is not None:
                progress()

    def save_columns(self, *, read: bool = False) -> None:
        """Save the columns of indexed fields that the store lacks; other writes may come between.

        With `read`, columns that are not cached are read.

        Raises:
            StoreError: if the store cannot be written.
        """
        packed = [(column, column.pack()) for column in self._fields.to_save(read=read)]
        if packed:
            with self._lock, self._store.writing() as changes:
                changes.save_columns(packed)

    def compact(self) -> None:
        """Rewrite the store without deleted documents, and rebuild the index.

        Raises:
            StoreError: if the store cannot be written, or is damaged.
        """
        self.remove_expired()
        with self._lock:
            self._store.compact()
            self._published_index.compact()
        self.save_columns(read=True)

    def _delete(self, delete: Callable[[Changes], list[int]]) -> DeleteResult:
        with self._lock, self._store.writing() as changes:
            expired = changes.expired_rows()
            removed = np.array(delete(changes), dtype=np.int64)
            if not len(removed):
                return DeleteResult(0, changes.generation)
            number = self._published_index.publish(changes, self._no_codes(), removed[:0], removed)
            deleted = removed[~np.isin(removed, expired)]
            return DeleteResult(self._number_of_documents(deleted), number)

    def _number_of_documents(self, index_rows: Rows) -> int:
        return len(self._store.code_column.document_rows(index_rows))

    def _no_codes(self) -> Codes:
        return np.empty((0, self._store.description.n_bits // 8), dtype=np.uint8)

    def _may_be_stored(self, document: Document, marks: Mapping[str, tuple[bytes, bytes]]) -> bool:
        """Return whether a document with this id and this code, if it has one, is stored."""
        keep_vectors = self._store.description.keep_vectors
        if document.id not in marks or (document.vector is not None and keep_vectors == NONE):
            return False
        brings_code = document.code is not None
        if document.text is not None and self._store.description.passages is not None:
            brings_code = False  # its passages are encoded
        return not brings_code or str(document.code).lower() == marks[document.id][0].hex()
