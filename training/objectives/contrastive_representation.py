"""Contrastive representation distillation: telling an example's own teacher vector from others."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.objectives.dissimilarity import check_batch

TEMPERATURE = 0.07
PROJECTION_DIM = 128


def contrastive_representation_loss(
    student_BP: Tensor, teacher_BP: Tensor, n_examples: int, temperature: float = TEMPERATURE
) -> Tensor:
    """Return −(1/B) Σ_i [ln h(t_i, s_i) + Σ_{j≠i} ln(1 − h(t_i, s_j))]; a scalar.

    h(t, s) = e^{t·s/τ} / (e^{t·s/τ} + N/M) is the critic, for rows of length 1 in a common space, N
    the negatives of each positive and M = `n_examples` the size of the training set. Source: Tian,
    Krishnan and Isola, "Contrastive Representation Distillation" (2020), equations 17 to 19. The
    negatives are the N = B − 1 others of the batch, where the paper keeps a memory of the whole
    training set; so each term needs no more than the batch.

    Raises:
        ValueError: if the shapes differ, there are fewer than two rows, or `n_examples` is below 1.
    """
    check_batch(student_BP, teacher_BP)
    if student_BP.shape != teacher_BP.shape:
        shapes = f"{list(student_BP.shape)} and {list(teacher_BP.shape)}"
        raise ValueError(f"projections have shapes {shapes}; both must be in a common space")
    if n_examples < 1:
        raise ValueError(f"n_examples is {n_examples}; it must be at least 1")
    n = len(student_BP)
    # ln h and ln(1 − h) are log-sigmoids of ±(t·s/τ − ln(N/M)).
    critic_BB = teacher_BP @ student_BP.T / temperature - math.log((n - 1) / n_examples)
    own_BB = torch.eye(n, dtype=torch.bool, device=critic_BB.device)
    terms_BB = functional.logsigmoid(torch.where(own_BB, critic_BB, -critic_BB))
    return -terms_BB.sum() / n


class ContrastiveRepresentationLoss(nn.Module):
    """CRD behind linear projections of student and teacher, trained with the student."""

    def __init__(
        self,
        student_dim: int,
        teacher_dim: int,
        n_examples: int,
        *,
        projection_dim: int = PROJECTION_DIM,
        temperature: float = TEMPERATURE,
    ) -> None:
        super().__init__()
        self.student_projection = nn.Linear(student_dim, projection_dim)
        self.teacher_projection = nn.Linear(teacher_dim, projection_dim)
        self.n_examples = n_examples
        self.temperature = temperature

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return :func:`contrastive_representation_loss` of the projections; a scalar.

        The teacher's projection is trained too; no gradient flows into the teacher itself.
        """
        student_BP = functional.normalize(self.student_projection(student_BD), dim=1)
        teacher_BP = functional.normalize(self.teacher_projection(teacher_BE.detach()), dim=1)
        return contrastive_representation_loss(
            student_BP, teacher_BP, self.n_examples, self.temperature
        )
