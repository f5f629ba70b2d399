"""The instructions of searches on 64-bit Arm, which QEMU emulates: ours, and FAISS's.

Prints instructions for each code and query: of our scan with NEON, of our scan without it
(``scalar``), and of FAISS, by Hamming distance (``IndexBinaryFlat``) and by weighted distance (the
fast scan of product quantisation, over codes of as many bytes). Each is the count of a whole call
from Python, for one query and for a hundred together, divided by codes and queries. Counts do not
depend on other load. They do not say how long an instruction takes. Codes are uniform, and our
engine is checked against the oracle first.

Run ``make arm64`` before, which installs hummingbit for Arm, and then ``python -m
benchmarks.instructions``.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import faiss
import numpy as np

from benchmarks.harness.timing import options
from benchmarks.kernel import rows_by_oracle, to_integers
from hummingbit.encoder.codes import Codes
from hummingbit.index.engines import kernel
from hummingbit.index.engines.compiled import ScanIndex
from hummingbit.index.engines.protocol import Weights
from tests.support.oracles.brute_force import BruteForceIndex

K, BATCH, QUERIES = 10, 100, 3
ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "benchmarks" / "harness" / "count_instructions.c"
ARM = ROOT / "build" / "arm64"
COUNT = "HUMMINGBIT_INSTRUCTIONS"
"""The variable that names the file of the count, which the plugin writes."""

Search = Callable[[slice], object]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=2e5, help="codes (default: 2e5)")
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 128, 256, 384])
    arguments = parser.parse_args()
    if COUNT in os.environ:
        simd = faiss.SIMDConfig.get_level_name()
        paths = ", ".join(kernel.native.paths())
        print(f"{platform.machine()}, emulated; kernel paths: {paths}; FAISS's: {simd}")
        for n_bits in arguments.bits:
            compare(int(arguments.size), n_bits)
        return
    if not (ARM / "tree").is_dir():
        parser.error("there is no hummingbit for Arm: run make arm64")
    emulate(sys.argv[1:])


def emulate(options_given: list[str]) -> None:
    """Run this module in the emulated Python, with the plugin that counts."""
    version = subprocess.run(
        ["qemu-aarch64", "--version"], check=True, capture_output=True, text=True
    ).stdout
    major = re.search(r"version (\d+)", version)
    api = 1 if major is None or int(major[1]) < 9 else 2
    library, count = ARM / "count_instructions.so", ARM / "instructions"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", f"-DAPI={api}", "-o", library, PLUGIN], check=True
    )
    tree = ARM / "tree"
    shutil.copytree(ROOT / "benchmarks", tree / "benchmarks", dirs_exist_ok=True)
    environment = {
        **os.environ,
        "QEMU_PLUGIN": f"{library},to={count}",
        COUNT: str(count),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [str(ARM / "python"), "-m", "benchmarks.instructions", *options_given]
    subprocess.run(command, check=True, cwd=tree, env=environment)


def counted(work: Callable[[], object]) -> int:
    """Return the instructions of some work."""
    began = _instructions()
    work()
    return _instructions() - began


def _instructions() -> int:
    os.sched_get_priority_max(0)
    return int(Path(os.environ[COUNT]).read_bytes())


def compare(n: int, n_bits: int) -> None:
    """Count the instructions of searches of `n` uniform codes."""
    rng = np.random.default_rng(0)
    codes, queries = (
        rng.integers(0, 256, (rows, n_bits // 8), dtype=np.uint8) for rows in (n, BATCH)
    )
    weights = to_integers(rng.normal(size=(BATCH, n_bits)))
    ours = ScanIndex(codes, np.arange(n))
    check(ours, codes, queries, weights)
    flat, fast = faiss.IndexBinaryFlat(n_bits), fast_scan(rng, codes)
    flat.add(codes)
    hamming: dict[str, Search] = {
        path: with_path(path, lambda some: ours.search(queries[some], K))
        for path in kernel.native.paths()
    }
    hamming["FAISS Flat"] = lambda some: flat.search(queries[some], K)
    weighted: dict[str, Search] = {
        path: with_path(path, lambda some: ours.search_weighted(weights[some], K))
        for path in kernel.native.paths()
    }
    floats = weights.astype(np.float32)
    weighted["PQ fast scan"] = lambda some: fast.search(floats[some], K)
    for title, searches in (("by Hamming distance", hamming), ("by weighted distance", weighted)):
        print(f"\n{n_bits} bits {title}, {n:,} codes; instructions for each code and query")
        for name, search in searches.items():
            print_counts(name, search, n)


def with_path(path: str, search: Search) -> Search:
    """Return a search with the instructions of a path of the kernel."""

    def searched(some: slice) -> object:
        kernel.native.use(path)
        return search(some)

    return searched


def print_counts(name: str, search: Search, n: int) -> None:
    search(slice(0, 1))  # the first call prepares what later ones use
    singles = [counted(partial(search, slice(at, at + 1))) for at in range(QUERIES)]
    batch = counted(partial(search, slice(0, BATCH)))
    print(
        f"  {name:13} one {median(singles) / n:7.2f}   in {BATCH} {batch / BATCH / n:7.2f}",
        flush=True,
    )


def check(ours: ScanIndex, codes: Codes, queries: Codes, weights: Weights) -> None:
    """Exit with an error unless every path finds what the oracle finds."""
    oracle = BruteForceIndex(codes, np.arange(len(codes)))
    (expected,) = oracle.search(queries[:1], K)
    expected_rows = expected.rows.tolist(), rows_by_oracle(codes, weights[:1])
    for path in kernel.native.paths():
        kernel.native.use(path)
        (near,), (weighted,) = ours.search(queries[:1], K), ours.search_weighted(weights[:1], K)
        if (near.rows.tolist(), weighted.rows.tolist()) != expected_rows:
            raise SystemExit(f"the path {path} disagrees with the oracle")


def fast_scan(rng: np.random.Generator, codes: Codes) -> faiss.Index:
    """Return FAISS's fast scan of product quantisation over `codes`, four bits a quantiser."""
    n_bits = codes.shape[1] * 8
    index: Any = faiss.IndexPQ(n_bits, n_bits // 4, 4)
    index.train(rng.standard_normal((2000, n_bits), dtype=np.float32))
    # Uniform codes are like those of normal vectors, and need no search for the nearest centroids.
    faiss.copy_array_to_vector(codes.reshape(-1), index.codes)
    index.ntotal = len(codes)
    return faiss.IndexPQFastScan(index)


if __name__ == "__main__":
    main()
