"""The engines with the compiled kernel and without, FAISS's scan, and the machine's floor.

All search the same codes for the same queries interleaved in one run, with one thread and k = 10;
times are of the processor. "floor" is the time to read all codes once. The ratio is the time of
FAISS's ``IndexBinaryFlat`` over that of the engine, for medians and, in parentheses, for means. The
last two lines have searches among a share of the rows, searches after a fifth of the rows was
deleted, and searches for twice as many rows, as multiples of the plain search: first the queries
from the second on, and then those after so many that the engine has prepared few rows. Both engines
are checked against the oracle first.

With ``--asymmetric``, searches by weighted distance take turns with FAISS's fast scans of product
quantisation and of RaBitQ over vectors whose codes have as many bytes, and with reading the codes;
the weights of the bits are normal numbers. A page after a cursor begins where the first ten results
of its query end, or the first thousand. FAISS's results are approximate, ours are checked against
the oracle. At the end, each of ``--threads`` searches for single queries at the same time; these
times are elapsed and of the processor.

Run as ``python -m benchmarks.kernel``; ``--sizes 1e7`` takes ten minutes, and without FAISS one
(``--asymmetric 256 --sizes 1e7 --no-peers``).
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks.harness.search_codes import KINDS
from benchmarks.harness.timing import options
from benchmarks.search import TimedSearch, check, floor, interleaved, time_reading, time_search
from hummingbit.encoder.codes import Codes
from hummingbit.index.engines import kernel
from hummingbit.index.engines.choice import AnyIndex, Choice, build
from hummingbit.index.engines.protocol import After, Neighbours, Rows, Weights, max_bit_weight
from tests.support.oracles.brute_force import BruteForceIndex

QUERIES = 2000
K = 10
DEEP = 1000
CODES_AT_ONCE = 10**5
CURSOR = "after "
BATCH = 100
SINGLES = 20
SHARES = (0.5, 0.1, 0.01)
# After so many searches, every engine has prepared the rows that it is allowed to find.
WARM_UP = 500
FIRST = 20
CASES = ("uniform 64", "uniform 128", "clustered 128", "real 32", "real 64", "real 128")


WeightedSearch = Callable[[slice], object]
"""A search with some of the weights."""


def main() -> None:
    parser = options(__doc__)
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
    parser.add_argument("--no-peers", action="store_true", help="leave out FAISS's fast scans")
    parser.add_argument("--threads", type=int, default=2, help="with --asymmetric (default: 2)")
    arguments = parser.parse_args()
    if kernel.native is None:
        parser.error("no compiled kernel: it is not installed, or HUMMINGBIT_KERNEL is off")
    faiss.omp_set_num_threads(1)
    print(f"{processor()}; kernel path: {kernel.built.paths()[0]}")
    for size in arguments.sizes:
        for n_bits in arguments.asymmetric or ():
            compare_asymmetric(int(size), n_bits, arguments)
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


def compare_asymmetric(n: int, n_bits: int, arguments: argparse.Namespace) -> None:
    """Time searches by weighted distance of uniform codes, with FAISS's fast scans beside them."""
    rng, rounds = np.random.default_rng(0), arguments.rounds
    codes = KINDS["uniform"](rng, n, n_bits)
    weights = to_integers(rng.normal(size=(max(BATCH, rounds * SINGLES), n_bits)))
    ours = build(codes, np.arange(n)).code_index
    for some in weights[: 3 if n <= 10**6 else 1, None]:
        (found,) = ours.search_weighted(some, K)
        if found.rows.tolist() != rows_by_oracle(codes, some):
            raise SystemExit(f"{ours.name} disagrees with the oracle")
    searches = weighted_searches(rng, ours, weights)
    if not arguments.no_peers:
        searches |= fast_scans(rng, n, n_bits, weights)
    times: dict[str, list[float]] = defaultdict(list)
    in_batch: dict[str, list[float]] = defaultdict(list)
    reads: list[float] = []
    for start in range(0, rounds * SINGLES, SINGLES):
        reads += [time_reading(codes) for _ in range(SINGLES)]
        for name, search in searches.items():
            singles = range(start, start + SINGLES)
            times[name] += [timed(search, slice(at, at + 1)) for at in singles]
    for _ in range(max(3, rounds // 3)):
        for name, search in searches.items():
            # A cursor belongs to one query.
            if not name.startswith(CURSOR):
                in_batch[name].append(timed(search, slice(0, BATCH)))
    read = statistics.median(reads)
    print(f"\nasymmetric, uniform {n_bits} bits, {n:,} codes; floor {read:,.0f} µs")
    print_times(times, in_batch, read)
    if arguments.threads > 1:
        every = [weights[at : at + 1] for at in range(len(weights))]
        apart = [every[first :: arguments.threads] for first in range(arguments.threads)]
        time_threads(apart, lambda some: ours.search_weighted(some, K))


def rows_by_oracle(codes: Codes, some: Weights) -> list[int]:
    """Return the nearest rows by brute force, for which all bits of some codes are unpacked."""
    found: list[tuple[int, int]] = []
    for start in range(0, len(codes), CODES_AT_ONCE):
        part = codes[start : start + CODES_AT_ONCE]
        oracle = BruteForceIndex(part, np.arange(start, start + len(part)))
        (nearest,) = oracle.search_weighted(some, K)
        found += zip(nearest.distances.tolist(), nearest.rows.tolist(), strict=True)
    return [row for _, row in sorted(found)[:K]]


def print_times(
    times: dict[str, list[float]], in_batch: dict[str, list[float]], read: float
) -> None:
    """Print medians of single queries and of batches, and as multiples of `read`."""
    for name, single_times in times.items():
        single = statistics.median(single_times)
        line = f"  {name:17} one {single:8,.0f} µs {single / read:6.2f} × floor"
        if name in in_batch:
            batch = statistics.median(in_batch[name])
            line += f"   in {BATCH} {batch:8,.0f} µs {batch / read:6.2f} × floor"
        print(line)


def weighted_searches(
    rng: np.random.Generator, ours: AnyIndex, weights: Weights
) -> dict[str, WeightedSearch]:
    """Return our searches: of all rows, of some rows, and of the page after a cursor."""
    n = len(ours)
    allowed = np.flatnonzero(rng.random(n) < 0.1)
    allowed.setflags(write=False)
    remaining = ours.without(np.flatnonzero(rng.random(n) < 0.2))

    def search_after(k: int) -> WeightedSearch:
        ends = [cursor_after(*ours.search_weighted(some, k)) for some in weights[:, None]]
        return lambda some: ours.search_weighted(weights[some], K, None, ends[some.start])

    return {
        f"ours, {ours.name}": lambda some: ours.search_weighted(weights[some], K),
        "10% allowed": lambda some: ours.search_weighted(weights[some], K, allowed),
        "20% deleted": lambda some: remaining.search_weighted(weights[some], K),
        f"{CURSOR}{K}": search_after(K),
        f"{CURSOR}{DEEP}": search_after(DEEP),
    }


def cursor_after(found: Neighbours) -> After:
    return After(int(found.distances[-1]), int(found.rows[-1]))


def time_threads(queries: Sequence[Sequence[Weights]], search: Callable[[Weights], object]) -> None:
    """Search in a thread for each list of queries at the same time, and print the medians."""
    elapsed: list[float] = []
    of_processor: list[float] = []

    def run(own: Sequence[Weights]) -> None:
        for some in own:
            began = time.perf_counter(), time.thread_time()
            search(some)
            elapsed.append(time.perf_counter() - began[0])
            of_processor.append(time.thread_time() - began[1])

    threads = [threading.Thread(target=run, args=(own,)) for own in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu, clock = (1e6 * statistics.median(times) for times in (of_processor, elapsed))
    print(
        f"  {len(threads)} threads, one query at a time in each: {cpu:,.0f} µs of the processor,",
        end="",
    )
    print(f" {clock:,.0f} µs elapsed")


def fast_scans(
    rng: np.random.Generator, n: int, n_bits: int, weights: Weights
) -> dict[str, WeightedSearch]:
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

    def search_of(peer: faiss.Index) -> WeightedSearch:
        return lambda some: peer.search(weights[some].astype(np.float32), K)

    return {name: search_of(peer) for name, peer in peers.items()}


def to_integers(weights: npt.NDArray[np.float64]) -> Weights:
    """Return integers in proportion to `weights`, as large as an index takes them."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    scale = max_bit_weight(weights.shape[1]) / largest
    integers: Weights = np.round(weights * scale).astype(np.int64)
    return integers


def timed(search: WeightedSearch, some: slice) -> float:
    """Return the microseconds of the processor for each query."""
    began = time.process_time()
    search(some)
    n_queries: int = some.stop - some.start
    return (time.process_time() - began) * 1e6 / n_queries


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
        time_search(search, queries[position : position + 1], K) for position in range(WARM_UP)
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
