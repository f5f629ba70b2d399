"""Probabilistic knowledge transfer: keeping how probable each neighbour of an example is."""

from __future__ import annotations

import torch
from torch import Tensor

from training.objectives.dissimilarity import check_batch, cosine_dissimilarity


def probabilistic_transfer_loss(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B) Σ_i Σ_{j≠i} p_j|i ln(p_j|i / q_j|i); a scalar.

    p_j|i = K(t_i, t_j) / Σ_{k≠i} K(t_i, t_k) with the kernel K(u, v) = ½ (1 + cos(u, v)), and q
    likewise of the student. No gradient flows into the teacher's. Source: Passalis and Tefas,
    "Learning Deep Representations with Probabilistic Knowledge Transfer" (2018), equations 4 to 7.
    The authors' code takes the mean over all B² pairs, an example with itself among them.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows, hold NaN or a zero
            vector.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        log_p_BB = _log_neighbours(teacher_BE)
    log_q_BB = _log_neighbours(student_BD)
    return (log_p_BB.exp() * (log_p_BB - log_q_BB)).sum() / len(student_BD)


def _log_neighbours(x_BD: Tensor) -> Tensor:
    """Return ln p_j|i; the diagonal holds the logarithm of the smallest number, a probability of 0.

    So does a pair of opposite vectors, whose kernel is 0: the divergence stays finite.
    """
    smallest = torch.finfo(x_BD.dtype).tiny
    kernel_BB = 1 - cosine_dissimilarity(x_BD, x_BD)
    kernel_BB = kernel_BB * (1 - torch.eye(len(x_BD), dtype=x_BD.dtype, device=x_BD.device))
    kernel_BB = kernel_BB.clamp(min=smallest)
    return (kernel_BB / kernel_BB.sum(dim=1, keepdim=True)).clamp(min=smallest).log()
