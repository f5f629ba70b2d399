"""Dissimilarities between two sets of vectors, and distances within a batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Dissimilarity = Callable[[Tensor, Tensor], Tensor]
"""From ``[N, D]`` and ``[M, D]`` to ``[N, M]``: smaller for more similar vectors."""


def cosine_dissimilarity(x_ND: Tensor, y_MD: Tensor) -> Tensor:
    """Return d(u, v) = ½ (1 − cos(u, v)), from 0 to 1, ``[N, M]``.

    For vectors of ±1 it is the Hamming distance divided by the number of bits. For 2σ(l) − 1 it is
    a relaxation of that.

    Raises:
        ValueError: if a vector is zero, which has no direction, or contains NaN or infinity.
    """
    x, y = _unit(x_ND), x_ND if y_MD is x_ND else y_MD
    return 0.5 * (1 - x @ (x if y is x_ND else _unit(y)).T)


def euclidean_dissimilarity(x_ND: Tensor, y_MD: Tensor) -> Tensor:
    """Return d(u, v) = ‖u − v‖, ``[N, M]``; its gradient between equal vectors is 0.

    Raises:
        ValueError: if a vector contains NaN or infinity.
    """
    check_finite(x_ND)
    if y_MD is not x_ND:
        check_finite(y_MD)
    # Inner products would lose all digits between near neighbours; differences do not.
    return torch.cdist(x_ND, y_MD, compute_mode="donot_use_mm_for_euclid_dist")


def check_finite(x_ND: Tensor, kind: str = "vector") -> None:
    """Check that all numbers are finite; `kind` is what the message calls a row.

    Raises:
        ValueError: if `x_ND` contains NaN or infinity. The message names the first such row.
    """
    finite_N = x_ND.detach().isfinite().all(dim=1)
    if not finite_N.all():
        row = int((~finite_N).nonzero()[0])
        found = f"{kind} {row} (counting from 0) holds NaN or infinity"
        raise ValueError(f"{found}; every number must be finite")


def _unit(x_ND: Tensor) -> Tensor:
    check_finite(x_ND)
    zero_N = (x_ND.detach() == 0).all(dim=1)
    if zero_N.any():
        row = int(zero_N.nonzero()[0])
        raise ValueError(
            f"vector {row} (counting from 0) is zero, which has no direction; "
            "cosine dissimilarity needs vectors that are not zero"
        )
    # Divided by the largest entry first, so that squares neither underflow nor overflow.
    scaled_ND = x_ND / x_ND.detach().abs().amax(dim=1, keepdim=True)
    return functional.normalize(scaled_ND, dim=1)


def check_batch(student: Tensor, teacher: Tensor) -> None:
    """Check two batches with a row for each of the same examples.

    Raises:
        ValueError: if they do not have two dimensions, differ in length or have fewer than two
            rows.
    """
    shapes = f"shapes {list(student.shape)} of the student and {list(teacher.shape)} of the teacher"
    if student.ndim != 2 or teacher.ndim != 2:
        raise ValueError(f"{shapes}: both must have two dimensions, with a row for each example")
    if len(student) != len(teacher):
        raise ValueError(f"{shapes}: both must have a row for each example of the batch")
    if len(student) < 2:
        raise ValueError(f"{shapes}: a batch of {len(student)} has no pairs; it needs 2 or more")


def cosine_distance(x_ND: Tensor) -> Tensor:
    """Return ½ (1 − cos), ``[N, N]``; from 0 to 1."""
    return cosine_dissimilarity(x_ND, x_ND).clamp(0, 1)
