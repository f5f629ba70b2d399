"""Drawing together the codes of documents that are alike and pushing the others apart."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_loss(
    b_NB: Tensor, alike_NN: Tensor, margin: float, counted_NN: Tensor | None = None
) -> Tensor:
    """Return (1/N) Σ_ij s_ij D_ij + (1 − s_ij) max(0, margin − D_ij) over ordered pairs; a scalar.

    D_ij = ‖b_i − b_j‖² is the Hamming distance of relaxed bits, s_ij tells whether a pair is alike
    and `counted_NN` which pairs are taken, by default all. With `alike_NN` the model's own
    prediction the loss is self-supervised. Source: SSB-VAE (Ñanculef et al. 2020), section 3.
    """
    norms_N = b_NB.square().sum(dim=1)
    D_NN = (norms_N[:, None] + norms_N[None, :] - 2 * b_NB @ b_NB.T).clamp(min=0)
    loss_NN = torch.where(alike_NN, D_NN, (margin - D_NN).clamp(min=0))
    if counted_NN is not None:
        loss_NN = loss_NN * counted_NN
    return loss_NN.sum() / len(b_NB)


def sharing_a_tag(tags_NC: Tensor) -> Tensor:
    """Return ``bool[N, N]``: which pairs of rows have a class in common.

    A row without any class is like no other, and still like itself.
    """
    tags = tags_NC.to(torch.float32)
    return (tags @ tags.T > 0) | torch.eye(len(tags), dtype=torch.bool)


def predicted_tags(class_logits_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return ``bool[N, C]``: the class of the largest logit, or the classes above 0."""
    if multi_label:
        return class_logits_NC > 0
    tags_NC = torch.zeros_like(class_logits_NC, dtype=torch.bool)
    return tags_NC.scatter_(1, class_logits_NC.argmax(dim=1, keepdim=True), True)
