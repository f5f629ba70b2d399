"""What the codes of a collection look like: enough to see a code that has collapsed."""

from __future__ import annotations

from typing import Any

import numpy as np

from encoder.codes import unpack_codes
from index.segments import Generation


def code_statistics(generation: Generation) -> dict[str, Any]:
    """Return how many distinct codes there are, how crowded, and how balanced the bits.

    ``largest_share`` is the share of documents that hold the most frequent code. ``bit_balance``
    tells, over the bits, the share of documents in which a bit is 1: least, mean and most. Bits
    that are always 0 or always 1 carry nothing. All three are None without documents.
    """
    n = len(generation)
    codes, counts = generation.distinct_codes()
    if n == 0:
        return {"distinct_codes": 0, "largest_share": None, "bit_balance": None}
    shares = np.concatenate(
        [counts @ unpack_codes(codes[:, [byte]]) / n for byte in range(codes.shape[1])]
    )
    return {
        "distinct_codes": len(codes),
        "largest_share": float(counts.max() / n),
        "bit_balance": {
            "least": float(shares.min()),
            "mean": float(shares.mean()),
            "most": float(shares.max()),
        },
    }
