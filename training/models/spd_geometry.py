"""Distances between symmetric positive definite matrices, and functions of their eigenvalues.

Shapes: ``[..., n, n]`` throughout; leading axes broadcast. pyRiemann computes the affine-invariant
distance, whose gradient needs only eigenvalues and is finite everywhere. The gradient of a matrix
function also needs eigenvectors. Automatic differentiation divides by the gaps of the eigenvalues,
so its gradient is infinite where two are equal, as in every multiple of the identity. Therefore
:func:`spectral_map` defines its own gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from training.objectives.riemannian_potato import Geometry

Scalar = Callable[[Tensor], Tensor]
"""A function of each eigenvalue."""

# Eigenvalues that are nearer than this, relative to the greater, count as equal. Their difference
# quotient would lose more digits to cancellation than the derivative at their middle to curvature.
_CLOSE = 1e-5

# The gradient of a distance below this is 0.
_COINCIDENT = 1e-12


def spectral_map(x: Tensor, function: Scalar, derivative: Scalar) -> Tensor:
    """Return V f(Λ) Vᵀ for symmetric x = V Λ Vᵀ, differentiable also at repeated eigenvalues.

    With g the gradient of the result, that of x is V (K ∘ Vᵀ g V) Vᵀ, where K_ij =
    (f(λ_i) − f(λ_j)) / (λ_i − λ_j), or f′ at their middle if λ_i and λ_j are close. Source:
    Daleckii and Krein (1965); for layers of networks, Ionescu, Vantzos and Sminchisescu, "Matrix
    Backpropagation for Deep Networks with Structured Layers" (2015).
    """
    mapped: Tensor = _SpectralMap.apply(x, function, derivative)  # type: ignore[no-untyped-call]
    return mapped


class _SpectralMap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, function: Scalar, derivative: Scalar) -> Tensor:
        eigenvalues, vectors = torch.linalg.eigh(x)
        images = function(eigenvalues)
        ctx.save_for_backward(eigenvalues, images, vectors)
        ctx.derivative = derivative  # type: ignore[attr-defined]
        mapped: Tensor = (vectors * images.unsqueeze(-2)) @ vectors.mT
        return mapped

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        eigenvalues, images, vectors = ctx.saved_tensors  # type: ignore[attr-defined]
        rows, columns = eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2)
        gap = rows - columns
        close = gap.abs() <= _CLOSE * torch.maximum(rows.abs(), columns.abs())
        rise = images.unsqueeze(-1) - images.unsqueeze(-2)
        middle = ctx.derivative((rows + columns) / 2)  # type: ignore[attr-defined]
        quotient = torch.where(close, middle, rise / torch.where(close, 1.0, gap))
        symmetric = (gradient + gradient.mT) / 2
        return vectors @ (quotient * (vectors.mT @ symmetric @ vectors)) @ vectors.mT, None, None


def matrix_logarithm(x: Tensor, floor: float = 0.0) -> Tensor:
    """Return log x, symmetric; eigenvalues below `floor` count as `floor` and have no gradient.

    It is not finite if an eigenvalue is 0 or less and `floor` is 0.
    """
    return spectral_map(
        x,
        lambda eigenvalues: eigenvalues.clamp(min=floor).log(),
        lambda eigenvalues: (eigenvalues > floor) / eigenvalues.clamp(min=floor),
    )


def rectify_eigenvalues(x: Tensor, floor: float) -> Tensor:
    """Return x with every eigenvalue below `floor` raised to it (ReEig).

    Source: Huang and Van Gool, "A Riemannian Network for SPD Matrix Learning" (2017), section 3.
    """
    return spectral_map(
        x,
        lambda eigenvalues: eigenvalues.clamp(min=floor),
        lambda eigenvalues: (eigenvalues > floor).to(eigenvalues.dtype),
    )


def affine_invariant_distance(a: Tensor, b: Tensor) -> Tensor:
    """Return δ_R(a, b) = ‖log(b^−½ a b^−½)‖_F = (Σ log² λ_i)^½, of shape ``[...]``.

    λ_i are the eigenvalues of b⁻¹ a. δ_R is invariant under x → Wᵀ x W with an invertible W. The
    gradient is 0 where a and b coincide.
    """
    shape = np.broadcast_shapes(a.shape, b.shape)
    squared: Tensor = distance_riemann(a.expand(shape), b.expand(shape), squared=True)
    return squared.clamp(min=_COINCIDENT**2).sqrt()


def half_vectors(x: Tensor) -> Tensor:
    """Return the upper triangle of symmetric matrices, row by row, ``[..., n (n + 1) / 2]``.

    Off-diagonal entries are multiplied by √2, so that Euclidean lengths are Frobenius norms.
    """
    n = x.shape[-1]
    row, column = torch.triu_indices(n, n)
    return x[..., row, column] * torch.where(row == column, 1.0, 2**0.5).to(x.dtype)


AFFINE_INVARIANT = Geometry(
    distance=affine_invariant_distance,
    mean=lambda x_Nnn: mean_riemann(x_Nnn, tol=1e-6),
    along=geodesic_riemann,
)
"""The geometry of SPD matrices with δ_R; the mean is Karcher's, argmin Σ_i δ_R(C, X_i)²."""
