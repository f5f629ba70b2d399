"""Searches for codes: our engines with the compiled kernel, FAISS, and other libraries.

All search the same codes for the same queries interleaved in one run, with one thread; times are of
the processor. "floor" is the time to read all codes once. "× Flat" is the time of FAISS's
``IndexBinaryFlat`` over that of a contestant, for medians and, in parentheses, for means. The last
two lines of a table have searches among a share of the rows, searches after a fifth of the rows was
deleted, and searches for twice as many rows, as multiples of the plain search: first the queries
from the second on, and then those after so many that the engine has prepared few rows. Our engines
are checked against the oracle first.

``--peers`` adds libraries, with their time as a multiple of ours ("× ours"), their recall, which is
the share of the hits that lie no farther than the true k-th, and the time and the memory that
building takes. A library that is not installed is left out with a message.

With ``--asymmetric``, searches by weighted distance take turns with FAISS's fast scans of product
quantisation and of RaBitQ over vectors whose codes have as many bytes, and with reading the codes;
the weights of the bits are normal numbers. A page after a cursor begins where the first ten results
of its query end, or the first thousand. FAISS's results are approximate.

``HUMMINGBIT_KERNEL=avx2 FAISS_SIMD_LEVEL=AVX2`` compares both on a processor without AVX-512.

Run as ``python -m benchmarks.kernel``; ``--sizes 1e7`` takes ten minutes, and without FAISS one
(``--asymmetric 256 --sizes 1e7 --no-peers``).
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from importlib import import_module
from statistics import mean, median
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.search_codes import KINDS
from benchmarks.harness.timing import options, print_machine
from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.index.engines import kernel
from hummingbit.index.engines.choice import AnyIndex, Choice, build
from hummingbit.index.engines.flat import FlatIndex
from hummingbit.index.engines.protocol import After, Rows, Weights, max_bit_weight
from tests.support.oracles.brute_force import BruteForceIndex

QUERIES, K, DEEP, BATCH, SINGLES = 2000, 10, 1000, 100, 20
CODES_AT_ONCE = 10**5
# Searches by weighted distance take turns after so few queries, as other load comes in bursts.
TURN = 5
SHARES = (0.5, 0.1, 0.01)
# After so many searches, every engine has prepared the rows that it is allowed to find.
WARM_UP, FIRST = 500, 20
CASES = ("uniform 64", "uniform 128", "clustered 128", "real 32", "real 64", "real 128")
FLAT, CURSOR = "FAISS Flat", "after "

TimedSearch = Callable[[Codes, int], Any]
"""A search that is timed, whatever it returns."""

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
        "--peers", nargs="*", choices=PEERS, default=[], metavar="NAME", help=", ".join(PEERS)
    )
    parser.add_argument(
        "--asymmetric", type=int, nargs="+", metavar="BITS", help="time weighted distances instead"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave out FAISS's fast scans")
    arguments = parser.parse_args()
    if kernel.native is None:
        parser.error("no compiled kernel: it is not installed, or HUMMINGBIT_KERNEL is off")
    faiss.omp_set_num_threads(1)
    print_machine(f"FAISS's: {faiss.SIMDConfig.get_level_name()}")
    for size in map(int, arguments.sizes):
        for n_bits in arguments.asymmetric or ():
            compare_asymmetric(size, n_bits, arguments)
        for case in () if arguments.asymmetric else arguments.cases:
            kind, n_bits = case.split()
            codes = KINDS[kind](np.random.default_rng(0), size + QUERIES, int(n_bits))
            # Copies, so that the queries do not keep the whole array alive.
            queries, codes = codes[:QUERIES].copy(), codes[QUERIES:].copy()
            print(f"\n{case} bits, {len(codes):,} codes; floor {floor(codes):,.0f} µs")
            compare(codes, queries, arguments)


# Searches by Hamming distance.


def compare(codes: Codes, queries: Codes, arguments: argparse.Namespace) -> None:
    """Time FAISS, the engine that is chosen, and peers on one set of codes."""
    rows, rounds = np.arange(len(codes)), arguments.rounds
    began = time.process_time()
    ours = build(codes, rows)
    build_seconds = time.process_time() - began
    check(ours, codes, queries[:5])
    own = f"ours, {ours.code_index.name}"
    searches: dict[str, TimedSearch] = {
        FLAT: faiss_flat(codes),
        own: ours.code_index.search,
    }
    costs = {}
    for name in arguments.peers:
        resident, began = resident_bytes(), time.process_time()
        try:
            searches[name] = PEERS[name](codes)
        except ImportError as error:
            print(f"  {name}: left out ({error})")
            continue
        seconds, added = time.process_time() - began, resident_bytes() - resident
        found = recall(searches[name], codes, queries[:50])
        costs[name] = f"   recall {found:.2f}, built {seconds:.1f} s, {added / 1e6:.0f} MB"
    single_times = interleaved(searches, queries, K, 1, rounds, singles=SINGLES)
    batch_times = interleaved(searches, queries, K, BATCH, max(3, rounds // 3))
    for name in searches:
        single = format_times(single_times, name, own)
        batch = format_times(batch_times, name, own)
        print(f"  {name:20} one {single}   in {BATCH} {batch}{costs.get(name, '')}", flush=True)
    print(f"  built in {build_seconds:.2f} s: {ours.reason}")
    compare_restricted(ours, queries, rows, rounds)


def compare_restricted(ours: Choice, queries: Codes, rows: Rows, rounds: int) -> None:
    """Time searches among some of the rows and with tombstones, beside the plain search."""
    rng = np.random.default_rng(1)
    index = ours.code_index
    searches: dict[str, TimedSearch] = {"all": index.search}

    def among(allowed: Rows) -> TimedSearch:
        allowed.setflags(write=False)
        return lambda queries, k: index.search(queries, k, None, allowed)

    for share in SHARES:
        searches[f"{share:.0%} allowed"] = among(np.flatnonzero(rng.random(len(rows)) < share))
    searches["20% deleted"] = index.without(rows[rng.random(len(rows)) < 0.2]).search
    searches[f"{2 * K} nearest"] = lambda queries, k: index.search(queries, 2 * k)
    first_times = {}
    for name, search in searches.items():
        singles = (queries[position : position + 1] for position in range(WARM_UP))
        first_times[name] = [time_search(search, query, K) for query in singles][1 : FIRST + 1]
    later_times = interleaved(searches, queries, K, 1, rounds, singles=SINGLES)
    for label, times in (
        (f"queries 2 to {FIRST + 1}", first_times),
        (f"after {WARM_UP}", later_times),
    ):
        medians = {name: median(values) for name, values in times.items()}
        plain = medians.pop("all")
        ratios = [f"{name} {value / plain:.2f}" for name, value in medians.items()]
        print(f"  {label}, × of {plain:,.0f} µs: {', '.join(ratios)}")


def format_times(times: dict[str, list[float]], name: str, ours: str) -> str:
    """Format the times of a contestant, and their ratios to FAISS's scan and to ours."""
    flat, own = times[FLAT], times[name]
    ratios = f"{median(flat) / median(own):7.1f}× Flat ({mean(flat) / mean(own):.1f}×)"
    return (
        f"{median(own):9,.1f} µs (mean {mean(own):9,.1f}) {ratios}"
        f" {median(own) / median(times[ours]):6.1f}× ours"
    )


