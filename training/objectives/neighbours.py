"""Queries find their documents: the inverse cloze task, and stochastic neighbours in bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from hummingbit.training.layers import straight_through_signs

# The inverse cloze task: a few words of a document must find it among the others of a batch.
#
# Source: Lee, Chang and Toutanova, "Latent Retrieval for Weakly Supervised Open Domain Question
# Answering" (2019), section 4, where a sentence must find its passage. Here the query is a few
# words of a sentence. The document is its code, the bits that are stored, with a straight-through
# gradient, so that training and search see the same.
#
# By that task only one document is the answer, but others of the batch match the words too.
# Therefore a share λ of the target is divided among all of them, by their similarity to the query
# without any code (:class:`hummingbit.training.queries.Similarities`).


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


def inverse_cloze_gradients(
    queries_NB: Tensor,
    document_logits_NB: Tensor,
    similarity_NN: Tensor,
    *,
    scale: float,
    shared: float,
    temperature: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return :func:`inverse_cloze_loss`, and its gradients for the queries and the logits.

    With p the softmax of z over documents and p' that over queries, and t and t' their targets,

        ∂L/∂z_ij = (p_ij − t_ij + p'_ij − t'_ij) / N

    and the gradient passes the signs of documents as that of tanh. Matrices of a batch are small,
    so automatic differentiation takes several times as long.
    """
    smooth_NB = document_logits_NB.tanh()
    signs_NB = (document_logits_NB > 0).to(queries_NB.dtype).mul_(2).sub_(1)
    factor = scale / signs_NB.shape[1]
    z_NN = (queries_NB @ signs_NB.T).mul_(factor)
    s_NN = similarity_NN / temperature
    loss, of_z_NN = z_NN.new_zeros(()), torch.zeros_like(z_NN)
    for dimension in (1, 0):
        target_NN = s_NN.softmax(dim=dimension).mul_(shared)
        target_NN.diagonal().add_(1 - shared)
        logarithms_NN = z_NN.log_softmax(dim=dimension)
        loss -= torch.dot(target_NN.view(-1), logarithms_NN.view(-1))
        of_z_NN += logarithms_NN.exp_().sub_(target_NN)
    of_z_NN.mul_(factor / len(z_NN))
    of_logits_NB = (of_z_NN.T @ queries_NB).mul_(1 - smooth_NB.square_())
    return loss / len(z_NN), of_z_NN @ signs_NB, of_logits_NB


# Stochastic neighbour embedding in bits: the neighbours of a query become those of its code.
#
# Source: Hinton and Roweis, "Stochastic Neighbor Embedding" (2002), sections 2 and 3. Here vectors
# are near by their cosine, and codes by the bits that agree, instead of by Euclidean distance. And
# the neighbours are those of queries among documents, instead of those of points among one another.


_STEPS = 30
_TEMPERATURES = (1e-4, 10.0)


def neighbour_temperatures(cosines_NK: Tensor, perplexity: float) -> Tensor:
    """Return the temperature of each row, ``(N, 1)``, that gives it a perplexity.

    `cosines_NK` are those of a row with its K nearest neighbours, with K > `perplexity`. The
    temperature τ is the one for which p = softmax(cosines / τ) has the entropy ln `perplexity`, as
    if each row had that many neighbours. It is found by bisection between 0.0001 and 10, so rows
    whose nearest neighbours are all equally near get the smallest one.
    """
    shape = (len(cosines_NK), 1)
    low_N1, high_N1 = (cosines_NK.new_full(shape, math.log(end)) for end in _TEMPERATURES)
    for _ in range(_STEPS):
        middle_N1 = (low_N1 + high_N1) / 2
        p_NK = (cosines_NK / middle_N1.exp()).softmax(dim=1)
        entropy_N1 = torch.special.entr(p_NK).sum(dim=1, keepdim=True)
        is_high_N1 = entropy_N1 > math.log(perplexity)
        low_N1 = torch.where(is_high_N1, low_N1, middle_N1)
        high_N1 = torch.where(is_high_N1, middle_N1, high_N1)
    return low_N1.exp()


def stochastic_neighbour_loss(
    query_logits_QB: Tensor,
    document_logits_NB: Tensor,
    cosines_QN: Tensor,
    temperatures_Q1: Tensor,
    scale: Tensor,
    *,
    left_out: Tensor | None = None,
    own_share: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of the documents near queries by cosine and by codes; a scalar.

    Query i has the logits q_i and document j the logits d_j, both of B bits. With the bits
    b(l) = sign(l) ∈ {−1, 1}ᴮ and the `scale` γ, it is :func:`ranking_loss` of the bits b(d_j) with
    the targets

        p_ij = softmax_j(cos_ij / τ_i)

    Documents j for which `left_out`, ``bool[Q, N]``, is true are left out of the sums of query i,
    such as a query itself where it is a document. With an `own_share` s, query i was made of
    document i, and p is (1 − s) p_ij + s [i = j].
    """
    targets_QN = cosines_QN / temperatures_Q1
    if left_out is not None:
        targets_QN = targets_QN.masked_fill(left_out, -math.inf)
    p_QN = targets_QN.softmax(dim=1)
    if own_share:
        p_QN = (1 - own_share) * p_QN
        p_QN.diagonal().add_(own_share)
    return ranking_loss(
        query_logits_QB,
        straight_through_signs(document_logits_NB),
        p_QN,
        scale,
        left_out=left_out,
    )


# Both rankings of bits: by Hamming distance, and by the query's real values.
#
# Yamada, Asai and Hajishirzi, "Efficient Passage Retrieval with Hashing for Open-domain Question
# Answering" (2021), section 3.2, train a code for both tasks: candidates by Hamming distance, with
# a margin, and their order by the query's real values, with a softmax. Here both have a softmax,
# with several right documents, and signs are straight through instead of scaled tanh.


def ranking_loss(
    query_logits_QB: Tensor,
    bits_NB: Tensor,
    target_QN: Tensor,
    scale: Tensor,
    *,
    left_out: Tensor | None = None,
) -> Tensor:
    """Return the cross-entropy of finding documents of the `bits_NB`, −1 or 1; a scalar.

    With the query's logits q_i, b(q) = sign(q), bits d_j, B bits and the `scale` γ,

        h_ij = softmax_j((γ / B) b(q_i) · d_j)             as by Hamming distance
        r_ij = softmax_j((γ / B) q_i · d_j / rms(q_i))     as in the asymmetric ranking
        L    = −(1 / 2Q) Σ_ij p_ij (ln h_ij + ln r_ij)

    where p is `target_QN`, the share of the probability that document j should have for query i.
    The gradient of a sign is straight through, and rms(q_i) is taken as a constant. Documents for
    which `left_out` is true are left out of the sums of query i.
    """
    size_Q1 = query_logits_QB.detach().square().mean(dim=1, keepdim=True).sqrt().clamp(min=1e-12)
    total = query_logits_QB.new_zeros(())
    for query_QB in (straight_through_signs(query_logits_QB), query_logits_QB / size_Q1):
        scores_QN = query_QB @ bits_NB.T * (scale / bits_NB.shape[1])
        if left_out is not None:
            # A finite number, since 0 · ln 0 would not be 0.
            scores_QN = scores_QN.masked_fill(left_out, torch.finfo(scores_QN.dtype).min)
        total = total + functional.cross_entropy(scores_QN, target_QN)
    return total / 2
