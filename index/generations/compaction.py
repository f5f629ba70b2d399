"""Rebuilding an index in a thread of its own, while searches and writes continue.

A compaction takes the index of a generation, of codes or of texts, and builds an equivalent one.
Writes that arrive meanwhile are recorded and replayed on it. Most are replayed before any lock is
taken, so a write that waits for the publication waits for the replay of a few writes only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

FEW_WRITES = 4


class Compactable(Protocol):
    """An immutable index of one generation."""

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
                rebuilt = self.replay(published.compacted(), leave=FEW_WRITES)
                published = self._finish(self, rebuilt)
        finally:
            with self._lock:
                self._writes = []
                self._thread = None
