"""Metric knowledge transfer: keeping the teacher's dissimilarities as they are."""

from __future__ import annotations

import torch
from torch import Tensor

from training.objectives.dissimilarity import Dissimilarity, check_batch, euclidean_dissimilarity


def similarity_matching_loss(
    student_BD: Tensor,
    teacher_BE: Tensor,
    student_dissimilarity: Dissimilarity = euclidean_dissimilarity,
    teacher_dissimilarity: Dissimilarity = euclidean_dissimilarity,
) -> Tensor:
    """Return (1/B) ‖D^S − D^T‖_F, the root mean square difference of dissimilarities; a scalar.

    D_ij = d(x_i, x_j), by default Euclidean. No gradient flows into the teacher's. Source: Yu et
    al., "Learning Metrics from Teachers: Compact Networks for Image Embedding" (2019), the relative
    teacher, there without 1/B; the works on probabilistic transfer call it MKT.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows, hold NaN or, under
            cosine, a zero vector.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        teacher_BB = teacher_dissimilarity(teacher_BE, teacher_BE)
    difference_BB = student_dissimilarity(student_BD, student_BD) - teacher_BB
    norm: Tensor = torch.linalg.matrix_norm(difference_BB)
    return norm / len(student_BD)
