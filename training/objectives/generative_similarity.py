"""Embeddings whose similarity is generative similarity, learned in one of three ways.

Source: Marjieh, Kumar, Campbell et al., "Learning Human-Aligned Representations with Contrastive
Learning and Generative Similarity" (2024). How alike examples are is the s_gen of a model of how
they come about (:mod:`training.similarities.generative_models`); S is how alike their embeddings
are, greater the nearer: a cosine, or a distance with its sign turned.

- Where s_gen can be computed, S is fitted to it or to its logarithm: :func:`regression_loss`.
- Where one can only draw from the model, triplets do: :func:`triplet_loss`. Two losses without a
  contrast are :func:`squared_distance_loss` and :func:`dot_product_loss`.
- Where a kernel stands for s_gen, the pairs of a batch are weighed by it:
  :func:`kernel_triplet_loss`, or :func:`kernel_pair_loss` where only some pairs are known.

What triplets teach. Be x, y of one source and z of another, φ convex and increasing, and
L = E φ(S(x, z) − S(x, y)). Of two examples a and b, one is y and one z, so S(x, a) − S(x, b) = δ
costs p(x) p(a) p(b) [s(x, a) φ(−δ) + s(x, b) φ(δ)]. For the softplus this is least at
δ = ln s(x, a) − ln s(x, b) for all pairs at once: S = ln s_gen up to a constant of each x, without
s_gen ever having been computed. For the quadratic it is least at δ = (s(x, a) − s(x, b)) /
(s(x, a) + s(x, b)), bounded by the margin of 1; it has the same order, but only a least-squares
compromise satisfies all pairs.

Triplets of one x and y may be told all at once, as in InfoNCE (Oord et al. 2018): the softmax
contrast asks for y among all others, −ln(e^S(x, y) / Σ_z e^S(x, z)). It too is least at ln s_gen up
to a constant of each x, and learns most from those z that are hardest to tell from y.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

CONTRASTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softplus": functional.softplus,
    "quadratic": lambda t: functional.relu(1 + t).square(),
}
"""φ by name, of t = S(x, z) − S(x, y): ln(1 + eᵗ), and max(0, 1 + t)².

