"""Making an index anew on a thread of its own, while searches and writes go on.

The compaction takes the index of a generation, of codes or of texts, and builds another that finds
the same; the writes of that time are noted and replayed on it. Most are replayed before any lock is
taken, so that the write which has to wait for the publication waits for the replay of a few writes
and not for the rebuild.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar

FEW_WRITES = 4


class Compactable(Protocol):
    """An index of one generation; it never changes."""

    @property
    def needs_compaction(self) -> bool:
        """Whether :meth:`compacted` would make searches faster or give much memory back."""

    def compacted(self) -> Self:
        """Return an index that finds the same, made of one piece."""

    def with_changes(self, *write: Any) -> Self:
        """Return the index of the next generation."""


Index = TypeVar("Index", bound=Compactable)


class Compaction(Generic[Index]):
    """At most one rebuild at a time."""

    def __init__(self, finish: Callable[[Compaction[Index], Index], None]) -> None:
        """Call `finish` with what was rebuilt; it takes its locks, replays and publishes."""
        self._finish = finish
        self._lock = threading.Lock()
        self._writes: list[tuple[Any, ...]] = []
        self._thread: threading.Thread | None = None

    def note(self, write: tuple[Any, ...], after: Index) -> None:
        """Remember a write while one is running; begin one where `after` needs it.

        `write` is what ``with_changes`` was given, `after` what it returned. Called with the
        writing lock held, before `after` is searched.
        """
        with self._lock:
            if self._thread is not None:
                self._writes.append(write)
            elif after.needs_compaction:
                self._thread = threading.Thread(
                    target=self._run, args=(after,), name="compaction", daemon=True
                )
                self._thread.start()

    def replayed(self, index: Index, leave: int = 0) -> Index:
        """Return `index` with the writes since; the last `leave` of them may be left out."""
        while True:
            with self._lock:
                if len(self._writes) <= leave:
                    return index
                writes, self._writes = self._writes, []
            for write in writes:
                index = index.with_changes(*write)

    def wait(self) -> None:
        """Wait until none is running."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, index: Index) -> None:
        try:
            self._finish(self, self.replayed(index.compacted(), leave=FEW_WRITES))
        finally:
            with self._lock:
                self._writes = []
                self._thread = None
