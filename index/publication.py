"""The generation that searches see, and how the next one takes its place.

A write makes the next generation beside the published one and then, holding the publishing lock,
commits and publishes: two steps, with nothing slow after the commit. So whoever holds that lock
finds the published generation to be the store's.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from encoder.codes import Codes
from index.compaction import Compaction, Write
from index.engines.protocol import Rows
from index.engines.segments import Generation
from index.filters import Filter
from index.sqlite.changes import Changes
from index.sqlite.matching import MatchingRows
from index.sqlite.store import Store


class Published(NamedTuple):
    """A generation, and the last row that had been given by then."""

    generation: Generation
    last_row: int


class Searched(NamedTuple):
    """What to search: a generation, and the rows for which the filter holds; None without one."""

    published: Published
    among: Rows | None


class Publication:
    """Publishes the generations of one store. `writing` is the lock that writers hold."""

    def __init__(self, store: Store, writing: threading.Lock, engine: str) -> None:
        """Publish nothing yet: the index is built when :meth:`current` is first called."""
        self.lock = threading.Lock()
        self._store = store
        self._writing = writing
        self._engine = engine
        self._published: Published | None = None
        self._matching = MatchingRows(store)
        self._compaction = Compaction(self._finish_compaction)

    def if_built(self) -> Generation | None:
        """Return the published generation, or None if the index was not built."""
        published = self._published
        return None if published is None else published.generation

    def current(self) -> Published:
        """Return what is published; the index is built if it was not.

        Raises:
            StoreError: if the store cannot be read, or is damaged.
        """
        published = self._published
        if published is None:
            with self.lock:
                published = self._up_to_date()
        return published

    def searched(self, filter_: Filter | None) -> Searched:
        """Return what to search."""
        published = self.current()
        if filter_ is None:
            return Searched(published, None)
        number = published.generation.number
        found = self._matching.of(filter_, number)
        if found.generation == number:
            return Searched(published, found.rows)
        # A write came in between. The list is nearly complete by now, so that little is left to do.
        with self.lock:
            return self.searched_now(filter_)

    def searched_now(self, filter_: Filter | None) -> Searched:
        """Do as :meth:`searched` as of the store's own generation. Called with the lock held."""
        published = self._up_to_date()
        if filter_ is None:
            return Searched(published, None)
        return Searched(published, self._matching.of(filter_, published.generation.number).rows)

    def publish(self, changes: Changes, codes: Codes, rows: Rows, removed: Rows) -> int:
        """Commit `changes`, let searches see them, and return the number of their generation.

        Called with the writing lock held.
        """
        write = Write(changes.generation + 1, codes, rows, removed)
        changes.prepare()
        with self.lock:
            if self._published is None:
                changes.commit()
                return write.number
            before = self._up_to_date(changes.generation).generation
        after = before.with_changes(*write)
        with self.lock:
            changes.commit()
            self._published = Published(after, changes.last_row)
        self._compaction.note(write, after)
        return write.number

    def compact(self) -> None:
        """Build the published generation anew. Called with the writing lock held."""
        published = self._published
        if published is not None:
            after = published._replace(generation=published.generation.compacted())
            with self.lock:
                self._published = after
        self._matching.clear()

    def wait(self) -> None:
        """Wait until no compaction runs in the background."""
        self._compaction.wait()

    def _up_to_date(self, number: int | None = None) -> Published:
        """Return what is published. Called with the lock held.

        An interrupt may have come between a commit and its publication; then it is made up for.
        """
        committed = self._store.generation() if number is None else number
        if self._published is None or self._published.generation.number != committed:
            committed, codes, rows, last_row = self._store.read_codes()
            generation = Generation.build(committed, codes, rows, self._engine)
            self._published = Published(generation, last_row)
        return self._published

    def _finish_compaction(self, compaction: Compaction, generation: Generation) -> None:
        """Publish a generation that was rebuilt."""
        with self._writing:
            generation = compaction.replayed(generation)
            with self.lock:
                published = self._published
                if published is not None and published.generation.number == generation.number:
                    self._published = published._replace(generation=generation)
        self._matching.clear()
