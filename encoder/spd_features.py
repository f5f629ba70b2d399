"""Features of a symmetric positive definite (SPD) matrix: the logarithm of a smaller one.

A matrix comes as the vector of its upper triangle, row by row: n (n + 1) / 2 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoder.features import Floats
from encoder.vector_features import check_vectors
from foundation.errors import InputError

Matrices = npt.NDArray[np.float64]
"""Symmetric positive definite matrices, shape ``(N, n, n)``."""


@dataclass(frozen=True)
class SpdFeatures:
    """SPD matrices X → log Y with Y smaller: an SPD network in float64.

    For each of `weights`, BiMap X → Wᵀ X W with W of shape ``(n, m)``, then ReEig, which raises
    eigenvalues below `floor` to it. In the end LogEig, the matrix logarithm, of which the upper
    triangle goes on, entries off the diagonal times √2. Source: Huang and Van Gool, "A Riemannian
    Network for SPD Matrix Learning" (2017).
    """

    weights: Sequence[Floats]
    floor: float

    @property
    def order(self) -> int:
        """n, the number of rows of the matrices it takes."""
        return len(self.weights[0])

    @property
    def dimension(self) -> int:
        """n (n + 1) / 2, the length of the vectors it takes."""
        return triangle_length(self.order)

    @property
    def outputs(self) -> int:
        """The length of the vectors it gives."""
        return triangle_length(self.weights[-1].shape[1])

    def transform(self, vectors: Floats) -> Floats:
        """Return the features of `vectors`, float32 of shape ``(N, outputs)``.

        Raises:
            InputError: as :meth:`matrices` does.
        """
        x_Nnn = self.matrices(vectors)
        last = len(self.weights) - 1
        for number, weight in enumerate(self.weights):
            wide = weight.astype(np.float64)
            eigenvalues, turned = np.linalg.eigh(wide.T @ x_Nnn @ wide)
            eigenvalues = np.maximum(eigenvalues, self.floor)
            if number == last:
                eigenvalues = np.log(eigenvalues)
            x_Nnn = (turned * eigenvalues[:, None, :]) @ turned.transpose(0, 2, 1)
        rows, columns = np.triu_indices(x_Nnn.shape[1])
        halves = x_Nnn[:, rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
        return np.asarray(halves, dtype=np.float32)

    def matrices(self, vectors: Floats) -> Matrices:
        """Return the matrices whose upper triangles `vectors` ``(N, n (n + 1) / 2)`` hold.

        Raises:
            InputError: unless `vectors` has that shape, finite entries, and every matrix is
                positive definite.
        """
        rows, columns = np.triu_indices(self.order)
        checked = check_vectors(vectors, self.dimension)
        matrices = np.empty((len(checked), self.order, self.order))
        matrices[:, rows, columns] = matrices[:, columns, rows] = checked
        try:
            np.linalg.cholesky(matrices)
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(matrices).min())
            what = f"the upper triangle of a positive definite {self.order} × {self.order} matrix"
            found = f"its least eigenvalue is {least:.3g}; every one must be above 0"
            raise InputError("vector", f"is not {what}: {found}") from None
        return matrices


def triangle_length(order: int) -> int:
    """Return n (n + 1) / 2, the length of the upper triangle of an n × n matrix."""
    return order * (order + 1) // 2
