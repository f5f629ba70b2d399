"""The Bernoulli autoencoder: encoder, relaxed binary code, decoder and class head.

Shapes: N rows of a batch, V terms (or D vector entries), H hidden units, B bits, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.batches import SparseBatch

# Rows of unit length are small beside the weights that Adam moves by its step size; scaled up, the
# first layer learns as fast as the others. The export folds the scale into the weights.
INPUT_SCALE = 5.0


class SparseLinear(nn.Module):
    """s x W + b for sparse x: the rows of W are gathered, and only they receive a gradient."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: SparseBatch) -> Tensor:
        """Return ``(N, outputs)``."""
        return INPUT_SCALE * _weighted_sum(x, self.weight, sparse=True) + self.bias

    def scaled_weight(self) -> Tensor:
        """Return s W, the weight of the same layer without a scale."""
        return INPUT_SCALE * self.weight


class EncoderNetwork(nn.Module):
    """Two hidden layers of ReLU units, then one logit a bit (SSB-VAE, section 4)."""

    def __init__(self, *, inputs: int, hidden: int, n_bits: int, text: bool) -> None:
        super().__init__()
        self.first = SparseLinear(inputs, hidden) if text else nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.logits = nn.Linear(hidden, n_bits)

    def forward(self, x: SparseBatch | Tensor) -> tuple[Tensor, Tensor]:
        """Return the second hidden layer ``(N, H)`` and the logits ``(N, B)``."""
        h_NH = functional.relu(self.second(functional.relu(self.first(x))))
        return h_NH, self.logits(h_NH)


class TextDecoder(nn.Module):
    """A softmax over the vocabulary, linear in the code: log p(v|b) = log softmax(E b + c)_v."""

    def __init__(self, n_bits: int, terms: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(terms, n_bits))
        self.bias = nn.Parameter(torch.zeros(terms))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, b_NB: Tensor, targets: SparseBatch) -> Tensor:
        """Return −Σ_v t_v log p(v|b) for each row, shape ``(N,)``.

        With Σ_v t_v = 1 this is logsumexp(E b + c) − Σ_v t_v (E_v·b + c_v), so that the targets
        are only ever touched where they are not zero. A row without terms gives 0.
        """
        log_partition_N = torch.logsumexp(functional.linear(b_NB, self.weight, self.bias), dim=1)
        mean_weight_NB = _weighted_sum(targets, self.weight, sparse=False)
        mean_bias_N1 = _weighted_sum(targets, self.bias.unsqueeze(1), sparse=False)
        fit_N = (mean_weight_NB * b_NB).sum(dim=1) + mean_bias_N1.squeeze(1)
        return (log_partition_N - fit_N) * (targets.lengths > 0)


class VectorDecoder(nn.Module):
    """A Gaussian of unit variance around a linear map of the code."""

    def __init__(self, n_bits: int, dimension: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_bits, dimension)

    def forward(self, b_NB: Tensor, targets_ND: Tensor) -> Tensor:
        """Return ½‖x − (E b + c)‖² for each row, shape ``(N,)``: −log p(x|b) up to a constant."""
        error_ND: Tensor = targets_ND - self.linear(b_NB)
        return 0.5 * error_ND.square().sum(dim=1)


@dataclass(frozen=True)
class Output:
    """What a forward pass gives: logits and relaxed bits of the code, logits of the classes."""

    logits_NB: Tensor
    b_NB: Tensor
    class_logits_NC: Tensor


class BernoulliAutoencoder(nn.Module):
    """SSB-VAE's network: x → logits → relaxed b ~ Ber(σ(logits)) → x̂, with a class head on h₂.

    Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
    (2020), section 3; the relaxation is Jang et al., "Categorical Reparameterization with
    Gumbel-Softmax" (2017), for two categories.
    """

    def __init__(
        self, *, inputs: int, hidden: int, n_bits: int, classes: int, temperature: float, text: bool
    ) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(inputs=inputs, hidden=hidden, n_bits=n_bits, text=text)
        self.decoder = TextDecoder(n_bits, inputs) if text else VectorDecoder(n_bits, inputs)
        self.class_head = nn.Linear(hidden, classes)
        self.temperature = temperature

    def forward(self, x: SparseBatch | Tensor, generator: torch.Generator) -> Output:
        """Encode a batch and draw one relaxed code for each row."""
        h_NH, logits_NB = self.encoder(x)
        b_NB = relaxed_bernoulli(logits_NB, self.temperature, generator)
        return Output(logits_NB=logits_NB, b_NB=b_NB, class_logits_NC=self.class_head(h_NH))


def relaxed_bernoulli(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Draw σ((logits + L) / τ) with L ~ Logistic(0, 1): the binary Gumbel-softmax."""
    uniform = torch.rand(logits.shape, generator=generator, device=logits.device)
    # Away from 0 and 1, where the logistic noise would be infinite.
    uniform = uniform.clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((logits + torch.logit(uniform)) / temperature)


def _weighted_sum(x: SparseBatch, weight: Tensor, *, sparse: bool) -> Tensor:
    """Return x W, ``(N, outputs)``, with a sparse gradient for W or a dense one."""
    product: Tensor = functional.embedding_bag(
        x.columns, weight, x.starts, mode="sum", sparse=sparse, per_sample_weights=x.values
    )
    return product
