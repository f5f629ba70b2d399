"""VDSH: a Gaussian autoencoder of words whose means become bits at their medians.

Source: Chaidaroon and Fang, "Variational Deep Semantic Hashing for Text Documents" (2017), the
unsupervised model. Different from the paper, the step size decays linearly, and the warm-up of the
KL term depends on the share of the run and not on the number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from experiments.leaderboard.contract import Encode, Task
from experiments.leaderboard.text_training import (
    LEARNING_RATE,
    Batch,
    TextModel,
    WordCounts,
    learn_by,
    warmup_weight,
    words_loss,
)
from experiments.ssb_vae.vdsh_s import GaussianLatent
from hummingbit.training.networks import EncoderNetwork, Shape, TextDecoder


class Vdsh(TextModel):
    """x → μ, σ → s ~ N(μ, σ²) → a softmax over the words; L = E_q ln p(x|s) − KL(q ‖ N(0, I))."""

    def __init__(
        self, shape: Shape, _documents: WordCounts, _seed: int, kl_weight: float = 1.0
    ) -> None:
        super().__init__()
        self.kl_weight = kl_weight
        self.encoder = EncoderNetwork(shape)
        self.latent = GaussianLatent(shape.hidden, shape.n_bits)
        self.decoder = TextDecoder(shape.n_bits, shape.inputs)

    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return −ln p(x|s) and the KL term, each a mean over the batch."""
        h_NH, mean_NB = self.encoder(batch.x, generator)
        s_NB, kl = self.latent(h_NH, mean_NB, generator)
        return {
            "reconstruction_loss": words_loss(self.decoder, s_NB, batch),
            "kl_loss": self.kl_weight * warmup_weight(progress) * kl,
        }


def learn(task: Task, *, learning_rate: float = LEARNING_RATE, kl_weight: float = 1.0) -> Encode:
    """Train VDSH on the documents of a task."""
    build = partial(Vdsh, kl_weight=kl_weight)
    return learn_by(build, task, learning_rate, median_thresholds=True)
