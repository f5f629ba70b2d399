"""Long work in slices: other work gets its turn, stages are named, and garbage is collected
rarely.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple, TextIO

from hummingbit.foundation.processes import ProcessLock

# Long work in slices, so that other work gets its turn and abandoned work ends.
#
# Code that computes for long calls :func:`checkpoint` every few milliseconds. In an expensive
# request the call lets waiting work take its turn, and raises :class:`Cancelled` once the request
# has timed out. Elsewhere it does nothing. Code that holds a lock for which other such work may
# wait runs in :func:`unbroken`. Code that waits for other such work gives up its turn with
# :func:`stepping_aside`.
#
# Some work runs where it may not take long: on an event loop, or in one of few threads. It has an
# :class:`Allowance`. Code that is about to wait, to build something large or to read something
# large says so first, with :func:`about_to_wait`, :func:`about_to_build` or :func:`about_to_hold`.
# What the allowance does not cover raises :class:`BeyondAllowance`, and the caller does the work
# elsewhere.


# How often work that waits for a lock looks whether somebody still waits for its result.
SECONDS_OF_WAITING = 0.05
DROPPED_AT_ONCE = 10_000
SECONDS_RELEASED = 0.0001


class Cancelled(Exception):  # noqa: N818 - nothing is wrong
    """The request was cancelled, so the result of this work is not needed."""


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


class FairSemaphore:
    """Limits how many threads compute at a time; waiting threads get turns in order of arrival."""

    def __init__(self, at_a_time: int) -> None:
        self._lock = threading.Lock()
        self._free = at_a_time
        self._waiting: deque[threading.Event] = deque()

    def acquire(self) -> None:
        """Wait for a turn."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Event()
            self._waiting.append(turn)
        turn.wait()

    def release(self) -> None:
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

    def __init__(self, turns: FairSemaphore, is_cancelled: Callable[[], bool]) -> None:
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
            self._turns.acquire()
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
            self._turns.release()

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


def release_interpreter() -> None:
    """Let a thread that waits for the interpreter lock have it, also in :func:`unbroken`.

    A thread that computes keeps the lock for 5 ms, and a search takes it several times.
    """
    time.sleep(SECONDS_RELEASED)


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
def acquired(lock: threading.Lock | threading.Semaphore | ProcessLock) -> Iterator[None]:
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


# Long work names its stages as it begins them; a command prints those that take a while.


SECONDS = 2.0

_log = logging.getLogger("hummingbit.stages")
_log.setLevel(logging.WARNING)  # a service does not log them
_log.propagate = False

_current_stages = ContextVar("current stage", default="")
_part = ContextVar("part", default="")


def begin_stage(name: str) -> None:
    """Note that a stage begins, and the one before ends. `name` is a phrase: "reading a.csv"."""
    _current_stages.set(name)
    part = _part.get()
    _log.info("%s", f"{part}: {name}" if part and name else name)


def end_stage() -> None:
    """Note that the current stage ends; the work that follows belongs to none."""
    begin_stage("")


@contextmanager
def inner_stage(name: str) -> Iterator[None]:
    """Note that the block is a stage; the one around it, if any, continues after the block."""
    outer = _current_stages.get()
    begin_stage(name)
    try:
        yield
    finally:
        begin_stage(outer)


@contextmanager
def part_of_stages(name: str) -> Iterator[None]:
    """Put `name` before the stages of the block: "trial 2 of 4"."""
    token = _part.set(name)
    try:
        yield
    finally:
        _part.reset(token)


def report_done(done: int, total: int) -> None:
    """Note that `done` of `total` equal parts of the current stage are done."""
    _log.info("%s", _current_stages.get(), extra={"part_done": (done, total)})


@contextmanager
def count_in_stage(name: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
    """Begin a stage that counts what is done; the block calls the function with how much more is.

    On a terminal this is a bar, which stays as one line; `total` is None if it is unknown.
    """
    from tqdm import tqdm  # noqa: PLC0415 - short commands draw no bar

    if sys.stderr is not None and sys.stderr.isatty():
        end_stage()
    else:
        begin_stage(name)
    done = 0
    # With None, tqdm prints nothing unless standard error is a terminal.
    with tqdm(desc=name, unit=" documents", total=total, disable=None) as bar:

        def advance(by: int) -> None:
            nonlocal done
            done += by
            bar.update(by)
            if total:
                report_done(done, total)

        yield advance
    end_stage()


@contextmanager
def print_stages() -> Iterator[None]:
    """Print a line on standard error for each stage of the block that takes over two seconds."""
    printer = _Printer()
    _log.addHandler(printer)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        stop_printing()
        _log.removeHandler(printer)
        printer.close()


STAGES_VARIABLE = "HUMMINGBIT_STAGES_FILE"
"""The variable that names a file to which a command writes its current stage."""
SECONDS_BETWEEN_STAGES = 0.2


@contextmanager
def write_stages(path: Path) -> Iterator[None]:
    """Keep the current stage of the block in a file, for :func:`read_stage` in another process."""
    writer = _StageFile(path)
    _log.addHandler(writer)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(writer)


class Stage(NamedTuple):
    """A stage, and how many of its equal parts are done; `total` is 0 if it is not counted."""

    name: str
    done: int
    total: int


def read_stage(path: Path) -> Stage | None:
    """Return the stage that another process wrote to a file; None without one."""
    try:
        return Stage(*json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return None


class _StageFile(logging.Handler):
    """Writes each stage to a file that is always whole; what is done, a few times a second."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._written_at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        done, total = getattr(record, "part_done", (0, 0))
        now = time.monotonic()
        if done and done < total and now - self._written_at < SECONDS_BETWEEN_STAGES:
            return
        self._written_at = now
        partial = self._path.with_suffix(".partial")
        with suppress(OSError):  # the folder is gone, or the disk full: nothing depends on it
            partial.write_text(json.dumps([record.getMessage(), done, total]), encoding="utf-8")
            partial.replace(self._path)


def stop_printing() -> None:
    """End :func:`print_stages` for the rest of its block, because a service begins."""
    end_stage()
    _log.setLevel(logging.WARNING)


class _Printer(logging.Handler):
    """Prints a stage unless another begins within :data:`SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "part_done"):
            return
        self._end_stage()
        stage = record.getMessage()
        if stage:
            self._timer = Timer(SECONDS, _print_line, [f"{stage} …", sys.stderr])
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        self._end_stage()
        super().close()

    def _end_stage(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _print_line(line: str, stream: TextIO | None) -> None:
    """Print a line above the progress bar, if one is drawn."""
    if stream is None:
        return
    from tqdm import tqdm  # noqa: PLC0415 - most commands end before a line is printed

    with suppress(OSError, ValueError):  # its reader closed it, or the command has ended
        tqdm.write(line, file=stream)


# Fewer collections of garbage where many objects are made and hardly any form cycles.


OBJECTS_BETWEEN_COLLECTIONS = 200_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for reference cycles after every 200,000 objects instead of 700.

    The modules that a command loads are half a million objects, all of which stay, and a batch of
    documents is tens of thousands. Python would look at them again and again. What is in no cycle
    is freed at once all the same.
    """
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
