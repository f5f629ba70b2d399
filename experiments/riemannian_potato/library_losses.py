"""The losses that pytorch-metric-learning has, for vectors of matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from pytorch_metric_learning import losses, miners
from torch import nn

# RLL-Simpler of its paper: negatives beyond α = 1.2, positives within α − m = 0.8. The paper's
# temperature is 10, but the library warns above 5.
_RANKED_LIST = {"margin": 0.4, "Tn": 5}

SEMIHARD_MARGIN = 0.2


class SemihardTriplets(losses.TripletMarginLoss):  # type: ignore[misc]  # without types
    """max(0, d(a, p) − d(a, n) + m), the mean over triplets with d(a, p) < d(a, n) < d(a, p) + m.

    `m` is :data:`SEMIHARD_MARGIN`. Without such a triplet the loss is 0.

    Source: Schroff, Kalenichenko and Philbin, "FaceNet" (2015), section 3.2.
    """

    def __init__(self) -> None:
        super().__init__(margin=SEMIHARD_MARGIN)
        self._choose = miners.TripletMarginMiner(
            margin=SEMIHARD_MARGIN, type_of_triplets="semihard", distance=self.distance
        )

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of vectors ``(N, D)`` and classes ``(N,)``, a scalar."""
        loss: torch.Tensor = super().forward(embeddings, labels, self._choose(embeddings, labels))
        return loss


LIBRARY_LOSSES: Mapping[str, Callable[[int, int], nn.Module]] = {
    "triplet": lambda _classes, _width: losses.TripletMarginLoss(),
    "triplet-semihard": lambda _classes, _width: SemihardTriplets(),
    "n-pair": lambda _classes, _width: losses.NPairsLoss(),
    "lifted-structure": lambda _classes, _width: losses.LiftedStructureLoss(),
    "proxy-nca": losses.ProxyNCALoss,
    "ranked-list": lambda _classes, _width: losses.RankedListLoss(**_RANKED_LIST),
}
"""Functions by name that make a loss for a number of classes and of entries of a vector."""
