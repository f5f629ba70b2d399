"""Long work in slices, so that other work gets its turn and abandoned work ends.

Code that computes for long calls :func:`checkpoint` every few milliseconds. In an expensive request
the call lets waiting work take its turn, and raises :class:`Cancelled` once the request has timed
out. Elsewhere it does nothing. Code that holds a lock for which other such work may wait runs in
:func:`unbroken`. Code that waits for other such work gives up its turn with
:func:`stepping_aside`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):  # noqa: N818 - nothing is wrong
    """Nobody is waiting for the result of this work."""


class ComputeTurns:
    """Limits how many threads compute at a time; waiting threads get turns in order of arrival."""

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
            turn = threading.Event()
            self._waiting.append(turn)
        turn.wait()

    def give(self) -> None:
        """End a turn; the thread that has waited longest gets it."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    @property
    def has_waiters(self) -> bool:
        """Whether a thread is waiting for a turn."""
        return bool(self._waiting)


class Slices:
    """The work of one request. It takes its first turn at its first checkpoint."""

    def __init__(self, turns: ComputeTurns, is_cancelled: Callable[[], bool]) -> None:
        self._turns = turns
        self._is_cancelled = is_cancelled
        self._has_turn = False
        self._unbroken = 0

    def checkpoint(self) -> None:
        """Let other work take its turn; raise Cancelled if this work is abandoned."""
        if self._unbroken:
            return
        if self._is_cancelled():
            raise Cancelled
        if self._has_turn and self._turns.has_waiters:
            self.end()
        if not self._has_turn:
            self._turns.take()
            self._has_turn = True
            if self._is_cancelled():
                raise Cancelled

    def end(self) -> None:
        """Give up the turn, if there is one; the next checkpoint takes another."""
        if self._has_turn:
            self._has_turn = False
            self._turns.give()

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        """Ignore checkpoints inside the block."""
        self._unbroken += 1
        try:
            yield
        finally:
            self._unbroken -= 1


_current: ContextVar[Slices | None] = ContextVar("slices", default=None)


@contextmanager
def in_slices(slices: Slices) -> Iterator[None]:
    """Make the checkpoints inside the block those of `slices`."""
    token = _current.set(slices)
    try:
        yield
    finally:
        slices.end()
        _current.reset(token)


def checkpoint() -> None:
    """Let other work take its turn, if this is work in slices.

    Raises:
        Cancelled: if nobody is waiting for the result any more.
    """
    slices = _current.get()
    if slices is not None:
        slices.checkpoint()


@contextmanager
def unbroken() -> Iterator[None]:
    """Ignore checkpoints inside the block: for code that holds a lock."""
    slices = _current.get()
    if slices is None:
        yield
        return
    with slices.unbroken():
        yield


@contextmanager
def stepping_aside() -> Iterator[None]:
    """Give up the turn, so that others can compute while this work waits for one of them."""
    slices = _current.get()
    if slices is not None:
        slices.end()
    yield
