"""WISH: a Bernoulli autoencoder whose bits switch the vectors of implicit topics on and off.

Source: Ye, Manotumruksa and Yilmaz, "Unsupervised Few-Bits Semantic Hashing with Implicit Topics
Modeling" (2020). Its codes have 4 to 16 bits; the topics are as many as the bits.
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

TOPIC_SIZE, TOPIC_WEIGHT = 100, 1.0
"""The length of the topic vectors, and α, as in the authors' code."""
KL_WEIGHT = 0.01
"""λ; in the authors' code it grows by 5 · 10⁻⁶ a batch, to about as much."""


class Wish(TextModel):
    """x → z ~ Ber(σ(l)) → Σ_b z_b t_b → a softmax over the words, with a topic t_b for each bit.

    L = E_q ln p(x|z) − λ KL(Ber(σ(l)) ‖ Ber(½)) − α ‖T Tᵀ − I‖²_F, with T of shape ``(B, 100)``,
    so that topics are of length 1 and orthogonal.
    """

    def __init__(
        self,
        shape: Shape,
        _documents: WordCounts,
        _seed: int,
        kl_weight: float = KL_WEIGHT,
    ) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(shape)
        self.decoder = TextDecoder(TOPIC_SIZE, shape.inputs)
        # Uniform on [0, 1), as in the authors' code, but on the scale of topics of length 1.
        self.topics_BT = nn.Parameter(torch.rand(shape.n_bits, TOPIC_SIZE) / TOPIC_SIZE**0.5)
        self.kl_weight = kl_weight

    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return −ln p(x|z) and the KL term, means over the batch, and the term of the topics."""
        _, logits_NB = self.encoder(batch.x, generator)
        topic_NT = draw_bits(logits_NB, generator) @ self.topics_BT
        kl_weight = self.kl_weight * warmup_weight(progress)
        return {
            "reconstruction_loss": words_loss(self.decoder, topic_NT, batch),
            "kl_loss": kl_weight * kl_loss(logits_NB),
            "topic_loss": TOPIC_WEIGHT * topic_loss(self.topics_BT),
        }


def topic_loss(topics_BT: Tensor) -> Tensor:
    """Return ‖T Tᵀ − I‖²_F, a scalar."""
    return (topics_BT @ topics_BT.T - torch.eye(len(topics_BT))).square().sum()


def learn(
    task: Task, *, learning_rate: float = LEARNING_RATE, kl_weight: float = KL_WEIGHT
) -> Encode:
    """Train WISH on the documents of a task."""
    build = partial(Wish, kl_weight=kl_weight)
    return learn_by(build, task, learning_rate)
