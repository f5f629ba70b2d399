"""Symmetric positive definite (SPD) matrices: distances, functions of eigenvalues, and SPDNet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from geoopt import EuclideanStiefel, ManifoldParameter
from pyriemann.geometry.base import invsqrtm
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.geodesic import geodesic_riemann
from pyriemann.geometry.mean import mean_riemann
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.vector_features import Matrices, SpdFeatures
from hummingbit.training.objectives.riemannian_potato import Geometry

# Distances between symmetric positive definite matrices, and functions of their eigenvalues.
#
# Shapes: ``[..., n, n]`` throughout; leading axes broadcast. pyRiemann computes the
# affine-invariant distance, whose gradient needs only eigenvalues and is finite everywhere. The
# gradient of a matrix function also needs eigenvectors. Automatic differentiation divides by the
# gaps of the eigenvalues, so its gradient is infinite where two are equal, as in every multiple of
# the identity. Therefore :func:`spectral_map` defines its own gradient.


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


# A network from symmetric positive definite matrices to smaller ones: SPDNet.
#
# Source: Huang and Van Gool, "A Riemannian Network for SPD Matrix Learning" (2017). Matrices are
# float64: their eigenvalues may lie many powers of ten apart.


# The least eigenvalue. Matrices are centred, so it is relative to the mean of the training
# documents.
FLOOR = 1e-4


class BiMap(nn.Module):
    """X → Wᵀ X W with orthonormal columns W, ``(n, m)``: a point of the Stiefel manifold."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        start, _ = torch.linalg.qr(torch.randn(inputs, outputs, dtype=torch.float64))
        # Contiguous, as checkpoints restore it: the layout in memory affects how products round.
        self.weight = ManifoldParameter(start.contiguous(), manifold=EuclideanStiefel())

    def forward(self, x_Nnn: Tensor) -> Tensor:
        """Return ``(N, m, m)``."""
        mapped_Nmm: Tensor = self.weight.mT @ x_Nnn @ self.weight
        return mapped_Nmm


class SpdNetwork(nn.Module):
    """Centring, then for each of `widths` a BiMap and the rectification of eigenvalues (ReEig).

    `center_nn` is C^−½ for a mean C, so that the mean becomes the identity. It does not change
    affine-invariant distances, but it gives eigenvalues a common scale on which to rectify them,
    whatever the unit of the data. Centring is ours.

    Raises:
        ValueError: if a width is below 1 or above the one before it.
    """

    def __init__(self, center_nn: Matrices, widths: Sequence[int]) -> None:
        super().__init__()
        sizes = [len(center_nn), *widths]
        for before, after in pairwise(sizes):
            if not 1 <= after <= before:
                raise ValueError(
                    f"a width is {after}; it must be from 1 to {before}, the one before"
                )
        self.center_nn: Tensor
        self.register_buffer("center_nn", torch.from_numpy(center_nn))
        self.maps = nn.ModuleList(map(BiMap, sizes[:-1], sizes[1:]))

    @property
    def order(self) -> int:
        """The rows m of the matrices that the last layer gives."""
        return int(self._bimaps()[-1].weight.shape[1])

    def forward(self, x_Nnn: Tensor) -> Tensor:
        """Return matrices ``(N, m, m)``, m the last width, with eigenvalues of FLOOR or more."""
        return rectify_eigenvalues(self._map(x_Nnn), FLOOR)

    def vectors(self, x_Nnn: Tensor) -> Tensor:
        """Return the logarithms of the matrices as vectors, ``(N, m (m + 1) / 2)`` (LogEig).

        Euclidean distances between them are log-Euclidean distances.
        """
        return half_vectors(matrix_logarithm(self._map(x_Nnn), FLOOR))

    def features(self) -> SpdFeatures:
        """Return features that compute :meth:`vectors` without torch.

        The centring is folded into the first map.
        """
        first, *rest = [np.asarray(bimap.weight.detach()) for bimap in self._bimaps()]
        weights = [np.asarray(self.center_nn) @ first, *rest]
        return SpdFeatures([weight.astype(np.float32) for weight in weights], FLOOR)

    def _bimaps(self) -> list[BiMap]:
        return [module for module in self.maps if isinstance(module, BiMap)]

    def _map(self, x_Nnn: Tensor) -> Tensor:
        """Return the matrices before the last rectification."""
        x_Nnn = self.center_nn @ x_Nnn @ self.center_nn
        for number, bimap in enumerate(self._bimaps()):
            x_Nnn = bimap(x_Nnn if number == 0 else rectify_eigenvalues(x_Nnn, FLOOR))
        return x_Nnn


def whitening(matrices: Matrices) -> Matrices:
    """Return C^−½ of the Karcher mean C = argmin Σ_i δ_R(C, X_i)², shape ``(n, n)``."""
    # Scaled to near 1, since the search for the mean stops at an absolute step size.
    scale = float(np.trace(matrices, axis1=1, axis2=2).mean()) / matrices.shape[1]
    inverse: Matrices = invsqrtm(mean_riemann(matrices / scale, tol=1e-6)) / np.sqrt(scale)
    return (inverse + inverse.T) / 2


def matrices_of(vectors: Floats) -> Matrices:
    """Return the matrices ``(N, n, n)`` whose upper triangles are the rows of `vectors`.

    Raises:
        InputError: unless each row is n (n + 1) / 2 finite numbers of a positive definite matrix.
    """
    order = (math.isqrt(8 * vectors.shape[1] + 1) - 1) // 2
    return SpdFeatures([np.eye(order, dtype=np.float32)], FLOOR).matrices(vectors)


def spd_network(center_nn: Matrices, order: int) -> SpdNetwork:
    """Return a network from n to `order` rows, with weights drawn from torch's generator.

    Its first layer has twice as many rows as its last. No layer has more than n rows.
    """
    rows = len(center_nn)
    return SpdNetwork(center_nn, (min(2 * order, rows), min(order, rows)))
