"""Autoencoders with a binary or a Gaussian code: encoder, code, decoder and class head.

Shapes: N rows of a batch, V terms (or D vector entries), H hidden units, B bits, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.models.batches import SparseBatch
from training.models.layers import ScaledLinear, SparseLinear
from training.models.relaxed_bits import relaxed_bernoulli
from training.objectives.ssb_vae import (
    gaussian_kl_loss,
    kl_loss,
    text_reconstruction_loss,
    vector_reconstruction_loss,
)

# Four times as many units take twice the time and are no better.
_FACTORED_HIDDEN = 128


@dataclass(frozen=True)
class Shape:
    """The sizes of an autoencoder; `inputs` are terms of a text or entries of a vector.

    `sparse_gradient` is that of the first layer for texts, a :class:`SparseLinear`. `content_bits`
    come after the `n_bits`, from a linear network of their own.
    """

    inputs: int
    hidden: int
    n_bits: int
    classes: int
    text: bool
    batch_norm: bool = False
    input_scale: float = 1.0
    dropout: float = 0.0
    sparse_gradient: bool = True
    linear: bool = False
    content_bits: int = 0


class EncoderNetwork(nn.Module):
    """Two hidden layers of ReLU units, each with optional batch normalisation, then B logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        hidden = shape.hidden
        self.first = _first_layer(shape)
        self.first_norm = nn.BatchNorm1d(hidden) if shape.batch_norm else None
        self.second = nn.Linear(hidden, hidden)
        self.second_norm = nn.BatchNorm1d(hidden) if shape.batch_norm else None
        self.logits = nn.Linear(hidden, shape.n_bits)

    def forward(
        self, x: SparseBatch | Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the second hidden layer ``(N, H)`` and the logits ``(N, B)``.

        In training mode and with a `generator`, hidden units drop out at the rate of the shape.
        """
        rate = self.dropout if self.training and generator is not None else 0.0
        h_NH = _normalized(functional.relu(self.first(x)), self.first_norm)
        h_NH = functional.relu(self.second(_drop_units(h_NH, rate, generator)))
        h_NH = _drop_units(_normalized(h_NH, self.second_norm), rate, generator)
        return h_NH, self.logits(h_NH)


class LinearEncoderNetwork(nn.Module):
    """B logits linear in the terms of a text: one matrix and a bias."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.logits = SparseLinear(
            shape.inputs, shape.n_bits, shape.input_scale, sparse_gradient=shape.sparse_gradient
        )

    def start_at(self, weight_VB: Tensor, thresholds_B: Tensor) -> None:
        """Set the logits to x W − t."""
        with torch.no_grad():
            self.logits.weight.copy_(weight_VB / self.logits.scale)
            self.logits.bias.copy_(-thresholds_B)

    def forward(
        self, x: SparseBatch, _generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits ``(N, B)`` twice, since there is no hidden layer."""
        logits_NB = self.logits(x)
        return logits_NB, logits_NB


class FactoredEncoderNetwork(nn.Module):
    """B logits linear in the terms of a text, as a product of two matrices with H units between.

    Training a product from a random start favours few directions. Source: Arora et al., "Implicit
    Regularization in Deep Matrix Factorization" (2019).
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        narrow = replace(shape, hidden=max(_FACTORED_HIDDEN, shape.n_bits))
        self.first = _first_layer(narrow)
        self.logits = nn.Linear(narrow.hidden, shape.n_bits)

    def forward(
        self, x: SparseBatch | Tensor, _generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the H units ``(N, H)`` and the logits ``(N, B)``."""
        h_NH = self.first(x)
        return h_NH, self.logits(h_NH)


AnyEncoderNetwork = EncoderNetwork | LinearEncoderNetwork | FactoredEncoderNetwork


def _first_layer(shape: Shape) -> SparseLinear | ScaledLinear:
    sizes = (shape.inputs, shape.hidden, shape.input_scale)
    if shape.text:
        return SparseLinear(*sizes, sparse_gradient=shape.sparse_gradient)
    return ScaledLinear(*sizes)


def _normalized(h_NH: Tensor, norm: nn.BatchNorm1d | None) -> Tensor:
    normalized: Tensor = h_NH if norm is None else norm(h_NH)
    return normalized


def _drop_units(h_NH: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Set units to 0 at this rate and scale the others up, which preserves expectations."""
    if rate == 0:
        return h_NH
    # Drawn on the CPU, so that the draws are the same on every device.
    keep_NH = torch.rand(h_NH.shape, generator=generator) >= rate
    return h_NH * keep_NH.to(h_NH.device) / (1 - rate)


class TextDecoder(nn.Module):
    """A softmax over the vocabulary, linear in the code: log p(v|b) = log softmax(E b + c)_v."""

    def __init__(self, n_bits: int, terms: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(terms, n_bits))
        self.bias = nn.Parameter(torch.zeros(terms))
        nn.init.xavier_uniform_(self.weight)

    def start_at(self, share_V: Tensor) -> None:
        """Set c to the logarithm of each term's share of all words.

        Otherwise bits first learn the frequent words. These are the same for every text, so bits
        would freeze at one value for all texts before c has learned the frequencies.
        """
        with torch.no_grad():
            self.bias.copy_(share_V.log())

    def forward(self, b_NB: Tensor, targets: SparseBatch) -> Tensor:
        """Return :func:`text_reconstruction_loss` of each row, shape ``(N,)``."""
        return text_reconstruction_loss(b_NB, self.weight, self.bias, targets)


class VectorDecoder(nn.Module):
    """A Gaussian of unit variance around a linear map of the code."""

    def __init__(self, n_bits: int, dimension: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_bits, dimension)
        # With random weights, the noise of the bits would cause an error much larger than short
        # vectors. Training would then freeze every bit, from which codes do not recover.
        nn.init.zeros_(self.linear.weight)

    def forward(self, b_NB: Tensor, targets_ND: Tensor) -> Tensor:
        """Return :func:`vector_reconstruction_loss` of E b + c for each row, shape ``(N,)``."""
        return vector_reconstruction_loss(self.linear(b_NB), targets_ND)


class BernoulliLatent(nn.Module):
    """b ~ Ber(σ(logits)), relaxed, with Ber(½) as its prior."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, logits_NB: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return a relaxed code ``(N, B)`` and the KL loss."""
        return relaxed_bernoulli(logits_NB, self.temperature, generator), kl_loss(logits_NB)


class GaussianLatent(nn.Module):
    """z ~ N(logits, σ²), σ² a function of the second hidden layer, with N(0, 1) as its prior."""

    def __init__(self, hidden: int, n_bits: int) -> None:
        super().__init__()
        self.log_variance = nn.Linear(hidden, n_bits)

    def forward(
        self, h_NH: Tensor, logits_NB: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return a draw of the code ``(N, B)`` and the KL loss."""
        log_variance_NB = self.log_variance(h_NH)
        noise_NB = torch.randn(logits_NB.shape, generator=generator).to(logits_NB.device)
        z_NB = logits_NB + torch.exp(0.5 * log_variance_NB) * noise_NB
        return z_NB, gaussian_kl_loss(logits_NB, log_variance_NB)


@dataclass(frozen=True)
class Output:
    """A draw of the code, its KL loss, and logits.

    `class_logits_NC` are of the class head, and `code_class_logits_NC` of the head on the code.
    """

    logits_NB: Tensor
    b_NB: Tensor
    kl_loss: Tensor
    class_logits_NC: Tensor
    code_class_logits_NC: Tensor


class BernoulliAutoencoder(nn.Module):
    """SSB-VAE's network: x → logits → relaxed b ~ Ber(σ(logits)) → x̂, with a class head on h₂.

    A second class head is on b; the recipe sets its weight.

    Source: Ñanculef et al., "Self-Supervised Bernoulli Autoencoders for Semi-Supervised Hashing"
    (2020), section 3; the relaxation is Jang et al., "Categorical Reparameterization with
    Gumbel-Softmax" (2017), for two categories.
    """

    def __init__(self, shape: Shape, temperature: float) -> None:
        super().__init__()
        self.encoder = (LinearEncoderNetwork if shape.linear else EncoderNetwork)(shape)
        hidden = shape.n_bits if shape.linear else shape.hidden
        self.latent = BernoulliLatent(temperature)
        self.decoder = _decoder(shape)
        self.class_head = nn.Linear(hidden, shape.classes)
        self.code_head = nn.Linear(shape.n_bits, shape.classes)
        self.content: FactoredEncoderNetwork | None = None
        if shape.content_bits:
            self.content = FactoredEncoderNetwork(replace(shape, n_bits=shape.content_bits))

    def forward(self, x: SparseBatch | Tensor, generator: torch.Generator) -> Output:
        """Encode a batch and draw one relaxed code for each row."""
        h_NH, logits_NB = self.encoder(x, generator)
        b_NB, kl = self.latent(logits_NB, generator)
        return Output(logits_NB, b_NB, kl, self.class_head(h_NH), self.code_head(b_NB))


class GaussianAutoencoder(nn.Module):
    """VDSH-S's network: x → μ, σ → z ~ N(μ, σ²) → x̂, with a class head on the sampled z.

    Source: Chaidaroon and Fang, "Variational Deep Semantic Hashing for Text Documents" (2017),
    section 3.3.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(shape)
        self.latent = GaussianLatent(shape.hidden, shape.n_bits)
        self.decoder = _decoder(shape)
        self.class_head = nn.Linear(shape.n_bits, shape.classes)

    def forward(self, x: SparseBatch | Tensor, generator: torch.Generator) -> Output:
        """Encode a batch and draw one code for each row."""
        h_NH, mean_NB = self.encoder(x, generator)
        z_NB, kl = self.latent(h_NH, mean_NB, generator)
        class_logits_NC = self.class_head(z_NB)
        return Output(mean_NB, z_NB, kl, class_logits_NC, class_logits_NC)


Autoencoder = BernoulliAutoencoder | GaussianAutoencoder


def _decoder(shape: Shape) -> TextDecoder | VectorDecoder:
    decoder = TextDecoder if shape.text else VectorDecoder
    return decoder(shape.n_bits, shape.inputs)
