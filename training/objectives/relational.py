"""Relational knowledge distillation: keeping the teacher's distances and angles.

Source: Park, Kim, Lu and Cho, "Relational Knowledge Distillation" (2019). l_δ is the Huber loss
with δ = 1. Where the paper sums over pairs and triples, the means over all B² and B³ are taken, as
in the authors' code; so the loss does not grow with the batch. The shares of equal indices are 0.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from training.objectives.dissimilarity import check_batch, euclidean_dissimilarity

DISTANCE_WEIGHT = 1.0
ANGLE_WEIGHT = 2.0


def relational_loss(
    student_BD: Tensor,
    teacher_BE: Tensor,
    distance_weight: float = DISTANCE_WEIGHT,
    angle_weight: float = ANGLE_WEIGHT,
) -> Tensor:
    """Return the weighted sum of the distance and the angle loss, RKD-DA; a scalar.

    Raises:
        ValueError: as :func:`relational_distance_loss`.
    """
    distance = relational_distance_loss(student_BD, teacher_BE)
    return distance_weight * distance + angle_weight * relational_angle_loss(student_BD, teacher_BE)


def relational_distance_loss(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B²) Σ_ij l_δ(ψ(t_i, t_j), ψ(s_i, s_j)) with ψ(u, v) = ‖u − v‖ / μ; a scalar.

    μ is the mean of the distances above 0 in the batch. No gradient flows into the teacher's.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows or hold NaN.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        target_BB = _relative_distances(teacher_BE)
    return functional.smooth_l1_loss(_relative_distances(student_BD), target_BB)


def relational_angle_loss(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B³) Σ_ijk l_δ(cos ∠ t_i t_j t_k, cos ∠ s_i s_j s_k); a scalar.

    The cosine is that of the angle at j, 0 where two of the points coincide. No gradient flows into
    the teacher's. Holds B²D + B³ elements.

    Raises:
        ValueError: if the batches differ in length or have fewer than two rows.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        target_BBB = _angles(teacher_BE)
    return functional.smooth_l1_loss(_angles(student_BD), target_BBB)


def _relative_distances(x_BD: Tensor) -> Tensor:
    d_BB = euclidean_dissimilarity(x_BD, x_BD)
    apart_BB = d_BB.detach() > 0
    if not apart_BB.any():
        return d_BB
    return d_BB / d_BB[apart_BB].mean()


def _angles(x_BD: Tensor) -> Tensor:
    towards_BBD = functional.normalize(x_BD[None, :, :] - x_BD[:, None, :], dim=2)
    return towards_BBD @ towards_BBD.transpose(1, 2)
