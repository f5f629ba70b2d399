"""Long work in slices, so that other work gets its turn and abandoned work ends.

Code that computes for long calls :func:`checkpoint` every few milliseconds. In an expensive request
the call lets waiting work take its turn, and raises :class:`Cancelled` once the request has timed
out. Elsewhere it does nothing. Code that holds a lock for which other such work may wait runs in
:func:`unbroken`. Code that waits for other such work gives up its turn with
:func:`stepping_aside`.

Some work runs where it may not take long: on an event loop, or in one of few threads. It has an
:class:`Allowance`. Code that is about to wait, to build something large or to read something large
says so first, with :func:`about_to_wait`, :func:`about_to_build` or :func:`about_to_hold`. What the
allowance does not cover raises :class:`BeyondAllowance`, and the caller does the work elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# How often work that waits for a lock looks whether somebody still waits for its result.
SECONDS_OF_WAITING = 0.05
DROPPED_AT_ONCE = 10_000


class Cancelled(Exception):  # noqa: N818 - nothing is wrong
    """Nobody is waiting for the result of this work."""


class BeyondAllowance(Exception):  # noqa: N818 - nothing is wrong
    """The work takes longer, or more memory, than it may where it runs.

    `builds` tells whether it would build something that later work does not build again.
    """

    def __init__(self, *, builds: bool = False) -> None:
        super().__init__()
        self.builds = builds


class Allowance:
    """What work may do where it runs. Used by one thread at a time."""

    def __init__(self, max_bytes: int, *, waits: bool = False, builds: bool = False) -> None:
        """Let the work hold `max_bytes` bytes of what it reads.

        With `waits` it may wait for a write, and with `builds` build an index.
        """
        self.max_bytes = max_bytes
        self.waits = waits
        self.builds = builds
        self.held = 0
        """The bytes that the work has read."""

    def hold(self, n_bytes: int) -> None:
        """Count `n_bytes` more; raise BeyondAllowance if they are too many."""
        self.held += n_bytes
        if self.held > self.max_bytes:
            self.exceed()

    def exceed(self) -> None:
        """Raise BeyondAllowance; a subclass may make room instead, and return."""
        raise BeyondAllowance


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

    def check(self) -> None:
        """Raise Cancelled if this work is abandoned; the turn stays as it is."""
        if not self._unbroken and self._is_cancelled():
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


def drop(items: list[Any]) -> None:
    """Empty a list, some items at a time.

    To free a million objects at once takes up to a third of a second, and keeps the interpreter
    lock.
    """
    while items:
        checkpoint()
        del items[-DROPPED_AT_ONCE:]


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


@contextmanager
def acquired(lock: threading.Lock | threading.Semaphore) -> Iterator[None]:
    """Hold `lock`, for which other work in slices may be computing; abandoned work stops waiting.

    Raises:
        Cancelled: if nobody is waiting for the result any more.
    """
    slices = _current.get()
    if slices is not None:
        slices.end()
        while not lock.acquire(timeout=SECONDS_OF_WAITING):
            slices.check()
    else:
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def within(allowance: Allowance) -> Iterator[None]:
    """Give the work inside the block an allowance."""
    token = _allowance.set(allowance)
    try:
        yield
    finally:
        _allowance.reset(token)


def has_allowance() -> bool:
    """Tell whether the work has an allowance."""
    return _allowance.get() is not None


def may_wait() -> bool:
    """Tell whether the work may wait for a write."""
    allowance = _allowance.get()
    return allowance is None or allowance.waits


def about_to_wait() -> None:
    """Raise BeyondAllowance if the work may not wait, not even for a write."""
    if not may_wait():
        raise BeyondAllowance


def about_to_build() -> None:
    """Raise BeyondAllowance if the work may not build an index, or wait until another has."""
    allowance = _allowance.get()
    if allowance is not None and not allowance.builds:
        raise BeyondAllowance(builds=True)


def about_to_hold(n_bytes: int) -> None:
    """Raise BeyondAllowance if the work may not hold `n_bytes` bytes more; wait for room if it may.

    Bytes are never given back: an allowance counts what its work has read.
    """
    allowance = _allowance.get()
    if allowance is not None:
        allowance.hold(n_bytes)
