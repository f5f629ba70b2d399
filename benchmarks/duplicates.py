"""Near-duplicate codes: our self-join beside FAISS' range search, in one run on one thread.

Half of the codes are random; the others each lie within the radius of one of them. FAISS compares
each query with every code, so it gets a sample of the codes as queries, and its time is scaled up.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import faiss
import numpy as np
from threadpoolctl import threadpool_limits

from encoder.codes import Codes
from index.engines.self_join import Integers, pairs_within

FAISS_QUERIES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1e6, help="codes (default: 1e6)")
    parser.add_argument("--bits", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--radius", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    codes = _codes(int(args.size), args.bits, args.radius)
    print(f"{len(codes):,} codes of {args.bits} bits, radius {args.radius}, one thread")
    ours, theirs = [], []
    with threadpool_limits(1):
        for _ in range(args.rounds):
            began = time.perf_counter()
            degrees = _degrees(codes, args.radius)
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            expected = _faiss_degrees(codes, args.radius)
            theirs.append((time.perf_counter() - began) * len(codes) / FAISS_QUERIES)
            np.testing.assert_array_equal(degrees[:FAISS_QUERIES], expected)
    ratio = median([b / a for a, b in zip(ours, theirs, strict=True)])
    print(f"{int(degrees.sum()) // 2:,} pairs; FAISS confirms those of {FAISS_QUERIES:,} codes")
    print(f"ours {median(ours):,.2f} s, FAISS {median(theirs):,.0f} s (scaled up), {ratio:,.0f}×")


def _codes(size: int, n_bits: int, radius: int) -> Codes:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (size, n_bits // 8), dtype=np.uint8)
    half = size // 2
    flipped = rng.integers(0, n_bits, (half, radius))
    codes[half : 2 * half] = codes[rng.integers(0, half, half)]
    for bits in flipped.T:
        codes[np.arange(half, 2 * half), bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    return codes[rng.permutation(size)]


def _degrees(codes: Codes, radius: int) -> Integers:
    """Return the number of pairs that each code is part of, ``int64[N]``."""
    degrees = np.zeros(len(codes), dtype=np.int64)
    for pairs in pairs_within(codes, radius):
        for ends in (pairs.first, pairs.second):
            degrees += np.bincount(ends, minlength=len(codes))
    return degrees


def _faiss_degrees(codes: Codes, radius: int) -> Integers:
    """Return the same for the first :data:`FAISS_QUERIES` codes, computed by FAISS."""
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    # FAISS excludes distances equal to its radius, and finds the query itself.
    limits, _, _ = index.range_search(codes[:FAISS_QUERIES], radius + 1)
    starts = limits.astype(np.int64)
    return starts[1:] - starts[:-1] - 1


if __name__ == "__main__":
    main()
