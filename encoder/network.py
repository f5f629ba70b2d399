"""The forward pass of an encoder: fully connected layers in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from encoder.features import Floats, SparseRows

Activation = Literal["relu", "identity"]


@dataclass(frozen=True)
class Layer:
    """act(x W + b), with `weight` W of shape ``(inputs, outputs)`` and `bias` b ``(outputs,)``."""

    weight: Floats
    bias: Floats
    activation: Activation

    def __call__(self, x: Floats | SparseRows) -> Floats:
        """Apply the layer to rows ``(N, inputs)``.

        A sparse x gathers only the rows of W whose terms occur, so a short text costs its own
        length and not the vocabulary's.
        """
        out: Floats = np.asarray(x @ self.weight)
        out += self.bias
        if self.activation == "relu":
            np.maximum(out, 0.0, out=out)
        return out


def forward(layers: Sequence[Layer], x: Floats | SparseRows) -> Floats:
    """Return the output of the last layer, float32 of shape ``(N, outputs)``."""
    for layer in layers:
        x = layer(x)
    return np.asarray(x, dtype=np.float32)
