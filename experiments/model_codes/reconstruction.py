"""Codes from which a linear map reconstructs the vectors of documents.

The code of a vector x of length 1 is read as b in {-1, 1}^B and stands for m + bᵀC, with the mean m
of the vectors and a matrix C of shape ``(B, D)``. A query q ranks documents by q · bᵀC, which is
the asymmetric ranking with the weights C q. Each bit is what is best beside the others, not the
sign of one direction, so the rows of C need not be orthogonal. C and the codes are found in turns:
C by least squares, the bits one after the other (coordinate descent).

The sum is a cosine only as far as all m + bᵀC have one length. So a code approximates s x, and the
factor s grows where the reconstruction is shorter than most.

The first 64 bits of a longer code are the code of 64 bits. The bits that follow encode what those
before them leave.

Source: Babenko and Lempitsky, "Additive quantization for extreme vector compression" (2014), here
with two codewords for each bit; the descent is that of Shen et al., "Supervised discrete hashing"
(2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.text_features import Floats
from hummingbit.training.linear_codes import itq_rotation
from hummingbit.training.model_codes import WIDTHS

_TURNS, _SWEEPS, _ROUNDS = 10, 3, 8
# Least squares shrinks C by this share of the documents, so that few documents suffice.
_RIDGE = 0.01


@dataclass(frozen=True, eq=False)
class Block:
    """The bits that encode what the blocks before it leave."""

    decoder: Floats
    """C of these bits, ``float32[bits, D]``"""
    length: float
    """The mean length of the reconstructions with all bits so far."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What turns vectors ``float32[N, D]`` of length 1 into codes, and queries into weights."""

    mean: Floats
    blocks: tuple[Block, ...]

    def encode(self, vectors: Floats) -> npt.NDArray[np.bool_]:
        """Return the bits of documents, ``bool[N, B]``."""
        scales = np.ones((len(vectors), 1), dtype=np.float32)
        decoded = np.tile(self.mean, (len(vectors), 1))
        parts = []
        for block in self.blocks:
            bits = _signs((scales * vectors - decoded) @ block.decoder.T)
            for _ in range(_ROUNDS):
                descend(bits, scales * vectors - decoded, block.decoder)
                scales *= _factors(decoded + bits @ block.decoder, block.length)
            decoded += bits @ block.decoder
            parts.append(bits > 0)
        return np.hstack(parts)

    def weights(self, queries: Floats) -> Floats:
        """Return the weights of bits for queries ``float32[Q, D]``, ``float32[Q, B]``."""
        return np.hstack([queries @ block.decoder.T for block in self.blocks])


def fit_reconstruction(vectors: Floats, n_bits: int, seed: int) -> Reconstruction:
    """Learn codes of `n_bits` from `vectors`, ``float32[N, D]`` of length 1.

    The bits of a block begin as iterative quantization of what the blocks before it leave.
    """
    mean = vectors.mean(axis=0)
    decoded = np.tile(mean, (len(vectors), 1))
    scales = np.ones((len(vectors), 1), dtype=np.float32)
    ends = [*(width for width in WIDTHS if width < n_bits), n_bits]
    blocks: list[Block] = []
    for start, end in zip([0, *ends], ends, strict=False):
        left = scales * vectors - decoded
        _, directions = np.linalg.eigh(left.T @ left)
        first = directions[:, ::-1][:, : end - start]
        rotation = itq_rotation(np.asarray(left @ first, dtype=np.float32), seed)
        bits = _signs(left @ (first @ rotation))
        for _ in range(_TURNS):
            left = scales * vectors - decoded
            decoder = _least_squares(bits, left)
            descend(bits, left, decoder)
            now = decoded + bits @ decoder
            length = float(np.linalg.norm(now, axis=1).mean())
            scales *= _factors(now, length)
            scales /= scales.mean()
        decoded = now
        blocks.append(Block(decoder, length))
    return Reconstruction(mean, tuple(blocks))


def descend(bits: Floats, targets: Floats, decoder: Floats) -> None:
    """Change `bits` of ±1, ``float32[N, B]``, so that |target − bᵀC|² falls for every row.

    A bit becomes the better of its two values, the others as they are; three times for each bit.
    """
    products = decoder @ decoder.T
    fields = (targets - bits @ decoder) @ decoder.T
    for _ in range(_SWEEPS):
        for number, own in enumerate(np.diag(products)):
            changes = _signs(fields[:, number] + bits[:, number] * own) - bits[:, number]
            rows = np.flatnonzero(changes)
            fields[rows] -= changes[rows, None] * products[number]
            bits[rows, number] += changes[rows]


def _signs(values: npt.NDArray[np.floating[Any]]) -> Floats:
    return np.where(values > 0, np.float32(1), np.float32(-1))


def _factors(decoded: Floats, length: float) -> Floats:
    """Return the factors of targets that bring the lengths of reconstructions nearer to one."""
    lengths = np.linalg.norm(decoded, axis=1, keepdims=True)
    factors: Floats = np.sqrt(length / np.maximum(lengths, 1e-6), dtype=np.float32)
    return factors


def _least_squares(bits: Floats, targets: Floats) -> Floats:
    """Return C for which bᵀC are nearest to the targets."""
    ridge = np.eye(bits.shape[1], dtype=np.float32) * (_RIDGE * len(bits))
    return np.linalg.solve(bits.T @ bits + ridge, bits.T @ targets).astype(np.float32)