def interleaved(
    searches: Mapping[str, TimedSearch],
    queries: Codes,
    k: int,
    batch: int,
    rounds: int,
    *,
    singles: int = 10,
) -> dict[str, list[float]]:
    """Return the microseconds per query of each search; all take turns with every batch."""
    times: dict[str, list[float]] = defaultdict(list)
    # Several single queries per turn, so that the caches belong to the search that is timed.
    per_turn = singles if batch == 1 else 1
    for turn in range(rounds):
        start = turn * batch * per_turn % (len(queries) - batch * per_turn)
        batches = [queries[start + n * batch : start + (n + 1) * batch] for n in range(per_turn)]
        for name, search in searches.items():
            search(batches[-1][:10], k)
            times[name] += [time_search(search, each, k) for each in batches]
    return times


def time_search(search: TimedSearch, batch: Codes, k: int) -> float:
    """Return the microseconds of the processor per query of one batch."""
    began = time.process_time()
    search(batch, k)
    return (time.process_time() - began) * 1e6 / len(batch)


def check(choice: Choice, codes: Codes, queries: Codes) -> None:
    """Exit with an error unless the engine finds the same rows as the oracle."""
    oracle = BruteForceIndex(codes, np.arange(len(codes)))
    for query in queries[:: 1 if len(codes) < 10**6 else 10]:
        ((hits,), (expected,)) = (
            index.search(query[None], K) for index in (choice.code_index, oracle)
        )
        if hits.rows.tolist() != expected.rows.tolist():
            raise SystemExit(f"{choice.code_index.name} disagrees with the oracle")


