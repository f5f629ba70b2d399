"""Making a generation anew on a thread of its own, while searches and writes go on.

The compaction takes a generation and builds another that finds the same; the writes of that time
are noted and replayed on it. Most are replayed before any lock is taken, so that the write which
has to wait for the publication waits for the replay of a few writes and not for the rebuild.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from encoder.codes import Codes
from index.engines.protocol import Rows
from index.engines.segments import Generation

FEW_WRITES = 4


class Write(NamedTuple):
    """What a write changed: see :meth:`index.engines.segments.Generation.with_changes`."""

    number: int
    codes: Codes
    rows: Rows
    removed: Rows


class Compaction:
    """At most one rebuild at a time."""

    def __init__(self, finish: Callable[[Compaction, Generation], None]) -> None:
        """Call `finish` with what was rebuilt; it takes its locks, replays and publishes."""
        self._finish = finish
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._thread: threading.Thread | None = None

    def note(self, write: Write, after: Generation) -> None:
        """Remember a write while one is running; begin one where `after` needs it.

        Called with the writing lock held, before `after` is searched.
        """
        with self._lock:
            if self._thread is not None:
                self._writes.append(write)
            elif after.needs_compaction:
                self._thread = threading.Thread(
                    target=self._run, args=(after,), name="compaction", daemon=True
                )
                self._thread.start()

    def replayed(self, generation: Generation, leave: int = 0) -> Generation:
        """Return `generation` with the writes since; the last `leave` of them may be left out."""
        while True:
            with self._lock:
                if len(self._writes) <= leave:
                    return generation
                writes, self._writes = self._writes, []
            for write in writes:
                generation = generation.with_changes(*write)

    def wait(self) -> None:
        """Wait until none is running."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, generation: Generation) -> None:
        try:
            self._finish(self, self.replayed(generation.compacted(), leave=FEW_WRITES))
        finally:
            with self._lock:
                self._writes = []
                self._thread = None
