"""The histogram loss of two kinds of pairs, and the gradient of the continuous one in closed form.

Sources: Ustinova and Lempitsky (2016); Zholus and Putin (2020), appendix A.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hummingbit.training.objectives.continuous_histogram import pair_histogram, similarity_node


def histogram_loss(distance_M: Tensor, similar_M: Tensor, *, bins: int = 100) -> Tensor:
    """Return Σ_r h⁻_r Σ_{q ≥ r} h⁺_q, the histogram loss of similar and other pairs; a scalar.

    h⁺ and h⁻ are the histograms, each of sum 1, of the distances of pairs where `similar_M`,
    ``bool[M]``, is true and false. It is the probability that a similar pair is not nearer than
    another pair. With similarities 0 and 1, :func:`continuous_histogram_loss` is p(S=0) p(S=1)
    times this loss.

    Raises:
        ValueError: as :func:`continuous_histogram_loss`.
    """
    similarity_M = similar_M.to(distance_M.dtype)
    h_R2 = pair_histogram(distance_M, similarity_M, bins=bins, similarity_bins=2)
    share_2 = h_R2.detach().sum(dim=0)
    if bool((share_2 == 0).any()):
        kind = "similar" if share_2[0] == 0 else "different"
        found = f"all {len(similar_M):,} pairs are {kind}"
        raise ValueError(f"similar: {found}; both similar and different pairs are needed")
    negative_R, positive_R = (h_R2 / share_2).unbind(dim=1)
    return (negative_R * positive_R.flip(0).cumsum(dim=0).flip(0)).sum()


def histogram_gradient(
    distance_M: Tensor,
    similarity_M: Tensor,
    *,
    bins: int = 100,
    similarity_bins: int = 100,
    balance: float = 0.0,
) -> Tensor:
    """Return ∂L/∂d of :func:`continuous_histogram_loss` in closed form, of shape ``(M,)``.

    The paper's appendix A: a pair i of similarity node z between the nodes r and
    r + 1 has δ_ir = r + 1 − d_i/Δ and δ_i,r+1 = d_i/Δ − r, so that ∂h_r+1,z/∂d_i = −∂h_rz/∂d_i =
    1/(M Δ), or w_i/Δ with a balance. In L, h_rz occurs as the less similar pair with the factor
    φ_rz, and as the more similar one with ψ_rz = Σ_{r' ≤ r} Σ_{z' < z} h_r'z', so ∂L/∂h = φ + ψ.
    The sums of neighbouring nodes differ in one term, and

        ∂L/∂d_i = (φ_r+1,z + ψ_r+1,z − φ_rz − ψ_rz) / (M Δ)
                = (Σ_{z' < z} h_r+1,z' − Σ_{z' > z} h_rz') / (M Δ).

    Less similar pairs at the node beyond pull a pair together, and more similar pairs at the node
    before it push it apart.

    Raises:
        ValueError: as :func:`pair_histogram`.
    """
    with torch.no_grad():
        h_RZ = pair_histogram(
            distance_M, similarity_M, bins=bins, similarity_bins=similarity_bins, balance=balance
        )
        z_M = similarity_node(similarity_M, similarity_bins)
        r_M = (distance_M * (bins - 1)).floor().long().clamp(0, bins - 2)
        cumulative_RZ = h_RZ.cumsum(dim=1)
        less_similar_M = (cumulative_RZ - h_RZ)[r_M + 1, z_M]
        more_similar_M = (cumulative_RZ[:, -1:] - cumulative_RZ)[r_M, z_M]
        weight_M = torch.bincount(z_M, minlength=similarity_bins).double()[z_M] ** -balance
        weight_M = (weight_M / weight_M.sum()).to(h_RZ.dtype)
        return (less_similar_M - more_similar_M) * weight_M * (bins - 1)
