"""The evidence lower bound of an autoencoder: how far its code is from the prior.

Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
(2020), section 3. The reconstruction term is computed by the decoders, which know their likelihood.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def kl_loss(logits_NB: Tensor) -> Tensor:
    """Return the mean over rows of KL(Ber(σ(logits)) ‖ Ber(½)), summed over bits; a scalar.

    For one bit with α = σ(l): α ln α + (1 − α) ln(1 − α) + ln 2, written with log-sigmoids so
    that saturated bits stay finite.
    """
    alpha = torch.sigmoid(logits_NB)
    per_bit = (
        alpha * functional.logsigmoid(logits_NB)
        + (1 - alpha) * functional.logsigmoid(-logits_NB)
        + math.log(2)
    )
    return per_bit.sum(dim=1).mean()


def gaussian_kl_loss(mean_NB: Tensor, log_variance_NB: Tensor) -> Tensor:
    """Return the mean over rows of KL(N(μ, σ²) ‖ N(0, 1)), summed over the entries; a scalar.

    For one entry: ½ (μ² + σ² − 1 − ln σ²). Source: Kingma and Welling, "Auto-Encoding Variational
    Bayes" (2014), appendix B.
    """
    per_entry = mean_NB.square() + log_variance_NB.exp() - 1 - log_variance_NB
    return 0.5 * per_entry.sum(dim=1).mean()
