"""Long work names its stages as it begins them; a command prints those that take a while."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from tqdm import tqdm

SECONDS = 1.0

_log = logging.getLogger("hummingbit.stages")
_log.setLevel(logging.WARNING)  # a service does not log them
_log.propagate = False


def begin_stage(name: str) -> None:
    """Note that a stage begins, and the one before ends. `name` is a phrase: "reading a.csv"."""
    _log.info("%s", name)


@contextmanager
def print_stages() -> Iterator[None]:
    """Print a line on standard error for each stage of the block that takes over a second."""
    printer = _Printer()
    _log.addHandler(printer)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(logging.WARNING)
        _log.removeHandler(printer)
        printer.close()


class _Printer(logging.Handler):
    """Prints a stage unless another begins within :data:`SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._timer: Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._end_stage()
        # Where a progress bar is drawn, the line goes above it.
        line = f"{record.getMessage()} …"
        self._timer = Timer(SECONDS, tqdm.write, [line], {"file": sys.stderr})
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        self._end_stage()
        super().close()

    def _end_stage(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
