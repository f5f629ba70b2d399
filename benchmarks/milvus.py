"""A collection here beside the same one on Milvus: memory, ingestion, latency.

``python -m benchmarks.milvus --sizes 100000 1000000`` starts the Milvus server of the tests, with
all of its data in a temporary folder, and prints a table for docs/scaling.md. Searches alternate
between the two, so that both meet the same machine. Documents carry a code and a small payload.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness.search_codes import clustered
from corpus.document import Document
from encoder.codes import Codes, code_to_hex
from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.milvus.folder import MilvusFolder
from index.records import Query
from tests.support.milvus import milvus_server

BATCH = 10_000
QUERIES = 60
COLUMNS = (
    "codes | place | memory, MB | documents/s | single k=10, ms | strong, ms | batch of 100, ms"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--bits", type=int, default=64)
    args = parser.parse_args()
    print(f"| {COLUMNS} |\n|{'---|' * len(COLUMNS.split('|'))}")
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), size, args.bits)


def compare(folder: Path, size: int, n_bits: int) -> None:
    codes = clustered(np.random.default_rng(0), size, n_bits)
    with (
        milvus_server(folder / "milvus") as uri,
        MilvusFolder(folder / "a", uri, writable=True) as there,
    ):
        remote = there.create_collection("bench", n_bits=n_bits)
        idle = resident(server_pid(folder / "milvus"))
        remote_rate = fill(remote, codes)
        with DataFolder(folder / "b", writable=True, indexed=False) as here:
            local_rate = fill(here.create_collection("bench", n_bits=n_bits), codes)
        before = resident("self")
        with (
            DataFolder(folder / "b", writable=False) as here,
            MilvusFolder(folder / "a", uri, writable=False) as reading,
        ):
            local, strong = here.collection("bench"), reading.collection("bench")
            local_memory = resident("self") - before
            searches = {"local": local, "milvus": remote, "strong": strong}
            single, batch = timed(searches, codes, 1), timed(searches, codes, 100)
            check(local, remote, codes)
        remote_memory = resident(server_pid(folder / "milvus")) - idle
    times = f"{single['local']:.2f} | – | {batch['local']:.1f}"
    print(f"| {size:,} | here | {local_memory:.0f} | {local_rate:,.0f} | {times} |")
    times = f"{single['milvus']:.2f} | {single['strong']:.1f} | {batch['milvus']:.1f}"
    print(
        f"| {size:,} | Milvus | {remote_memory:.0f} | {remote_rate:,.0f} | {times} |"
        f" (idle {idle:.0f} MB)",
        flush=True,
    )


def fill(collection: CollectionBackend, codes: Codes) -> float:
    """Write all documents and return how many a second were."""
    began = time.perf_counter()
    for start in range(0, len(codes), BATCH):
        some = codes[start : start + BATCH]
        documents = [
            Document(id=f"d{start + at}", code=code_to_hex(code), payload={"at": start + at})
            for at, code in enumerate(some)
        ]
        collection.upsert_encoded(documents, some)
    return len(codes) / (time.perf_counter() - began)


def timed(searches: dict[str, CollectionBackend], codes: Codes, n_queries: int) -> dict[str, float]:
    """Return the median milliseconds of a search for each, taken in turns."""
    rng = np.random.default_rng(1)
    taken: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(QUERIES if n_queries == 1 else 5):
        chosen = codes[rng.integers(0, len(codes), n_queries)]
        queries = [Query(code=code_to_hex(code)) for code in chosen]
        for name, collection in searches.items():
            taken[name].append(milliseconds(lambda: collection.search(queries, 10)))  # noqa: B023
    return {name: statistics.median(some) for name, some in taken.items()}


def check(local: CollectionBackend, remote: CollectionBackend, codes: Codes) -> None:
    queries = [Query(code=code_to_hex(code)) for code in codes[:20]]
    found = [collection.search(queries, 10).hits for collection in (local, remote)]
    ids = [[[hit.id for hit in hits] for hits in some] for some in found]
    if ids[0] != ids[1]:
        raise AssertionError("the two do not find the same")


def milliseconds(search: Callable[[], object]) -> float:
    began = time.perf_counter()
    search()
    return 1000 * (time.perf_counter() - began)


def resident(pid: str) -> float:
    """Return the resident memory of a process in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def server_pid(folder: Path) -> str:
    """Return the process that runs the server whose data lie in `folder`."""
    programs = tuple(str(path).encode() for path in folder.glob("*/bin/milvus"))
    running = (path for path in command_lines() if path.read_bytes().startswith(programs))
    return next(running).parent.name


def command_lines() -> Iterator[Path]:
    return (path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())


if __name__ == "__main__":
    main()
