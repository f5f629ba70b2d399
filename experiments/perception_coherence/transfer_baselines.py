"""Transfer that only the paper's tables compare: heterogeneous distillation, and soft labels.

- HKD. Source: Passalis, Tzelepi and Tefas, "Heterogeneous Knowledge Distillation using Information
  Flow Modeling" (2020), and the authors' code (https://github.com/passalis/pkth). It has three
  parts: an auxiliary teacher of the student's architecture, which has first learned from the
  teacher's last layer by :func:`hybrid_divergence`; the same divergence between each layer of the
  student and the same layer of the auxiliary teacher; and :func:`critical_period_weights`, by which
  layers before the last count much in the first epochs, when a network's connections form, and soon
  hardly at all.
- FitNet-H, MKT-H and PKT-H are sums of an objective over pairs of layers, all of the same weight:
  :class:`LayerwiseLoss`.
- Soft labels: :func:`soft_label_loss`.

Objectives of the last layer alone are in :mod:`experiments.perception_coherence.transfer_losses`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from hummingbit.training.objectives.dissimilarity import (
    check_batch,
    cosine_dissimilarity,
    euclidean_dissimilarity,
)

INITIAL_WEIGHT = 100.0
DECAY = 0.7


def hybrid_divergence(student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
    """Return (1/B) Σ_K Σ_i Σ_{j≠i} (p_j|i − q_j|i) (ln p_j|i − ln q_j|i); a scalar.

    p_j|i = K(t_i, t_j) / Σ_{k≠i} K(t_i, t_k), and q likewise of the student, for two kernels K: the
    cosine's ½ (1 + cos(u, v)) and Student's 1 / (1 + ‖u − v‖). It is Jeffreys' divergence, which is
    symmetric, and 0 if all p and q are the same. The teacher gets no gradient. The authors' code
    takes the mean over all B² pairs, including those of an example with itself.

    Raises:
        ValueError: if the batches differ in length, have fewer than two rows, or contain NaN or a
            zero vector.
    """
    check_batch(student_BD, teacher_BE)
    total = student_BD.new_zeros(())
    for kernel in (_cosine_kernel, _student_kernel):
        with torch.no_grad():
            log_p_BB = _log_kernel_neighbours(kernel(teacher_BE))
        log_q_BB = _log_kernel_neighbours(kernel(student_BD))
        terms_BB = (log_p_BB.exp() - log_q_BB.exp()) * (log_p_BB - log_q_BB)
        total = total + terms_BB.sum() / len(student_BD)
    return total


def _cosine_kernel(x_BD: Tensor) -> Tensor:
    return 1 - cosine_dissimilarity(x_BD, x_BD)


def _student_kernel(x_BD: Tensor) -> Tensor:
    return 1 / (1 + euclidean_dissimilarity(x_BD, x_BD))


def _log_kernel_neighbours(kernel_BB: Tensor) -> Tensor:
    """Return ln p_j|i. The diagonal is 0, so that it adds nothing to a difference."""
    itself_BB = torch.eye(len(kernel_BB), dtype=torch.bool, device=kernel_BB.device)
    # Opposite vectors have a cosine kernel of 0; the smallest number keeps the logarithm finite.
    log_BB = kernel_BB.clamp(min=torch.finfo(kernel_BB.dtype).tiny).log()
    log_BB = log_BB.masked_fill(itself_BB, -torch.inf)
    return log_BB.log_softmax(dim=1).masked_fill(itself_BB, 0.0)


def critical_period_weights(
    n_layers: int, epoch: int, *, initial: float = INITIAL_WEIGHT, decay: float = DECAY
) -> tuple[float, ...]:
    """Return the weights of the layers in an epoch, counted from 0: α γᵏ, and 1 for the last.

    α is `initial` and γ is `decay`; the defaults are the authors'.

    Raises:
        ValueError: if `n_layers` is below 1 or `epoch` below 0.
    """
    if n_layers < 1:
        raise ValueError(f"n_layers is {n_layers}; it must be at least 1")
    if epoch < 0:
        raise ValueError(f"epoch is {epoch}; it must be at least 0")
    return (*(initial * decay**epoch for _ in range(n_layers - 1)), 1.0)


class HybridDivergence(nn.Module):
    """:func:`hybrid_divergence` as a module, without parameters."""

    def forward(self, student_BD: Tensor, teacher_BE: Tensor) -> Tensor:
        """Return the divergence; a scalar."""
        return hybrid_divergence(student_BD, teacher_BE)


class LayerwiseLoss(nn.Module):
    """The weighted sum of objectives, one for each pair of layers of student and teacher.

    `objectives` are modules from (student ``[B, D]``, teacher ``[B, E]``) to a scalar, in the order
    of the layers. Their parameters are trained with the student.
    """

    def __init__(self, objectives: Sequence[nn.Module]) -> None:
        super().__init__()
        self.objectives = nn.ModuleList(objectives)

    def forward(
        self,
        student_layers: Sequence[Tensor],
        teacher_layers: Sequence[Tensor],
        weights: Sequence[float],
    ) -> Tensor:
        """Return Σ_l w_l L_l(student_l, teacher_l); a scalar.

        Raises:
            ValueError: if there is not one student layer, teacher layer and weight for each
                objective.
        """
        counts = (len(self.objectives), len(student_layers), len(teacher_layers), len(weights))
        if len(set(counts)) > 1:
            raise ValueError(
                f"there are {counts[0]} objectives, {counts[1]} student layers, {counts[2]} teacher"
                f" layers and {counts[3]} weights; there must be as many of each"
            )
        terms = [
            weight * objective(student, teacher)
            for objective, student, teacher, weight in zip(
                self.objectives, student_layers, teacher_layers, weights, strict=True
            )
        ]
        total: Tensor = torch.stack(terms).sum()
        return total


def soft_label_loss(student_BC: Tensor, teacher_BC: Tensor, temperature: float = 2.0) -> Tensor:
    """Return T² · (1/B) Σ_i KL(softmax(teacher_i / T) ‖ softmax(student_i / T)); a scalar.

    Both are logits of the same C classes. T² makes the size of the gradient independent of T. The
    teacher gets no gradient. Source: Hinton, Vinyals and Dean, "Distilling the Knowledge in a
    Neural Network" (2015).

    Raises:
        ValueError: if the shapes differ, there are fewer than two rows, or `temperature` is not
            above 0.
    """
    check_batch(student_BC, teacher_BC)
    if student_BC.shape != teacher_BC.shape:
        shapes = f"{list(student_BC.shape)} and {list(teacher_BC.shape)}"
        raise ValueError(f"logits have shapes {shapes}; both must be of the same classes")
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    student = functional.log_softmax(student_BC / temperature, dim=1)
    teacher = functional.log_softmax(teacher_BC.detach() / temperature, dim=1)
    divergence = functional.kl_div(student, teacher, reduction="batchmean", log_target=True)
    return temperature**2 * divergence
