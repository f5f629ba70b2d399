"""Perception coherence, Equations (1) to (4): a student that ranks as its teacher does.

Source: Nguyen, Gamboa, Zhang, Chhaibi, Gratton and Giaccone, "Feature Representation Transferring
to Lightweight Models via Perception Coherence" (2026). A student may be too small to reproduce the
teacher's geometry. It need only preserve the order of the dissimilarities from every example.

- Equation (1) is F(x, y) = P(d(x, X) ≤ d(x, y)), the distribution of the dissimilarities from x.
- Equation (2) is the coherence level φ(x) = 1 − E_Y |F₁(x, Y) − F₂(x, Y)|
  (:func:`coherence_levels`). The global level is E_X φ(X). Two independent uniform rankings have a
  level of 2/3; the level is 1 if both rankings are the same.
- Equation (3) is a soft rank (:func:`soft_ranks`).
- Equation (4) is the loss (:func:`perception_coherence_loss`).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from hummingbit.training.objectives.dissimilarity import (
    Dissimilarity,
    check_batch,
    check_finite,
    cosine_dissimilarity,
)

TEACHER_TEMPERATURE = 0.1
STUDENT_TEMPERATURE = 0.3

# This many elements fit into a core's cache; more take twice as long. A GPU needs larger blocks.
_ELEMENTS_IN_CACHE = 1 << 16
_ELEMENTS_ON_ACCELERATOR = 1 << 24


def perception_coherence_loss(
    student_BB: Tensor,
    teacher_BB: Tensor,
    *,
    student_temperature: float = STUDENT_TEMPERATURE,
    teacher_temperature: float = TEACHER_TEMPERATURE,
    chunk: int | None = None,
) -> Tensor:
    """Return (1/B³) Σ_i ‖R̃¹_i − R̃²_i‖² of two matrices of dissimilarities; a scalar.

    R̃_i holds the soft ranks (:func:`soft_ranks`) of the i-th row. `student_BB` and `teacher_BB`
    are the dissimilarities between the same B examples, row by row; no gradient flows into the
    teacher's. Each element of R̃ is at most B, so the loss lies between 0 and B.

    Raises:
        ValueError: unless both are ``[B, B]`` with the same B ≥ 2 and finite, both
            temperatures are above 0 and `chunk` is at least 1.
    """
    check_batch(student_BB, teacher_BB)
    n = len(student_BB)
    for whose, d_BB in (("student", student_BB), ("teacher", teacher_BB)):
        if d_BB.shape != (n, n):
            raise ValueError(
                f"the {whose}'s dissimilarities are {list(d_BB.shape)}, not [{n}, {n}]"
            )
    student_ranks_BB = soft_ranks(student_BB, student_temperature, chunk=chunk)
    with torch.no_grad():
        teacher_ranks_BB = soft_ranks(teacher_BB, teacher_temperature, chunk=chunk)
    return (teacher_ranks_BB.to(student_ranks_BB.dtype) - student_ranks_BB).square().sum() / n**3


def perception_coherence_embedding_loss(
    student_BD: Tensor,
    teacher_BE: Tensor,
    *,
    student_dissimilarity: Dissimilarity = cosine_dissimilarity,
    teacher_dissimilarity: Dissimilarity = cosine_dissimilarity,
    student_temperature: float = STUDENT_TEMPERATURE,
    teacher_temperature: float = TEACHER_TEMPERATURE,
    chunk: int | None = None,
) -> Tensor:
    """Return :func:`perception_coherence_loss` of the embeddings of the same B examples.

    Raises:
        ValueError: as :func:`perception_coherence_loss` and the dissimilarities: for a batch of 1,
            batches of different sizes, NaN, or a zero vector under cosine.
    """
    check_batch(student_BD, teacher_BE)
    with torch.no_grad():
        teacher_BB = teacher_dissimilarity(teacher_BE, teacher_BE)
    return perception_coherence_loss(
        student_dissimilarity(student_BD, student_BD),
        teacher_BB,
        student_temperature=student_temperature,
        teacher_temperature=teacher_temperature,
        chunk=chunk,
    )


def soft_ranks(d_QN: Tensor, temperature: float, *, chunk: int | None = None) -> Tensor:
    """Return r̃(d_ij) = Σ_k Λ((d_ij − d_ik) / τ) with Λ the sigmoid, ``[Q, N]``.

    As τ → 0 it becomes the number of k that are nearer to i than j is, plus ½ for each that is as
    near, including j. Rows are processed `chunk` at a time, so chunk · N² elements are in memory
    and not Q · N². The backward pass computes them again. The gradient is exact.

    Raises:
        ValueError: if `d_QN` contains NaN or infinity, `temperature` is not above 0 or `chunk` is
            below 1.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    check_finite(d_QN, "row")
    elements = _ELEMENTS_IN_CACHE if d_QN.device.type == "cpu" else _ELEMENTS_ON_ACCELERATOR
    rows = chunk or max(1, elements // d_QN.shape[1] ** 2)
    ranks: Tensor = _SoftRanks.apply(d_QN, temperature, rows)  # type: ignore[no-untyped-call]
    return ranks


class _SoftRanks(torch.autograd.Function):
    """The soft ranks of rows, computed in blocks of rows."""

    @staticmethod
    def forward(ctx: FunctionCtx, d_QN: Tensor, temperature: float, rows: int) -> Tensor:
        ctx.save_for_backward(d_QN)
        ctx.temperature, ctx.rows = temperature, rows  # type: ignore[attr-defined]
        parts = [_nearer(d_CN, temperature).sum(dim=2) for d_CN in torch.split(d_QN, rows)]
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_QN: Tensor) -> tuple[Tensor, None, None]:
        # ∂L/∂d_ij = (1/τ) Σ_k Λ′((d_ij − d_ik)/τ) (g_ij − g_ik), because Λ′ is even.
        (d_QN,) = ctx.saved_tensors  # type: ignore[attr-defined]
        temperature, rows = ctx.temperature, ctx.rows  # type: ignore[attr-defined]
        parts = []
        for d_CN, g_CN in zip(torch.split(d_QN, rows), torch.split(grad_QN, rows), strict=True):
            nearer_CNN = _nearer(d_CN, temperature)
            slope_CNN = torch.addcmul(nearer_CNN, nearer_CNN, nearer_CNN, value=-1)
            sums_CN2 = slope_CNN @ torch.stack([torch.ones_like(g_CN), g_CN], dim=2)
            parts.append((g_CN * sums_CN2[:, :, 0] - sums_CN2[:, :, 1]) / temperature)
        return torch.cat(parts), None, None


