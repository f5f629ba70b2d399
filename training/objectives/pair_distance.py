"""Distances from 0 to 1 between all the rows of a batch, as histogram losses need them."""

from __future__ import annotations

from torch import Tensor

from training.objectives.dissimilarity import cosine_dissimilarity, euclidean_dissimilarity


def squashed_euclidean_distance(x_ND: Tensor) -> Tensor:
    """Return f / (1 + f) of the Euclidean distances f, ``[N, N]``; from 0 to below 1."""
    f_NN = euclidean_dissimilarity(x_ND, x_ND)
    return f_NN / (1 + f_NN)


def cosine_distance(x_ND: Tensor) -> Tensor:
    """Return ½ (1 − cos), ``[N, N]``; from 0 to 1."""
    return cosine_dissimilarity(x_ND, x_ND).clamp(0, 1)


def relaxed_hamming_distance(b_NB: Tensor) -> Tensor:
    """Return ‖b_i − b_j‖² / B, ``[N, N]``: of bits that are 0 or 1, the share that differ."""
    norms_N = b_NB.square().sum(dim=1)
    squares_NN = norms_N[:, None] + norms_N[None, :] - 2 * b_NB @ b_NB.T
    return (squares_NN / b_NB.shape[1]).clamp(0, 1)
