"""The mean and the deviation of a score over all documents, without scoring each of them.

The asymmetric score of a document is the sum over b of w_b x_b, where w are a query's weights and
x_b = ±1 the document's bits. Over N documents its sum is w · Σx and the sum of its squares
wᵀ (Σ x xᵀ) w: two sums over the documents that no query changes, and that a write changes by what
it adds and removes. All of it is whole numbers, so the result does not depend on how a collection
came about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, unpack_codes
from index.lexical.segment import Scores

Integers = npt.NDArray[np.int64]

CODES_AT_ONCE = 2**16
# Halves of scores below 2**16, squared and added up so many at a time, are exact in a float64.
# OpenBLAS gives a dot product of more than 10,000 numbers to several threads, and then waits for
# them: where other work has the processors, that takes a hundred times as long.
SCORES_AT_ONCE = 2**13
HALF = 2**16


@dataclass(frozen=True, slots=True)
class StandardScore:
    """Turns scores into standard scores: (score - mean) / deviation, 0 where all are equal."""

    mean: float
    deviation: float

    @classmethod
    def of_sums(cls, n_scores: int, total: int, squares: int) -> StandardScore:
        """Make it from the number of scores, their sum and the sum of their squares."""
        if not n_scores:
            return cls(0.0, 0.0)
        # Whole numbers until here: nothing is lost where the squares are large.
        variance = (n_scores * squares - total * total) / n_scores**2
        return cls(total / n_scores, math.sqrt(variance))

    def of(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the standard scores."""
        if not self.deviation:
            return np.zeros(len(scores))
        return (scores.astype(np.float64) - self.mean) / self.deviation


@dataclass(frozen=True, slots=True, eq=False)
class CodeMoments:
    """Σx, ``int64[B]``, and Σ x xᵀ, ``int64[B, B]``, of the bits x = ±1 of `n_codes` codes."""

    n_codes: int
    sums: Integers
    products: Integers

    @classmethod
    def of_codes(cls, codes: Codes, counts: Integers | None = None) -> CodeMoments:
        """Add up over `codes`, ``uint8[D, B / 8]``, each as often as `counts` says, or once."""
        n_bits = codes.shape[1] * 8
        sums = np.zeros(n_bits)
        products = np.zeros((n_bits, n_bits))
        for start in range(0, len(codes), CODES_AT_ONCE):
            some = slice(start, start + CODES_AT_ONCE)
            bits = unpack_codes(codes[some]).astype(np.float64) * 2 - 1
            weighed = bits if counts is None else bits * counts[some, None]
            sums += weighed.sum(axis=0)
            products += bits.T @ weighed
        # Sums of whole numbers below 2**53, which a float64 adds up exactly.
        n_codes = len(codes) if counts is None else int(counts.sum())
        return cls(n_codes, sums.astype(np.int64), products.astype(np.int64))

    def with_changes(self, added: Codes, removed: Codes) -> CodeMoments:
        """Return the moments with the codes `added` and without those `removed`."""
        more, fewer = CodeMoments.of_codes(added), CodeMoments.of_codes(removed)
        return CodeMoments(
            self.n_codes + more.n_codes - fewer.n_codes,
            self.sums + more.sums - fewer.sums,
            self.products + more.products - fewer.products,
        )

    def standard(self, weights: Integers) -> StandardScore:
        """Return what standardises the asymmetric scores of a query with these whole `weights`."""
        by_hand = weights.tolist()
        total = sum(map(int.__mul__, by_hand, self.sums.tolist()))
        turned = (self.products @ weights).tolist()
        return StandardScore.of_sums(self.n_codes, total, sum(map(int.__mul__, by_hand, turned)))


def sums_of_scores(scores: Scores) -> tuple[int, int]:
    """Return the sum of whole scores that are not negative, and the sum of their squares, exactly.

    ``int32`` scores are fast: their halves are squared and added up in float64, without rounding.
    """
    if scores.dtype != np.int32:
        found = scores[scores > 0].tolist()
        return sum(found), sum(score * score for score in found)
    total = squares = 0
    for start in range(0, len(scores), SCORES_AT_ONCE):
        some = scores[start : start + SCORES_AT_ONCE]
        high = (some >> 16).astype(np.float64)
        low = (some & (HALF - 1)).astype(np.float64)
        total += int(high.sum()) * HALF + int(low.sum())
        squares += int(high @ high) * HALF**2 + 2 * int(high @ low) * HALF + int(low @ low)
    return total, squares
