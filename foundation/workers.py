"""Several processes for work that is Python code."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Task = TypeVar("Task")
Result = TypeVar("Result")

# Otherwise every process would use all cores for its matrix products.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# While a process starts, its parent writes the encoder to it, and it imports this program. Signals
# that end the parent wait meanwhile, so that neither fails halfway with a traceback.
ENDING = (signal.SIGINT, signal.SIGTERM)
CAN_BLOCK = hasattr(signal, "pthread_sigmask")  # Windows lacks it

_work: Callable[[Any], Any] | None = None


class Workers(Generic[Task, Result]):
    """Processes that do tasks; they start with the first task."""

    def __init__(
        self, jobs: int, make: Callable[..., Callable[[Task], Result]], *args: Any
    ) -> None:
        """Let `jobs` processes call ``make(*args)`` once each, and what it returns for each task.

        What the processes get and return is pickled. Each takes its tasks in the order in which
        they were submitted.
        """
        import multiprocessing  # noqa: PLC0415 - a search starts no processes
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

        context = multiprocessing.get_context("spawn")
        # The processes end when this end of the pipe is closed, be it by a kill of this one.
        alive, self._open = context.Pipe(duplex=False)
        self._processes = ProcessPoolExecutor(jobs, context, _prepare, (alive, make, *args))

    def submit(self, task: Task) -> Future[Result]:
        """Start a task."""
        with _starting_processes():
            return cast("Future[Result]", self._processes.submit(_do, task))

    def close(self) -> None:
        """End the processes and cancel their work."""
        try:
            self._processes.shutdown(cancel_futures=True)
        finally:
            self._open.close()  # the shutdown may have been interrupted


def _prepare(alive: Connection, make: Callable[..., Callable[[Any], Any]], *args: Any) -> None:
    global _work  # noqa: PLW0603 - a process does one kind of work
    _work = make(*args)
    # The parent process handles an interrupt and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if CAN_BLOCK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _do(task: Any) -> Any:
    if _work is None:
        raise RuntimeError("the process was not prepared")
    return _work(task)


def _end_with_parent(alive: Connection) -> None:
    """End this process when its parent has closed the other end of a pipe, or was killed."""
    with suppress(EOFError, OSError):
        alive.recv()
    os._exit(1)


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
    handlers = {
        signal_: signal.signal(signal_, lambda number, _: arrived.append(number))
        for signal_ in ENDING
    }
    try:
        yield
    finally:
        for signal_, handler in handlers.items():
            signal.signal(signal_, handler)
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
