"""Processes that are forked, say when they are ready, and end with the one that forked them."""

from __future__ import annotations

import gc
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

LOOK_SECONDS = 0.25
START_SECONDS = 600.0
READY = b"ready"

Role = Callable[[Callable[[], object]], object]
"""What a process does until SIGTERM; it calls its argument once it is ready."""


def start(role: Role, alive: tuple[int, int], is_stopping: Callable[[], bool]) -> int:
    """Start a process, wait until it is ready, and return its id.

    `alive` are the two ends of a pipe: this process holds the second open as long as it lives.

    Raises:
        DataFolderError: with what the process said where it could not be started.
    """
    # What was made so far stays as it is, so that it is not copied.
    gc.freeze()
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:  # no memory, or no process more; later there may be
        os.close(reading)
        os.close(writing)
        raise DataFolderError(f"cannot be forked: {error.strerror}") from None
    if not pid:
        os.close(reading)
        _become(role, alive, writing)
    os.close(writing)
    try:
        said = _said(reading, is_stopping)
    finally:
        os.close(reading)
    if said != READY and not is_stopping():
        send_signal(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise DataFolderError(said.decode() or "it ended")
    return pid


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, unless that has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _become(role: Role, alive: tuple[int, int], ready: int) -> NoReturn:
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # The signals of a terminal are for the process that forked this one.
        os.setpgid(0, 0)
        os.close(alive[1])
        _end_with(alive[0])
        role(lambda: os.write(ready, READY))
        status = 0
    except HummingbitError as error:
        os.write(ready, str(error).encode())
    except BaseException:  # noqa: BLE001 - it must not go on as the process that it was
        traceback.print_exc()
    finally:
        os._exit(status)


def _said(reading: int, is_stopping: Callable[[], bool]) -> bytes:
    """Return what a process says once it is ready, or why it is not; nothing where it ended."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and not is_stopping():
        if select.select([reading], [], [], LOOK_SECONDS)[0]:
            return os.read(reading, 1 << 16)
    return b""


def _end_with(alive: int) -> None:
    """Stop this process once the pipe ends, with the process that holds its other end."""

    def wait() -> None:
        os.read(alive, 1)
        send_signal(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="supervised", daemon=True).start()
