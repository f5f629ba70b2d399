"""A local collection beside the same one on Milvus: memory, ingestion, latency.

``python -m benchmarks.milvus --sizes 100000 1000000`` starts the Milvus server of the tests, with
all of its data in a temporary folder, and prints a table for docs/scaling.md. Searches alternate
between the two, so that other load slows both alike. Documents have a code and a small payload.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.search_codes import clustered
from benchmarks.harness.timing import options
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.milvus.folder import MilvusFolder
from hummingbit.index.records import Query
from tests.support.milvus import milvus_server

BATCH = 10_000
QUERIES = 60
COLUMNS = (
    "codes | place | memory, MB | documents/s | single k=10, ms | strong, ms | batch of 100, ms"
)


def main() -> None:
    parser = options(__doc__)
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
        MilvusFolder(folder / "a", uri, writable=True) as milvus,
    ):
        remote = milvus.create_collection("bench", n_bits=n_bits)
        idle = resident_bytes(server_pid(folder / "milvus"))
        remote_rate = fill(remote, codes)
        with DataFolder(folder / "b", writable=True, indexed=False) as data:
            local_rate = fill(data.create_collection("bench", n_bits=n_bits), codes)
        resident_before = resident_bytes()
        with (
            DataFolder(folder / "b", writable=False) as data,
            MilvusFolder(folder / "a", uri, writable=False) as milvus_reader,
        ):
            local, strong = data.collection("bench"), milvus_reader.collection("bench")
            local_memory = resident_bytes() - resident_before
            searches = {"local": local, "milvus": remote, "strong": strong}
            single = median_milliseconds(searches, codes, 1)
            batch = median_milliseconds(searches, codes, 100)
            check(local, remote, codes)
        remote_memory = resident_bytes(server_pid(folder / "milvus")) - idle
    times = f"{single['local']:.2f} | – | {batch['local']:.1f}"
    print(f"| {size:,} | here | {local_memory >> 20} | {local_rate:,.0f} | {times} |")
    times = f"{single['milvus']:.2f} | {single['strong']:.1f} | {batch['milvus']:.1f}"
    print(
        f"| {size:,} | Milvus | {remote_memory >> 20} | {remote_rate:,.0f} | {times} |"
        f" (idle {idle >> 20} MB)",
        flush=True,
    )


def fill(collection: CollectionBackend, codes: Codes) -> float:
    """Write a document for each code and return the documents per second."""
    began = time.perf_counter()
    for start in range(0, len(codes), BATCH):
        batch = codes[start : start + BATCH]
        documents = [
            Document(id=f"d{number}", code=code_to_hex(code), payload={"at": number})
            for number, code in enumerate(batch, start)
        ]
        collection.upsert_encoded(documents, batch)
    return len(codes) / (time.perf_counter() - began)


def median_milliseconds(
    searches: dict[str, CollectionBackend], codes: Codes, n_queries: int
) -> dict[str, float]:
    """Return the median milliseconds of a search in each collection; they take turns."""
    rng = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(QUERIES if n_queries == 1 else 5):
        rows = rng.integers(0, len(codes), n_queries)
        queries = [Query(code=code_to_hex(code)) for code in codes[rows]]
        for name, collection in searches.items():
            times[name].append(milliseconds(lambda: collection.search(queries, 10)))  # noqa: B023
    return {name: statistics.median(values) for name, values in times.items()}


def check(local: CollectionBackend, remote: CollectionBackend, codes: Codes) -> None:
    queries = [Query(code=code_to_hex(code)) for code in codes[:20]]
    local_ids, remote_ids = (
        [[hit.id for hit in hits] for hits in collection.search(queries, 10).hits]
        for collection in (local, remote)
    )
    if local_ids != remote_ids:
        raise SystemExit(f"the local collection finds {local_ids}, Milvus finds {remote_ids}")


def milliseconds(search: Callable[[], object]) -> float:
    began = time.perf_counter()
    search()
    return 1000 * (time.perf_counter() - began)


def server_pid(folder: Path) -> str:
    """Return the id of the process that runs the server with its data in `folder`."""
    programs = tuple(str(path).encode() for path in folder.glob("*/bin/milvus"))
    running = (path for path in command_lines() if path.read_bytes().startswith(programs))
    return next(running).parent.name


def command_lines() -> Iterator[Path]:
    return (path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())


if __name__ == "__main__":
    main()
