"""The global level of perception coherence, and its estimates from mini-batches."""

from __future__ import annotations

import torch
from torch import Tensor

from hummingbit.training.objectives.dissimilarity import (
    Dissimilarity,
    check_batch,
    cosine_dissimilarity,
)
from hummingbit.training.objectives.perception_coherence import Ties, coherence_levels

_ELEMENTS_AT_ONCE = 1 << 23


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

    Rows are processed in blocks, so memory grows with N and not with N².

    Raises:
        ValueError: if there are fewer than two examples, the numbers of vectors of student and
            teacher differ, a vector contains NaN, or one is zero under cosine.
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
    with_itself: bool = False,
) -> list[float]:
    """Return mini-batch estimates of the global level, one for each disjoint random batch.

    The N examples are shuffled into ⌊N / B⌋ batches. An estimate is the mean of the levels of a
    batch's examples, each against the B − 1 others. An example is left out of its own distribution:
    both student and teacher place it nearest to itself, which would raise the level of a small
    batch by 2 (1 − φ) / B. `with_itself` includes it, as Definition 4.1 does. The error is O(1/√B).

    Raises:
        ValueError: as :func:`global_perception_coherence`, or if `batch_size` is not from 3 to N.
    """
    check_batch(student_ND, teacher_NE)
    n = len(student_ND)
    if not 3 <= batch_size <= n:
        raise ValueError(f"batch_size is {batch_size}; it must be from 3 to {n}, all examples")
    others_BB = ~torch.eye(batch_size, dtype=torch.bool, device=student_ND.device)
    order = torch.randperm(n, generator=generator)[: n - n % batch_size].to(student_ND.device)
    estimates = []
    for batch in torch.split(order, batch_size):
        student, teacher = student_ND[batch], teacher_NE[batch]
        student_BB = student_dissimilarity(student, student)
        teacher_BB = teacher_dissimilarity(teacher, teacher)
        if not with_itself:
            shape = (batch_size, batch_size - 1)
            student_BB, teacher_BB = (
                d_BB[others_BB].view(shape) for d_BB in (student_BB, teacher_BB)
            )
        levels = coherence_levels(student_BB, teacher_BB, ties=ties)
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

    The Q examples should not be among the N, since Y is independent of x in φ. The error of each
    estimate is O(1/√B).

    Raises:
        ValueError: as :func:`coherence_levels`, or if `batch_size` is not from 2 to N.
    """
    n = student_QN.shape[-1]
    if not 2 <= batch_size <= n:
        raise ValueError(f"batch_size is {batch_size}; it must be from 2 to {n}, all examples")
    batch = torch.randperm(n, generator=generator)[:batch_size].to(student_QN.device)
    return coherence_levels(student_QN[:, batch], teacher_QN[:, batch], ties=ties)
