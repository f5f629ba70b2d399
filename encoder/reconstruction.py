"""Codes from which a linear map reconstructs the vectors of documents.

The code of a vector x of length 1 is read as b in {-1, 1}^B and stands for m + bᵀC, with the mean m
of the vectors and a matrix C of shape ``(B, D)``. A query q ranks documents by q · bᵀC, which is
the asymmetric ranking with the weights C q. Each bit of a document is what is best beside the
others, not the sign of one direction, so the rows of C need not be orthogonal.

The sum is a cosine only as far as all m + bᵀC have one length. So a code approximates s x, and the
factor s grows where the reconstruction is shorter than most.

The bits come in blocks; those of a block encode what the blocks before it leave. So the first bits
of a code, up to the end of a block, are a code themselves.

Source: Babenko and Lempitsky, "Additive quantization for extreme vector compression" (2014), here
with two codewords for each bit; the descent is that of Shen et al., "Supervised discrete hashing"
(2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.text_features import Floats

Doubles = npt.NDArray[np.float64]

# The sweeps of a descent, and the descents of a block, each with the factors of the one before.
_SWEEPS, _ROUNDS = 3, 8
# Of few rows, most bits stay. So the next ones are looked at together, this many in all rows.
_AHEAD = 256

# Vectors, means and decoders are rounded to whole multiples of this. Sums of their products are
# then exact in float64, in whatever order a processor, a thread or a batch adds them up.
_STEP = 2.0**-22
# Up to here they are: each addend is a multiple of 2^-44, and float64 has 53 bits.
_MOST = 2.0**8


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What turns vectors ``(N, D)`` into the bits of documents.

    `decoder` is Cᵀ, ``float32[D, B]``, and `mean` is m, ``float32[D]``. Block k ends before the bit
    ``ends[k]``, and ``lengths[k]`` is the mean length of the reconstructions with all bits so far.

    Raises:
        ValueError: if the ends do not rise to B, a length is not positive, or the decoder or the
            mean are so large that a sum would not be exact.
    """

    decoder: Floats
    mean: Floats
    ends: Sequence[int]
    lengths: Floats

    def __post_init__(self) -> None:
        """Check that the parts fit and that sums are exact."""
        if sorted({0, *self.ends}) != [0, *self.ends] or self.ends[-1] != self.decoder.shape[1]:
            raise ValueError(f"ends is {[*self.ends]}; it must rise to {self.decoder.shape[1]}")
        if not (self.lengths > 0).all():
            raise ValueError("lengths must be positive")
        products, of_mean, squared_mean = self._products
        if np.abs(products).sum() + 2 * np.abs(of_mean).sum() + squared_mean > _MOST:
            raise ValueError("the decoder and the mean are too large for vectors of length 1")

    @cached_property
    def _products(self) -> tuple[Doubles, Doubles, float]:
        """Return C Cᵀ, ``(B, B)``, C m, ``(B,)``, and m · m."""
        decoder, mean = _rounded(self.decoder), _rounded(self.mean)
        return decoder.T @ decoder, mean @ decoder, float(mean @ mean)

    def logits(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the logits of the bits of documents, and the least of each document.

        A bit is 1 where its logit, ``float32[N, B]``, is above 0. It is half of what the bit saves
        of |s x − m − bᵀC|², beside the others as they were when it was last chosen. The least,
        ``float32[N]``, is the smallest number that decided on a bit, in all steps of the descent.
        Nothing depends on the other rows. Vectors are scaled to length 1.
        """
        products, of_mean, squared_mean = self._products
        rows = np.asarray(vectors, dtype=np.float64)
        sizes = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        projections = _rounded(rows / np.where(sizes > 0, sizes, 1)) @ _rounded(self.decoder)
        bits, logits = np.empty_like(projections), np.empty_like(projections)
        scales = np.ones((len(rows), 1))
        least = np.full(len(rows), np.inf)
        for start, end, length in zip([0, *self.ends], self.ends, self.lengths, strict=False):
            block = slice(start, end)
            gram, seen, now = products[block, block], products[:end, block], bits[:, :end]
            first = scales * projections[:, block] - of_mean[block]
            first -= bits[:, :start] @ products[:start, block]
            bits[:, block] = signs(first)
            np.minimum(least, np.abs(first).min(axis=1), out=least)
            for _ in range(_ROUNDS):
                fields = scales * projections[:, block] - of_mean[block] - now @ seen
                logits[:, block] = descend(bits[:, block], fields, gram, least)
                squares = ((now @ products[:end, :end] + 2 * of_mean[:end]) * now).sum(axis=1)
                scales *= factors_of(squares[:, None] + squared_mean, float(length))
        return logits.astype(np.float32), least.astype(np.float32)


def descend(bits: Any, fields: Any, gram: Any, least: Any | None = None) -> Any:
    """Change `bits` of ±1, ``(N, B)``, so that |target − bᵀC|² falls for every row.

    `fields` are (target − bᵀC) Cᵀ, ``(N, B)``, which are kept so, and `gram` is C Cᵀ. A bit becomes
    the better of its two values, the others as they are; up to three times for each bit. Returns
    half of what each bit saved when it was last chosen, positive for 1. `least`, ``(N,)``, becomes
    the smallest of these in all sweeps where that is smaller.
    """
    saved, own = np.empty_like(fields), np.diag(gram)
    n_ahead = max(1, _AHEAD // max(1, len(bits)))
    for _ in range(_SWEEPS):
        start, is_changed = 0, False
        while start < len(own):
            some = slice(start, start + n_ahead)
            # Bits behind the first that changes are looked at again.
            saved[:, some] = fields[:, some] + bits[:, some] * own[some]
            is_wrong = (saved[:, some] > 0) != (bits[:, some] > 0)
            wrong = np.flatnonzero(is_wrong.any(axis=0))
            start += n_ahead
            if len(wrong):
                start = some.start + int(wrong[0]) + 1
                is_changed = True
                rows = np.flatnonzero(is_wrong[:, wrong[0]])
                fields[rows] += 2 * bits[rows, start - 1, None] * gram[start - 1]
                bits[rows, start - 1] *= -1
        if least is not None:
            np.minimum(least, np.abs(saved).min(axis=1), out=least)
        if not is_changed:
            break
    return saved


def signs(values: Any) -> Any:
    """Return 1 where a value is above 0 and −1 elsewhere, in the type of `values`."""
    return np.where(values > 0, values.dtype.type(1), values.dtype.type(-1))


def factors_of(squared_lengths: Any, length: float) -> Any:
    """Return the factors of targets that bring the lengths of reconstructions nearer to one."""
    return np.sqrt(length / np.sqrt(np.maximum(squared_lengths, 1e-12)))


def _rounded(values: Any) -> Doubles:
    return np.rint(np.asarray(values, dtype=np.float64) / _STEP) * _STEP
