"""Hamming search side by side: our engines, FAISS and others, over codes of three kinds.

All contestants answer the same queries interleaved in one run, so that other load slows all alike.
Times are of the processor, which other processes do not lengthen. "ratio" is a contestant's time
over ours, for medians and for means; means include the outliers, the queries that no lookup
answers. Each table also has the time to read all codes once. "recall" is the share of k that lies
no farther than the true k-th.

Run as ``python -m benchmarks.search``.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import faiss
import numpy as np

from benchmarks.harness.processes import resident_bytes
from benchmarks.harness.search_codes import KINDS
from benchmarks.harness.search_peers import CONTESTANTS, Contestant, Search
from benchmarks.harness.timing import options
from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.index.engines.choice import Choice, build
from hummingbit.index.engines.flat import FlatIndex
from tests.support.oracles.brute_force import BruteForceIndex

QUERIES = 2000
OURS, FLAT = "hummingbit", "FAISS Flat"

TimedSearch = Callable[[Codes, int], object]
"""A search that is timed, whatever it returns."""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument(
        "--rounds", type=int, default=15, help="each of ten single queries, and a batch"
    )
    parser.add_argument("--only", nargs="+", help=f"some of {', '.join(CONTESTANTS)}")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    contestants = dict(CONTESTANTS)
    if arguments.only:
        contestants = {name: contestants[name] for name in [OURS, FLAT, *arguments.only]}
    for kind in arguments.kinds:
        for n_bits in arguments.bits:
            for size in arguments.sizes:
                rng = np.random.default_rng(0)
                codes = KINDS[kind](rng, int(size) + QUERIES, n_bits)
                # Copies, so that the queries do not keep the whole array alive.
                queries, codes = codes[:QUERIES].copy(), codes[QUERIES:].copy()
                print(f"\n{kind}, {n_bits} bits, {len(codes):,} codes", end=": ")
                compare(contestants, codes, queries, arguments)


def compare(
    contestants: dict[str, Contestant], codes: Codes, queries: Codes, arguments: argparse.Namespace
) -> None:
    """Build every contestant, time all of them interleaved, and print the figures."""
    choice: Choice = build(codes, np.arange(len(codes)))
    check(choice, codes, queries[:20])
    print(choice.reason)
    del choice
    searches: dict[str, Search] = {}
    costs: dict[str, str] = {}
    for name, contestant in contestants.items():
        if len(codes) > contestant.max_codes:
            continue
        try:
            resident_before, began = resident_bytes(), time.process_time()
            searches[name] = contestant.build(codes)
        except ImportError as error:
            print(f"  {name}: left out ({error})")
            continue
        seconds, added = time.process_time() - began, resident_bytes() - resident_before
        costs[name] = f"built {seconds:7.2f} s  {added / 1e6:7.0f} MB"
    for k, batch in itertools.product(arguments.k, (1, 100)):
        print(f"  k={k} batch={batch}; reading all once: {floor(codes):.0f} µs")
        times = interleaved(searches, queries, k, batch, arguments.rounds)
        ours = statistics.median(times[OURS]), statistics.mean(times[OURS])
        for name, of_one in times.items():
            median, mean = statistics.median(of_one), statistics.mean(of_one)
            exact = contestants[name].exact
            share = 1.0 if exact else recall(searches[name], codes, queries[:50], k)
            print(
                f"    {name:18} {median:10.1f} µs  mean {mean:10.1f}"
                f"  p95 {np.percentile(of_one, 95):10.1f}  ratio {median / ours[0]:8.2f}"
                f"  of means {mean / ours[1]:8.2f}  recall {share:.3f}  {costs[name]}",
                flush=True,
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
        (hits,), (expected,) = (
            choice.code_index.search(query[None], 10),
            oracle.search(query[None], 10),
        )
        if hits.rows.tolist() != expected.rows.tolist():
            raise SystemExit(f"{choice.code_index.name} disagrees with the oracle")


def recall(search: Search, codes: Codes, queries: Codes, k: int) -> float:
    """Return the share of `k` hits no farther than the true k-th, so that ties do not matter."""
    exact = FlatIndex(codes, np.arange(len(codes))).search(queries, k)
    shares = []
    for query, rows, true in zip(queries, search(queries, k), exact, strict=True):
        # Approximate indexes fill up short results with rows that do not exist.
        valid = rows[(rows >= 0) & (rows < len(codes))].astype(np.int64)
        near = hamming_distance(codes[valid], query) <= true.distances[-1]
        shares.append(near.sum() / len(true.rows))
    return float(np.mean(shares))


def floor(codes: Codes) -> float:
    """Return the microseconds that one thread takes to read all codes from memory."""
    return statistics.median(time_reading(codes) for _ in range(9))


def time_reading(codes: Codes) -> float:
    """Read all codes once; return the microseconds of the processor."""
    began = time.process_time()
    codes.max()
    return (time.process_time() - began) * 1e6


if __name__ == "__main__":
    main()
