"""Networks from texts or vectors to logits: hidden layers, one matrix, or a product of two.

Shapes: N rows of a batch, V terms (or D vector entries), H hidden units, B bits, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.models.batches import SparseBatch
from training.models.layers import HalvedLinear, ScaledLinear, SparseLinear, weighted_sum

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
    """Two hidden layers of ReLU units, each with optional batch normalization, then B logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        hidden = shape.hidden
        self.first = _first_layer(shape)
        self.first_norm = nn.BatchNorm1d(hidden) if shape.batch_norm else None
        self.second = HalvedLinear(hidden, hidden)
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


class DirectionalLinear(nn.Module):
    """s x D A for sparse x, with the fixed `directions` D, ``(V, K)``, and A, ``(K, outputs)``.

    A starts at 0. A step of A moves all terms of a direction, also those that no x contains.
    """

    directions_VK: Tensor

    def __init__(self, directions_VK: Tensor, outputs: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("directions_VK", directions_VK, persistent=False)
        self.weight_KB = nn.Parameter(directions_VK.new_zeros(directions_VK.shape[1], outputs))

    def forward(self, x: SparseBatch) -> Tensor:
        """Return ``(N, outputs)``."""
        coordinates_NK = weighted_sum(x, self.directions_VK, sparse=False)
        return self.scale * coordinates_NK @ self.weight_KB

    def scaled_weight(self) -> Tensor:
        """Return s D A, the weight of the same layer without directions, ``(V, outputs)``."""
        return self.scale * self.directions_VK @ self.weight_KB


class LinearEncoderNetwork(nn.Module):
    """B logits linear in the terms of a text: one matrix and a bias.

    With :meth:`learn_along`, it learns the matrix as a sum of two, W and D A; see
    :class:`DirectionalLinear`.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.logits = SparseLinear(
            shape.inputs, shape.n_bits, shape.input_scale, sparse_gradient=shape.sparse_gradient
        )
        self.along: DirectionalLinear | None = None

    def start_at(self, weight_VB: Tensor, thresholds_B: Tensor) -> None:
        """Set the logits to x W − t."""
        with torch.no_grad():
            self.logits.weight.copy_(weight_VB / self.logits.scale)
            self.logits.bias.copy_(-thresholds_B)

    def learn_along(self, directions_VK: Tensor) -> None:
        """Learn along the `directions_VK`, too. This changes no logit yet."""
        weight_VB, scale = self.logits.weight, self.logits.scale
        self.along = DirectionalLinear(
            directions_VK.to(weight_VB.device), weight_VB.shape[1], scale
        )

    def forward(
        self, x: SparseBatch, _generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the logits ``(N, B)`` twice, since there is no hidden layer."""
        logits_NB = self.logits(x)
        if self.along is not None:
            logits_NB = logits_NB + self.along(x)
        return logits_NB, logits_NB

    def scaled_weight(self) -> Tensor:
        """Return the matrix, ``(V, B)``."""
        weight_VB = self.logits.scaled_weight()
        return weight_VB if self.along is None else weight_VB + self.along.scaled_weight()


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
    """Set units to 0 at this rate and scale the others up, which preserves expectations.

    The rate is rounded to a multiple of 1/256, so that eight random bits decide about a unit. To
    draw a random number for each takes several times as long.
    """
    dropping = min(round(256 * rate), 255)
    if dropping == 0:
        return h_NH
    # Drawn on the CPU, so that the draws are the same on every device.
    words = torch.empty(-(-h_NH.numel() // 8), dtype=torch.int64)
    draws = words.random_(-(2**63), None, generator=generator).view(torch.uint8)
    factors = draws[: h_NH.numel()].to(torch.float32).ge_(dropping).mul_(256 / (256 - dropping))
    return h_NH * factors.view(h_NH.shape).to(h_NH)