def _nearer(d_CN: Tensor, temperature: float) -> Tensor:
    scaled_CN = d_CN / temperature
    return (scaled_CN[:, :, None] - scaled_CN[:, None, :]).sigmoid_()


Ties = Literal["upper", "middle"]
"""`upper` counts all ties, as F is defined. `middle` counts half of them, which is the limit of
soft ranks and suits dissimilarities of few values, such as Hamming distances."""


@torch.no_grad()
def coherence_levels(student_QN: Tensor, teacher_QN: Tensor, *, ties: Ties = "upper") -> Tensor:
    """Return φ of each row with exact ranks: 1 − (1/N) Σ_j |F̂₁(i, j) − F̂₂(i, j)|, float64[Q].

    `student_QN` and `teacher_QN` are dissimilarities from the same Q examples to the same N, and
    F̂(i, j) = (1/N) #{k : d_ik ≤ d_ij}.

    Raises:
        ValueError: if the shapes differ, N < 2, or an entry is NaN.
    """
    return 1 - rank_differences(student_QN, teacher_QN, ties=ties).mean(dim=1)


@torch.no_grad()
def rank_differences(student_QN: Tensor, teacher_QN: Tensor, *, ties: Ties = "upper") -> Tensor:
    """Return |F̂₁(i, j) − F̂₂(i, j)|, float64[Q, N]: one minus its mean is the level of a row.

    Raises:
        ValueError: as :func:`coherence_levels`.
    """
    if student_QN.shape != teacher_QN.shape or student_QN.ndim != 2 or student_QN.shape[1] < 2:
        shapes = f"{list(student_QN.shape)} and {list(teacher_QN.shape)}"
        raise ValueError(f"dissimilarities have shapes {shapes}; both must be [Q, N], N ≥ 2")
    if student_QN.isnan().any() or teacher_QN.isnan().any():
        raise ValueError("dissimilarities contain NaN; all must be numbers")
    return (_distribution(student_QN, ties) - _distribution(teacher_QN, ties)).abs()


def _distribution(d_QN: Tensor, ties: Ties) -> Tensor:
    sorted_QN = d_QN.sort(dim=1).values
    values_QN = d_QN.contiguous()
    counts_QN = torch.searchsorted(sorted_QN, values_QN, right=True).to(torch.float64)
    if ties == "middle":
        counts_QN = (counts_QN + torch.searchsorted(sorted_QN, values_QN)) / 2
    return counts_QN / d_QN.shape[1]
