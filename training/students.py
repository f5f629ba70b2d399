"""The code layer of a student: logits as bits that a gradient passes through.

Bits are ±1 here, −1 for a 0, so that inner products count agreements.
"""

from __future__ import annotations

import torch
from torch import Tensor

from training.models import relaxed_bernoulli


def relaxed_bits(
    logits_NB: Tensor, relaxation: str, temperature: float, generator: torch.Generator
) -> Tensor:
    """Return bits relaxed to [−1, 1], ``(N, B)``.

    - ``tanh``: tanh(l / τ).
    - ``bernoulli``: 2b − 1 with b a relaxed draw from Ber(σ(l)) at temperature τ
      (:func:`training.models.relaxed_bernoulli`): undecided bits are noisy, which drives them
      apart from 0.
    - ``straight-through``: the sign of l, 1 at 0, with the gradient of tanh(l / τ). Source: Bengio,
      Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons"
      (2013).

    Raises:
        ValueError: if `relaxation` is none of these.
    """
    if relaxation == "bernoulli":
        return 2 * relaxed_bernoulli(logits_NB, temperature, generator) - 1
    soft_NB = torch.tanh(logits_NB / temperature)
    if relaxation == "tanh":
        return soft_NB
    if relaxation == "straight-through":
        hard_NB = torch.where(logits_NB > 0, 1.0, -1.0)
        return soft_NB + (hard_NB - soft_NB).detach()
    raise ValueError(f"relaxation is {relaxation!a}; it must be tanh, bernoulli, straight-through")


def relaxed_hamming(x_NB: Tensor, y_MB: Tensor) -> Tensor:
    """Return ½ (1 − x·y / B), ``[N, M]``: the share of bits that differ, for bits of ±1.

    For bits relaxed to [−1, 1] it is the share expected where each bit is drawn independently with
    that mean. Unlike a cosine it grows as bits saturate: a student must decide its bits to part
    what its teacher sees far apart.
    """
    return 0.5 * (1 - x_NB @ y_MB.T / x_NB.shape[1])
