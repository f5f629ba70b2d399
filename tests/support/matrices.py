"""Random symmetric positive definite matrices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.corpus.matrices import upper_triangle

Matrices = npt.NDArray[np.float64]


def spd_matrices(count: int, order: int, seed: int = 0) -> Matrices:
    """Well-conditioned random matrices, ``[count, order, order]``."""
    rows = np.random.default_rng(seed).standard_normal((count, 2 * order, order))
    return np.asarray(rows.transpose(0, 2, 1) @ rows / (2 * order))


def class_matrices(count: int, seed: int = 0, order: int = 6) -> tuple[Matrices, list[str]]:
    """Wishart matrices of three classes, and their labels; each class stretches two axes."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 3, count)
    drawn = np.empty((count, order, order))
    for i, position in enumerate(places):
        scale = np.ones(order)
        scale[2 * position : 2 * position + 2] = 4
        rows = rng.standard_normal((5 * order, order)) * scale
        drawn[i] = rows.T @ rows / len(rows)
    return drawn, ["abc"[place] for place in places]


def matrix_documents(count: int, seed: int = 0) -> list[Document]:
    """The matrices of :func:`class_matrices` as documents."""
    pairs = zip(*class_matrices(count, seed), strict=True)
    return [
        Document(f"m-{i}", vector=upper_triangle(matrix), labels=(label,), is_matrix=True)
        for i, (matrix, label) in enumerate(pairs)
    ]
