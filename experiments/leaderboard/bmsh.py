"""BMSH: NASH with a mixture of Bernoulli distributions as the prior of codes.

Source: Dong et al., "Document Hashing with Mixture-Prior Generative Models" (2019), section 3.2.
Here q(c|x) is a linear layer on the second hidden layer, from which the bits come, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.leaderboard.contract import Encode, Task
from experiments.leaderboard.nash import add_noise
from experiments.leaderboard.text_training import (
    LEARNING_RATE,
    Batch,
    TextModel,
    WordCounts,
    draw_bits,
    learn_by,
    warmup_weight,
    words_loss,
)
from hummingbit.training.networks import EncoderNetwork, Shape, TextDecoder

COMPONENTS = 20
"""K, the number of components of the prior, as in the paper."""


class Bmsh(TextModel):
    """p(c) = softmax(π), p(z|c) = Ber(σ(γ_c)); q(z, c|x) = Ber(z; σ(l)) · q(c|x)."""

    def __init__(
        self, shape: Shape, _documents: WordCounts, _seed: int, kl_weight: float = 1.0
    ) -> None:
        super().__init__()
        self.kl_weight = kl_weight
        self.encoder = EncoderNetwork(shape)
        self.log_variance = nn.Linear(shape.n_bits, shape.n_bits)
        self.decoder = TextDecoder(shape.n_bits, shape.inputs)
        self.component = nn.Linear(shape.hidden, COMPONENTS)
        self.pi_K = nn.Parameter(torch.zeros(COMPONENTS))
        self.gamma_KB = nn.Parameter(torch.randn(COMPONENTS, shape.n_bits))

    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return −ln p(x|z') and the KL term, each a mean over the batch."""
        h_NH, logits_NB = self.encoder(batch.x, generator)
        z_NB = add_noise(draw_bits(logits_NB, generator), logits_NB, self.log_variance, generator)
        kl = mixture_kl_loss(logits_NB, self.component(h_NH), self.pi_K, self.gamma_KB)
        return {
            "reconstruction_loss": words_loss(self.decoder, z_NB, batch),
            "kl_loss": self.kl_weight * warmup_weight(progress) * kl,
        }


def mixture_kl_loss(
    logits_NB: Tensor, component_logits_NK: Tensor, pi_K: Tensor, gamma_KB: Tensor
) -> Tensor:
    """Return the mean over rows of KL(q(z, c|x) ‖ p(z, c)), a scalar.

    It is KL(q(c|x) ‖ p(c)) + Σ_c q(c|x) KL(Ber(σ(l)) ‖ Ber(σ(γ_c))).
    """
    log_q_NK = component_logits_NK.log_softmax(dim=1)
    q_NK = log_q_NK.exp()
    kl_of_components_N = (q_NK * (log_q_NK - pi_K.log_softmax(dim=0))).sum(dim=1)
    p_NB = torch.sigmoid(logits_NB)
    minus_entropy_N = (
        p_NB * functional.logsigmoid(logits_NB) + (1 - p_NB) * functional.logsigmoid(-logits_NB)
    ).sum(dim=1)
    expected_log_p_NK = (
        p_NB @ functional.logsigmoid(gamma_KB).T + (1 - p_NB) @ functional.logsigmoid(-gamma_KB).T
    )
    kl_of_bits_N = (q_NK * (minus_entropy_N[:, None] - expected_log_p_NK)).sum(dim=1)
    return (kl_of_components_N + kl_of_bits_N).mean()


def learn(task: Task, *, learning_rate: float = LEARNING_RATE, kl_weight: float = 1.0) -> Encode:
    """Train BMSH on the documents of a task."""
    build = partial(Bmsh, kl_weight=kl_weight)
    return learn_by(build, task, learning_rate)
