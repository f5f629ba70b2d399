"""SMASH: an autoencoder of noisy texts whose bits are balanced over a memory of all codes.

Source: He et al., "An Efficient and Robust Semantic Hashing Framework for Similar Text Search"
(2023), and the authors' code (https://github.com/hly1998/SMASH). Where the two are not the same
thing, this follows the code, except in two places: the noisy copies of a text are weighted by their
own similarity to it (the code mixes those of several texts up), and the balance begins at half of a
run (in the code, once the precision of the test queries falls).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from experiments.leaderboard.contract import Encode, Task
from experiments.leaderboard.text_training import (
    BATCH_SIZE,
    LEARNING_RATE,
    Batch,
    TextModel,
    WordCounts,
    fit_text_model,
)
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.encoder import Inputs
from hummingbit.encoder.text_features import Floats
from hummingbit.training.batches import SparseBatch
from hummingbit.training.networks import EncoderNetwork, Shape, TextDecoder

LONG_CODE = 128
"""The length of the real-valued code from which the bits are made."""
COPIES, NOISE = 3, 0.6
"""The noisy copies of a text, and σ: an entry stays with the probability min(1, |N(0, 1 − σ)|)."""
RELEVANCE_WEIGHT, BALANCE_WEIGHT, CORRELATION_WEIGHT = 0.5, 1.0, 0.01
MEMORY_SHARE = 0.5
"""α, the least share of an epoch after which a code in the memory is too old."""
BALANCED_FROM = 0.5


class Smash(TextModel):
    """x → h = tanh(128 values) → z = tanh(W h) → a softmax over the terms.

    With x̃ₛ the noisy copies of a text, hₛ and zₛ their codes, and ε = softmaxₛ(h · hₛ),

        L = −Σ_v x_v ln p(v|z) − mean_s εₛ Σ_v x_v ln p(v|zₛ) + ½ (R(z, h) + R(zₛ, hₛ)) + balance,
        R(z, h) = mean_{i≠j} |z_i · z_j / B − h_i · h_j / 128|.
    """

    def __init__(
        self,
        shape: Shape,
        documents: WordCounts,
        _seed: int,
        relevance_weight: float = RELEVANCE_WEIGHT,
    ) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(replace(shape, n_bits=LONG_CODE))
        self.short = nn.Linear(LONG_CODE, shape.n_bits)
        self.decoder = TextDecoder(shape.n_bits, shape.inputs)
        self.relevance_weight = relevance_weight
        n = documents.x.shape[0]
        self.memory = Memory(n, shape.n_bits, -(-n // BATCH_SIZE))

    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return the terms of L, means over the batch."""
        long_NL, z_NB = self._codes(batch.x, generator)
        copies = [self._codes(drop_by_noise(batch.x, generator), generator) for _ in range(COPIES)]
        weight_NS = torch.stack([(long_NL * h).sum(dim=1) for h, _ in copies], dim=1).softmax(dim=1)
        noisy_NS = torch.stack([self._terms_loss(z, batch.x) for _, z in copies], dim=1)
        long_MN, z_MB = (torch.cat(parts) for parts in zip(*copies, strict=True))
        terms = {
            "reconstruction_loss": self._terms_loss(z_NB, batch.x).mean(),
            "noisy_reconstruction_loss": (weight_NS * noisy_NS).mean(),
            "relevance_loss": self.relevance_weight
            * (relevance_loss(z_NB, long_NL) + relevance_loss(z_MB, long_MN)),
        }
        if progress >= BALANCED_FROM:
            terms["balance_loss"] = balance_loss(z_NB, self.memory.recent())
        total = sum(float(term.detach()) for term in terms.values())
        self.memory.store(batch.rows, z_NB.detach(), total)
        return terms

    def _terms_loss(self, z_NB: Tensor, x: SparseBatch) -> Tensor:
        """Return −Σ_v x_v ln p(v|z) of each row, ``(N,)``."""
        row = torch.repeat_interleave(torch.arange(len(x.lengths)), x.lengths)
        sum_N = torch.zeros(len(x.lengths)).index_add_(0, row, x.values)
        # The decoder takes distributions.
        per_term_N: Tensor = self.decoder(z_NB, replace(x, values=x.values / sum_N[row]))
        return sum_N * per_term_N

    def _codes(self, x: SparseBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        long_NL = torch.tanh(self.encoder(x, generator)[1])
        return long_NL, torch.tanh(self.short(long_NL))


class Memory:
    """The signs of the codes of all N training documents, as they were last seen.

    A code is recent if it was stored within the last T (1 − (1 − c) (1 − α)) of the T batches of an
    epoch, where c = |L_max − L| / L_max, L_max is the greatest mean loss of an epoch, and L the
    last loss: once the network changes little, older codes count, too.
    """

    def __init__(self, n: int, n_bits: int, batches: int) -> None:
        self.sign_NB = torch.zeros(n, n_bits)
        self.stored_N = torch.full((n,), -torch.inf)
        self.batches, self.number = batches, 0
        self.greatest, self.last, self._sum = 0.0, 0.0, 0.0

    def recent(self) -> Tensor:
        """Return the codes that are recent, ``[M, B]``."""
        change = abs(self.greatest - self.last) / (self.greatest + 1e-5)
        age = self.batches * (1 - (1 - change) * (1 - MEMORY_SHARE))
        return self.sign_NB[self.number - self.stored_N < age]

    def store(self, rows: np.typing.NDArray[np.int64], z_NB: Tensor, loss: float) -> None:
        """Store the codes of a batch and its loss."""
        at = torch.from_numpy(rows)
        self.number += 1
        self.sign_NB[at] = z_NB.sign()
        self.stored_N[at] = float(self.number)
        self.last = loss
        self._sum += loss
        if self.number % self.batches == 0:
            self.greatest = max(self.greatest, self._sum / self.batches)
            self._sum = 0.0


def drop_by_noise(batch: SparseBatch, generator: torch.Generator) -> SparseBatch:
    """Return a batch in which each entry is 0 except with the probability of :data:`NOISE`."""
    normal = torch.randn(batch.values.shape, generator=generator)
    keep = torch.rand(batch.values.shape, generator=generator) < (1 - NOISE) * normal.abs()
    return replace(batch, values=batch.values * keep)


def relevance_loss(z_NB: Tensor, long_NL: Tensor) -> Tensor:
    """Return R, the mean difference of the similarities of two documents by both codes."""
    n = len(z_NB)
    difference_NN = z_NB @ z_NB.T / z_NB.shape[1] - long_NL @ long_NL.T / long_NL.shape[1]
    apart_NN = ~torch.eye(n, dtype=torch.bool)
    return difference_NN[apart_NN].abs().sum() / max(1, n * (n - 1))


def balance_loss(z_NB: Tensor, memory_MB: Tensor) -> Tensor:
    """Return how uneven and how correlated bits are, those most that are so in the memory.

    With w = softmax_b |Σ_m e_mb| and V the softmax of each row of |EᵀE / M − I|, it is

        Σ_b w_b |Σ_i z_ib| / B + 0.01 ‖(ZᵀZ / N − I) ∘ V‖² / B².
    """
    n_bits = z_NB.shape[1]
    identity = torch.eye(n_bits)
    uneven_B = memory_MB.sum(dim=0).abs().softmax(dim=0)
    balance = (uneven_B * z_NB.sum(dim=0).abs()).sum() / n_bits
    correlated_BB = memory_MB.T @ memory_MB / max(1, len(memory_MB)) - identity
    weighted_BB = (z_NB.T @ z_NB / len(z_NB) - identity) * correlated_BB.abs().softmax(dim=1)
    correlation = weighted_BB.square().sum() / n_bits**2
    return BALANCE_WEIGHT * balance + CORRELATION_WEIGHT * correlation


def learn(
    task: Task,
    *,
    learning_rate: float = LEARNING_RATE,
    relevance_weight: float = RELEVANCE_WEIGHT,
) -> Encode:
    """Train SMASH on the documents of a task; a bit is 1 above the median of its value."""
    build = partial(Smash, relevance_weight=relevance_weight)
    model, encoder = fit_text_model(build, task, learning_rate)
    weight_BL, bias_B = (each.detach().numpy() for each in (model.short.weight, model.short.bias))

    def values(inputs: Inputs) -> Floats:
        return np.asarray(np.tanh(encoder.logits(inputs)) @ weight_BL.T + bias_B)

    median_B = np.median(values(task.texts), axis=0)
    return lambda inputs: pack_bits(values(inputs) > median_B)
