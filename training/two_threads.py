"""Two parts of a step of training, at the same time if a second thread may be used.

The caller divides the work, in the same way on one thread and on two, and joins the two results in
the same order. So the number of threads changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")

_second_thread: ContextVar[ThreadPoolExecutor | None] = ContextVar("second_thread", default=None)


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Return the results of `first` and `second`, which compute without gradients.

    The second thread computes `second`, if there is one. If it has not begun when `first` is done,
    because the other cores are busy, the calling thread computes `second` too.
    """
    pool = _second_thread.get()
    # Autocast is on in the calling thread only.
    if pool is None or torch.is_autocast_enabled("cpu"):
        return first(), second()
    promised = pool.submit(second)
    result = first()
    return result, second() if promised.cancel() else promised.result()


@contextmanager
def each_on_one_core(*, second_thread: bool) -> Iterator[None]:
    """Compute every operation of torch on one core, so that the order of its sums never changes.

    The matrices of a batch are small. Torch's own threads save little, and cost many times as much
    if a core is busy, since they wait for each other in busy loops. With `second_thread`, and if
    torch may use two cores, :func:`both` uses two.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if not second_thread or threads == 1:
            yield
            return
        with ThreadPoolExecutor(1, "training", _prepare_thread) as pool:
            before = _second_thread.set(pool)
            try:
                yield
            finally:
                _second_thread.reset(before)
    finally:
        torch.set_num_threads(threads)


def _prepare_thread() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(mode=False)
