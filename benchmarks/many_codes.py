"""A hundred million codes of 64 bits in one process: opened, searched, added to, and their memory.

The codes lie in a file, and each kind has a process of its own. It reads the file and indexes the
codes, as opening a collection does; then FAISS's ``IndexBinaryFlat`` takes turns with the search.
A million codes are added in writes of 100,000, and all are searched again. The hits of a few
queries are compared with the count of all bits.

Times are of the processor, with one thread. "floor" is the time to read all codes once. Memory is
private to the process (``RssAnon``) with the index, and at most while it was made; the codes that
were read are part of the latter.

Run as ``python -m benchmarks.many_codes``; it takes ten minutes and 8 GB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import faiss
import numpy as np

from benchmarks.harness.search_codes import KINDS
from benchmarks.harness.timing import (
    in_turn,
    options,
    peak_bytes,
    print_machine,
    print_times,
    timed,
)
from benchmarks.kernel import floor
from benchmarks.scale import measured, print_memory
from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.index.engines.segments import IndexSnapshot

K, BATCH, QUERIES, PEER_QUERIES, WARM_UP, CHECKED = 10, 100, 1000, 30, 5, 3
BYTES = 8
ADDED, AT_ONCE = 10**6, 10**5


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e8, help="codes (default: 1e8)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["uniform", "real"])
    parser.add_argument("--step", nargs=2, metavar=("STEP", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        step, file = arguments.step
        STEPS[step](Path(file), arguments)
        return
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        for kind in arguments.kinds:
            for step in STEPS:
                command = [sys.executable, "-m", "benchmarks.many_codes", *sys.argv[1:]]
                file = str(Path(folder) / kind)
                subprocess.run([*command, "--step", step, file], check=True)
            Path(folder, kind).unlink()


def write(path: Path, arguments: argparse.Namespace) -> None:
    """Write the codes, those that are added later, and the queries."""
    n = int(arguments.size) + ADDED + QUERIES
    KINDS[path.name](np.random.default_rng(0), n, 8 * BYTES).tofile(path)


def search(path: Path, arguments: argparse.Namespace) -> None:
    """Open the codes, search them, and add to them."""
    n = int(arguments.size)
    print(f"\n{path.name}, {8 * BYTES} bits, {n:,} codes")
    print_memory("this process")
    with measured("read"):
        codes = np.fromfile(path, np.uint8, n * BYTES).reshape(n, BYTES)
    others = np.fromfile(path, np.uint8, offset=n * BYTES).reshape(-1, BYTES)
    added, queries = others[:ADDED], others[ADDED:]
    with measured("indexed"):
        index = IndexSnapshot.build(1, codes, np.arange(n))
    print(f"  by {index.index_type}: {index.index_type_reason}")
    print(f"  at most {peak_bytes() / 1e6:,.0f} MB; floor {floor(codes) / 1e3:.1f} ms")
    check(index, codes, queries[:CHECKED])
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexBinaryFlat(8 * BYTES)
    flat.add(codes)
    del codes
    time_searches({"ours": index.search, "FAISS Flat": flat.search}, queries)
    del flat
    print_memory("the index")
    seconds = []
    for start in range(0, ADDED, AT_ONCE):
        began = time.process_time()
        rows = np.arange(n + start, n + start + AT_ONCE)
        index = index.with_changes(2, added[start : start + AT_ONCE], rows, rows[:0])
        seconds.append(time.process_time() - began)
    print(f"{ADDED:,} added in {sum(seconds):.2f} s; the longest write took {max(seconds):.2f}")
    time_searches({"ours": index.search}, queries)
    print_memory("all of them")


STEPS: dict[str, Callable[[Path, argparse.Namespace], None]] = {"write": write, "search": search}


def time_searches(searches: dict[str, Callable[[Codes, int], object]], queries: Codes) -> None:
    """Print the times of one query, and of each in a batch of a hundred, of searches in turn."""
    ways = {name: partial(_search, search) for name, search in searches.items()}
    few = {"ours": ways.pop("ours")}
    in_turn(few | ways, queries[:WARM_UP, None])
    times = in_turn(few | ways, queries[:PEER_QUERIES, None]) if ways else {"ours": []}
    times["ours"] += in_turn(few, queries[len(times["ours"]) :, None])["ours"]
    print_times(times)
    for name, way in (few | ways).items():
        batch = timed(partial(way, queries[:BATCH]))[1] / BATCH
        print(f"  {name}, in {BATCH}: {1e3 * batch:.2f} ms a query", flush=True)


def _search(search: Callable[[Codes, int], object], queries: Codes) -> None:
    search(queries, K)


def check(index: IndexSnapshot, codes: Codes, queries: Codes) -> None:
    """Exit with an error unless the hits are the first K by distance and row of all codes."""
    for query, found in zip(queries, index.search(queries, K), strict=True):
        distances = np.concatenate(
            [
                hamming_distance(some, query)
                for some in np.array_split(codes, 1 + len(codes) // 10**6)
            ]
        )
        nearest = np.flatnonzero(distances <= np.partition(distances, K)[K])
        nearest = nearest[np.argsort(distances[nearest], kind="stable")][:K]
        if found.rows.tolist() != nearest.tolist():
            raise SystemExit("the index disagrees with the count of all bits")


if __name__ == "__main__":
    main()
