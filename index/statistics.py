"""What the codes of a collection look like: enough to see a code that has collapsed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import unpack_codes
from index.segments import Generation


def code_statistics(generation: Generation) -> dict[str, Any]:
    """Return how many distinct codes there are, how crowded, and how balanced the bits.

    ``largest_share`` is the share of documents that hold the most frequent code. ``bit_balance``
    tells, over the bits, the share of documents in which a bit is 1: least, mean and most.
    ``dead_bits`` are always 0 or always 1 and carry nothing; bit 0 is the first of the code.
    ``bit_entropy`` is the mean over the bits of H(p) = − p log₂ p − (1 − p) log₂ (1 − p), from 0
    to 1. ``code_entropy`` is − Σ_c p_c log₂ p_c over the distinct codes, p_c being the share of
    documents that hold c: at most the lesser of n_bits and log₂ of the documents. A bucket is the
    documents that share a code; ``bucket_occupancy`` tells how many a bucket holds: mean, median
    and most, and in ``histogram`` how many buckets hold from 2^i to 2^(i+1) − 1, for i from 0.
    All but ``distinct_codes`` are None without documents, and ``dead_bits`` is empty.
    """
    n = len(generation)
    codes, counts = generation.distinct_codes()
    if n == 0:
        names = ("largest_share", "bit_balance", "bit_entropy", "code_entropy", "bucket_occupancy")
        return {"distinct_codes": 0, **dict.fromkeys(names), "dead_bits": []}
    ones = np.concatenate(
        [counts @ unpack_codes(codes[:, [byte]]) for byte in range(codes.shape[1])]
    )
    shares = ones / n
    return {
        "distinct_codes": len(codes),
        "largest_share": float(counts.max() / n),
        "bit_balance": {
            "least": float(shares.min()),
            "mean": float(shares.mean()),
            "most": float(shares.max()),
        },
        "bit_entropy": float((_bits_of(shares) + _bits_of(1 - shares)).mean()),
        "code_entropy": float(_bits_of(counts / n).sum()),
        "dead_bits": np.flatnonzero((ones == 0) | (ones == n)).tolist(),
        "bucket_occupancy": {
            "mean": n / len(codes),
            "median": float(np.median(counts)),
            "most": int(counts.max()),
            "histogram": np.bincount(np.frexp(counts)[1] - 1).tolist(),
        },
    }


def _bits_of(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return − p log₂ p for each share, 0 for 0."""
    return -shares * np.log2(np.where(shares > 0, shares, 1.0))
