"""Statistics of the codes of a collection, which show whether codes have collapsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, unpack_codes
from index.engines.portable.distinct_codes import Integers
from index.engines.segments import Generation

Numbers = npt.NDArray[np.float64]

# Correlations take n_bits² steps for each code; a sample of so many codes is enough.
CODES_CORRELATED = 2**16


class StatisticsCache:
    """The statistics of one generation; only a write changes them."""

    def __init__(self) -> None:
        self._last: tuple[int, dict[str, Any]] | None = None

    def get(self, generation: int, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the statistics of a generation; `measure` is called unless they are cached."""
        if self._last is None or self._last[0] != generation:
            self._last = generation, measure()
        return self._last[1]


def code_statistics(generation: Generation) -> dict[str, Any]:
    """Return how diverse the codes are, ready for JSON.

    - ``distinct_codes``: the number of distinct codes.
    - ``largest_share``: the share of documents that have the most frequent code.
    - ``entropy``: −Σ p log₂ p in bits, where p is the share of documents with each code. At most
      ``n_bits``, and at most log₂ of the number of documents.
    - ``bit_balance``: over the bits, the share of documents in which a bit is 1.
    - ``bit_entropy``: over the bits, the entropy of that share, at most 1.
    - ``dead_bits``: the positions of bits that are equal in all documents, so they say nothing.
    - ``bit_correlation``: Pearson's |r| over the pairs of bits that are not dead. Of more than
      65,536 distinct codes, only so many are used, evenly spaced in order.
    - ``occupancy``: how many codes belong to 1, 2–3, 4–7, … documents, by the least of these.

    A value that is not defined is None: without documents, all but the counts; with fewer than two
    live bits, the correlations.
    """
    n = len(generation)
    codes, counts = generation.distinct_codes()
    if n == 0:
        names = ("largest_share", "entropy", "bit_balance", "bit_entropy", "bit_correlation")
        return {"distinct_codes": 0, **dict.fromkeys(names), "dead_bits": [], "occupancy": {}}
    shares = np.concatenate(
        [counts @ unpack_codes(codes[:, [byte]]) / n for byte in range(codes.shape[1])]
    )
    dead = (shares == 0) | (shares == 1)
    return {
        "distinct_codes": len(codes),
        "largest_share": float(counts.max() / n),
        "entropy": float(np.log2(n) - counts @ np.log2(counts) / n),
        "bit_balance": _spread(shares),
        "bit_entropy": _spread(_bit_entropy(shares)),
        "dead_bits": np.flatnonzero(dead).tolist(),
        "bit_correlation": _correlation(codes, counts, dead),
        "occupancy": _occupancy(counts),
    }


def _spread(values: Numbers) -> dict[str, float]:
    return {
        "least": float(values.min()),
        "mean": float(values.mean()),
        "most": float(values.max()),
    }


def _bit_entropy(shares: Numbers) -> Numbers:
    probabilities = np.stack([shares, 1 - shares])
    # 0 log 0 is 0.
    terms: Numbers = -probabilities * np.log2(np.where(probabilities > 0, probabilities, 1))
    return np.asarray(terms.sum(axis=0))


def _correlation(
    codes: Codes, counts: Integers, dead: npt.NDArray[np.bool_]
) -> dict[str, float] | None:
    step = -(-len(codes) // CODES_CORRELATED)
    bits = unpack_codes(codes[::step])[:, ~dead].astype(np.float64)
    weights = counts[::step] / counts[::step].sum()
    bits -= weights @ bits
    covariance = (bits * weights[:, None]).T @ bits
    deviations = np.sqrt(np.diag(covariance))
    # A bit may be constant in the sample.
    varies = deviations > 0
    scale = np.outer(deviations[varies], deviations[varies])
    correlations = np.abs(covariance[np.ix_(varies, varies)] / scale)
    pairs = correlations[np.triu_indices(len(correlations), k=1)]
    if not len(pairs):
        return None
    return {"mean": float(pairs.mean()), "most": float(min(1.0, pairs.max()))}


def _occupancy(counts: Integers) -> dict[str, int]:
    """Count codes by their number of documents, in steps that double: 1, 2, 4, 8, …"""
    steps = np.bincount(np.frexp(counts.astype(np.float64))[1] - 1)
    return {str(2**step): int(count) for step, count in enumerate(steps)}
