"""Continuous histogram loss: the more similar two examples are, the nearer they should be.

Source: Zholus and Putin, "Continuous Histogram Loss: beyond neural similarity" (2020). It extends
the histogram loss of Ustinova and Lempitsky, "Learning Deep Embeddings with Histogram Loss" (2016),
from pairs that are either similar or not to degrees of similarity.

M pairs have distances d and similarities s, both from 0 to 1. Distances are spread over R nodes
t_r = r Δ by a triangular kernel: a pair between two nodes counts at both, and more at the nearer
one. A similarity counts wholly at the nearest of m nodes. The paper's text has Δ = 2/(R − 1) with
nodes r/(R − 1). The width here is Δ = 1/(R − 1), with which the kernel is a partition of unity:
every pair counts once, as the derivation requires.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The distance beyond a border at which a similarity still counts as on it.
_ROUNDING = 1e-7


def continuous_histogram_loss(
    distance_M: Tensor,
    similarity_M: Tensor,
    *,
    bins: int = 100,
    similarity_bins: int = 100,
    balance: float = 0.0,
) -> Tensor:
    """Return L = Σ_rz h_rz φ_rz with φ_rz = Σ_{r' ≥ r} Σ_{z' > z} h_r'z'; a scalar.

    h is :func:`pair_histogram`. L is the probability that, of two random pairs, the second is more
    similar and yet not nearer, up to the resolution of the nodes. With a `balance` of 0, which is
    the paper's loss, all pairs are equally likely. With 1, all degrees of similarity are.

    Raises:
        ValueError: unless both are ``[M]`` with M ≥ 2, all values and `balance` are in [0, 1],
            there are at least 2 bins of each kind, and similarities differ.
    """
    h_RZ = pair_histogram(
        distance_M, similarity_M, bins=bins, similarity_bins=similarity_bins, balance=balance
    )
    if int((h_RZ.detach().sum(dim=0) > 0).sum()) < 2:
        raise ValueError(
            f"similarity: all {len(similarity_M):,} pairs have {float(similarity_M[0]):g} at"
            f" {similarity_bins} bins, as in a batch of one class; at least two degrees are needed"
        )
    return (h_RZ * _sum_farther_and_more_similar(h_RZ)).sum()


def pair_histogram(
    distance_M: Tensor,
    similarity_M: Tensor,
    *,
    bins: int,
    similarity_bins: int,
    balance: float = 0.0,
) -> Tensor:
    """Return h_rz = Σ_{i: z_i = z} w_i δ_ir, of shape ``(bins, similarity_bins)`` and sum 1.

    δ_ir = max(0, 1 − |d_i − t_r| / Δ) is the share of pair i at distance node r, z_i its similarity
    node and w_i its weight. w_i is proportional to n_z^−balance, n_z being the number of pairs at
    the node, and is 1/M without `balance`. h is differentiable in the distances; at a node, from
    the right.

    Raises:
        ValueError: as :func:`continuous_histogram_loss`, but similarities may all be equal.
    """
    _check(distance_M, similarity_M, bins, similarity_bins, balance)
    z_M = similarity_node(similarity_M, similarity_bins)
    weight_M = _weights(z_M, similarity_bins, balance).to(distance_M.dtype)
    r_M, upper_M = _lower_node(distance_M, bins)
    flat = distance_M.new_zeros(bins * similarity_bins)
    flat = flat.index_add(0, r_M * similarity_bins + z_M, weight_M * (1 - upper_M))
    flat = flat.index_add(0, (r_M + 1) * similarity_bins + z_M, weight_M * upper_M)
    return flat.view(bins, similarity_bins)


def similarity_node(similarity_M: Tensor, similarity_bins: int) -> Tensor:
    """Return the nearest of the nodes z / (m − 1), ``int64[M]``; the lower one from halfway."""
    # 0.1 is halfway between the first two of six nodes, but its float32 is not.
    scaled_M = similarity_M.detach().double() * (similarity_bins - 1)
    return torch.ceil(scaled_M - 0.5 - _ROUNDING * similarity_bins).long().clamp(min=0)


def _weights(z_M: Tensor, similarity_bins: int, balance: float) -> Tensor:
    """Return n_z^−balance of each pair's similarity node, scaled to sum 1, ``float64[M]``."""
    count_Z = torch.bincount(z_M, minlength=similarity_bins).double()
    weight_M = count_Z[z_M] ** -balance
    return weight_M / weight_M.sum()


def _lower_node(distance_M: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Return the node at or before each distance, and the share that counts at the next one."""
    scaled_M = distance_M * (bins - 1)
    r_M = scaled_M.detach().floor().long().clamp(0, bins - 2)
    return r_M, scaled_M - r_M


def _sum_farther_and_more_similar(h_RZ: Tensor) -> Tensor:
    """Return φ_rz = Σ_{r' ≥ r} Σ_{z' > z} h_r'z'."""
    farther_RZ = _reverse_cumsum(h_RZ)
    return farther_RZ.sum(dim=1, keepdim=True) - farther_RZ.cumsum(dim=1)


def _reverse_cumsum(h_R: Tensor) -> Tensor:
    """Return Σ_{q ≥ r} h_q along the first axis."""
    return h_R.flip(0).cumsum(dim=0).flip(0)


def _check(
    distance_M: Tensor, similarity_M: Tensor, bins: int, similarity_bins: int, balance: float
) -> None:
    if not 0 <= balance <= 1:
        raise ValueError(f"balance is {balance:g}; it must be from 0 to 1")
    if distance_M.ndim != 1 or distance_M.shape != similarity_M.shape or len(distance_M) < 2:
        shapes = f"{list(distance_M.shape)} and {list(similarity_M.shape)}"
        raise ValueError(f"distances and similarities are {shapes}; both must be [M], M ≥ 2")
    for name, count in (("bins", bins), ("similarity_bins", similarity_bins)):
        if count < 2:
            raise ValueError(f"{name} is {count}; it must be at least 2")
    for name, values in (("distance", distance_M), ("similarity", similarity_M)):
        invalid_M = ~((values >= 0) & (values <= 1))
        if bool(invalid_M.any()):
            first = float(values.detach()[invalid_M][0])
            raise ValueError(f"{name}: contains {first:g}; every {name} must be from 0 to 1")
