"""NASH: a Bernoulli autoencoder of words, its bits drawn with straight-through gradients.

Source: Shen et al., "NASH: Toward End-to-End Neural Architecture for Generative Semantic Hashing"
(2018), with stochastic bits and data-dependent noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from experiments.leaderboard.contract import Encode, Task
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
from hummingbit.training.objectives.ssb_vae import kl_loss


class Nash(TextModel):
    """x → z ~ Ber(σ(l)) → z' ~ N(z, σ²) → a softmax over the words.

    L = E_q ln p(x|z') − KL(Ber(σ(l)) ‖ Ber(½)). The noise σ is learned: a linear layer computes
    ln σ² from the probabilities of the bits.
    """

    def __init__(
        self, shape: Shape, _documents: WordCounts, _seed: int, kl_weight: float = 1.0
    ) -> None:
        super().__init__()
        self.kl_weight = kl_weight
        self.encoder = EncoderNetwork(shape)
        self.log_variance = nn.Linear(shape.n_bits, shape.n_bits)
        self.decoder = TextDecoder(shape.n_bits, shape.inputs)

    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return −ln p(x|z') and the KL term, each a mean over the batch."""
        _, logits_NB = self.encoder(batch.x, generator)
        z_NB = add_noise(draw_bits(logits_NB, generator), logits_NB, self.log_variance, generator)
        return {
            "reconstruction_loss": words_loss(self.decoder, z_NB, batch),
            "kl_loss": self.kl_weight * warmup_weight(progress) * kl_loss(logits_NB),
        }


def add_noise(
    z_NB: Tensor, logits_NB: Tensor, log_variance: nn.Linear, generator: torch.Generator
) -> Tensor:
    """Return z' ~ N(z, σ²) with ln σ² = W σ(l) + b, ``(N, B)``."""
    deviation_NB = torch.exp(0.5 * log_variance(torch.sigmoid(logits_NB)))
    return z_NB + deviation_NB * torch.randn(z_NB.shape, generator=generator)


def learn(task: Task, *, learning_rate: float = LEARNING_RATE, kl_weight: float = 1.0) -> Encode:
    """Train NASH on the documents of a task."""
    build = partial(Nash, kl_weight=kl_weight)
    return learn_by(build, task, learning_rate)
