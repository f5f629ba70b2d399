"""The engines with the compiled kernel and without, FAISS's scan, and the machine's floor.

All search the same codes for the same queries interleaved in one run, with one thread and k = 10;
times are of the processor. "floor" is the time to read all codes once. The ratio is the time of
FAISS's ``IndexBinaryFlat`` over that of the engine, for medians and, in parentheses, for means. The
last two lines have searches among a share of the rows, searches after a fifth of the rows was
deleted, and searches for twice as many rows, as multiples of the plain search: first the queries
from the second on, and then those after so many that the engine has prepared few rows. Both engines
are checked against the oracle first.

With ``--asymmetric``, searches by weighted distance take turns with FAISS's fast scans of product
quantisation and of RaBitQ over vectors whose codes have as many bytes; the weights of the bits are
normal numbers. FAISS's results are approximate, ours are checked against the oracle.

Run as ``python -m benchmarks.kernel``; ``--sizes 1e7`` takes ten minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks.harness.search_codes import KINDS
from benchmarks.search import TimedSearch, check, floor, interleaved, time_search
from hummingbit.encoder.codes import Codes
from hummingbit.index.engines import kernel
from hummingbit.index.engines.brute_force import BruteForceIndex
from hummingbit.index.engines.choice import Choice, build
from hummingbit.index.engines.protocol import After, Rows, Weights, max_bit_weight

QUERIES = 2000
K = 10
BATCH = 100
SINGLES = 20
SHARES = (0.5, 0.1, 0.01)
# After so many searches, every engine has prepared the rows that it is allowed to find.
WARM_UP = 500
FIRST = 20
CASES = ("uniform 64", "uniform 128", "clustered 128", "real 32", "real 64", "real 128")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6])
    parser.add_argument(
        "--cases", nargs="+", default=CASES, help="kinds and bits, such as 'real 64'"
    )
    parser.add_argument(
        "--rounds", type=int, default=10, help=f"each of {SINGLES} single queries and a batch"
    )
    parser.add_argument(
        "--asymmetric", type=int, nargs="+", metavar="BITS", help="time weighted distances instead"
    )
    arguments = parser.parse_args()
    if kernel.native is None:
        parser.error("no compiled kernel: it is not installed, or HUMMINGBIT_KERNEL is off")
    faiss.omp_set_num_threads(1)
    print(f"{processor()}; kernel path: {kernel.built.paths()[0]}")
    for size in arguments.sizes:
        for n_bits in arguments.asymmetric or ():
            compare_asymmetric(int(size), n_bits, arguments.rounds)
        for case in () if arguments.asymmetric else arguments.cases:
            kind, n_bits = case.split()
            rng = np.random.default_rng(0)
            codes = KINDS[kind](rng, int(size) + QUERIES, int(n_bits))
            queries, codes = codes[:QUERIES].copy(), codes[QUERIES:].copy()
            print(f"\n{case} bits, {len(codes):,} codes; floor {floor(codes):,.0f} µs")
            compare(codes, queries, arguments.rounds)


def compare(codes: Codes, queries: Codes, rounds: int) -> None:
    """Time FAISS and the engine chosen with and without the kernel on one set of codes."""
    rows = np.arange(len(codes))
    flat = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    flat.add(codes)
    began = time.process_time()
    ours = build(codes, rows)
    build_seconds = time.process_time() - began
    with no_kernel():
        portable = build(codes, rows)
    check(ours, codes, queries[:5])
    check(portable, codes, queries[5:10])
    searches: dict[str, TimedSearch] = {
        "FAISS Flat": flat.search,
        f"with, {ours.code_index.name}": ours.code_index.search,
        f"without, {portable.code_index.name}": portable.code_index.search,
    }
    single_times = interleaved(searches, queries, K, 1, rounds, singles=SINGLES)
    batch_times = interleaved(searches, queries, K, BATCH, max(3, rounds // 3))
    for name in searches:
        single, batch = format_times(single_times, name), format_times(batch_times, name)
        print(f"  {name:20} one {single}   in {BATCH} {batch}")
    print(f"  built in {build_seconds:.2f} s: {ours.reason}")
    compare_restricted(ours, queries, rows, rounds)


def compare_asymmetric(n: int, n_bits: int, rounds: int) -> None:
    """Time searches by weighted distance of uniform codes, with FAISS's fast scans beside them."""
    rng = np.random.default_rng(0)
    codes, rows = KINDS["uniform"](rng, n, n_bits), np.arange(n)
    n_weights = rounds * SINGLES
    weights = to_integers(rng.normal(size=(n_weights, n_bits)))
    ours = build(codes, rows).code_index
    oracle = BruteForceIndex(codes, rows)
    for some in weights[:3, None]:
        (found,), (expected,) = ours.search_weighted(some, K), oracle.search_weighted(some, K)
        if found.rows.tolist() != expected.rows.tolist():
            raise SystemExit(f"{ours.name} disagrees with the oracle")
    allowed = np.flatnonzero(rng.random(n) < 0.1)
    allowed.setflags(write=False)
    remaining = ours.without(rows[rng.random(n) < 0.2])
    (first,) = ours.search_weighted(weights[:1], K)
    after = After(int(first.distances[-1]), int(first.rows[-1]))
    searches: dict[str, Callable[[Weights], object]] = {
        f"ours, {ours.name}": lambda some: ours.search_weighted(some, K),
        "10% allowed": lambda some: ours.search_weighted(some, K, allowed),
        "20% deleted": lambda some: remaining.search_weighted(some, K),
        "after a cursor": lambda some: ours.search_weighted(some, K, None, after),
    }
    searches |= fast_scans(rng, n, n_bits)
    read = floor(codes)
    print(f"\nasymmetric, uniform {n_bits} bits, {n:,} codes; floor {read:,.0f} µs")
    times: dict[str, list[float]] = defaultdict(list)
    in_batch: dict[str, list[float]] = defaultdict(list)
    for start in range(0, n_weights, SINGLES):
        for name, search in searches.items():
            for at in range(start, start + SINGLES):
                times[name].append(timed(search, weights[at : at + 1]))
    for _ in range(max(3, rounds // 3)):
        for name, search in searches.items():
            in_batch[name].append(timed(search, weights[:BATCH]))
    for name in searches:
        single, batch = statistics.median(times[name]), statistics.median(in_batch[name])
        print(f"  {name:17} one {single:8,.0f} µs {single / read:6.2f} × floor", end="")
        print(f"   in {BATCH} {batch:8,.0f} µs {batch / read:6.2f} × floor")


def fast_scans(
    rng: np.random.Generator, n: int, n_bits: int
) -> dict[str, Callable[[Weights], object]]:
    """Return the searches of FAISS's fast scans of `n` codes of `n_bits`."""
    peers: dict[str, faiss.Index] = {
        "PQ fast scan": faiss.IndexPQFastScan(n_bits, n_bits // 4, 4),
        "RaBitQ fast scan": faiss.IndexRaBitQFastScan(n_bits),
    }
    for peer in peers.values():
        peer.train(rng.standard_normal((20_000, n_bits), dtype=np.float32))
        for start in range(0, n, 100_000):
            size = min(100_000, n - start)
            peer.add(rng.standard_normal((size, n_bits), dtype=np.float32))

    def search_of(peer: faiss.Index) -> Callable[[Weights], object]:
        return lambda some: peer.search(some.astype(np.float32), K)

    return {name: search_of(peer) for name, peer in peers.items()}


def to_integers(weights: npt.NDArray[np.float64]) -> Weights:
    """Return integers in proportion to `weights`, as large as an index takes them."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    scale = max_bit_weight(weights.shape[1]) / largest
    integers: Weights = np.round(weights * scale).astype(np.int64)
    return integers


def timed(search: Callable[[Weights], object], some: Weights) -> float:
    """Return the microseconds of the processor for each query."""
    began = time.process_time()
    search(some)
    return (time.process_time() - began) * 1e6 / len(some)


def compare_restricted(ours: Choice, queries: Codes, rows: Rows, rounds: int) -> None:
    """Time searches among some of the rows and with tombstones, beside the plain search."""
    rng = np.random.default_rng(1)
    searches: dict[str, TimedSearch] = {"all": ours.code_index.search}
    for share in SHARES:
        allowed = np.flatnonzero(rng.random(len(rows)) < share)
        allowed.setflags(write=False)
        searches[f"{share:.0%} allowed"] = search_among(ours, allowed)
    remaining = ours.code_index.without(rows[rng.random(len(rows)) < 0.2])
    searches["20% deleted"] = remaining.search
    searches[f"{2 * K} nearest"] = lambda queries, k: ours.code_index.search(queries, 2 * k)
    first_times = {name: warm_up(search, queries) for name, search in searches.items()}
    print_multiples(f"queries 2 to {FIRST + 1}", first_times)
    later_times = interleaved(searches, queries, K, 1, rounds, singles=SINGLES)
    print_multiples(f"after {WARM_UP}", later_times)


def warm_up(search: TimedSearch, queries: Codes) -> list[float]:
    """Search for single queries, and return the microseconds of the first ones after one."""
    times = [
        time_search(search, queries[position : position + 1], K, time.process_time)
        for position in range(WARM_UP)
    ]
    return times[1 : FIRST + 1]


def print_multiples(label: str, times: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(values) for name, values in times.items()}
    plain = medians.pop("all")
    ratios = [f"{name} {median / plain:.2f}" for name, median in medians.items()]
    print(f"  {label}, × of {plain:,.0f} µs: {', '.join(ratios)}")


def search_among(ours: Choice, allowed: Rows) -> TimedSearch:
    return lambda queries, k: ours.code_index.search(queries, k, None, allowed)


def format_times(times: dict[str, list[float]], name: str) -> str:
    flat, own = times["FAISS Flat"], times[name]
    median, mean = statistics.median(own), statistics.mean(own)
    ratios = f"{statistics.median(flat) / median:7.1f}× ({statistics.mean(flat) / mean:.1f}×)"
    return f"{median:9,.1f} µs (mean {mean:9,.1f}) {ratios}"


@contextmanager
def no_kernel() -> Iterator[None]:
    """Switch the kernel off, as on a machine that could not compile it."""
    native, kernel.native = kernel.native, None
    try:
        yield
    finally:
        kernel.native = native


def processor() -> str:
    """Return the processor's name and model number from ``/proc/cpuinfo``."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown processor"
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    return f"{fields.get('model name', 'unknown')} (model {fields.get('model', '?')})"


if __name__ == "__main__":
    main()
