"""The mean and the deviation of a score over all documents, without scoring each of them.

The asymmetric score of a document is the sum over b of w_b x_b, where w are a query's weights and
x_b = ±1 the document's bits. Over N documents, the scores add up to w · Σx and their squares to
wᵀ (Σ x xᵀ) w. The two sums over documents do not depend on the query, and a write updates them by
the codes that it adds and removes. All numbers are integers, so the result does not depend on the
order of the writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.index.engines import kernel
from hummingbit.index.lexical import Scores

Integers = npt.NDArray[np.int64]

CODES_AT_ONCE = 2**14
# Sums of so many squares of numbers below 2**16 are exact in a float64. OpenBLAS computes longer
# dot products, of more than 10,000 numbers, in several threads and waits for them, which takes a
# hundred times as long when other work keeps the processors busy.
SCORES_AT_ONCE = 2**13
HALF = 2**16
# So many squares are added up as int64 at a time; for fewer, float64 is faster.
MOST_AT_ONCE = 2**15
FEWEST_AT_ONCE = 2**10
MAX_SUM = 2**63 - 1
MAX_PRODUCT_BITS = 1024
"""Of longer codes no products are kept: their number grows with the square of the length."""


def _products_of(bits: npt.NDArray[np.uint8]) -> Integers:
    """Return Σ x xᵀ, ``int64[B, B]``, of at most 2**24 codes with these `bits`, ``[N, B]``."""
    n_codes, n_bits = bits.shape
    if kernel.native is None:
        signs = bits.astype(np.float32) * 2 - 1  # a float32 adds up integers below 2**24 exactly
        products: Integers = (signs.T @ signs).astype(np.int64)
        return products
    # Two bits have the product -1 where they differ, which takes a processor one instruction for 64
    # codes.
    columns = np.zeros((n_bits, -(-n_codes // 64) * 8), dtype=np.uint8)
    packed = np.packbits(np.ascontiguousarray(bits.T), axis=1)
    columns[:, : packed.shape[1]] = packed
    differing = np.empty((n_bits, n_bits), dtype=np.int64)
    kernel.native.differing(n_bits, columns.shape[1] // 8, columns, differing)
    np.subtract(n_codes, 2 * differing, out=differing)
    return differing


class StandardScore(NamedTuple):
    """Turns scores into standard scores: (score - mean) / deviation, 0 where all are equal."""

    mean: float
    deviation: float

    @classmethod
    def of_sums(cls, n_scores: int, total: int, squares: int) -> StandardScore:
        """Make it from the number of scores, their sum and the sum of their squares."""
        if not n_scores:
            return cls(0.0, 0.0)
        # Integers keep the difference exact, however large the squares are.
        variance = (n_scores * squares - total * total) / n_scores**2
        return cls(total / n_scores, math.sqrt(variance))

    def standardize(self, scores: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the standard scores."""
        if not self.deviation:
            return np.zeros(len(scores))
        return (scores.astype(np.float64) - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class CodeMoments:
    """Σx, ``int64[B]``, and Σ x xᵀ, ``int64[B, B]``, of the bits x = ±1 of `n_codes` codes.

    The products of codes longer than :data:`MAX_PRODUCT_BITS` are None. Then a standard score
    follows from the scores of all documents.
    """

    n_codes: int
    sums: Integers
    products: Integers | None

    @classmethod
    def of_codes(cls, codes: Codes, counts: Integers | None = None) -> CodeMoments:
        """Add up over `codes`, ``uint8[D, B / 8]``, each `counts` times, or once."""
        n_bits = codes.shape[1] * 8
        sums = np.zeros(n_bits, dtype=np.int64)
        n_products = n_bits if n_bits <= MAX_PRODUCT_BITS else 0
        products = np.zeros((n_products, n_products), dtype=np.int64)
        # Codes whose counts have a bit in common count alike.
        for place in range(1 if counts is None else int(counts.max(initial=0)).bit_length()):
            alike = codes if counts is None else codes[(counts >> place) & 1 == 1]
            for start in range(0, len(alike), CODES_AT_ONCE):
                bits = unpack_codes(alike[start : start + CODES_AT_ONCE])
                sums += (2 * bits.sum(axis=0, dtype=np.int64) - len(bits)) << place
                if n_products:
                    products += _products_of(bits) << place
        n_codes = len(codes) if counts is None else int(counts.sum())
        return cls(n_codes, sums, products if n_products else None)

    def with_changes(self, added: Codes, removed: Codes) -> CodeMoments:
        """Return the moments with the codes `added` and without those `removed`."""
        if not len(added) and not len(removed):
            return self
        plus, minus = CodeMoments.of_codes(added), CodeMoments.of_codes(removed)
        products = None
        if not (self.products is None or plus.products is None or minus.products is None):
            products = self.products + plus.products - minus.products
        n_codes = self.n_codes + plus.n_codes - minus.n_codes
        return CodeMoments(n_codes, self.sums + plus.sums - minus.sums, products)

    def standard_score(self, weights: Integers) -> StandardScore:
        """Return the standard score of a query with these integer `weights`, ``int64[B]``.

        Raises:
            ValueError: if the moments have no products.
        """
        if self.products is None:
            raise ValueError(f"codes of {len(self.sums)} bits have no products")
        if kernel.native is not None:
            weights = np.ascontiguousarray(weights)
            total, high, low = kernel.native.moments(
                len(self.sums), self.sums, self.products, weights
            )
            return StandardScore.of_sums(self.n_codes, total, (high << 64) + low)
        products = self.products @ weights
        if self.n_codes < 2**24:
            # With |w| adding up to less than 2**31, products are below 2**55, and each half of one
            # times w adds up to less than 2**63.
            total = int(self.sums @ weights)
            high, low = int((products >> 24) @ weights), int((products & (2**24 - 1)) @ weights)
            squares = (high << 24) + low
        else:
            # Python's integers do not overflow.
            integers = weights.tolist()
            total = sum(map(int.__mul__, integers, self.sums.tolist()))
            squares = sum(map(int.__mul__, integers, products.tolist()))
        return StandardScore.of_sums(self.n_codes, total, squares)


def sums_of_scores(scores: Scores) -> tuple[int, int]:
    """Return the exact sum of integer scores, none below 0, and the exact sum of their squares.

    ``int32`` scores are fast. Without rounding, an int64 adds up the squares of usual ones, and a
    float64 those of the halves of any.
    """
    if scores.dtype != np.int32:
        positive = scores[scores > 0].tolist()
        return sum(positive), sum(score * score for score in positive)
    total = squares = 0
    highest = int(scores.max(initial=1))
    step = min(MOST_AT_ONCE, MAX_SUM // (highest * highest))
    if step >= FEWEST_AT_ONCE:
        for start in range(0, len(scores), step):
            some = scores[start : start + step].astype(np.int64)
            total += int(some.sum())
            squares += int(some @ some)
        return total, squares
    for start in range(0, len(scores), SCORES_AT_ONCE):
        some = scores[start : start + SCORES_AT_ONCE]
        high = (some >> 16).astype(np.float64)
        low = (some & (HALF - 1)).astype(np.float64)
        total += int(high.sum()) * HALF + int(low.sum())
        squares += int(high @ high) * HALF**2 + 2 * int(high @ low) * HALF + int(low @ low)
    return total, squares
