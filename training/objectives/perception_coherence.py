"""Perception coherence: a student that ranks what is near and far as its teacher does.

Source: Nguyen, Gamboa, Zhang, Chhaibi, Gratton and Giaccone, "Feature Representation Transferring
to Lightweight Models via Perception Coherence" (2026). The student need not keep the teacher's
geometry, for which it may be too small, but only the order of dissimilarities from every example.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from training.objectives.dissimilarity import (
    Dissimilarity,
    check_batch,
    check_finite,
    cosine_dissimilarity,
)

TEACHER_TEMPERATURE = 0.1
STUDENT_TEMPERATURE = 0.3

# So much stays in a core's cache; more at once takes twice as long. An accelerator wants more.
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
        ValueError: as that and the dissimilarities do: a batch of 1, batches of different sizes,
            NaN, a zero vector under cosine.
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

    As τ → 0 it becomes the number of k nearer to i than j is, plus ½ for each as near, j among
    them. Rows are taken `chunk` at a time, so that chunk · N² elements are held at once and not
    Q · N²; the backward pass computes them afresh. The gradient is exact.

    Raises:
        ValueError: if `d_QN` holds NaN or infinity, `temperature` is not above 0 or `chunk` is
            below 1.
    """
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    check_finite(d_QN, "row")
    held = _ELEMENTS_IN_CACHE if d_QN.device.type == "cpu" else _ELEMENTS_ON_ACCELERATOR
    rows = chunk or max(1, held // d_QN.shape[1] ** 2)
    ranks: Tensor = _SoftRanks.apply(d_QN, temperature, rows)  # type: ignore[no-untyped-call]
    return ranks


class _SoftRanks(torch.autograd.Function):
    """The soft ranks of rows, some rows at a time."""

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
