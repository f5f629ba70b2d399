"""Forked processes that report when they are ready and end with their parent."""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from foundation.errors import HummingbitError
from index.errors import DataFolderError
from service.server import ending_signals

POLL_SECONDS = 0.25
START_SECONDS = 600.0
READY = b"ready"
# Modules that servers import as they start. Children share the memory of what is imported before.
IMPORTED_BY_CHILDREN = ("anyio._backends._asyncio", "httpcore", "uvicorn.lifespan.on", "uvloop")

Role = Callable[[Callable[[], object]], object]
"""What a process does until SIGTERM. It calls its argument once it is ready."""


def start(role: Role, alive: tuple[int, int], is_stopping: Callable[[], bool]) -> int:
    """Fork a process, wait until it is ready, and return its id.

    `alive` is a pipe, its read end first. This process keeps the write end open while it lives.

    Raises:
        DataFolderError: with the reason that the process reported, if it could not start.
    """
    for name in IMPORTED_BY_CHILDREN:
        with suppress(ImportError):  # uvloop is optional
            importlib.import_module(name)
    # The collector leaves frozen objects alone, so their memory pages stay shared.
    gc.freeze()
    read_end, write_end = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:  # out of memory or of processes, perhaps only for now
        os.close(read_end)
        os.close(write_end)
        raise DataFolderError(f"cannot be forked: {error.strerror}") from None
    if not pid:
        os.close(read_end)
        _run_role(role, alive, write_end)
    os.close(write_end)
    try:
        report = _read_report(read_end, is_stopping)
    finally:
        os.close(read_end)
    if report != READY and not is_stopping():
        send_signal(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise DataFolderError(report.decode() or "the process ended before it was ready")
    return pid


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _run_role(role: Role, alive: tuple[int, int], report: int) -> NoReturn:
    """Do `role` in the child, report on the descriptor `report`, and exit."""
    status = 1
    try:
        for number in ending_signals():
            signal.signal(number, signal.SIG_DFL)
        # A terminal's signals, such as Ctrl-C, go to the parent only.
        os.setpgid(0, 0)
        os.close(alive[1])
        _stop_with_parent(alive[0])
        role(lambda: os.write(report, READY))
        status = 0
    except HummingbitError as error:
        os.write(report, str(error).encode())
    except BaseException:  # noqa: BLE001 - the child must not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def _read_report(read_end: int, is_stopping: Callable[[], bool]) -> bytes:
    """Return READY, the reason why the process could not start, or nothing if it just ended."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not is_stopping():
        if select.select([read_end], [], [], POLL_SECONDS)[0]:
            return os.read(read_end, 1 << 16)
    return b""


def _stop_with_parent(alive: int) -> None:
    """Send this process SIGTERM once its parent, which holds the pipe's other end, is gone."""

    def wait() -> None:
        os.read(alive, 1)
        send_signal(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="supervised", daemon=True).start()
