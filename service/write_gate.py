"""Many writes at a time, or one thing that keeps all writes out.

A name is looked up and written to within one passage through the gate. So whoever keeps the others
out can point an alias elsewhere, and no write goes to the collection that it meant before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WriteGate:
    """A lock that writers share; who wants it alone is let in before writers that come later."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writers = 0
        self._closers = 0
        self._closed = False

    def enter(self, *, wait: bool = True) -> bool:
        """Begin to write; where that must wait and `wait` is false, return False at once."""
        with self._changed:
            if not wait and (self._closers or self._closed):
                return False
            self._changed.wait_for(lambda: not self._closers and not self._closed)
            self._writers += 1
            return True

    def leave(self) -> None:
        """End what :meth:`enter` began; it need not be the same thread."""
        with self._changed:
            self._writers -= 1
            self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write, beside others."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until nobody writes, and keep everybody out meanwhile."""
        with self._changed:
            self._closers += 1
            self._changed.wait_for(lambda: not self._writers and not self._closed)
            self._closers -= 1
            self._closed = True
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
