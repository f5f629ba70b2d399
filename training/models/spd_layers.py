"""A network from symmetric positive definite matrices to smaller ones: SPDNet.

Source: Huang and Van Gool, "A Riemannian Network for SPD Matrix Learning" (2017). Matrices are
float64: their eigenvalues may lie many powers of ten apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from geoopt import EuclideanStiefel, ManifoldParameter
from pyriemann.geometry.base import invsqrtm
from pyriemann.geometry.mean import mean_riemann
from torch import Tensor, nn

from encoder.features import Floats
from encoder.spd_features import Matrices, SpdFeatures
from training.models.spd_geometry import half_vectors, matrix_logarithm, rectify_eigenvalues

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
