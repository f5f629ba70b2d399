"""Ridge regression of several targets on sparse rows, by conjugate gradients.

Source: Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems" (1952).
scikit-learn's ``Ridge(solver="sparse_cg")`` solves one target after the other. Here the targets
take each step together, so a step reads the rows once for all of them, which takes less than half
of the time. Every sum has scikit-learn's order, so the weights are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_PENALTY = 1.0
_TOLERANCE = 1e-4
_STEPS_PER_ROW = 10
_BLOCK = 256


class LinearMap(NamedTuple):
    """Scores x W + b of several targets, ``weight`` ``(V, C)`` and ``bias`` ``(C,)``."""

    weight: Array
    bias: Array

    def __call__(self, rows: Any) -> Array:
        """Return the scores of `rows`, ``(N, C)``."""
        return np.asarray(rows @ self.weight + self.bias)


def fit_ridge(rows: Any, targets: Array) -> LinearMap:
    """Return the W and b that minimize ‖X W + b − Y‖² + ‖W‖².

    `rows` X are a CSR matrix ``(N, V)`` and `targets` Y an array ``(N, C)``. All is computed in the
    precision of `rows`. A target is solved once its residual is below 1e-4 of its size.
    """
    y_NC = np.array(targets, dtype=rows.dtype)
    y_offset_C = np.average(y_NC, axis=0)
    y_NC -= y_offset_C
    x = _Centred(rows)
    weight_CV = _primal(x, y_NC) if rows.shape[1] <= rows.shape[0] else _dual(x, y_NC)
    return LinearMap(weight_CV.T, y_offset_C - x.offset_V @ weight_CV.T)


class _Centred:
    """The matrix X − 1 m of rows without their mean m, which is never made.

    Vectors lie in rows, one for each target, because a dot product of vectors that are not
    contiguous is rounded otherwise. For a product with X they are turned, so that X is read once.
    """

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        n_rows, n_columns = rows.shape
        sums_V = np.bincount(rows.indices, rows.data, minlength=n_columns)
        self.offset_V = (sums_V / n_rows).astype(rows.dtype)
        self._ones_N = np.ones(n_rows, dtype=rows.dtype)

    def product(self, vectors_CV: Array) -> Array:
        """Return ``(C, N)``, (X − 1 m) v for each vector v."""
        product_CN = _turned(self._rows @ _turned(vectors_CV))
        product_CN -= _dots(vectors_CV, self.offset_V)[:, None]
        return product_CN

    def transposed_product(self, vectors_CN: Array) -> Array:
        """Return ``(C, V)``, (X − 1 m)ᵀ v for each vector v."""
        product_CV = _turned(self._rows.T @ _turned(vectors_CN))
        product_CV -= _dots(vectors_CN, self._ones_N)[:, None] * self.offset_V
        return product_CV


def _primal(x: _Centred, y_NC: Array) -> Array:
    """Return the weights ``(C, V)``, solutions of (XᵀX + 1) w = Xᵀy."""
    right_CV = x.transposed_product(y_NC.T)
    return _solve(lambda w_CV: x.transposed_product(x.product(w_CV)) + _PENALTY * w_CV, right_CV)


def _dual(x: _Centred, y_NC: Array) -> Array:
    """Return the weights ``(C, V)``, Xᵀa with the solutions of (X Xᵀ + 1) a = y."""
    right_CN = np.ascontiguousarray(y_NC.T)
    a_CN = _solve(lambda a_CN: x.product(x.transposed_product(a_CN)) + _PENALTY * a_CN, right_CN)
    return x.transposed_product(a_CN)


def _solve(apply: Callable[[Array], Array], right_CM: Array) -> Array:
    """Return the solutions of A s = r for each row r of `right_CM`, with `apply` for s → A s."""
    solution_CM = np.zeros_like(right_CM)
    residuals, directions = right_CM.copy(), right_CM.copy()
    squares = _dots(residuals, residuals)
    limits = (_TOLERANCE * np.sqrt(squares).astype(np.float64)).astype(squares.dtype)
    targets = np.arange(len(right_CM))
    for _ in range(_STEPS_PER_ROW * right_CM.shape[1]):
        unsolved = (np.sqrt(squares) >= limits[targets]) & (squares > 0)
        if not unsolved.all():
            targets, residuals, directions, squares = (
                part[unsolved] for part in (targets, residuals, directions, squares)
            )
        if not len(targets):
            break
        images = apply(directions)
        steps = (squares / _dots(directions, images))[:, None]
        solution_CM[targets] += steps * directions
        residuals -= steps * images
        previous, squares = squares, _dots(residuals, residuals)
        directions *= (squares / previous)[:, None]
        directions += residuals
    return solution_CM


def _dots(a_CM: Array, b: Array) -> Array:
    """Return the dot product of each row of `a_CM` with that of `b`, or with `b`, a vector."""
    others = b if b.ndim > 1 else [b] * len(a_CM)
    dots = [one.dot(other) for one, other in zip(a_CM, others, strict=True)]
    return np.array(dots, dtype=a_CM.dtype)


def _turned(a: Array) -> Array:
    """Return aᵀ as a contiguous copy, which takes a third of the time if made of small parts."""
    turned = np.empty(a.shape[::-1], dtype=a.dtype)
    for start in range(0, len(a), _BLOCK):
        turned[:, start : start + _BLOCK] = a[start : start + _BLOCK].T
    return turned
