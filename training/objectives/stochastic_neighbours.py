"""Stochastic neighbour embedding in bits: the neighbours of a vector become those of its code.

Source: Hinton and Roweis, "Stochastic Neighbor Embedding" (2002), sections 2 and 3. Here vectors
are near by their cosine, and codes by the bits that agree, instead of by Euclidean distance.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from training.models.relaxed_bits import straight_through_signs

_STEPS = 30
_TEMPERATURES = (1e-4, 10.0)


def neighbour_temperatures(cosines_NK: Tensor, perplexity: float) -> Tensor:
    """Return the temperature of each row, ``(N, 1)``, that gives it a perplexity.

    `cosines_NK` are those of a row with its K nearest neighbours, with K > `perplexity`. The
    temperature τ is the one for which p = softmax(cosines / τ) has the entropy ln `perplexity`, as
    if each row had that many neighbours. It is found by bisection between 0.0001 and 10, so rows
    whose nearest neighbours are all equally near get the smallest one.
    """
    shape = (len(cosines_NK), 1)
    low_N1, high_N1 = (cosines_NK.new_full(shape, math.log(end)) for end in _TEMPERATURES)
    for _ in range(_STEPS):
        middle_N1 = (low_N1 + high_N1) / 2
        p_NK = (cosines_NK / middle_N1.exp()).softmax(dim=1)
        entropy_N1 = torch.special.entr(p_NK).sum(dim=1, keepdim=True)
        is_high_N1 = entropy_N1 > math.log(perplexity)
        low_N1 = torch.where(is_high_N1, low_N1, middle_N1)
        high_N1 = torch.where(is_high_N1, middle_N1, high_N1)
    return low_N1.exp()


def stochastic_neighbour_loss(
    logits_NB: Tensor, cosines_NN: Tensor, temperatures_N1: Tensor, scale: Tensor
) -> Tensor:
    """Return the cross-entropy of the neighbours by cosine and those by codes; a scalar.

    With the bits b_i = sign(l_i) ∈ {−1, 1}ᴮ and the `scale` γ, for all j ≠ i,

        p_ij = softmax_j(cos_ij / τ_i)
        q_ij = softmax_j((γ / B) b_i · b_j)               as by Hamming distance
        r_ij = softmax_j((γ / B) l_i · b_j / rms(l_i))    as in the asymmetric ranking
        L    = −(1 / 2N) Σ_ij p_ij (ln q_ij + ln r_ij)

    The gradient of a sign is straight through, and rms(l_i) is taken as a constant.
    """
    bits_NB = straight_through_signs(logits_NB)
    size_N1 = logits_NB.detach().square().mean(dim=1, keepdim=True).sqrt()
    itself_NN = torch.eye(len(logits_NB), dtype=torch.bool, device=logits_NB.device)
    lowest = torch.finfo(logits_NB.dtype).min
    p_NN = (cosines_NN / temperatures_N1).masked_fill(itself_NN, lowest).softmax(dim=1)
    total = logits_NB.new_zeros(())
    for query_NB in (bits_NB, logits_NB / size_N1):
        scores_NN = query_NB @ bits_NB.T * (scale / logits_NB.shape[1])
        total = total + functional.cross_entropy(scores_NN.masked_fill(itself_NN, lowest), p_NN)
    return total / 2
