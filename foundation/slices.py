"""Long work: its stages are named, and garbage is collected rarely."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Timer
from typing import NamedTuple, TextIO

# Long work names its stages as it begins them; a command prints those that take a while.


SECONDS = 2.0
MANY = 100_000
"""From so many documents on, a stage inside another one is worth a bar."""

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
def count_in_inner_stage(name: str, total: int) -> Iterator[Callable[[int], object]]:
    """Do as :func:`inner_stage`; the block calls the function with how much more is done.

    If a command prints stages on a terminal, and there is much to do, it is a bar.
    """
    if total < MANY or not any(isinstance(handler, _Printer) for handler in _log.handlers):
        with inner_stage(name):
            yield lambda _: None
        return
    outer = _current_stages.get()
    try:
        with count_in_stage(name, total) as advance:
            yield advance
    finally:
        begin_stage(outer)


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
    bars = sys.modules.get("tqdm")  # without it, none is drawn
    write = bars.tqdm.write if bars is not None else print
    with suppress(OSError, ValueError):  # its reader closed it, or the command has ended
        write(line, file=stream)


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
