"""The task that people had, one concept at a time: does a picture show it, or a variant of it?

Source: Hsu, Wu and Goodman, "Geoclidean: Few-Shot Generalization in Euclidean Geometry" (2022),
which Marjieh, Kumar, Campbell et al. (2024) follow. The prototype of a concept is the mean
embedding of five reference pictures. Five other pictures of the concept and five of a close or far
program are accepted if their ℓ₁ distance from the prototype is within a threshold. Each concept has
its best possible threshold, so chance is above one half.

Shapes: C concepts, R reference pictures, T test pictures, D entries of an embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def threshold_accuracy(reference_CRD: Tensor, own_CTD: Tensor, other_CTD: Tensor) -> Tensor:
    """Return the share of pictures that the best threshold classifies correctly, ``float64[C]``.

    `own_CTD` are embeddings of the concept and `other_CTD` are not. All are scaled to length 1
    first, so only their directions matter.
    """
    prototype_C1D = functional.normalize(reference_CRD, dim=2).mean(dim=1, keepdim=True)
    own_CT, other_CT = (
        (functional.normalize(x_CTD, dim=2) - prototype_C1D).abs().sum(dim=2).double()
        for x_CTD in (own_CTD, other_CTD)
    )
    thresholds_CS = torch.cat([own_CT, other_CT, own_CT[:, :1] * 0 - 1], dim=1)
    accepted_CS = (own_CT[:, :, None] <= thresholds_CS[:, None]).sum(dim=1)
    rejected_CS = (other_CT[:, :, None] > thresholds_CS[:, None]).sum(dim=1)
    pictures = own_CT.shape[1] + other_CT.shape[1]
    best_C: Tensor = (accepted_CS + rejected_CS).amax(dim=1).double() / pictures
    return best_C
