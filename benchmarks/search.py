"""Exact Hamming search: distinct codes against all codes, in FAISS and in numpy.

All contestants answer the same queries, taking turns within one run, so that what else the machine
does falls on all alike; figures are medians over the rounds. FAISS over all codes returns neither
the documented order nor documents, only positions; the other two return rows in (distance, row)
order. Before anything is timed, the distinct index is checked against the oracle.

Run as ``python -m benchmarks.search``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import faiss
import numpy as np

from encoder.codes import Codes
from index.brute_force import BruteForceIndex
from index.distinct import DistinctIndex

Search = Callable[[Codes], object]

HEADER = f"{'codes':10} {'n':>9} {'bits':>4} {'distinct':>9} {'queries':>7}"


def uniform(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def clustered(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Codes as encoders make them: fifty clusters of unequal size, few bits flipped in each."""
    centres = rng.integers(0, 2, (50, n_bits), dtype=np.uint8)
    share = 1 / np.arange(1, 51)
    chosen = centres[rng.choice(50, n, p=share / share.sum())]
    return np.packbits(chosen ^ (rng.random((n, n_bits)) < 0.03), axis=1)


def milliseconds(search: Search, batches: list[Codes]) -> float:
    """Return the mean time of a batch."""
    began = time.perf_counter()
    for batch in batches:
        search(batch)
    return (time.perf_counter() - began) * 1e3 / len(batches)


def interleaved(
    contestants: dict[str, Search], batches: list[Codes], rounds: int
) -> dict[str, float]:
    """Return each contestant's median over rounds in which all take turns."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, search in contestants.items():
            times[name].append(milliseconds(search, batches))
    return {name: statistics.median(found) for name, found in times.items()}


def check(index: DistinctIndex, oracle: BruteForceIndex, queries: Codes, k: int) -> None:
    for one, other in zip(index.search(queries, k), oracle.search(queries, k), strict=True):
        if not np.array_equal(one.rows, other.rows):
            raise SystemExit("the distinct index does not agree with the oracle")


def compare(kind: str, codes: Codes, queries: Codes, k: int, rounds: int) -> None:
    n, n_bits = len(codes), codes.shape[1] * 8
    rows = np.arange(n, dtype=np.int64)
    distinct, oracle = DistinctIndex(codes, rows), BruteForceIndex(codes, rows)
    flat = faiss.IndexBinaryFlat(n_bits)
    flat.add(codes)
    contestants: dict[str, Search] = {
        "distinct": lambda batch: distinct.search(batch, k),
        "faiss": lambda batch: flat.search(batch, k),
        "numpy": lambda batch: oracle.search(batch, k),
    }
    check(distinct, oracle, queries[:5], k)
    for size in (1, 100):
        if size > 1:
            del contestants["numpy"]  # it takes queries one by one anyway
        batches = [queries[start : start + size] for start in range(0, 10 * size, size)]
        medians = interleaved(contestants, batches[:10] if size == 1 else batches[:2], rounds)
        shown = [
            f"{medians[name]:9.3f}" if name in medians else f"{'-':>9}"
            for name in ("distinct", "faiss", "numpy")
        ]
        against = [
            f"{medians[name] / medians['distinct']:6.2f}" if name in medians else f"{'-':>6}"
            for name in ("faiss", "numpy")
        ]
        n_distinct = len(distinct.counted_codes()[0])
        print(f"{kind:10} {n:9,} {n_bits:4} {n_distinct:9,} {size:7}", *shown, *against)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="threads of FAISS")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(arguments.threads)
    print(f"k = {arguments.k}, {arguments.threads} thread(s); milliseconds a call, and how many")
    print("times as long as the distinct index FAISS over all codes and the numpy oracle take")
    print(f"{HEADER} {'distinct':>9} {'faiss':>9} {'numpy':>9} {'faiss':>6} {'numpy':>6}")
    for make in (uniform, clustered):
        for n in arguments.sizes:
            for n_bits in arguments.bits:
                codes = make(np.random.default_rng(0), n + 1000, n_bits)
                compare(make.__name__, codes[1000:], codes[:1000], arguments.k, arguments.rounds)


if __name__ == "__main__":
    main()
