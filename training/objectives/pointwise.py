"""Learning the class of each labelled document."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def pointwise_loss(class_logits_NC: Tensor, labels_N: Tensor) -> Tensor:
    """Return the cross-entropy over the labelled rows, divided by the N rows of the batch.

    `labels_N` holds class numbers, −1 where a row is unlabelled. Dividing by N, not by the number
    of labelled rows, gives every labelled document the same weight whatever batch it falls into.
    Source: SSB-VAE (Ñanculef et al. 2020), section 3, the supervised pointwise term.
    """
    total = functional.cross_entropy(class_logits_NC, labels_N, ignore_index=-1, reduction="sum")
    return total / len(labels_N)