def recall(search: TimedSearch, codes: Codes, queries: Codes) -> float:
    """Return the share of `K` hits no farther than the true K-th, so that ties do not matter."""
    exact = FlatIndex(codes, np.arange(len(codes))).search(queries, K)
    shares = []
    for query, rows, true in zip(queries, search(queries, K), exact, strict=True):
        # Approximate indexes fill up short results with rows that do not exist.
        valid = rows[(rows >= 0) & (rows < len(codes))].astype(np.int64)
        shares.append(np.mean(hamming_distance(codes[valid], query) <= true.distances[-1]))
    return float(np.mean(shares))


def floor(codes: Codes) -> float:
    """Return the microseconds that one thread takes to read all codes from memory."""
    return median(time_reading(codes) for _ in range(9))


def time_reading(codes: Codes) -> float:
    """Read all codes once; return the microseconds of the processor."""
    began = time.process_time()
    codes.max()
    return (time.process_time() - began) * 1e6


# Searches by weighted distance.


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

    read, singles, batches = times_of_weighted(searches, codes, rounds)
    print(f"\nasymmetric, uniform {n_bits} bits, {n:,} codes; floor {read:,.0f} µs")
    for name, single in singles.items():
        line = f"  {name:17} one {single:8,.0f} µs {single / read:6.2f} × floor"
        if name in batches:
            batch = batches[name]
            line += f"   in {BATCH} {batch:8,.0f} µs {batch / read:6.2f} × floor"
        print(line)


