"""The cost per write of detecting the loss of acknowledged writes.

After each commit the store writes its generation to a small file beside it, without a sync; before
and after the commit it compares the inodes of its files. Documents are written one at a time to
three stores in turn, in one run: with both checks, without them, and with a sync of the small file
as well, after which not even a power cut could go undetected.

Run as ``python -m benchmarks.durability``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.index.schema import Description
from hummingbit.index.store.connections import OpenFiles
from hummingbit.index.store.database import Acknowledged
from hummingbit.index.store.store import Store

N_BITS = 64
TEXT = "x" * 140


def timed_write(store: Store, number: int) -> tuple[float, float]:
    """Write a document and return the elapsed seconds and those of the processor."""
    documents = [Document(id=f"d{number}", text=TEXT, payload={"at": number})]
    codes = np.full((1, N_BITS // 8), number % 256, dtype=np.uint8)
    began, before = time.perf_counter(), time.process_time()
    with store.writing() as changes:
        changes.insert(documents, codes)
        changes.commit()
    return time.perf_counter() - began, time.process_time() - before


def do_nothing(*_: object) -> None:
    """Stand in for a method that is left out."""


@contextmanager
def checks_off() -> Iterator[None]:
    """Leave out the checks whose cost is measured."""
    with (
        mock.patch.object(Acknowledged, "record", do_nothing),
        mock.patch.object(OpenFiles, "check", do_nothing),
        mock.patch.object(OpenFiles, "record_own_change", do_nothing),
    ):
        yield


@contextmanager
def synced_generation() -> Iterator[None]:
    """Sync the file with the generation after each write."""
    record = Acknowledged.record

    def record_and_sync(self: Acknowledged, generation: int) -> None:
        record(self, generation)
        os.fdatasync(self._descriptor)

    with mock.patch.object(Acknowledged, "record", record_and_sync):
        yield


@contextmanager
def checks_on() -> Iterator[None]:
    """Change nothing."""
    yield


CONTESTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "without checks": checks_off,
    "with checks": checks_on,
    "with checks, synced": synced_generation,
}


def measure(folder: Path, writes: int) -> dict[str, list[tuple[float, float]]]:
    """Return the elapsed and processor seconds of each write, by contestant."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
    with ExitStack() as stack:
        stores: dict[str, Store] = {}
        for number, name in enumerate(CONTESTANTS):
            Store.create(path := folder / f"{number}.sqlite", Description("c", N_BITS))
            stores[name] = stack.enter_context(closing(Store(path, writable=True)))
        for number in range(writes):
            for name, patched in CONTESTANTS.items():
                with patched():
                    seconds[name].append(timed_write(stores[name], number))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--writes", type=int, default=1000, help="writes to each store")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        seconds = measure(Path(name), arguments.writes)
    floor = [statistics.median(column) for column in zip(*seconds["without checks"], strict=True)]
    print(f"{arguments.writes:,} writes of one document to each store; medians")
    print(f"{'':22}{'us/write':>12}{'ratio':>8}{'CPU, us':>12}{'ratio':>8}")
    for contestant, pairs in seconds.items():
        medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
        columns = (
            f"{own * 1e6:12,.0f}{own / least:8.2f}"
            for own, least in zip(medians, floor, strict=True)
        )
        print(f"{contestant:22}{''.join(columns)}")


if __name__ == "__main__":
    main()
