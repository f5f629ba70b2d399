"""First layers for sparse and dense rows, with a scale of their own.

Shapes: N rows of a batch, V terms (or D vector entries).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.batches import SparseBatch


class SparseLinear(nn.Module):
    """s x W + b for sparse x: the rows of W are gathered, and only they are added up.

    Rows of unit length are small beside the weights that Adam moves by its step size; scaled up by
    s, the first layer learns as fast as the others. The export folds s into the weights. With
    `sparse_gradient` the gradient of W holds the gathered rows alone.
    """

    def __init__(
        self, inputs: int, outputs: int, scale: float = 1.0, *, sparse_gradient: bool = True
    ) -> None:
        super().__init__()
        self.scale = scale
        self.sparse_gradient = sparse_gradient
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: SparseBatch) -> Tensor:
        """Return ``(N, outputs)``."""
        return self.scale * weighted_sum(x, self.weight, sparse=self.sparse_gradient) + self.bias

    def scaled_weight(self) -> Tensor:
        """Return s W, the weight of the same layer without a scale."""
        return self.scale * self.weight


class ScaledLinear(nn.Linear):
    """s x W + b for dense x; s does for vectors what it does for rows in :class:`SparseLinear`."""

    def __init__(self, inputs: int, outputs: int, scale: float = 1.0) -> None:
        super().__init__(inputs, outputs)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(N, outputs)``."""
        return functional.linear(self.scale * x, self.weight, self.bias)

    def scaled_weight(self) -> Tensor:
        """Return s W, shape ``(inputs, outputs)``, the weight of the same layer without a scale."""
        return self.scale * self.weight.T


def weighted_sum(x: SparseBatch, weight: Tensor, *, sparse: bool) -> Tensor:
    """Return x W, ``(N, outputs)``, with a sparse gradient for W or a dense one."""
    product: Tensor = functional.embedding_bag(
        x.columns, weight, x.starts, mode="sum", sparse=sparse, per_sample_weights=x.values
    )
    return product
