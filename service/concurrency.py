"""Keeps writers out of the way of a swap."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class WriteGate:
    """A lock that writers share; a caller that wants it alone goes before later writers.

    A writer looks up a name and writes to its collection within one passage through the gate. So a
    caller that has the gate alone can move an alias, and no later write goes to its old collection.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writers = 0
        self._closers = 0
        self._closed = False

    def enter(self, *, wait: bool = True) -> bool:
        """Begin to write; return False at once if that must wait and `wait` is false."""
        with self._changed:
            if not wait and (self._closers or self._closed):
                return False
            self._changed.wait_for(lambda: not self._closers and not self._closed)
            self._writers += 1
            return True

    def leave(self) -> None:
        """End what :meth:`enter` began, from any thread."""
        with self._changed:
            self._writers -= 1
            self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write together with others."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until nobody writes, and keep all writers out within."""
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
