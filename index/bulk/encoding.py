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
from contextlib import contextmanager

from encoder.codes import Codes
from encoder.encoder import Encoder, Inputs

# Otherwise every process would use all cores for its matrix products.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

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
            self._processes = ProcessPoolExecutor(jobs, context, _prepare, (encoder,))

    def submit(self, inputs: Inputs) -> Future[Codes]:
        """Start encoding; the result is ``uint8[N, C]``."""
        self._submitted += len(inputs)
        if self._processes is None or self._submitted <= BEFORE_PROCESSES:
            done: Future[Codes] = Future()
            if self._encoder is not None:
                done.set_result(self._encoder.encode(inputs))
            return done
        with _one_thread():
            return self._processes.submit(_encode, inputs)

    def close(self) -> None:
        """End the processes and cancel their work."""
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _prepare(encoder: Encoder) -> None:
    global _encoder  # noqa: PLW0603 - a process holds one encoder
    _encoder = encoder
    # The parent process handles an interrupt and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _encode(inputs: Inputs) -> Codes:
    if _encoder is None:
        raise RuntimeError("the process was not prepared")
    return _encoder.encode(inputs)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit the matrix products of processes that are started in this block to one core."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
