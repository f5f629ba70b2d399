"""How coherent a student's perception is with its teacher's, from 0 to 1.

φ(x) = 1 − E_Y |F₁(x, Y) − F₂(x, Y)| with F(x, y) = P(d(x, X) ≤ d(x, y)), the distribution of the
dissimilarities from x; the global level is E_X φ(X). Two independent uniform rankings have a level
of 2/3, and 1 is reached where both order everything alike. Source: Nguyen et al., "Feature
Representation Transferring to Lightweight Models via Perception Coherence" (2026).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from training.objectives.dissimilarity import Dissimilarity, check_batch, cosine_dissimilarity

Ties = Literal["upper", "middle"]
"""`upper` counts all that are as near, as F is defined. `middle` counts half of them, the limit of
soft ranks: fair to dissimilarities of few values, such as Hamming distances."""

_ELEMENTS_AT_ONCE = 1 << 23


@torch.no_grad()
def coherence_levels(student_QN: Tensor, teacher_QN: Tensor, *, ties: Ties = "upper") -> Tensor:
    """Return φ of each row with exact ranks: 1 − (1/N) Σ_j |F̂₁(i, j) − F̂₂(i, j)|, float64[Q].

    `student_QN` and `teacher_QN` are dissimilarities from the same Q examples to the same N, and
    F̂(i, j) = (1/N) #{k : d_ik ≤ d_ij}.

    Raises:
        ValueError: if the shapes differ, N < 2, or an entry is NaN.
    """
    if student_QN.shape != teacher_QN.shape or student_QN.ndim != 2 or student_QN.shape[1] < 2:
        shapes = f"{list(student_QN.shape)} and {list(teacher_QN.shape)}"
        raise ValueError(f"dissimilarities have shapes {shapes}; both must be [Q, N], N ≥ 2")
    if student_QN.isnan().any() or teacher_QN.isnan().any():
        raise ValueError("dissimilarities hold NaN")
    difference_QN = _distribution(student_QN, ties) - _distribution(teacher_QN, ties)
    return 1 - difference_QN.abs().mean(dim=1)


def _distribution(d_QN: Tensor, ties: Ties) -> Tensor:
    sorted_QN = d_QN.sort(dim=1).values
    values_QN = d_QN.contiguous()
    counts_QN = torch.searchsorted(sorted_QN, values_QN, right=True).to(torch.float64)
    if ties == "middle":
        counts_QN = (counts_QN + torch.searchsorted(sorted_QN, values_QN)) / 2
    return counts_QN / d_QN.shape[1]


@torch.no_grad()
def global_perception_coherence(
    student_ND: Tensor,
    teacher_NE: Tensor,
    *,
    student_dissimilarity: Dissimilarity = cosine_dissimilarity,
    teacher_dissimilarity: Dissimilarity = cosine_dissimilarity,
    ties: Ties = "upper",
) -> float:
    """Return the mean of :func:`coherence_levels` over all N examples, each against all N.

    Rows are taken in blocks, so that memory grows with N and not with N².

    Raises:
        ValueError: if there are fewer than two examples or not as many of the teacher's vectors,
            a vector holds NaN, or one is zero under cosine.
    """
    check_batch(student_ND, teacher_NE)
    n, total = len(student_ND), 0.0
    rows = max(1, _ELEMENTS_AT_ONCE // n)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        student_QN = student_dissimilarity(student_ND[block], student_ND)
        teacher_QN = teacher_dissimilarity(teacher_NE[block], teacher_NE)
        total += float(coherence_levels(student_QN, teacher_QN, ties=ties).sum())
    return total / n


@torch.no_grad()
def estimate_perception_coherence(
    student_ND: Tensor,
    teacher_NE: Tensor,
    batch_size: int,
    generator: torch.Generator,
    *,
    student_dissimilarity: Dissimilarity = cosine_dissimilarity,
    teacher_dissimilarity: Dissimilarity = cosine_dissimilarity,
    ties: Ties = "upper",
) -> list[float]:
    """Return mini-batch estimates of the global level, one for each disjoint random batch.

    The N examples are shuffled into ⌊N / B⌋ batches; an estimate is the mean of the levels of a
    batch's examples, each against the B − 1 others. An example is left out of its own distribution:
    it is nearest to itself for student and teacher alike, which would raise the level of a small
    batch by 2 (1 − φ) / B. The error is O(1/√B).

    Raises:
        ValueError: as :func:`global_perception_coherence`, or if `batch_size` is not from 3 to N.
    """
    check_batch(student_ND, teacher_NE)
    n = len(student_ND)
    if not 3 <= batch_size <= n:
        raise ValueError(f"batch_size is {batch_size}; it must be from 3 to the {n} examples")
    others_BB = ~torch.eye(batch_size, dtype=torch.bool, device=student_ND.device)
    order = torch.randperm(n, generator=generator)[: n - n % batch_size].to(student_ND.device)
    estimates = []
    for batch in torch.split(order, batch_size):
        student, teacher = student_ND[batch], teacher_NE[batch]
        student_BB = student_dissimilarity(student, student)[others_BB]
        teacher_BB = teacher_dissimilarity(teacher, teacher)[others_BB]
        shape = (batch_size, batch_size - 1)
        levels = coherence_levels(student_BB.view(shape), teacher_BB.view(shape), ties=ties)
        estimates.append(float(levels.mean()))
    return estimates


@torch.no_grad()
def estimate_coherence_levels(
    student_QN: Tensor,
    teacher_QN: Tensor,
    batch_size: int,
    generator: torch.Generator,
    *,
    ties: Ties = "upper",
) -> Tensor:
    """Return the mini-batch estimate of φ of each row, from B random columns; float64[Q].

    The Q examples should not be among the N, as φ's Y is independent of x. The error of each
    estimate is O(1/√B).

    Raises:
        ValueError: as :func:`coherence_levels`, or if `batch_size` is not from 2 to N.
    """
    n = student_QN.shape[-1]
    if not 2 <= batch_size <= n:
        raise ValueError(f"batch_size is {batch_size}; it must be from 2 to the {n} examples")
    batch = torch.randperm(n, generator=generator)[:batch_size].to(student_QN.device)
    return coherence_levels(student_QN[:, batch], teacher_QN[:, batch], ties=ties)
