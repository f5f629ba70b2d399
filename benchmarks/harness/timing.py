"""How benchmarks time and print: ways take turns in one run, so that other load slows all alike.

Times are of the processor, which other processes do not lengthen.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from hummingbit.index.engines import kernel

Item = TypeVar("Item")


def options(document: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help begins like a module's docstring."""
    return argparse.ArgumentParser(description=(document or "").partition("\n")[0])


def print_machine(*more: str) -> None:
    """Print the first line of a benchmark: the processor, the kernel's path, and `more`."""
    print("; ".join((processor(), f"kernel path: {kernel.path()}", *more)), flush=True)


def processor() -> str:
    """Return the processor's name, family and model from ``/proc/cpuinfo``."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown processor"
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    numbers = f"family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}"
    return f"{fields.get('model name', 'unknown')} ({numbers})"


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the elapsed seconds of work, and the processor seconds of this process."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def in_turn(
    ways: Mapping[str, Callable[[Item], object]], items: Iterable[Item]
) -> dict[str, list[float]]:
    """Return the processor seconds that each way takes for each item; all take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for item in items:
        for name, way in ways.items():
            seconds[name].append(timed(partial(way, item))[1])
    return seconds


def print_times(seconds: Mapping[str, Sequence[float]], width: int = 12) -> None:
    """Print median and 99th percentile in milliseconds, and the ratio of medians to the first."""
    first = float(np.median(next(iter(seconds.values()))))
    print(f"{'':{width}} median ms   p99 ms   ratio of medians")
    for name, times in seconds.items():
        p50, p99 = np.percentile(times, [50, 99])
        print(f"{name:{width}} {1e3 * p50:9.2f} {1e3 * p99:8.2f} {p50 / first:10.2f}", flush=True)


def peak_bytes() -> int:
    """Return the most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
