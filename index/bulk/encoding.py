"""Encoding on all cores.

Most of the work is Python code, so separate processes do it. Each holds the encoder and receives
only texts or vectors, not whole documents.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from encoder.codes import Codes
from encoder.encoder import Encoder, Inputs

# Otherwise every process would use all cores for its matrix products.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# While a process starts, its parent writes the encoder to it, and it imports this program. Signals
# that end the parent wait meanwhile, so that neither fails halfway with a traceback.
ENDING = (signal.SIGINT, signal.SIGTERM)
CAN_BLOCK = hasattr(signal, "pthread_sigmask")  # Windows lacks it

# Starting a process takes as long as encoding some ten thousand short texts.
BEFORE_PROCESSES = 20_000

_encoder: Encoder | None = None


class EncodingPool:
    """Encodes in `jobs` processes, or in this process if `jobs` is 1."""

    def __init__(self, encoder: Encoder | None, jobs: int) -> None:
        self._encoder = encoder
        self._processes: ProcessPoolExecutor | None = None
        self._submitted = 0
        if jobs > 1 and encoder is not None:
            context = multiprocessing.get_context("spawn")
            # The processes end when this end of the pipe is closed, be it by a kill of this one.
            alive, self._open = context.Pipe(duplex=False)
            self._processes = ProcessPoolExecutor(jobs, context, _prepare, (encoder, alive))

    def submit(self, inputs: Inputs) -> Future[Codes]:
        """Start encoding; the result is ``uint8[N, C]``."""
        self._submitted += len(inputs)
        if self._processes is None or self._submitted <= BEFORE_PROCESSES:
            done: Future[Codes] = Future()
            if self._encoder is not None:
                done.set_result(self._encoder.encode(inputs))
            return done
        with _starting_processes():
            return self._processes.submit(_encode, inputs)

    def close(self) -> None:
        """End the processes and cancel their work."""
        if self._processes is None:
            return
        try:
            self._processes.shutdown(cancel_futures=True)
        finally:
            self._open.close()  # the shutdown may have been interrupted


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _prepare(encoder: Encoder, alive: Connection) -> None:
    global _encoder  # noqa: PLW0603 - a process holds one encoder
    _encoder = encoder
    # The parent process handles an interrupt and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if CAN_BLOCK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _end_with_parent(alive: Connection) -> None:
    """End this process when its parent has closed the other end of a pipe, or was killed."""
    with suppress(EOFError, OSError):
        alive.recv()
    os._exit(1)


def _encode(inputs: Inputs) -> Codes:
    if _encoder is None:
        raise RuntimeError("the process was not prepared")
    return _encoder.encode(inputs)


@contextmanager
def _delayed_signals() -> Iterator[None]:
    """Handle :data:`ENDING` after the block.

    Another thread of this process may receive them where the main thread blocks them, and Python
    would run their handlers in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    handlers = {one: signal.signal(one, lambda number, _: arrived.append(number)) for one in ENDING}
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        for number in arrived:
            signal.raise_signal(number)


@contextmanager
def _starting_processes() -> Iterator[None]:
    """Limit processes that are started in this block to one core, and delay :data:`ENDING`.

    The processes inherit the blocked signals; :func:`_prepare` unblocks them.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING) if CAN_BLOCK else set()
    try:
        with _delayed_signals():
            yield
    finally:
        if CAN_BLOCK:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
