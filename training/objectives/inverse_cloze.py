"""The inverse cloze task: a few words of a document must find it among the others of a batch.

Source: Lee, Chang and Toutanova, "Latent Retrieval for Weakly Supervised Open Domain Question
Answering" (2019), section 4, where a sentence must find its passage. Here the query is a few words
of a sentence. The document is its code, the bits that are stored, with a straight-through gradient,
so that training and search see the same.

By that task only one document is the answer, but others of the batch match the words too. Therefore
a share λ of the target is divided among all of them, by their similarity to the query without any
code (:class:`training.queries.Similarities`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from training.models.relaxed_bits import straight_through_signs


def inverse_cloze_loss(
    queries_NB: Tensor,
    document_logits_NB: Tensor,
    similarity_NN: Tensor,
    *,
    scale: float,
    shared: float,
    temperature: float,
) -> Tensor:
    """Return the cross-entropy of finding documents by queries and queries by documents; a scalar.

    Query i was drawn from document i; s_ij, `similarity_NN`, is its similarity to document j. With
    q_i, the real values of its bits, d = sign(document logits), B bits, the `scale` γ, the `shared`
    share λ and the `temperature` τ,

        z_ij = (γ / B) q_i · d_j
        t_ij = (1 − λ) [i = j] + λ softmax_j(s_ij / τ)
        L    = −(1/N) Σ_ij t_ij ln softmax_j(z_ij) + the same of z and s transposed.

    A query is not rounded to bits, as in the asymmetric ranking.
    """
    documents_NB = straight_through_signs(document_logits_NB)
    z_NN = queries_NB @ documents_NB.T * (scale / documents_NB.shape[1])
    exact_NN = torch.eye(len(z_NN), dtype=z_NN.dtype, device=z_NN.device)
    total = z_NN.new_zeros(())
    for scores_NN, s_NN in ((z_NN, similarity_NN), (z_NN.T, similarity_NN.T)):
        target_NN = (1 - shared) * exact_NN + shared * (s_NN / temperature).softmax(dim=1)
        total = total + functional.cross_entropy(scores_NN, target_NN)
    return total
