"""Long work in slices, so that others get their turn and work that nobody waits for ends.

Code that computes for long calls :func:`checkpoint` every few milliseconds. Where it runs for an
expensive request, that lets others go on that wait for their turn, and raises :class:`Cancelled`
once the request has timed out. Elsewhere it does nothing. Code that holds a lock which other such
work may wait for runs :func:`unbroken`; code that waits for other such work gives up its turn with
:func:`stepping_aside`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):  # noqa: N818 - nothing is wrong
    """Nobody waits for this work any more."""


class ComputeTurns:
    """So many threads compute at a time; those that wait come in the order in which they came."""

    def __init__(self, at_a_time: int) -> None:
        self._lock = threading.Lock()
        self._free = at_a_time
        self._waiting: deque[threading.Event] = deque()

    def take(self) -> None:
        """Wait for a turn."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def give(self) -> None:
        """End a turn; whoever waits the longest has it then."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    @property
    def wanted(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)


class Slices:
    """The work of one request. It takes its first turn at its first checkpoint."""

    def __init__(self, turns: ComputeTurns, is_cancelled: Callable[[], bool]) -> None:
        self._turns = turns
        self._is_cancelled = is_cancelled
        self._has_turn = False
        self._unbroken = 0

    def checkpoint(self) -> None:
        """Let others go on, and raise Cancelled if nobody waits for the work."""
        if self._unbroken:
            return
        if self._is_cancelled():
            raise Cancelled
        if self._has_turn and self._turns.wanted:
            self.end()
        if not self._has_turn:
            self._turns.take()
            self._has_turn = True
            if self._is_cancelled():
                raise Cancelled

    def end(self) -> None:
        """Give up the turn, if it has one; a checkpoint takes another."""
        if self._has_turn:
            self._has_turn = False
            self._turns.give()

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """Have no checkpoints within."""
        self._unbroken += 1
        try:
            yield
        finally:
            self._unbroken -= 1


_current: ContextVar[Slices | None] = ContextVar("slices", default=None)


@contextmanager
def in_slices(slices: Slices) -> Iterator[None]:
    """Have the checkpoints of what is called within be those of `slices`."""
    token = _current.set(slices)
    try:
        yield
    finally:
        slices.end()
        _current.reset(token)


def checkpoint() -> None:
    """Let others go on, where this is work in slices.

    Raises:
        Cancelled: if nobody waits for the work any more.
    """
    slices = _current.get()
    if slices is not None:
        slices.checkpoint()


@contextmanager
def unbroken() -> Iterator[None]:
    """Have no checkpoints within: for code that holds a lock."""
    slices = _current.get()
    if slices is None:
        yield
        return
    with slices.unbroken():
        yield


@contextmanager
def stepping_aside() -> Iterator[None]:
    """Let others compute while this waits for one of them."""
    slices = _current.get()
    if slices is not None:
        slices.end()
    yield
