"""Runs of an experiment in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_runs(run: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """Yield ``run(item)`` for each of `items`, in their order, computed in `jobs` processes."""
    if jobs == 1:
        yield from map(run, items)
        return
    # Spawned processes start clean; a forked one would inherit torch's threads.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, items)