def times_of_weighted(
    searches: Mapping[str, WeightedSearch], codes: Codes, rounds: int
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return the median microseconds of reading, of one query, and of each of a batch."""

    def timed(name: str, some: slice) -> float:
        began = time.process_time()
        searches[name](some)
        return (time.process_time() - began) * 1e6 / int(some.stop - some.start)

    reads: list[float] = []
    singles: dict[str, list[float]] = defaultdict(list)
    batches: dict[str, list[float]] = defaultdict(list)
    for start in range(0, rounds * SINGLES, TURN):
        reads += [time_reading(codes) for _ in range(TURN)]
        for name in searches:
            singles[name] += [timed(name, slice(at, at + 1)) for at in range(start, start + TURN)]
    for _ in range(max(3, rounds // 3)):
        for name in searches:
            if not name.startswith(CURSOR):  # a cursor belongs to one query
                batches[name].append(timed(name, slice(0, BATCH)))
    one, of_batch = (
        {name: median(some) for name, some in times.items()} for times in (singles, batches)
    )
    return median(reads), one, of_batch


def rows_by_oracle(codes: Codes, some: Weights) -> list[int]:
    """Return the nearest rows by brute force, for which all bits of some codes are unpacked."""
    found: list[tuple[int, int]] = []
    for start in range(0, len(codes), CODES_AT_ONCE):
        part = codes[start : start + CODES_AT_ONCE]
        oracle = BruteForceIndex(part, np.arange(start, start + len(part)))
        (nearest,) = oracle.search_weighted(some, K)
        found += zip(nearest.distances.tolist(), nearest.rows.tolist(), strict=True)
    return [row for _, row in sorted(found)[:K]]


def weighted_searches(
    rng: np.random.Generator, ours: AnyIndex, weights: Weights
) -> dict[str, WeightedSearch]:
    """Return our searches: of all rows, of some rows, and of the page after a cursor."""
    n = len(ours)
    allowed = np.flatnonzero(rng.random(n) < 0.1)
    allowed.setflags(write=False)
    remaining = ours.without(np.flatnonzero(rng.random(n) < 0.2))

    def search_after(k: int) -> WeightedSearch:
        pages = [ours.search_weighted(some, k)[0] for some in weights[:, None]]
        ends = [After(int(page.distances[-1]), int(page.rows[-1])) for page in pages]
        return lambda some: ours.search_weighted(weights[some], K, None, ends[some.start])

    return {
        f"ours, {ours.name}": lambda some: ours.search_weighted(weights[some], K),
        "10% allowed": lambda some: ours.search_weighted(weights[some], K, allowed),
        "20% deleted": lambda some: remaining.search_weighted(weights[some], K),
        f"{CURSOR}{K}": search_after(K),
        f"{CURSOR}{DEEP}": search_after(DEEP),
    }


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
        for start in range(0, n, CODES_AT_ONCE):
            size = min(CODES_AT_ONCE, n - start)
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


# Other libraries: each is built from codes, and returns a search for the positions of neighbours.


def faiss_flat(codes: Codes) -> TimedSearch:
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    return lambda queries, k: index.search(queries, k)[1]


def faiss_ivf(codes: Codes) -> TimedSearch:
    n_bits, n_lists = codes.shape[1] * 8, max(1, int(len(codes) ** 0.5))
    quantizer = faiss.IndexBinaryFlat(n_bits)
    index = faiss.IndexBinaryIVF(quantizer, n_bits, n_lists)
    index.cp.min_points_per_centroid = 1
    index.train(codes[np.random.default_rng(0).integers(0, len(codes), 40 * n_lists)])
    index.add(codes)
    index.nprobe = max(1, n_lists // 32)

    # The index does not keep the quantizer alive, so the default argument does.
    def search(queries: Codes, k: int, _quantizer: object = quantizer) -> Any:
        return index.search(queries, k)[1]

    return search


def faiss_hnsw(codes: Codes) -> TimedSearch:
    index = faiss.IndexBinaryHNSW(codes.shape[1] * 8, 16)
    index.hnsw.efSearch = 128
    index.add(codes)
    return lambda queries, k: index.search(queries, k)[1]


def faiss_multi_hash(codes: Codes) -> TimedSearch:
    n_bits = codes.shape[1] * 8
    index = faiss.IndexBinaryMultiHash(n_bits, max(1, n_bits // 16), 16)
    index.nflip = 1
    index.add(codes)
    return lambda queries, k: index.search(queries, k)[1]


def usearch_hnsw(codes: Codes) -> TimedSearch:
    from usearch.index import Index  # noqa: PLC0415 - may not be installed

    index: Any = Index(ndim=codes.shape[1] * 8, metric="hamming", dtype="b1")
    index.add(np.arange(len(codes)), codes, threads=1)
    return lambda queries, k: np.atleast_2d(index.search(queries, k, threads=1).keys)


def usearch_exact(codes: Codes) -> TimedSearch:
    library: Any = import_module("usearch.index")  # may not be installed
    metric, search = library.MetricKind.Hamming, library.search

    def find(queries: Codes, k: int) -> Any:
        return np.atleast_2d(search(codes, queries, k, metric, exact=True, threads=1).keys)

    return find


def pynear(codes: Codes) -> TimedSearch:
    import pynear as library  # noqa: PLC0415 - may not be installed

    n_bits = codes.shape[1] * 8
    suffix = n_bits if n_bits in {64, 128, 256, 512} else "N"
    tree: Any = getattr(library, f"VPTreeBinaryIndex{suffix}")()
    tree.set(codes)
    return lambda queries, k: np.array(tree.searchKNN(queries, k)[0])


PEERS: dict[str, Callable[[Codes], TimedSearch]] = {
    "FAISS IVF": faiss_ivf,
    "FAISS HNSW": faiss_hnsw,
    "FAISS MultiHash": faiss_multi_hash,
    "usearch HNSW": usearch_hnsw,
    "usearch exact": usearch_exact,
    "pynear": pynear,
}


if __name__ == "__main__":
    main()
