"""Learning the classes of each labelled document."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def pointwise_loss(class_logits_NC: Tensor, tags_NC: Tensor, *, multi_label: bool) -> Tensor:
    """Return the class loss over the labelled rows, divided by the N rows of the batch; a scalar.

    `tags_NC` holds 1 where a row has a class; rows without any are unlabelled and cost nothing.
    With one class a document the loss is the cross-entropy −ln softmax(l)_c; with `multi_label`
    it is Σ_c of the binary cross-entropies of σ(l_c). Dividing by N, not by the number of labelled
    rows, gives every labelled document the same weight whatever batch it falls into. Source:
    SSB-VAE (Ñanculef et al. 2020), section 3, the supervised pointwise term.
    """
    labelled_N = tags_NC.any(dim=1)
    logits, tags = class_logits_NC[labelled_N], tags_NC[labelled_N]
    if multi_label:
        target = tags.to(logits.dtype)
        total = functional.binary_cross_entropy_with_logits(logits, target, reduction="sum")
    else:
        classes = tags.to(logits.dtype).argmax(dim=1)
        total = functional.cross_entropy(logits, classes, reduction="sum")
    return total / len(tags_NC)


def guessed_loss(class_logits_NC: Tensor, guesses_NC: Tensor) -> Tensor:
    """Return −(1/N) Σ_i Σ_c g_ic ln softmax(l_i)_c, the cross-entropy to guesses g; a scalar.

    Each row of `guesses_NC` is a distribution over classes; that of a labelled document is certain.
    """
    return -(guesses_NC * class_logits_NC.log_softmax(dim=1)).sum(dim=1).mean()
