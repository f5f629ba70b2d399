"""Drawing together the codes of a class and pushing those of two classes apart."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_loss(b_NB: Tensor, classes_N: Tensor, margin: float) -> Tensor:
    """Return (1/N) Σ_ij [c_i = c_j] D_ij + [c_i ≠ c_j] max(0, margin − D_ij) over ordered pairs.

    D_ij = ‖b_i − b_j‖² is the Hamming distance of relaxed bits. With `classes_N` the model's own
    predictions the loss is self-supervised and takes in every pair of the batch. Source: SSB-VAE
    (Ñanculef et al. 2020), section 3.
    """
    norms_N = b_NB.square().sum(dim=1)
    D_NN = (norms_N[:, None] + norms_N[None, :] - 2 * b_NB @ b_NB.T).clamp(min=0)
    same_NN = classes_N[:, None] == classes_N[None, :]
    pulled = torch.where(same_NN, D_NN, (margin - D_NN).clamp(min=0))
    return pulled.sum() / len(b_NB)
