"""CIBHash over sentence vectors: two views of a vector get codes that tell it from the others.

Source: Qiu, Su, Ou, Yu and Chen, "Unsupervised Hashing with Contrastive Information Bottleneck"
(2021). There, the input is an image, and the views are crops and colours; here, entries of a
sentence vector drop out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.leaderboard.contract import Encode, Task
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.data import Rows
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.networks import EncoderNetwork, Shape, to_encoder

HIDDEN, BATCH_SIZE, LEARNING_RATE, MIN_BATCHES, EPOCHS = 500, 64, 1e-3, 2000, 20
TEMPERATURE, BOTTLENECK = 0.3, 0.001
"""τ and β, the defaults of the authors' code."""
VIEW_DROPOUT = 0.3
"""The share of the entries of a vector that a view lacks."""


class CibHash(nn.Module):
    """x → two views → σ(l), σ(l') → signs; L = NT-Xent(b, b') + β/2 (KL(p ‖ p') + KL(p' ‖ p))."""

    def __init__(self, shape: Shape, temperature: float, bottleneck: float) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(shape)
        self.temperature, self.bottleneck = temperature, bottleneck

    def losses(self, x_ND: Tensor, generator: torch.Generator) -> Mapping[str, Tensor]:
        """Return the contrastive loss and the bottleneck of two views, means over the batch."""
        logits = [self.encoder(drop_entries(x_ND, generator), generator)[1] for _ in range(2)]
        codes = [straight_through_signs(torch.sigmoid(view)) for view in logits]
        kl = (bernoulli_kl(*logits) + bernoulli_kl(*reversed(logits))) / 2
        return {
            "contrastive_loss": nt_xent(codes[0], codes[1], self.temperature),
            "bottleneck_loss": self.bottleneck * kl,
        }


def drop_entries(x_ND: Tensor, generator: torch.Generator) -> Tensor:
    """Return `x_ND` with entries set to 0 at random and the others scaled to the same mean."""
    kept_ND = torch.rand(x_ND.shape, generator=generator) >= VIEW_DROPOUT
    return x_ND * kept_ND / (1 - VIEW_DROPOUT)


def straight_through_signs(p_NB: Tensor) -> Tensor:
    """Return sign(p − ½), as −1 or 1, with the gradient of p."""
    return p_NB + (torch.where(p_NB > 0.5, 1.0, -1.0) - p_NB).detach()


def nt_xent(a_NB: Tensor, b_NB: Tensor, temperature: float) -> Tensor:
    """Return the mean over the 2N codes of −ln of their pair's share, a scalar.

    The share is exp(cos(z, z⁺)/τ) / Σ exp(cos(z, z')/τ), over all other codes z' of the batch.
    """
    z = functional.normalize(torch.cat([a_NB, b_NB]), dim=1)
    similarity = z @ z.T / temperature
    similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    pair = torch.arange(len(z)).roll(len(a_NB))
    return functional.cross_entropy(similarity, pair)


def bernoulli_kl(logits_NB: Tensor, other_NB: Tensor) -> Tensor:
    """Return the mean over rows of Σ_b KL(Ber(σ(l)) ‖ Ber(σ(l'))), without a gradient for l'."""
    other_NB = other_NB.detach()
    p_NB = torch.sigmoid(logits_NB)
    on = functional.logsigmoid(logits_NB) - functional.logsigmoid(other_NB)
    off = functional.logsigmoid(-logits_NB) - functional.logsigmoid(-other_NB)
    return (p_NB * on + (1 - p_NB) * off).sum(dim=1).mean()


def learn(
    task: Task, *, temperature: float = TEMPERATURE, bottleneck: float = BOTTLENECK
) -> Encode:
    """Train CIBHash on the vectors of a task; they are centred, and scaled to length 1."""
    vectors = np.asarray(task.data.inputs, dtype=np.float32)
    mean = unit_rows(vectors).mean(axis=0)
    inputs_ND = torch.from_numpy(unit_rows(vectors) - mean)
    dimension = vectors.shape[1]
    shape = Shape(
        inputs=dimension,
        hidden=HIDDEN,
        n_bits=task.n_bits,
        classes=1,
        text=False,
        input_scale=float(dimension**0.5),
    )
    torch.manual_seed(task.seed)
    model = CibHash(shape, temperature, bottleneck)

    def loss(
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG001 - the schedule of other methods needs it
    ) -> Mapping[str, Tensor]:
        return model.losses(inputs_ND[torch.from_numpy(rows)], generator)

    epochs = max(EPOCHS, -(-MIN_BATCHES * BATCH_SIZE // len(inputs_ND)))
    schedule = Schedule(epochs, BATCH_SIZE, LEARNING_RATE, task.seed, decay=True)
    fit(model, loss, len(inputs_ND), schedule, progress=False)
    encoder = to_encoder(model.encoder, VectorFeatures(dimension))
    return lambda inputs: encoder.encode(unit_rows(np.asarray(inputs)) - mean)