The square is cut where it would fall again, for a triplet that is right by more than the margin.
"""

SOFTMAX = "softmax"
"""The contrast of an example with all others of a batch; no function of two."""


def regression_loss(similarity_M: Tensor, target_M: Tensor) -> Tensor:
    """Return (1/M) Σ (S_m − t_m)², a scalar; `target_M` is s_gen or its logarithm, of any scale.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 1 and finite. ln s_gen is −∞ for two examples
            that cannot be of one source: fit s_gen itself there.
    """
    _check_pairs(similarity_M, target_M, "target", least=1)
    return functional.mse_loss(similarity_M, target_M)


def triplet_loss(same_M: Tensor, different_M: Tensor, *, contrast: str = "softplus") -> Tensor:
    """Return (1/M) Σ φ(S(x, z) − S(x, y)), a scalar.

    `same_M` holds S(x, y) of M triplets with y of the source of x, `different_M` S(x, z) with z of
    a source of its own; φ is one of :data:`CONTRASTS`.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 1 and finite, and there is such a contrast.
    """
    _check_pairs(same_M, different_M, "different", least=1)
    return _phi(contrast)(different_M - same_M).mean()


def squared_distance_loss(anchor_MD: Tensor, same_MD: Tensor, different_MD: Tensor) -> Tensor:
    """Return (1/M) Σ ‖φ(x) − φ(y)‖² − ‖φ(x) − φ(z)‖² of M triplets of embeddings, a scalar; (H1).

    It has no least: embeddings that grow keep lowering it, so the length of the training says how
    far they go.
    """
    near_M = (anchor_MD - same_MD).square().sum(dim=1)
    far_M = (anchor_MD - different_MD).square().sum(dim=1)
    return (near_M - far_M).mean()


def dot_product_loss(anchor_MD: Tensor, same_MD: Tensor, different_MD: Tensor) -> Tensor:
    """Return (1/M) Σ φ(x)·φ(z) − φ(x)·φ(y) of M triplets of embeddings, a scalar; (F1).

    For a projection φ(x) = φ·x on a unit vector and two clouds around ±μ, its expectation is
    −(φ·μ)², least along μ; (G2), whose factor of 4 is the paper's.
    """
    return (anchor_MD * (different_MD - same_MD)).sum(dim=1).mean()


def kernel_triplet_loss(
    similarity_NN: Tensor, kernel_NN: Tensor, *, contrast: str = "softplus"
) -> Tensor:
    """Return Σ_{i≠j} k_ij mean_{l≠i} φ(S_il − S_ij) / Σ_{i≠j} k_ij, a scalar.

    The expectation of :func:`triplet_loss` over triplets from a batch of N independent examples: x
    and y are drawn in proportion to k and z from all but x. With k = s_gen these are triplets of
    the model, for p(x, y | same) = s_gen(x, y) p(x) p(y); another kernel, 0 or more, stands for it.
    The scale of k is of no consequence, nor are the diagonals.

    With the contrast softmax it is the mean over i of Σ_j q_ij (ln Σ_{l≠i} e^S_il − S_ij), where
    q_ij = k_ij / Σ_{l≠i} k_il; examples that are like no other are left out.

    Raises:
        ValueError: unless both are ``[N, N]`` with N ≥ 3 and finite, k is 0 or more and not the
            same for all pairs, and there is such a contrast.
    """
    n = len(similarity_NN)
    if n < 3 or similarity_NN.shape != (n, n) or kernel_NN.shape != (n, n):
        shapes = f"{list(similarity_NN.shape)} and {list(kernel_NN.shape)}"
        raise ValueError(f"similarity and kernel are {shapes}; both must be [N, N], N ≥ 3")
    _check_finite(similarity_NN, "similarity")
    off_NN = ~torch.eye(n, dtype=torch.bool, device=kernel_NN.device)
    _check_kernel(kernel_NN[off_NN])
    i_P, j_P = torch.nonzero((kernel_NN > 0) & off_NN, as_tuple=True)
    weight_P = kernel_NN[i_P, j_P].to(similarity_NN.dtype)
    if contrast == SOFTMAX:
        log_NN = similarity_NN.masked_fill(~off_NN, -torch.inf).log_softmax(dim=1)
        sum_N = weight_P.new_zeros(n).index_add(0, i_P, weight_P)
        return -(weight_P / sum_N[i_P] * log_NN[i_P, j_P]).sum() / (sum_N > 0).sum()
    phi_PN = _phi(contrast)(similarity_NN[i_P] - similarity_NN[i_P, j_P][:, None])
    mean_P = (phi_PN * off_NN[i_P]).sum(dim=1) / (n - 1)
    return (weight_P * mean_P).sum() / weight_P.sum()


def kernel_pair_loss(
    similarity_M: Tensor, kernel_M: Tensor, *, contrast: str = "softplus"
) -> Tensor:
    """Return Σ_m k_m mean_n φ(S_n − S_m) / Σ_m k_m over pairs m and n, a scalar.

    The same for M pairs that need not have an example in common: one is drawn in proportion to its
    kernel, another from all. With the softplus, S = ln k up to one constant is its least, as it is
    with the softmax, Σ_m q_m (ln Σ_n e^S_n − S_m) with q_m = k_m / Σ k.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 2 and finite, k is 0 or more and not the same
            for all, and there is such a contrast.
    """
    _check_pairs(similarity_M, kernel_M, "kernel", least=2)
    _check_kernel(kernel_M)
    positive_P = torch.nonzero(kernel_M > 0).squeeze(1)
    weight_P = kernel_M[positive_P].to(similarity_M.dtype)
    if contrast == SOFTMAX:
        return -(weight_P * similarity_M.log_softmax(dim=0)[positive_P]).sum() / weight_P.sum()
    phi_PM = _phi(contrast)(similarity_M - similarity_M[positive_P][:, None])
    return (weight_P * phi_PM.mean(dim=1)).sum() / weight_P.sum()


def _phi(contrast: str) -> Callable[[Tensor], Tensor]:
    if contrast not in CONTRASTS:
        raise ValueError(f"contrast is {contrast!a}; it must be one of {', '.join(CONTRASTS)}")
    return CONTRASTS[contrast]


def _check_pairs(similarity_M: Tensor, other_M: Tensor, name: str, least: int) -> None:
    shapes = list(similarity_M.shape), list(other_M.shape)
    if similarity_M.ndim != 1 or shapes[0] != shapes[1] or len(similarity_M) < least:
        given = f"similarity and {name} are {shapes[0]} and {shapes[1]}"
        raise ValueError(f"{given}; both must be [M], M ≥ {least}")
    _check_finite(similarity_M, "similarity")
    _check_finite(other_M, name)


def _check_finite(values: Tensor, name: str) -> None:
    wrong = ~values.detach().isfinite()
    if bool(wrong.any()):
        first = float(values.detach()[wrong][0])
        raise ValueError(f"{name}: holds {first:g}; every {name} must be finite")


def _check_kernel(kernel_M: Tensor) -> None:
    _check_finite(kernel_M, "kernel")
    if bool((kernel_M < 0).any()):
        least = float(kernel_M.min())
        raise ValueError(f"kernel: holds {least:g}; every kernel must be 0 or more")
    if float(kernel_M.min()) == float(kernel_M.max()):
        found = f"all {kernel_M.numel():,} pairs have {float(kernel_M.max()):g}"
        raise ValueError(f"kernel: {found}; pairs must differ, as they do not in one class")
