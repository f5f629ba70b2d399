"""The losses of SSB-VAE, Equations (1) to (7), in the order of the paper.

Source: Ñanculef, Mena, Macaluso, Lodi and Sartori, "Self-Supervised Bernoulli Autoencoders for
Semi-Supervised Hashing" (2020), section III. The paper sums over documents and over pairs of them.
Here each term is a sum over a batch divided by its N rows, as Algorithm 1 averages gradients.

Shapes: N rows of a batch, V terms, D vector entries, B bits, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from hummingbit.training.batches import SparseBatch
from hummingbit.training.layers import expected_score, log_partition

# Equation (1): L_unsup = E_q[−ln p(x|b)] + λ KL(q(b|x) ‖ p(b)).


def text_reconstruction_loss(
    b_NB: Tensor, weight_VB: Tensor, bias_V: Tensor, targets: SparseBatch
) -> Tensor:
    """Return −Σ_v t_v ln softmax(E b + c)_v for each row, shape ``(N,)``; (1), first term.

    With Σ_v t_v = 1 this is logsumexp(E b + c) − Σ_v t_v (E_v·b + c_v), so only nonzero targets are
    read. The loss of a row without terms is 0.
    """
    log_partition_N = log_partition(b_NB, weight_VB, bias_V)
    expected_N = expected_score(targets, b_NB, weight_VB, bias_V)
    return (log_partition_N - expected_N) * (targets.lengths > 0)


def vector_reconstruction_loss(reconstructed_ND: Tensor, x_ND: Tensor) -> Tensor:
    """Return ½‖x − x̂‖² for each row, shape ``(N,)``; (1), first term, of a Gaussian decoder.

    It is −ln p(x|b) for N(x̂, 1), up to a constant.
    """
    error_ND = x_ND - reconstructed_ND
    return 0.5 * error_ND.square().sum(dim=1)


def kl_loss(logits_NB: Tensor) -> Tensor:
    """Return the mean over rows of KL(Ber(σ(logits)) ‖ Ber(½)), a scalar; (1), second term.

    For one bit with α = σ(l): α ln α + (1 − α) ln(1 − α) + ln 2, summed over the bits. Log-sigmoids
    keep it finite for saturated bits.
    """
    alpha = torch.sigmoid(logits_NB)
    per_bit = (
        alpha * functional.logsigmoid(logits_NB)
        + (1 - alpha) * functional.logsigmoid(-logits_NB)
        + math.log(2)
    )
    return per_bit.sum(dim=1).mean()


# Equation (2): L_sup = −Σ_c y_c ln ŷ_c, on labelled documents.


def pointwise_loss(class_logits_NC: Tensor, tags_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return the class loss of the labelled rows, divided by the N rows; a scalar; (2).

    `tags_NC` is 1 where a row has a class; rows without any are unlabelled and do not count. With a
    single class for each document, the loss is the cross-entropy −ln softmax(l)_c, and with several
    the sum of theirs. With `multi_label` it is Σ_c of the binary cross-entropies of σ(l_c).
    Division by N, and not by the number of labelled rows, gives every labelled document the same
    weight in any batch.
    """
    labelled_N = tags_NC.any(dim=1)
    logits, tags = class_logits_NC[labelled_N], tags_NC[labelled_N]
    target = tags.to(logits.dtype)
    if multi_label:
        total = functional.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    elif (tags.sum(dim=1) > 1).any():
        total = functional.cross_entropy(logits, target, reduction="sum")
    else:
        total = functional.cross_entropy(logits, target.argmax(dim=1), reduction="sum")
    return total / len(tags_NC)


def soft_class_loss(class_logits_NC: Tensor, soft_labels_NC: Tensor) -> Tensor:
    """Return −(1/N) Σ_i Σ_c y_ic ln softmax(l_i)_c, a scalar; (2) with soft labels y. Ours.

    Each row of `soft_labels_NC` is a distribution over classes; a labelled document has probability
    1 for its class.
    """
    return -(soft_labels_NC * class_logits_NC.log_softmax(dim=1)).sum(dim=1).mean()


# Equation (3): L_pair = I(y = y') D⁺ − I(y ≠ y') D⁻, with D⁺ = ‖b − b'‖_H and D⁻ = −(ρ − D⁺)₊.
# Equation (4): the same with yᵀy' for the indicators.


def pairwise_loss(
    b_NB: Tensor, similarity_NN: Tensor, margin: float, mask_NN: Tensor | None = None
) -> Tensor:
    """Return (1/N) Σ_ij s_ij D_ij + (1 − s_ij) max(0, ρ − D_ij) over ordered pairs; a scalar.

    D_ij = ‖b_i − b_j‖² is the Hamming distance of relaxed bits, ρ the `margin`, and s_ij the
    similarity of a pair. `mask_NN` selects pairs, by default all. The loss is (3) and (4) with s
    from :func:`count_common_tags`, the yᵀy' of (4). For documents of one label,
    :func:`share_a_tag` is the same.
    """
    norms_N = b_NB.square().sum(dim=1)
    D_NN = (norms_N[:, None] + norms_N[None, :] - 2 * b_NB @ b_NB.T).clamp(min=0)
    s_NN = similarity_NN.to(b_NB.dtype)
    loss_NN = s_NN * D_NN + (1 - s_NN) * (margin - D_NN).clamp(min=0)
    if mask_NN is not None:
        loss_NN = loss_NN * mask_NN
    return loss_NN.sum() / len(b_NB)


def count_common_tags(tags_NC: Tensor) -> Tensor:
    """Return yᵀy' of all pairs of rows, the number of classes in common, ``float32[N, N]``; (4).

    With several classes it may exceed 1; a pair then gains from distances below the margin, too.
    A row without a class has one in common with itself.
    """
    tags = tags_NC.to(torch.float32)
    return tags @ tags.T + torch.diag((~tags_NC.any(dim=1)).to(torch.float32))


# Equation (5): L_selfsup = ŷᵀŷ' D⁺ − (1 − ŷᵀŷ') D⁻, ŷ the model's own predictions.
# Equation (6): the same reordered, (D⁺ + D⁻) ŷᵀŷ' − D⁻.


def self_supervised_similarity(class_logits_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return ŷᵀŷ' of all pairs of rows, ``float[N, N]``, the s of :func:`pairwise_loss` in (5).

    ŷ is softmax(l), for labelled rows too. The gradient flows through both factors into the class
    head ψ, and by (6) separates the predictions of rows whose codes are far apart. With
    `multi_label`, ŷ is σ(l), and the product may exceed 1, as in the authors' code.
    """
    y_NC = torch.sigmoid(class_logits_NC) if multi_label else class_logits_NC.softmax(dim=1)
    return y_NC @ y_NC.T


# Equation (7): L = Σ L_unsup + β Σ L_sup + α Σ L_selfsup.


def weighted_terms(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Tensor]:
    """Return each term times its weight; (7) is their sum, with λ, β and α among the weights."""
    return {name: weights[name] * term for name, term in terms.items()}
