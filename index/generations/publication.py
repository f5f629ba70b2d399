"""The generation that searches see, and how the next one takes its place.

A write makes the next generation beside the published one and then, holding the publishing lock,
commits and publishes: two steps, with nothing slow after the commit. So whoever holds that lock
finds the published generation to be the store's.

The lexical index of the texts is built when it is first asked for, from the store and beside
writes; what was written meanwhile is added while the publishing lock is held. From then on every
write makes the next one, and it is published with the generation that it is of.

Where another process writes, the lock keeps no commit away. :meth:`Publication.follow` publishes
what was committed now and then, and :meth:`Publication.one_moment` brings what is published up to
a moment of the store.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from encoder.codes import Codes
from foundation.slices import unbroken
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


class Publication:
    """Publishes the generations of one store. `writing` is the lock that writers hold."""

    def __init__(self, store: Store, writing: threading.Lock, engine: str) -> None:
        """Publish nothing yet: the index is built when :meth:`current` is first called."""
        self.lock = threading.Lock()
        self._store = store
        self._writing = writing
        self._engine = engine
        self.published: PublishedGeneration | None = None
        """What is published; None where the index was not built."""
        self._matching = MatchingRows(store)
        self._compaction = Compaction(self._finish_compaction)
        self.compactions = 0
        """How often the index was made anew while writes were added to it."""
        self._building = threading.Lock()
        self._lexical_compaction = Compaction(self._finish_lexical_compaction)

    def if_built(self) -> Generation | None:
        """Return the published generation, or None if the index was not built."""
        published = self.published
        return None if published is None else published.generation

    def current(self) -> PublishedGeneration:
        """Return what is published; the index is built if it was not.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.published
        if published is None:
            with self.lock:
                published = self._up_to_date()
        return published

    def with_lexical(self) -> PublishedGeneration:
        """Return what is published, its lexical index included, which is built if it was not.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.current()
        while published.lexical is None:
            with self._building:
                published = self.current()
                if published.lexical is None:
                    indexed = self._index_texts()
                    with self.lock, self._store.moment():
                        published = self._publish_texts(*indexed)
        return published

    def searched(self, filter_: Filter | None, *, lexical: bool = False) -> SearchTarget:
        """Return what to search, with the lexical index where it is asked for."""
        published = self.with_lexical() if lexical else self.current()
        if filter_ is None:
            return SearchTarget(published, None)
        number = published.generation.number
        found = self._matching.of(filter_, number)
        if found.generation == number:
            return SearchTarget(published, found.rows)
        # A write came in between. The list is nearly complete by now, so that little is left to do.
        with self.one_moment(filter_, lexical=lexical) as searched:
            return searched

    @contextmanager
    def one_moment(
        self, filter_: Filter | None, *, lexical: bool = False
    ) -> Iterator[SearchTarget]:
        """Lend what to search as of a moment of the store.

        Whatever this thread reads of the store meanwhile is as of the same moment.
        """
        with self.lock, unbroken():
            while True:
                with self._store.moment():
                    published = self.up_to_date()
                    if lexical and published.lexical is None:
                        published = self._publish_texts(*self._index_texts())
                    if filter_ is None:
                        yield SearchTarget(published, None)
                        return
                    number = published.generation.number
                    found = self._matching.of(filter_, number, alone=True)
                    if found.generation == number:
                        yield SearchTarget(published, found.rows)
                        return
                # Another process wrote, and the list was completed after this moment began.

    def up_to_date(self) -> PublishedGeneration:
        """Return what is published as of a moment of the store, in which this is called.

        Called with the lock held.
        """
        return self._up_to_date()

    def knows(self, filter_: Filter) -> bool:
        """Tell whether most of the rows are known for which the filter holds."""
        return self._matching.knows(filter_)

    def publish(self, changes: Changes, codes: Codes, rows: Rows, removed: Rows) -> int:
        """Commit `changes`, let searches see them, and return the number of their generation.

        Called with the writing lock held.
        """
        number = changes.generation + 1
        changes.prepare()
        with self.lock:
            if self.published is None:
                changes.commit()
                return number
            before = self._up_to_date(changes.generation)
        after = before.generation.with_changes(number, codes, rows, removed)
        texts = TextChanges(number, changes, codes, removed)
        lexical, moments = texts.added_to(before)
        with self.lock:
            if lexical is None:
                # The lexical index may have been built meanwhile.
                lexical, moments = texts.added_to(self._up_to_date(changes.generation))
            changes.commit()
            self.published = PublishedGeneration(after, changes.last_row, lexical, moments)
        self._compaction.note((number, codes, rows, removed), after)
        if lexical is not None:
            self._lexical_compaction.note(texts.write, lexical)
        return number

    def follow(self) -> None:
        """Publish what another process has committed; nothing where no index was built.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self.published
        if published is None or published.generation.number == self._store.generation():
            return
        with self.lock, self._store.moment():
            self._up_to_date()

    def compact(self) -> None:
        """Build the published generation anew. Called with the writing lock held."""
        published = self.published
        if published is not None:
            lexical = None if published.lexical is None else published.lexical.compacted()
            generation = published.generation.compacted()
            with self.lock:
                # The lexical index may have been built meanwhile.
                published = self._up_to_date()
                lexical = published.lexical if lexical is None else lexical
                self.published = published._replace(generation=generation, lexical=lexical)
        self._matching.clear()

    def wait(self) -> None:
        """Wait until no compaction runs in the background."""
        self._compaction.wait()
        self._lexical_compaction.wait()

    def _up_to_date(self, number: int | None = None) -> PublishedGeneration:
        """Return what is published. Called with the lock held.

        Another process may have written, or an interrupt have come between a commit and its
        publication; then it is made up for.
        """
        committed = self._store.generation() if number is None else number
        published = self.published
        if published is None or published.generation.number > committed:
            published = self._rebuilt()
        elif published.generation.number < committed:
            published = self._caught_up(published)
        self.published = published
        return published

    def _caught_up(self, before: PublishedGeneration) -> PublishedGeneration:
        """Return what the store holds by now, made of what it held before."""
        with self._store.moment():
            later = self._store.read_later(before.last_row)
            if len(later.rows) > len(before.generation):
                return self._rebuilt()
            number, codes, rows, removed = later.write
            after = before.generation.with_changes(*later.write)
            if len(after) != later.documents:
                # Blocks were folded since: they no longer list what was removed of them.
                held = before.generation.codes()[1]
                removed = np.setdiff1d(held, self._store.read_codes().rows, assume_unique=True)
                after = before.generation.with_changes(number, codes, rows, removed)
            if len(after) != later.documents:
                return self._rebuilt()
            lexical, moments = before.lexical, before.moments
            if lexical is not None and moments is not None:
                texts = (number, list(self._store.texts(before.last_row)), removed)
                lexical = lexical.with_changes(*texts)
                self._lexical_compaction.note(texts, lexical)
                gone = before.generation.live_rows(removed)
                moments = moments.with_changes(codes, before.generation.codes_of(gone))
        self._compaction.note((number, codes, rows, removed), after)
        return PublishedGeneration(after, later.last_row, lexical, moments)

    def _rebuilt(self) -> PublishedGeneration:
        """Return what the store holds, made of all of it."""
        number, codes, rows, last_row = self._store.read_codes()
        # What compactions under way will bring is not what the writes from now on are made on.
        self._compaction = Compaction(self._finish_compaction)
        self._lexical_compaction = Compaction(self._finish_lexical_compaction)
        return PublishedGeneration(Generation.build(number, codes, rows, self._engine), last_row)

    def _finish_compaction(
        self, compaction: Compaction[Generation], generation: Generation
    ) -> None:
        """Publish a generation that was rebuilt."""
        with self._writing:
            generation = compaction.replayed(generation)
            with self.lock:
                published = self.published
                if compaction is not self._compaction or published is None:
                    return
                if published.generation.number == generation.number:
                    self.published = published._replace(generation=generation)
                    self.compactions += 1
        self._matching.clear()

    def _finish_lexical_compaction(
        self, compaction: Compaction[LexicalIndex], lexical: LexicalIndex
    ) -> None:
        """Publish a lexical index that was rebuilt."""
        with self._writing:
            lexical = compaction.replayed(lexical)
            with self.lock:
                published = self.published
                if compaction is not self._lexical_compaction or published is None:
                    return
                if published.generation.number == lexical.number:
                    self.published = published._replace(lexical=lexical)

    def _index_texts(self) -> tuple[LexicalIndex, int]:
        """Return an index of the texts of all rows up to one, and that row.

        A text that a writer deletes in the meantime may be in it.
        """
        last_row = self._store.last_row()
        documents = self._store.texts(up_to=last_row)
        return LexicalIndex.build(0, ANALYZERS[DEFAULT_ANALYZER], documents), last_row

    def _publish_texts(self, lexical: LexicalIndex, last_row: int) -> PublishedGeneration:
        """Bring an index of texts up to date and publish it. Called with the lock held."""
        published = self._up_to_date()
        generation = published.generation
        removed = np.setdiff1d(lexical.rows(), generation.codes()[1], assume_unique=True)
        documents = list(self._store.texts(last_row))
        self.published = published = published._replace(
            lexical=lexical.with_changes(generation.number, documents, removed),
            moments=CodeMoments.of_codes(*generation.distinct_codes()),
        )
        return published
