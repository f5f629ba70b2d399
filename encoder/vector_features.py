"""Features of vectors and of symmetric positive definite (SPD) matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.errors import InputError, counted

# Features of a vector: the vector itself.


@dataclass(frozen=True)
class VectorFeatures:
    """Vectors of a fixed dimension D, scaled to unit length with `l2_normalize`."""

    dimension: int
    l2_normalize: bool = False

    def transform(self, vectors: Floats) -> Floats:
        """Return the features of `vectors`, float32 of shape ``(N, D)``.

        Raises:
            InputError: unless `vectors` has shape ``(N, D)`` and finite entries.
        """
        rows = check_vectors(vectors, self.dimension)
        return unit_rows(rows) if self.l2_normalize else rows


def check_vectors(vectors: Floats, dimension: int) -> Floats:
    """Return a copy of `vectors` as float32.

    Raises:
        InputError: unless `vectors` has shape ``(N, dimension)`` and finite entries.
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or rows.shape[1] != dimension or rows.dtype.kind not in "fiu":
        expected = f"this encoder takes vectors of {counted(dimension, 'number')}"
        found = (
            f"has {counted(rows.shape[1], 'number')}"
            if rows.ndim == 2
            else "is not a list of numbers"
        )
        raise InputError("vector", f"{found}; {expected}")
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    if not np.isfinite(rows).all():
        raise InputError("vector", "holds NaN or infinity; every number must be finite")
    return rows


# Features of a symmetric positive definite (SPD) matrix: the logarithm of a smaller one.
#
# A matrix is passed as the vector of its upper triangle, row by row: n (n + 1) / 2 numbers.


Matrices = npt.NDArray[np.float64]
"""Symmetric positive definite matrices, shape ``(N, n, n)``."""


@dataclass(frozen=True)
class SpdFeatures:
    """An SPD network in float64: SPD matrices X → log Y with Y smaller.

    Each of `weights`, W of shape ``(n, m)``, gives two steps: BiMap, X → Wᵀ X W, and ReEig, which
    raises eigenvalues below `floor` to it. The last step is LogEig, the matrix logarithm. The
    output is its upper triangle, with entries off the diagonal times √2. Source: Huang and Van
    Gool, "A Riemannian Network for SPD Matrix Learning" (2017).
    """

    weights: Sequence[Floats]
    floor: float

    @property
    def order(self) -> int:
        """n, the number of rows of the input matrices."""
        return len(self.weights[0])

    @property
    def dimension(self) -> int:
        """n (n + 1) / 2, the length of the input vectors."""
        return triangle_length(self.order)

    @property
    def outputs(self) -> int:
        """The length of the output vectors."""
        return triangle_length(self.weights[-1].shape[1])

    def transform(self, vectors: Floats) -> Floats:
        """Return the features of `vectors`, float32 of shape ``(N, outputs)``.

        Raises:
            InputError: as for :meth:`matrices`.
        """
        x_Nnn = self.matrices(vectors)
        last = len(self.weights) - 1
        for number, weight in enumerate(self.weights):
            w = weight.astype(np.float64)
            eigenvalues, eigenvectors = np.linalg.eigh(w.T @ x_Nnn @ w)
            eigenvalues = np.maximum(eigenvalues, self.floor)
            if number == last:
                eigenvalues = np.log(eigenvalues)
            x_Nnn = (eigenvectors * eigenvalues[:, None, :]) @ eigenvectors.transpose(0, 2, 1)
        rows, columns = np.triu_indices(x_Nnn.shape[1])
        triangles = x_Nnn[:, rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
        return np.asarray(triangles, dtype=np.float32)

    def matrices(self, vectors: Floats) -> Matrices:
        """Return the matrices whose upper triangles are `vectors`, ``(N, n (n + 1) / 2)``.

        Raises:
            InputError: if `vectors` has another shape, or an entry is not finite, or a matrix is
                not positive definite.
        """
        rows, columns = np.triu_indices(self.order)
        checked = check_vectors(vectors, self.dimension)
        matrices = np.empty((len(checked), self.order, self.order))
        matrices[:, rows, columns] = matrices[:, columns, rows] = checked
        try:
            np.linalg.cholesky(matrices)
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(matrices).min())
            size = f"{self.order} × {self.order}"
            found = f"the least eigenvalue is {least:.3g}; every eigenvalue must be above 0"
            reason = f"is not the upper triangle of a positive definite {size} matrix: {found}"
            raise InputError("vector", reason) from None
        return matrices


def triangle_length(order: int) -> int:
    """Return n (n + 1) / 2, the length of the upper triangle of an n × n matrix."""
    return order * (order + 1) // 2
