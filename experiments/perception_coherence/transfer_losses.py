"""Objectives that transfer a teacher's features to a student, which the paper's tables compare.

- perception-coherence: :mod:`hummingbit.training.objectives.perception_coherence`.
- FitNets: :func:`hint_loss`. Romero et al., "FitNets: Hints for Thin Deep Nets" (2015), equation 3.
- PKT: :func:`probabilistic_transfer_loss`. Passalis and Tefas, "Learning Deep Representations with
  Probabilistic Knowledge Transfer" (2018), equations 4 to 7.
- CRD: :func:`contrastive_representation_loss`. Tian, Krishnan and Isola, "Contrastive
  Representation Distillation" (2020), equations 17 to 19.
- RKD: :func:`relational_loss`. Park et al., "Relational Knowledge Distillation" (2019).
- MKT: :func:`similarity_matching_loss`. Yu et al., "Learning Metrics from Teachers: Compact
  Networks for Image Embedding" (2019).
- VID: :func:`variational_information_loss`. Ahn et al., "Variational Information Distillation for
  Knowledge Transfer" (2019), equations 4 to 6.

:data:`OBJECTIVES` has them by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hummingbit.training.objectives.dissimilarity import (
    Dissimilarity,
    check_batch,
    cosine_dissimilarity,
    euclidean_dissimilarity,
)
from hummingbit.training.objectives.perception_coherence import perception_coherence_embedding_loss


def hint_loss(student_BE: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B) Σ_i ½ ‖teacher_i − student_i‖²; a scalar. The teacher gets no gradient.

    Source: Romero et al., "FitNets: Hints for Thin Deep Nets" (2015), equation 3.

    Raises:
        ValueError: if the shapes differ or there are fewer than two rows.
    """
    check_batch(student_BE, teacher_BE)
    if student_BE.shape != teacher_BE.shape:
        shapes = f"{list(student_BE.shape)} and {list(teacher_BE.shape)}"
        raise ValueError(f"features have shapes {shapes}; both must have the same")
    return 0.5 * (teacher_BE.detach() - student_BE).square().sum(dim=1).mean()


class HintLoss(nn.Module):
    """The hint loss of a linear regression from student to teacher, trained with the student.

    The regressor is used only in training, and dropped afterwards.
    """

    def __init__(self, student_dim: int, teacher_dim: int) -> None:
        super().__init__()
        self.regressor = nn.Linear(student_dim, teacher_dim)

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return :func:`hint_loss` of the regressed student; a scalar."""
        return hint_loss(self.regressor(student_BD), teacher_BE)


def probabilistic_transfer_loss(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B) Σ_i Σ_{j≠i} p_j|i ln(p_j|i / q_j|i); a scalar.

    p_j|i = K(t_i, t_j) / Σ_{k≠i} K(t_i, t_k) with the kernel K(u, v) = ½ (1 + cos(u, v)), and q
    likewise of the student. The teacher gets no gradient. Source: Passalis and Tefas, "Learning
    Deep Representations with Probabilistic Knowledge Transfer" (2018), equations 4 to 7. The
    authors' code takes the mean over all B² pairs, including those of an example with itself.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows, or contain NaN or a
            zero vector.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        log_p_BB = _log_neighbours(teacher_BE)
    log_q_BB = _log_neighbours(student_BD)
    return (log_p_BB.exp() * (log_p_BB - log_q_BB)).sum() / len(student_BD)


def _log_neighbours(x_BD: Tensor) -> Tensor:
    """Return ln p_j|i, with a probability of 0 replaced by the smallest number.

    These are the diagonal and pairs of opposite vectors. So the divergence stays finite.
    """
    smallest = torch.finfo(x_BD.dtype).tiny
    kernel_BB = 1 - cosine_dissimilarity(x_BD, x_BD)
    kernel_BB = kernel_BB * (1 - torch.eye(len(x_BD), dtype=x_BD.dtype, device=x_BD.device))
    kernel_BB = kernel_BB.clamp(min=smallest)
    return (kernel_BB / kernel_BB.sum(dim=1, keepdim=True)).clamp(min=smallest).log()


TEMPERATURE = 0.07
PROJECTION_DIM = 128


def contrastive_representation_loss(
    student_BP: Tensor, teacher_BP: Tensor, n_examples: int, temperature: float = TEMPERATURE
) -> Tensor:
    """Return −(1/B) Σ_i [ln h(t_i, s_i) + Σ_{j≠i} ln(1 − h(t_i, s_j))]; a scalar.

    h(t, s) = e^{t·s/τ} / (e^{t·s/τ} + N/M) is the critic, for rows of length 1 in a common space. N
    is the number of negatives of each positive, and M = `n_examples` the size of the training set.
    Source: Tian, Krishnan and Isola, "Contrastive Representation Distillation" (2020), equations 17
    to 19. The negatives are the N = B − 1 others of the batch; the paper draws them from a memory
    of the whole training set.

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
    """CRD of linear projections of student and teacher, trained with the student."""

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

        The teacher's projection is trained too; the teacher itself gets no gradient.
        """
        student_BP = functional.normalize(self.student_projection(student_BD), dim=1)
        teacher_BP = functional.normalize(self.teacher_projection(teacher_BE.detach()), dim=1)
        return contrastive_representation_loss(
            student_BP, teacher_BP, self.n_examples, self.temperature
        )


DISTANCE_WEIGHT = 1.0
ANGLE_WEIGHT = 2.0


def relational_loss(
    student_BD: Tensor,
    teacher_BE: Tensor,
    distance_weight: float = DISTANCE_WEIGHT,
    angle_weight: float = ANGLE_WEIGHT,
) -> Tensor:
    """Return the weighted sum of the distance and the angle loss, RKD-DA; a scalar.

    l_δ in both is the Huber loss with δ = 1. The paper sums over pairs and triples. These are the
    means over all B² and B³, as in the authors' code, so the loss does not grow with the batch.
    Terms with equal indices are 0.

    Raises:
        ValueError: as :func:`relational_distance_loss`.
    """
    distance = relational_distance_loss(student_BD, teacher_BE)
    return distance_weight * distance + angle_weight * relational_angle_loss(student_BD, teacher_BE)


def relational_distance_loss(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B²) Σ_ij l_δ(ψ(t_i, t_j), ψ(s_i, s_j)) with ψ(u, v) = ‖u − v‖ / μ; a scalar.

    μ is the mean of the distances above 0 in the batch. The teacher gets no gradient.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows or contain NaN.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        target_BB = _relative_distances(teacher_BE)
    return functional.smooth_l1_loss(_relative_distances(student_BD), target_BB)


def relational_angle_loss(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B³) Σ_ijk l_δ(cos ∠ t_i t_j t_k, cos ∠ s_i s_j s_k); a scalar.

    The angle is at j; its cosine is 0 if two of the points coincide. The teacher gets no gradient.
    Needs memory for B²D + B³ elements.

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


def similarity_matching_loss(
    student_BD: Tensor,
    teacher_BE: Tensor,
    student_dissimilarity: Dissimilarity = euclidean_dissimilarity,
    teacher_dissimilarity: Dissimilarity = euclidean_dissimilarity,
) -> Tensor:
    """Return (1/B) ‖D^S − D^T‖_F, the root mean square difference of dissimilarities; a scalar.

    D_ij = d(x_i, x_j), by default Euclidean. The teacher gets no gradient. Source: Yu et al.,
    "Learning Metrics from Teachers: Compact Networks for Image Embedding" (2019), the relative
    teacher, without 1/B. Papers on probabilistic transfer call it MKT.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows, or contain NaN or,
            under cosine, a zero vector.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        teacher_BB = teacher_dissimilarity(teacher_BE, teacher_BE)
    difference_BB = student_dissimilarity(student_BD, student_BD) - teacher_BB
    norm: Tensor = torch.linalg.matrix_norm(difference_BB)
    return norm / len(student_BD)


