"""What it costs a write to notice, later, that acknowledged writes are gone.

After each commit the generation is written to a small file beside the store, unsynced, and before
and after it the inodes of the store's files are compared. Documents are written one at a time to
three stores in turns, in one run: as it is; without either; and with the number synced each time,
which would also hold what a power cut loses of it.

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

from corpus.document import Document
from index.schema import Description
from index.sqlite.acknowledged import Acknowledged
from index.sqlite.open_files import OpenFiles
from index.sqlite.store import Store

N_BITS = 64
TEXT = "x" * 140


def write_one(store: Store, at: int) -> tuple[float, float]:
    """Write a document and return how many seconds that took, elapsed and of the processor."""
    documents = [Document(id=f"d{at}", text=TEXT, payload={"at": at})]
    codes = np.full((1, N_BITS // 8), at % 256, dtype=np.uint8)
    began, before = time.perf_counter(), time.process_time()
    with store.writing() as changes:
        changes.insert(documents, codes)
        changes.commit()
    return time.perf_counter() - began, time.process_time() - before


def nothing(*_: object) -> None:
    """Do nothing."""


@contextmanager
def without() -> Iterator[None]:
    """Leave out what is measured."""
    with (
        mock.patch.object(Acknowledged, "note", nothing),
        mock.patch.object(OpenFiles, "check", nothing),
        mock.patch.object(OpenFiles, "note", nothing),
    ):
        yield


@contextmanager
def synced() -> Iterator[None]:
    """Sync the number with each write."""
    note = Acknowledged.note

    def note_and_sync(self: Acknowledged, generation: int) -> None:
        note(self, generation)
        os.fdatasync(self._descriptor)

    with mock.patch.object(Acknowledged, "note", note_and_sync):
        yield


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


CONTESTANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "without": without,
    "as it is": as_it_is,
    "the number synced": synced,
}


def measure(folder: Path, writes: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of each write, by contestant."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTESTANTS}
    with ExitStack() as stack:
        stores: dict[str, Store] = {}
        for place, name in enumerate(CONTESTANTS):
            Store.create(path := folder / f"{place}.sqlite", Description("c", N_BITS))
            stores[name] = stack.enter_context(closing(Store(path, writable=True)))
        for at in range(writes):
            for name, patched in CONTESTANTS.items():
                with patched():
                    taken[name].append(write_one(stores[name], at))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--writes", type=int, default=1000, help="to each store")
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        taken = measure(Path(name), arguments.writes)
    floor = [statistics.median(column) for column in zip(*taken["without"], strict=True)]
    print(f"{arguments.writes:,} writes of one document to each store; medians")
    print(f"{'':22}{'us a write':>12}{'ratio':>8}{'CPU, us':>12}{'ratio':>8}")
    for contestant, seconds in taken.items():
        found = [statistics.median(column) for column in zip(*seconds, strict=True)]
        columns = (
            f"{one * 1e6:12,.0f}{one / of:8.2f}" for one, of in zip(found, floor, strict=True)
        )
        print(f"{contestant:22}{''.join(columns)}")


if __name__ == "__main__":
    main()
