"""Long work names its stages as it begins them; a command prints those that take a while."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Timer
from typing import TextIO

SECONDS = 2.0

_log = logging.getLogger("hummingbit.stages")
_log.setLevel(logging.WARNING)  # a service does not log them
_log.propagate = False

_current = ContextVar("current stage", default="")


def begin_stage(name: str) -> None:
    """Note that a stage begins, and the one before ends. `name` is a phrase: "reading a.csv"."""
    _current.set(name)
    _log.info("%s", name)


def end_stage() -> None:
    """Note that the current stage ends; the work that follows belongs to none."""
    begin_stage("")


@contextmanager
def inner_stage(name: str) -> Iterator[None]:
    """Note that the block is a stage; the one around it, if any, continues after the block."""
    outer = _current.get()
    begin_stage(name)
    try:
        yield
    finally:
        begin_stage(outer)


@contextmanager
def count_in_stage(
    name: str, total: int | None = None, unit: str = "documents"
) -> Iterator[Callable[[int], object]]:
    """Begin a stage that counts what is done; the block calls the function with how much more is.

    On a terminal this is a bar, which stays as one line; `total` is None if it is unknown.
    """
    from tqdm import tqdm  # noqa: PLC0415 - short commands draw no bar

    if sys.stderr is not None and sys.stderr.isatty():
        end_stage()
    else:
        begin_stage(name)
    # With None, tqdm prints nothing unless standard error is a terminal.
    with tqdm(desc=name, unit=f" {unit}", total=total, disable=None) as bar:
        yield bar.update
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
