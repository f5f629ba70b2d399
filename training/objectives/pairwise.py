"""Drawing together the codes of documents that are alike and pushing the others apart."""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_loss(
    b_NB: Tensor, alike_NN: Tensor, margin: float, counted_NN: Tensor | None = None
) -> Tensor:
    """Return (1/N) Σ_ij s_ij D_ij + (1 − s_ij) max(0, margin − D_ij) over ordered pairs; a scalar.

    D_ij = ‖b_i − b_j‖² is the Hamming distance of relaxed bits, s_ij from 0 to 1 how surely a pair
    is alike and `counted_NN` which pairs are taken, by default all. With s the model's own
    prediction the loss is self-supervised. Source: SSB-VAE (Ñanculef et al. 2020), section 3.
    """
    norms_N = b_NB.square().sum(dim=1)
    D_NN = (norms_N[:, None] + norms_N[None, :] - 2 * b_NB @ b_NB.T).clamp(min=0)
    s_NN = alike_NN.to(b_NB.dtype)
    loss_NN = s_NN * D_NN + (1 - s_NN) * (margin - D_NN).clamp(min=0)
    if counted_NN is not None:
        loss_NN = loss_NN * counted_NN
    return loss_NN.sum() / len(b_NB)


def sharing_a_tag(tags_NC: Tensor) -> Tensor:
    """Return ``bool[N, N]``: which pairs of rows have a class in common.

    A row without any class is like no other, and still like itself.
    """
    tags = tags_NC.to(torch.float32)
    return (tags @ tags.T > 0) | torch.eye(len(tags), dtype=torch.bool, device=tags.device)


def predicted_tags(class_logits_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return ``bool[N, C]``: the class of the largest logit, or the classes above 0."""
    if multi_label:
        return class_logits_NC > 0
    tags_NC = torch.zeros_like(class_logits_NC, dtype=torch.bool)
    return tags_NC.scatter_(1, class_logits_NC.argmax(dim=1, keepdim=True), True)


def class_probabilities(class_logits_NC: Tensor, tags_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return ``float[N, C]``: the classes of labelled rows, and what is predicted for the others.

    The prediction is softmax(l), or σ(l) with several classes a row. No gradient flows back: it is
    a target.
    """
    logits = class_logits_NC.detach()
    predicted_NC = torch.sigmoid(logits) if multi_label else logits.softmax(dim=1)
    return torch.where(tags_NC.any(dim=1, keepdim=True), tags_NC.to(logits.dtype), predicted_NC)


def probably_sharing_a_tag(p_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return ``float[N, N]``: how probable it is that two rows have a class in common.

    Rows are taken as independent: Σ_c p_ic p_jc, or, with several classes a row,
    1 − Π_c (1 − p_ic p_jc). Where the classes of two rows are uncertain, neither being alike nor
    being different is insisted on.
    """
    if not multi_label:
        return p_NC @ p_NC.T
    both_NNC = p_NC[:, None, :] * p_NC[None, :, :]
    return 1 - (1 - both_NNC).prod(dim=2)
