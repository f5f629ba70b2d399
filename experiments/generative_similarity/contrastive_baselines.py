"""The losses that generative similarity is compared with, from pytorch-metric-learning.

Each takes embeddings as rows and returns a scalar.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The library is an extra, so it is imported where it is used.
OF_LIBRARY = frozenset({"simclr", "sup-con", "supcon", "class-triplets"})
"""The methods of all parts that need pytorch-metric-learning."""


def info_nce_loss(first_ND: Tensor, second_ND: Tensor, temperature: float = 0.1) -> Tensor:
    """Return SimCLR's loss (Chen et al. 2020) of two views of N examples.

    Each view must find the other by cosine among all 2 N − 1: InfoNCE in both directions.
    """
    example_N = torch.arange(len(first_ND))
    # With two examples per class, SupCon is InfoNCE. The library's NTXentLoss lists every positive
    # pair with every negative pair, which grows with the third power of the batch.
    return supervised_contrastive_loss(
        torch.cat([first_ND, second_ND]), example_N.repeat(2), temperature
    )


def supervised_contrastive_loss(x_ND: Tensor, class_N: Tensor, temperature: float = 0.1) -> Tensor:
    """Return SupCon (Khosla et al. 2020): each example must find those of its class by cosine."""
    from pytorch_metric_learning.losses import SupConLoss  # noqa: PLC0415

    loss: Tensor = SupConLoss(temperature)(x_ND, class_N)
    return loss


def class_triplet_loss(x_ND: Tensor, class_N: Tensor, margin: float = 0.2) -> Tensor:
    """Return the mean of max(0, d(x, y) − d(x, z) + margin) over triplets where it is not 0.

    The triplets are all of the batch in which y has the class of x and z another. d is the
    Euclidean distance of rows scaled to length 1, as in Schroff et al. (2015).
    """
    from pytorch_metric_learning.distances import LpDistance  # noqa: PLC0415
    from pytorch_metric_learning.losses import TripletMarginLoss  # noqa: PLC0415

    loss: Tensor = TripletMarginLoss(margin, distance=LpDistance())(x_ND, class_N)
    return loss