SMALLEST_VARIANCE = 1e-5
"""ε, which bounds the density of a constant feature."""


def variational_information_loss(mean_BE: Tensor, teacher_BE: Tensor, variance_E: Tensor) -> Tensor:
    """Return (1/B) Σ_i Σ_e ½ ln σ²_e + (t_ie − μ_ie)² / 2 σ²_e; a scalar.

    The student predicts the teacher's features, with a variance for each of them. The loss is
    −E ln q(t|s) up to a constant; maximizing E ln q(t|s) raises a lower bound of the mutual
    information of the student's and the teacher's features. The teacher gets no gradient.

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


# The registry


class _OfFeatures(nn.Module):
    """A loss of features without parameters, as a module."""

    def __init__(self, loss: Callable[..., Tensor], settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.loss = partial(loss, **settings)

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return the loss; a scalar."""
        return self.loss(student_BD, teacher_BE)


def _without_parameters(loss: Callable[..., Tensor]) -> Callable[..., nn.Module]:
    return lambda _student, _teacher, _examples, **settings: _OfFeatures(loss, settings)


OBJECTIVES: Mapping[str, Callable[..., nn.Module]] = {
    "perception-coherence": _without_parameters(perception_coherence_embedding_loss),
    "pkt": _without_parameters(probabilistic_transfer_loss),
    "rkd": _without_parameters(relational_loss),
    "mkt": _without_parameters(similarity_matching_loss),
    "fitnet": lambda student, teacher, _examples: HintLoss(student, teacher),
    "crd": ContrastiveRepresentationLoss,
    "vid": lambda student, teacher, _examples: VariationalInformationLoss(student, teacher),
}
"""By name, what returns a module from features of the student ``[B, D]`` and the teacher ``[B, E]``
to a scalar. Its arguments are D, E, the size of the training set, and the settings of the loss."""


def transfer_objective(
    name: str, student_dim: int, teacher_dim: int, n_examples: int, **settings: Any
) -> nn.Module:
    """Return the objective `name` as a module from (student ``[B, D]``, teacher ``[B, E]``).

    Parameters of its own, such as a projection, must be trained with the student and dropped
    afterwards. `n_examples` is the size of the training set, which ``crd`` needs. `settings` are
    keyword arguments of the loss, such as ``student_temperature``.

    Raises:
        ValueError: if `name` is not one of :data:`OBJECTIVES`.
    """
    if name not in OBJECTIVES:
        raise ValueError(f"objective is {name!r}; it must be one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name](student_dim, teacher_dim, n_examples, **settings)
