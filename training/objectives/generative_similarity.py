"""Losses for embeddings whose similarity S should be generative similarity s_gen.

Source: Marjieh, Kumar, Campbell et al., "Learning Human-Aligned Representations with Contrastive
Learning and Generative Similarity" (2024). s_gen is the similarity of examples under a model of how
they are generated (:mod:`hummingbit.training.similarities`). S is the similarity of their
embeddings, such as a cosine or a negative distance.

- If s_gen can be computed, S is fitted to it or to its logarithm: :func:`regression_loss`.
- If a kernel stands for s_gen, it weights the pairs of a batch: :func:`kernel_triplet_loss`, or
  :func:`kernel_pair_loss` if only some pairs are known.

What triplets teach. Let x and y have the same source and z another, let φ be convex and increasing,
and let s stand for s_gen. The loss is L = E φ(S(x, z) − S(x, y)). Of two examples a and b, either
can be y and the other z, so a difference of S(x, a) − S(x, b) = δ costs

    p(x) p(a) p(b) [s(x, a) φ(−δ) + s(x, b) φ(δ)].

- For the softplus the minimum is at δ = ln s(x, a) − ln s(x, b), for all pairs at once. So S learns
  ln s_gen up to a constant for each x, although s_gen is never computed.
- For the quadratic the minimum is at δ = (s(x, a) − s(x, b)) / (s(x, a) + s(x, b)), bounded by the
  margin of 1. The order is the same, but no S has this minimum for all pairs: the loss ends at a
  least-squares compromise.

All triplets of one x and y can be combined, as in InfoNCE (Oord et al. 2018): the softmax contrast
must find y among all others, −ln(e^S(x, y) / Σ_z e^S(x, z)). Its minimum is also at ln s_gen up to
a constant for each x, and it learns most from those z that are hardest to distinguish from y.
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

The square is 0 for a triplet that is right by more than the margin.
"""

SOFTMAX = "softmax"
"""The contrast of an example with all others of a batch."""


def regression_loss(similarity_M: Tensor, target_M: Tensor) -> Tensor:
    """Return (1/M) Σ (S_m − t_m)², a scalar; `target_M` is s_gen or its logarithm, of any scale.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 1 and finite. ln s_gen is −∞ for two examples
            that cannot have the same source; fit s_gen itself if there are any.
    """
    _check_pairs(similarity_M, target_M, "target", min_pairs=1)
    return functional.mse_loss(similarity_M, target_M)


def kernel_triplet_loss(
    similarity_NN: Tensor, kernel_NN: Tensor, *, contrast: str = "softplus"
) -> Tensor:
    """Return Σ_{i≠j} k_ij mean_{l≠i} φ(S_il − S_ij) / Σ_{i≠j} k_ij, a scalar.

    It is the expectation of φ(S(x, z) − S(x, y)) over triplets from a batch of N independent
    examples: x and y are drawn in proportion to k, and z from all but x. With k = s_gen these are
    triplets of the model, since p(x, y | same) = s_gen(x, y) p(x) p(y). Any other kernel that is
    not negative can stand for s_gen. The scale of k and the diagonals have no effect.

    With the contrast softmax it is the mean over i of Σ_j q_ij (ln Σ_{l≠i} e^S_il − S_ij), where
    q_ij = k_ij / Σ_{l≠i} k_il. Examples whose kernel with all others is 0 are left out.

    Raises:
        ValueError: unless both are ``[N, N]`` with N ≥ 3 and finite, k is not negative and not the
            same for all pairs, and `contrast` is softmax or in :data:`CONTRASTS`.
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

    It is like :func:`kernel_triplet_loss` for M pairs that need not have an example in common: one
    pair is drawn in proportion to its kernel, and another from all. With the softplus its minimum
    is at S = ln k up to one constant. So it is with the softmax, Σ_m q_m (ln Σ_n e^S_n − S_m) with
    q_m = k_m / Σ k.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 2 and finite, k is not negative and not the
            same for all, and `contrast` is softmax or in :data:`CONTRASTS`.
    """
    _check_pairs(similarity_M, kernel_M, "kernel", min_pairs=2)
    _check_kernel(kernel_M)
    positive_P = torch.nonzero(kernel_M > 0).squeeze(1)
    weight_P = kernel_M[positive_P].to(similarity_M.dtype)
    if contrast == SOFTMAX:
        return -(weight_P * similarity_M.log_softmax(dim=0)[positive_P]).sum() / weight_P.sum()
    phi_PM = _phi(contrast)(similarity_M - similarity_M[positive_P][:, None])
    return (weight_P * phi_PM.mean(dim=1)).sum() / weight_P.sum()


def _phi(contrast: str) -> Callable[[Tensor], Tensor]:
    if contrast not in CONTRASTS:
        raise ValueError(f"contrast is {contrast!r}; it must be one of {', '.join(CONTRASTS)}")
    return CONTRASTS[contrast]


def _check_pairs(similarity_M: Tensor, other_M: Tensor, name: str, min_pairs: int) -> None:
    shapes = list(similarity_M.shape), list(other_M.shape)
    if similarity_M.ndim != 1 or shapes[0] != shapes[1] or len(similarity_M) < min_pairs:
        found = f"similarity and {name} are {shapes[0]} and {shapes[1]}"
        raise ValueError(f"{found}; both must be [M], M ≥ {min_pairs}")
    _check_finite(similarity_M, "similarity")
    _check_finite(other_M, name)


def _check_finite(values: Tensor, name: str) -> None:
    invalid = ~values.detach().isfinite()
    if bool(invalid.any()):
        first = float(values.detach()[invalid][0])
        raise ValueError(f"{name}: contains {first:g}; every {name} must be finite")


def _check_kernel(kernel_M: Tensor) -> None:
    _check_finite(kernel_M, "kernel")
    if bool((kernel_M < 0).any()):
        smallest = float(kernel_M.min())
        raise ValueError(f"kernel: contains {smallest:g}; every kernel must be 0 or more")
    if float(kernel_M.min()) == float(kernel_M.max()):
        found = f"all {kernel_M.numel():,} pairs have {float(kernel_M.max()):g}, as in one class"
        raise ValueError(f"kernel: {found}; at least two values are needed")
