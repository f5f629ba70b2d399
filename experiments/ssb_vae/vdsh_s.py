"""VDSH-S, the Gaussian autoencoder that SSB-VAE's paper compares with.

Shapes: N rows of a batch, H hidden units, B bits, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hummingbit.training.batches import SparseBatch
from hummingbit.training.networks import (
    Autoencoder,
    EncoderNetwork,
    Output,
    Shape,
    decoder_of,
)


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


class GaussianAutoencoder(Autoencoder):
    """VDSH-S's network: x → μ, σ → z ~ N(μ, σ²) → x̂, with a class head on the sampled z.

    Source: Chaidaroon and Fang, "Variational Deep Semantic Hashing for Text Documents" (2017),
    section 3.3.
    """

    def __init__(self, shape: Shape, _temperature: float = 1.0) -> None:
        super().__init__()
        self.encoder = EncoderNetwork(shape)
        self.latent = GaussianLatent(shape.hidden, shape.n_bits)
        self.decoder = decoder_of(shape)
        self.class_head = nn.Linear(shape.n_bits, shape.classes)
        self.content = None

    def forward(self, x: SparseBatch | Tensor, generator: torch.Generator) -> Output:
        """Encode a batch and draw one code for each row."""
        h_NH, mean_NB = self.encoder(x, generator)
        z_NB, kl = self.latent(h_NH, mean_NB, generator)
        class_logits_NC = self.class_head(z_NB)
        return Output(mean_NB, z_NB, kl, class_logits_NC, class_logits_NC)


def gaussian_kl_loss(mean_NB: Tensor, log_variance_NB: Tensor) -> Tensor:
    """Return the mean over rows of KL(N(μ, σ²) ‖ N(0, 1)), a scalar; (1) for VDSH-S.

    For one entry: ½ (μ² + σ² − 1 − ln σ²), summed over the entries. Source: Kingma and Welling,
    "Auto-Encoding Variational Bayes" (2014), appendix B.
    """
    per_entry = mean_NB.square() + log_variance_NB.exp() - 1 - log_variance_NB
    return 0.5 * per_entry.sum(dim=1).mean()
