"""Autoencoders with a binary or a Gaussian code: encoder, code, decoder and class head.

Shapes: N rows of a batch, V terms (or D vector entries), H hidden units, B bits, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from training.models.batches import SparseBatch
from training.models.encoder_networks import (
    EncoderNetwork,
    FactoredEncoderNetwork,
    LinearEncoderNetwork,
    Shape,
)
from training.models.relaxed_bits import relaxed_bernoulli
from training.objectives.ssb_vae import (
    gaussian_kl_loss,
    kl_loss,
    text_reconstruction_loss,
    vector_reconstruction_loss,
)


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
