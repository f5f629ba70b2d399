"""Near-duplicate codes: our self-join beside FAISS and hammingbird, in one run on one thread.

Half of the codes are random; the others each lie within the radius of one of them. FAISS compares
each query with every code, so it gets a sample of the codes as queries, and its time is scaled up.
hammingbird is left out unless it is installed (``pip install hammingbird``). It finds all pairs,
and they must be the same as ours. Times are processor time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from statistics import median
from typing import Any

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness.timing import in_turn, options, print_machine
from hummingbit.encoder.codes import Codes
from hummingbit.index.engines.self_join import Integers, pairs_within

FAISS_QUERIES = 1000


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e6, help="codes (default: 1e6)")
    parser.add_argument("--bits", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--radius", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print_machine()
    # hammingbird's threads are counted when it first computes.
    os.environ["RAYON_NUM_THREADS"] = "1"
    codes = _codes(int(args.size), args.bits, args.radius)
    print(f"{len(codes):,} codes of {args.bits} bits, radius {args.radius}, one thread")
    with threadpool_limits(1):
        compare(codes, args.radius, args.rounds)


def compare(codes: Codes, radius: int, rounds: int) -> None:
    searches = {"ours": _our_pairs, "FAISS": _faiss_degrees, **hammingbird_searches()}
    found: dict[str, Any] = {}

    def search(name: str) -> Callable[[int], None]:
        return lambda _: found.update({name: searches[name](codes, radius)})

    times = in_turn({name: search(name) for name in searches}, range(rounds))
    pairs = found.pop("ours")
    ends = np.bincount(pairs[:, :2].ravel(), minlength=len(codes))
    np.testing.assert_array_equal(ends[:FAISS_QUERIES], found.pop("FAISS"))
    for theirs in found.values():
        np.testing.assert_array_equal(_in_order(np.array(theirs, dtype=np.int64)), pairs)
    print(f"{len(pairs):,} pairs; FAISS confirms those of {FAISS_QUERIES:,} codes")
    times["FAISS"] = [seconds * len(codes) / FAISS_QUERIES for seconds in times["FAISS"]]
    for name, of_one in times.items():
        ratio = median(np.divide(of_one, times["ours"]))
        scaled = " (scaled up)" if name == "FAISS" else ""
        print(f"{name}: {median(of_one):,.2f} CPU s{scaled}, {ratio:,.1f} × ours")


def hammingbird_searches() -> dict[str, Callable[[Codes, int], Any]]:
    """Return hammingbird's searches for pairs: by parts of whole bytes, and by parts of bits."""
    try:
        import hammingbird  # type: ignore[import-not-found]  # noqa: PLC0415 - not installed everywhere
    except ImportError:
        print("hammingbird is left out: it is not installed")
        return {}
    return {
        "hammingbird, bytes": hammingbird.find_pairs_self,
        "hammingbird, bits": hammingbird.find_pairs_self_bit,
    }


def _codes(size: int, n_bits: int, radius: int) -> Codes:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (size, n_bits // 8), dtype=np.uint8)
    half = size // 2
    flipped = rng.integers(0, n_bits, (half, radius))
    codes[half : 2 * half] = codes[rng.integers(0, half, half)]
    for bits in flipped.T:
        codes[np.arange(half, 2 * half), bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    return codes[rng.permutation(size)]


def _our_pairs(codes: Codes, radius: int) -> Integers:
    """Return rows (first, second, distance) of all pairs, in ascending order."""
    parts = [np.column_stack(pairs).astype(np.int64) for pairs in pairs_within(codes, radius)]
    return _in_order(np.concatenate([np.empty((0, 3), dtype=np.int64), *parts]))


def _in_order(pairs: Integers) -> Integers:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _faiss_degrees(codes: Codes, radius: int) -> Integers:
    """Return how many pairs have each of the first :data:`FAISS_QUERIES` codes, ``int64[Q]``."""
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    # FAISS excludes distances equal to its radius, and finds the query itself.
    limits, _, _ = index.range_search(codes[:FAISS_QUERIES], radius + 1)
    starts = limits.astype(np.int64)
    return starts[1:] - starts[:-1] - 1


if __name__ == "__main__":
    main()
