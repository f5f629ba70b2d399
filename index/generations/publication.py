"""The generation that searches see, and how the next one replaces it.

A write makes the next generation beside the published one. Then it takes the publishing lock,
commits and publishes; nothing slow follows the commit. So while the lock is held, the published
generation is that of the store.

The lexical index of the texts is built from the store when it is first needed, while writes
continue. What was written meanwhile is added under the publishing lock. From then on every write
makes the next lexical index and publishes it with its generation.

The lock does not stop the commits of another process. :meth:`Publication.follow`, called regularly,
publishes them; :meth:`Publication.target_in_transaction` publishes those before a transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from encoder.codes import Codes
from foundation.slices import about_to_build, about_to_wait, acquired, unbroken
from foundation.stages import inner_stage
from index.engines.protocol import Rows
from index.engines.segments import Generation
from index.filters import Filter
from index.generations.compaction import Compaction
from index.generations.published import PublishedGeneration, SearchTarget, TextChanges
from index.lexical.analyzer_names import ANALYZERS, DEFAULT_ANALYZER
from index.lexical.index import LexicalIndex
from index.rankings.moments import CodeMoments
from index.sqlite.changes import Changes
from index.sqlite.matching import MatchingRows
from index.sqlite.store import Store

_log = logging.getLogger("hummingbit.index")


class Publication:
    """Publishes the generations of one store. Writers hold `write_lock`."""

    def __init__(self, store: Store, write_lock: threading.Lock, engine: str) -> None:
        """Publish nothing yet: the index is built when :meth:`current` is first called."""
        self.lock = threading.Lock()
        self._store = store
        self._write_lock = write_lock
        self._engine = engine
        self.published: PublishedGeneration | None = None
        """The published generation; None if the index was not built."""
        self._matching = MatchingRows(store)
        self._compaction = Compaction(self._finish_compaction)
        self.compactions = 0
        """How often the index was rebuilt in the background."""
        self._build_lock = threading.Lock()
        self._lexical_compaction = Compaction(self._finish_lexical_compaction)

    def built_generation(self) -> Generation | None:
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
            about_to_build()
            with acquired(self.lock):
                published = self._catch_up()
        return published

    def current_with_lexical(self) -> PublishedGeneration:
        """Return the published generation with its lexical index, which is built if it was not.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.current()
        while published.lexical is None:
            about_to_build()
            with acquired(self._build_lock):
                published = self.current()
                if published.lexical is None:
                    lexical, last_row = self._index_texts()
                    with self.lock, self._store.read_transaction():
                        published = self._publish_texts(lexical, last_row)
        return published

    def search_target(self, filter_: Filter | None, *, lexical: bool = False) -> SearchTarget:
        """Return what to search; with `lexical`, it includes the lexical index."""
        published = self.current_with_lexical() if lexical else self.current()
        if filter_ is None:
            return SearchTarget(published, None)
        number = published.generation.number
        matching = self._matching.find(filter_, number)
        if matching.generation == number:
            return SearchTarget(published, matching.rows)
        # A write came in between. The list is nearly complete by now, so little is left to do.
        with self.target_in_transaction(filter_, lexical=lexical) as target:
            return target

    @contextmanager
    def target_in_transaction(
        self, filter_: Filter | None, *, lexical: bool = False
    ) -> Iterator[SearchTarget]:
        """Yield what to search as of a read transaction of the store.

        Whatever this thread reads of the store inside the block belongs to the same transaction.
        """
        about_to_wait()
        with self.lock, unbroken():
            while True:
                with self._store.read_transaction():
                    published = self.catch_up()
                    if lexical and published.lexical is None:
                        about_to_build()
                        published = self._publish_texts(*self._index_texts())
                    if filter_ is None:
                        yield SearchTarget(published, None)
                        return
                    number = published.generation.number
                    matching = self._matching.find(filter_, number, alone=True)
                    if matching.generation == number:
                        yield SearchTarget(published, matching.rows)
                        return
                # Another process wrote, and the list was completed after this transaction began.

    def catch_up(self) -> PublishedGeneration:
        """Bring the published generation up to the current read transaction and return it.

        Called with the lock held.
        """
        return self._catch_up()

    def knows_filter(self, filter_: Filter) -> bool:
        """Tell whether the matching rows of the filter are cached, so most of them are known."""
        return self._matching.knows_filter(filter_)

    def publish(self, changes: Changes, codes: Codes, rows: Rows, removed: Rows) -> int:
        """Commit `changes`, publish them, and return the number of their generation.

        Called with the write lock held.
        """
        number = changes.generation + 1
        changes.prepare()
        with self.lock:
            if self.published is None:
                changes.commit()
                return number
            before = self._catch_up(changes.generation)
        after = before.generation.with_changes(number, codes, rows, removed)
        texts = TextChanges(number, changes, codes, removed)
        lexical, moments = texts.apply_to(before)
        with self.lock:
            if lexical is None:
                # The lexical index may have been built meanwhile.
                lexical, moments = texts.apply_to(self._catch_up(changes.generation))
            changes.commit()
            self.published = PublishedGeneration(after, changes.last_row, lexical, moments)
        self._compaction.record_write((number, codes, rows, removed), after)
        if lexical is not None:
            self._lexical_compaction.record_write(texts.write, lexical)
        return number

    def follow(self) -> None:
        """Publish what another process has committed, if the index was built.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.published
        if published is None or published.generation.number == self._store.generation():
            return
        with self.lock, self._store.read_transaction():
            self._catch_up()

    def compact(self) -> None:
        """Rebuild the published generation. Called with the write lock held."""
        published = self.published
        if published is not None:
            lexical = None if published.lexical is None else published.lexical.compacted()
            generation = published.generation.compacted()
            with self.lock:
                # The lexical index may have been built meanwhile.
                published = self._catch_up()
                lexical = published.lexical if lexical is None else lexical
                self.published = published._replace(generation=generation, lexical=lexical)
        self._matching.clear()

    def wait(self) -> None:
        """Wait until no compaction runs in the background."""
        self._compaction.wait()
        self._lexical_compaction.wait()

    def _catch_up(self, number: int | None = None) -> PublishedGeneration:
        """Bring the published generation up to the store's and return it.

        The store may be ahead because another process wrote, or because an interrupt came between
        a commit and its publication. Called with the lock held.
        """
        committed = self._store.generation() if number is None else number
        published = self.published
        if published is None or published.generation.number > committed:
            published = self._rebuild()
        elif published.generation.number < committed:
            published = self._apply_later_rows(published)
        self.published = published
        return published

    def _apply_later_rows(self, before: PublishedGeneration) -> PublishedGeneration:
        """Return the store's generation, made from an earlier one."""
        with self._store.read_transaction():
            later = self._store.read_later(before.last_row)
            if len(later.rows) > len(before.generation):
                return self._rebuild()
            number, codes, rows, removed = later.write
            after = before.generation.with_changes(*later.write)
            if len(after) != later.documents:
                # Blocks were folded since, so the list of removed rows is incomplete.
                rows_before = before.generation.codes()[1]
                rows_now = self._store.read_codes().rows
                removed = np.setdiff1d(rows_before, rows_now, assume_unique=True)
                after = before.generation.with_changes(number, codes, rows, removed)
            if len(after) != later.documents:
                return self._rebuild()
            lexical, moments = before.lexical, before.moments
            if lexical is not None and moments is not None:
                texts = (number, list(self._store.texts(before.last_row)), removed)
                lexical = lexical.with_changes(*texts)
                self._lexical_compaction.record_write(texts, lexical)
                removed_live = before.generation.live_rows(removed)
                moments = moments.with_changes(codes, before.generation.codes_of(removed_live))
        self._compaction.record_write((number, codes, rows, removed), after)
        return PublishedGeneration(after, later.last_row, lexical, moments)

    def _rebuild(self) -> PublishedGeneration:
        """Return the store's generation, made from all codes."""
        with inner_stage("indexing the codes"):
            number, codes, rows, last_row = self._store.read_codes()
            # Running compactions rebuild an index that is now obsolete; their results are dropped.
            self._compaction = Compaction(self._finish_compaction)
            self._lexical_compaction = Compaction(self._finish_lexical_compaction)
            generation = Generation.build(number, codes, rows, self._engine)
        return PublishedGeneration(generation, last_row)

    def _finish_compaction(
        self, compaction: Compaction[Generation], generation: Generation
    ) -> Generation | None:
        """Publish a rebuilt generation and return it."""
        with self._write_lock:
            generation = compaction.replay(generation)
            with self.lock:
                published = self.published
                if compaction is not self._compaction or published is None:
                    return None
                if published.generation.number != generation.number:
                    return None
                self.published = published._replace(generation=generation)
                self.compactions += 1
        self._matching.clear()
        return generation

    def _finish_lexical_compaction(
        self, compaction: Compaction[LexicalIndex], lexical: LexicalIndex
    ) -> LexicalIndex | None:
        """Publish a rebuilt lexical index and return it."""
        with self._write_lock:
            lexical = compaction.replay(lexical)
            with self.lock:
                published = self.published
                if compaction is not self._lexical_compaction or published is None:
                    return None
                if published.generation.number != lexical.number:
                    return None
                self.published = published._replace(lexical=lexical)
        return lexical

    def _index_texts(self) -> tuple[LexicalIndex, int]:
        """Return an index of the texts up to the last row, and that row.

        It may hold a text that a writer deletes in the meantime.
        """
        last_row, began = self._store.last_row(), time.perf_counter()
        with inner_stage("indexing the words of the texts"):
            documents = self._store.texts(up_to=last_row)
            lexical = LexicalIndex.build(0, ANALYZERS[DEFAULT_ANALYZER], documents)
        about = len(lexical), self._store.description.name, time.perf_counter() - began
        _log.info("indexed the words of %d texts of %s in %.1f s", *about)
        return lexical, last_row

    def _publish_texts(self, lexical: LexicalIndex, last_row: int) -> PublishedGeneration:
        """Bring an index of texts up to date and publish it. Called with the lock held."""
        published = self._catch_up()
        generation = published.generation
        removed = np.setdiff1d(lexical.rows(), generation.codes()[1], assume_unique=True)
        documents = list(self._store.texts(last_row))
        self.published = published = published._replace(
            lexical=lexical.with_changes(generation.number, documents, removed),
            moments=CodeMoments.of_codes(*generation.distinct_codes()),
        )
        return published
