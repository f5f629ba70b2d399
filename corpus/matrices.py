"""Symmetric positive definite (SPD) matrices as vectors: the upper triangle, row by row.

An ``n × n`` matrix becomes n (n + 1) / 2 numbers: x₁₁ … x₁ₙ, x₂₂ … x₂ₙ, …, xₙₙ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

MAX_ORDER = 512

# How far two mirrored entries may differ, relative to the largest entry: rounding in float32.
_ROUNDING = 1e-5

Array = npt.NDArray[Any]


def upper_triangle(matrix: Array) -> npt.NDArray[np.float32]:
    """Return the upper triangle of an SPD matrix, ``float32[n (n + 1) / 2]``.

    Raises:
        ValueError: unless `matrix` has shape ``[n, n]`` with n from 1 to :data:`MAX_ORDER` and is
            finite, symmetric, and positive definite when rounded to float32.
    """
    _check_shape(matrix)
    with np.errstate(over="ignore"):
        rounded = matrix.astype(np.float32)
    if not np.isfinite(rounded).all():
        row, column = np.argwhere(~np.isfinite(rounded))[0]
        found = f"is {matrix[row, column]} at row {row}, column {column}"
        raise ValueError(f"{found}; every number must be finite in float32")
    _check_symmetric(matrix)
    rows, columns = np.triu_indices(len(matrix))
    least = np.linalg.eigvalsh(rounded.astype(np.float64), UPLO="U")[0]
    if not least > 0:
        rule = "every eigenvalue must be above 0; adding a multiple of the identity raises them"
        raise ValueError(f"is not positive definite: its least eigenvalue is {least:.3g}; {rule}")
    return np.ascontiguousarray(rounded[rows, columns])


def _check_shape(matrix: Array) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"is a matrix of shape {list(matrix.shape)}; it must be square")
    if not 1 <= len(matrix) <= MAX_ORDER:
        raise ValueError(f"is a matrix of {len(matrix)} rows; it must have 1 to {MAX_ORDER} rows")
    if matrix.dtype.kind not in "fiu":
        raise ValueError(f"holds {matrix.dtype} values; it must hold numbers")


def _check_symmetric(matrix: Array) -> None:
    x = matrix.astype(np.float64)
    differences = np.abs(x - x.T)
    row, column = np.unravel_index(int(differences.argmax()), differences.shape)
    if differences[row, column] > _ROUNDING * np.abs(x).max():
        entry = f"{x[row, column]:.6g} at row {row}, column {column}"
        mirrored = f"{x[column, row]:.6g} at row {column}, column {row}"
        raise ValueError(f"is not symmetric: it is {entry} and {mirrored}; the two must be equal")
