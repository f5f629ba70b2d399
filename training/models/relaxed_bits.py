"""Differentiable bits: random draws, relaxations and straight-through signs.

Bits are ±1, with −1 for a 0, so that inner products count agreements. Only those of
:func:`relaxed_bernoulli` are 0 or 1.
"""

from __future__ import annotations

import torch
from torch import Tensor


def relaxed_bits(
    logits_NB: Tensor, relaxation: str, temperature: float, generator: torch.Generator
) -> Tensor:
    """Return bits relaxed to [−1, 1], ``(N, B)``.

    - ``tanh``: tanh(l / τ).
    - ``bernoulli``: 2b − 1 with b a relaxed draw from Ber(σ(l)) at temperature τ
      (:func:`relaxed_bernoulli`): undecided bits are noisy, which drives logits away from 0.
    - ``straight-through``: :func:`straight_through_signs` of l / τ.

    Raises:
        ValueError: if `relaxation` is not one of these.
    """
    if relaxation == "bernoulli":
        return 2 * relaxed_bernoulli(logits_NB, temperature, generator) - 1
    if relaxation == "tanh":
        return torch.tanh(logits_NB / temperature)
    if relaxation == "straight-through":
        return straight_through_signs(logits_NB / temperature)
    raise ValueError(
        f"relaxation is {relaxation!r}; it must be tanh, bernoulli or straight-through"
    )


def straight_through_signs(logits_NB: Tensor) -> Tensor:
    """Return the signs of logits, −1 at 0, ``(N, B)``, with the gradient of tanh(logits).

    Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic
    Neurons" (2013).
    """
    smooth_NB = torch.tanh(logits_NB)
    signs_NB = (logits_NB > 0).to(logits_NB.dtype) * 2 - 1
    return smooth_NB + (signs_NB - smooth_NB).detach()


def relaxed_hamming(x_NB: Tensor, y_MB: Tensor) -> Tensor:
    """Return ½ (1 − x·y / B), ``[N, M]``: the share of bits that differ, for bits of ±1.

    For bits relaxed to [−1, 1] it is the expected share if each bit is drawn independently with
    that mean. Unlike a cosine, it increases as bits saturate. So a student must decide its bits to
    separate what its teacher separates.
    """
    return 0.5 * (1 - x_NB @ y_MB.T / x_NB.shape[1])


def relaxed_bernoulli(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Draw σ((logits + L) / τ) with L ~ Logistic(0, 1): the binary Gumbel-softmax."""
    # Drawn on the CPU, so that the draws are the same on every device.
    uniform = torch.rand(logits.shape, generator=generator).to(logits.device)
    # The logistic noise would be infinite at 0 and 1.
    uniform = uniform.clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((logits + torch.logit(uniform)) / temperature)
