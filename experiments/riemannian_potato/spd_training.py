"""SPD networks trained by the Riemannian potato ranking loss and by losses of other papers.

The others come from pytorch-metric-learning with its default settings, or with those of their
papers where there is no default. They take the logarithms of matrices as vectors, which the library
scales to unit length, and are evaluated by the same distances. `rpl-sphere` has the same vectors of
unit length; `rpl-log` has them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from pyriemann.geometry.mean import mean_riemann
from pyriemann.geometry.tangentspace import tangent_space
from torch import Tensor, nn
from torch.nn import functional

from experiments.riemannian_potato.clustering import normalized_mutual_information, pairwise_f1
from experiments.riemannian_potato.experiment import OF_LIBRARY
from experiments.riemannian_potato.spd_corpora import Labels, SpdCorpus
from experiments.saved_tensors import Tensors
from hummingbit.corpus.matrices import Array
from hummingbit.encoder.vector_features import triangle_length
from hummingbit.evaluation.metrics import success_at_k
from hummingbit.training.data import Rows
from hummingbit.training.loop import DivergedError, Schedule, fit
from hummingbit.training.objectives.riemannian_potato import (
    EUCLIDEAN,
    Ranking,
    RiemannianPotato,
    check_rate,
)
from hummingbit.training.spd import (
    AFFINE_INVARIANT,
    SpdNetwork,
    affine_invariant_distance,
    spd_network,
)


@dataclass(frozen=True)
class Potato:
    """The settings of the Riemannian potato ranking loss: its ranking, and β as `rate`."""

    ranking: Ranking
    rate: float

    def __post_init__(self) -> None:
        check_rate(self.rate)


ON_SPHERE = "rpl-sphere"
MATRIX_TRIPLETS = "matrix-triplet"
ON_MATRICES = ("rpl", MATRIX_TRIPLETS)
"""The methods whose loss and figures are of matrices and not of vectors."""
# Distances on the sphere are at most 2, and a class can shrink to a point.
SPHERE_SOFTNESS = 0.1

MATRIX_MARGIN = 1.0


class MatrixTriplets(nn.Module):
    """max(0, δ_R(a, p) − δ_R(a, n) + m) of matrices, the mean over all triplets above 0.

    `m` is :data:`MATRIX_MARGIN`. Without such a triplet the loss is 0.
    """

    def forward(self, x_Nnn: Tensor, labels_N: Tensor) -> Tensor:
        """Return the loss of matrices ``(N, n, n)`` and classes ``(N,)``, a scalar."""
        distance_NN = affine_invariant_distance(x_Nnn[:, None], x_Nnn[None])
        same_NN = labels_N[:, None] == labels_N
        positive_NN = same_NN & ~torch.eye(len(labels_N), dtype=torch.bool)
        # The axes are the anchor, the positive and the negative.
        excess = (distance_NN[:, :, None] - distance_NN[:, None, :] + MATRIX_MARGIN).clamp(min=0)
        excess = excess * (positive_NN[:, :, None] & ~same_NN[:, None, :])
        return excess.sum() / (excess > 0).sum().clamp(min=1)


class _Model(nn.Module):
    def __init__(self, network: SpdNetwork, loss: nn.Module) -> None:
        super().__init__()
        self.network, self.loss = network, loss


def train_and_evaluate(
    method: str,
    corpus: SpdCorpus,
    order: int,
    schedule: Schedule,
    potato: Potato,
    *,
    keep_lengths: bool = False,
    progress: bool = True,
) -> Tensors:
    """Train a method of :data:`experiments.riemannian_potato.experiment.METHODS` and evaluate it.

    With `keep_lengths`, the losses of other papers take and are evaluated on vectors as they are.
    The figures `f1`, `nmi`, `r1` and `r3` are those of the test matrices, all from 0 to 1; `ratio`
    is their mean distance within classes over that between classes. `plane`, ``[Q, 2]``, is the
    test matrices by the two principal directions of their vectors.

    Raises:
        DivergedError: if the loss or its gradient becomes NaN.
    """
    torch.manual_seed(schedule.seed)
    network = spd_network(corpus.center, order)
    width = len(network.features().weights[-1].T)
    if method != "untrained":
        loss = make_loss(method, corpus.n_classes, width, potato, keep_lengths=keep_lengths)
        _train(method, network, loss, corpus, schedule, progress=progress)
    with torch.no_grad():
        database, queries = (torch.from_numpy(x) for x in (corpus.training, corpus.test))
        if method in ON_MATRICES:
            return evaluate_matrices(network(database), network(queries), corpus, schedule.seed)
        embeddings = (network.vectors(database), network.vectors(queries))
    if method == ON_SPHERE or (method in OF_LIBRARY and not keep_lengths):
        embeddings = (functional.normalize(embeddings[0]), functional.normalize(embeddings[1]))
    return evaluate_vectors(*embeddings, corpus, schedule.seed)


def make_loss(
    method: str, classes: int, order: int, potato: Potato, *, keep_lengths: bool = False
) -> nn.Module:
    """Return the loss of a method for matrices of `order` rows."""
    width = triangle_length(order)
    if method == "rpl":
        return RiemannianPotato(
            classes, (order, order), AFFINE_INVARIANT, potato.ranking, rate=potato.rate
        )
    if method == MATRIX_TRIPLETS:
        return MatrixTriplets()
    if method in {"rpl-log", ON_SPHERE}:
        softness = SPHERE_SOFTNESS if method == ON_SPHERE else 0.0
        return RiemannianPotato(
            classes, (width,), EUCLIDEAN, potato.ranking, rate=potato.rate, softness=softness
        )
    from experiments.riemannian_potato.library_losses import LIBRARY_LOSSES  # noqa: PLC0415 - an extra

    loss: Any = LIBRARY_LOSSES[method](classes, width)
    loss.distance.normalize_embeddings = not keep_lengths
    return cast(nn.Module, loss)


def _train(
    method: str,
    network: SpdNetwork,
    loss: nn.Module,
    corpus: SpdCorpus,
    schedule: Schedule,
    *,
    progress: bool,
) -> None:
    matrices = torch.from_numpy(corpus.training)
    labels = torch.from_numpy(corpus.training_labels)
    tags_NC = functional.one_hot(labels, corpus.n_classes).bool()

    def batch_loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
        batch = torch.from_numpy(rows)
        # A gradient can be NaN where the loss is not; eigenvalues of NaN are an obscure error.
        if not all(bool(weights.isfinite().all()) for weights in network.parameters()):
            raise DivergedError(f"{method}: the last gradient contained NaN; training has failed")
        if method == "rpl":
            return {"loss": loss(network(matrices[batch]), tags_NC[batch])}
        if method == MATRIX_TRIPLETS:
            return {"loss": loss(network(matrices[batch]), labels[batch])}
        vectors_ND = network.vectors(matrices[batch])
        if method == "rpl-log":
            return {"loss": loss(vectors_ND, tags_NC[batch])}
        if method == ON_SPHERE:
            return {"loss": loss(functional.normalize(vectors_ND), tags_NC[batch])}
        return {"loss": loss(vectors_ND.float(), labels[batch])}

    fit(_Model(network, loss), batch_loss, len(matrices), schedule, progress=progress)


def evaluate_matrices(
    database_Nnn: Tensor, queries_Qnn: Tensor, corpus: SpdCorpus, seed: int
) -> Tensors:
    """Evaluate matrices by δ_R, and their clusters in the tangent space at their Karcher mean."""
    distance_QN = affine_invariant_distance(queries_Qnn[:, None], database_Nnn[None])
    among_QQ = affine_invariant_distance(queries_Qnn[:, None], queries_Qnn[None])
    x = queries_Qnn.numpy()
    tangent_QD = tangent_space(x, mean_riemann(x, tol=1e-6))
    return _evaluate(distance_QN, among_QQ, tangent_QD, corpus, seed)


def evaluate_vectors(
    database_ND: Tensor, queries_QD: Tensor, corpus: SpdCorpus, seed: int
) -> Tensors:
    """Evaluate vectors by Euclidean distance."""
    distance_QN = torch.cdist(queries_QD, database_ND)
    among_QQ = torch.cdist(queries_QD, queries_QD)
    return _evaluate(distance_QN, among_QQ, queries_QD.numpy(), corpus, seed)


def _evaluate(
    distance_QN: Tensor, among_QQ: Tensor, vectors: Array, corpus: SpdCorpus, seed: int
) -> Tensors:
    """Rank the training matrices for each test matrix, and cluster the test matrices."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a second

    nearest = distance_QN.numpy().argsort(axis=1, kind="stable")
    relevant = corpus.training_labels[nearest] == corpus.test_labels[:, None]
    kmeans = KMeans(corpus.n_classes, n_init=10, random_state=seed)
    clusters = np.asarray(kmeans.fit_predict(vectors), dtype=np.int64)
    figures = {
        "f1": pairwise_f1(corpus.test_labels, clusters),
        "nmi": normalized_mutual_information(corpus.test_labels, clusters),
        "r1": success_at_k(relevant, 1).mean(),
        "r3": success_at_k(relevant, 3).mean(),
        "ratio": within_over_between(among_QQ.numpy(), corpus.test_labels),
    }
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in figures.items()}
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return {**tensors, "plane": torch.from_numpy(centred @ directions[:2].T)}


def within_over_between(distance_NN: Array, labels_N: Labels) -> float:
    """Return the mean distance of pairs of one class over that of pairs of two classes."""
    first, second = np.triu_indices(len(labels_N), k=1)
    same = labels_N[first] == labels_N[second]
    distance = distance_NN[first, second]
    return float(distance[same].mean() / distance[~same].mean())
