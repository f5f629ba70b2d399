"""The losses of sampled triplets: with a contrast, and the paper's two without one."""

from __future__ import annotations

from torch import Tensor

from hummingbit.training.objectives.generative_similarity import CONTRASTS


def triplet_loss(same_M: Tensor, different_M: Tensor, *, contrast: str = "softplus") -> Tensor:
    """Return (1/M) Σ φ(S(x, z) − S(x, y)), a scalar.

    `same_M` holds S(x, y) of M triplets, with y from the source of x, and `different_M` S(x, z),
    with z from a source of its own. φ is one of :data:`CONTRASTS`.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 1.
    """
    if same_M.ndim != 1 or same_M.shape != different_M.shape or not len(same_M):
        shapes = f"{list(same_M.shape)} and {list(different_M.shape)}"
        raise ValueError(f"similarities are {shapes}; both must be [M], M ≥ 1")
    return CONTRASTS[contrast](different_M - same_M).mean()


def squared_distance_loss(anchor_MD: Tensor, same_MD: Tensor, different_MD: Tensor) -> Tensor:
    """Return (1/M) Σ ‖φ(x) − φ(y)‖² − ‖φ(x) − φ(z)‖² of M triplets of embeddings, a scalar; (H1).

    It has no minimum: larger embeddings always lower it, so their size depends on how long training
    lasts.
    """
    near_M = (anchor_MD - same_MD).square().sum(dim=1)
    far_M = (anchor_MD - different_MD).square().sum(dim=1)
    return (near_M - far_M).mean()


def dot_product_loss(anchor_MD: Tensor, same_MD: Tensor, different_MD: Tensor) -> Tensor:
    """Return (1/M) Σ φ(x)·φ(z) − φ(x)·φ(y) of M triplets of embeddings, a scalar; (F1).

    For a projection φ(x) = φ·x on a unit vector and two clouds around ±μ, its expectation is
    −(φ·μ)², with its minimum along μ; (G2), where the paper has a factor of 4.
    """
    return (anchor_MD * (different_MD - same_MD)).sum(dim=1).mean()
