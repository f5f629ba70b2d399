"""Near-duplicate codes: our self-join beside FAISS' range search, in one run on one thread.

Half of the codes are drawn evenly, half lie within the radius of another one. FAISS compares every
code with every other, so it is asked for a share of the codes, and its time is scaled up.
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

ASKED = 1000


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
            theirs.append((time.perf_counter() - began) * len(codes) / ASKED)
            np.testing.assert_array_equal(degrees[:ASKED], expected)
    ratio = median([b / a for a, b in zip(ours, theirs, strict=True)])
    print(f"{int(degrees.sum()) // 2:,} pairs; those of {ASKED:,} codes are FAISS's")
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
    """Return with how many others each code makes a pair."""
    degrees = np.zeros(len(codes), dtype=np.int64)
    for pairs in pairs_within(codes, radius):
        for ends in (pairs.first, pairs.second):
            degrees += np.bincount(ends, minlength=len(codes))
    return degrees


def _faiss_degrees(codes: Codes, radius: int) -> Integers:
    """Return the same for the first :data:`ASKED` codes."""
    index = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    index.add(codes)
    # FAISS leaves out what is as far as the radius, and finds the code itself.
    limits, _, _ = index.range_search(codes[:ASKED], radius + 1)
    found = limits.astype(np.int64)
    return found[1:] - found[:-1] - 1


if __name__ == "__main__":
    main()
