"""VID: the student predicts the teacher's features, with a variance for each of them.

Source: Ahn et al., "Variational Information Distillation for Knowledge Transfer" (2019), equations
4 to 6. Maximizing E ln q(t|s) raises a lower bound of the mutual information of the student's and
the teacher's features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.objectives.dissimilarity import check_batch

SMALLEST_VARIANCE = 1e-5
"""ε, which bounds the density of a constant feature."""


def variational_information_loss(mean_BE: Tensor, teacher_BE: Tensor, variance_E: Tensor) -> Tensor:
    """Return (1/B) Σ_i Σ_e ½ ln σ²_e + (t_ie − μ_ie)² / 2 σ²_e; a scalar.

    It is −E ln q(t|s) up to a constant. The teacher gets no gradient.

    Raises:
        ValueError: if the shapes differ or there are fewer than two rows.
    """
    check_batch(mean_BE, teacher_BE)
    if mean_BE.shape != teacher_BE.shape:
        shapes = f"{list(mean_BE.shape)} and {list(teacher_BE.shape)}"
        raise ValueError(f"features have shapes {shapes}; both must have the same")
    error_BE = (teacher_BE.detach() - mean_BE).square()
    return (0.5 * variance_E.log() + error_BE / (2 * variance_E)).sum(dim=1).mean()


class VariationalInformationLoss(nn.Module):
    """The loss with μ linear in the student's features, and a variance for each of the teacher's.

    σ² = ln(1 + e^α) + ε with a trained α. Initially σ² is 5, as in the authors' code. μ is used
    only in training, and dropped afterwards.
    """

    def __init__(self, student_dim: int, teacher_dim: int) -> None:
        super().__init__()
        self.mean = nn.Linear(student_dim, teacher_dim)
        start = torch.full((teacher_dim,), 5.0 - SMALLEST_VARIANCE)
        self.alpha_E = nn.Parameter(start.expm1().log())

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return :func:`variational_information_loss`; a scalar."""
        variance_E = functional.softplus(self.alpha_E) + SMALLEST_VARIANCE
        return variational_information_loss(self.mean(student_BD), teacher_BE, variance_E)
