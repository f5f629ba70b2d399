"""The objectives of metric learning, by name.

An objective computes a loss from the relaxed codes of a batch, its pairs and their similarities. It
is a module of the trained network, so its parameters and buffers are trained and saved in
checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from encoder.recipes import MetricRecipe
from training.objectives.continuous_histogram import continuous_histogram_loss
from training.objectives.dissimilarity import cosine_distance, relaxed_hamming_distance
from training.objectives.generative_similarity import kernel_pair_loss, kernel_triplet_loss
from training.objectives.riemannian_potato import EUCLIDEAN, Ranking, RiemannianPotato

DISTANCES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "cosine": cosine_distance,
    "hamming": lambda u_NB: relaxed_hamming_distance((1 + u_NB) / 2),
}
"""From relaxed codes ``[N, B]`` between −1 and 1 to distances ``[N, N]`` from 0 to 1.

For codes of ±1 both are the share of differing bits. The cosine does not depend on the size of the
logits, so its gradient is as strong while logits are still small.
"""


# In units of the distance of PotatoRanking, the root of a share of bits: about a tenth of the bits.
# Classes that are closer than that gain little by shrinking further.
SOFTNESS = 0.3


@dataclass(frozen=True)
class MetricBatch:
    """A batch of N documents: relaxed codes, labels, and M pairs with similarities.

    `u_NB` is between −1 and 1, and its signs are the bits. `first_M` and `second_M` are the rows of
    the pairs in the batch. `similarity_M` is from 0 to 1 and has at least two values. `distance` is
    one of :data:`DISTANCES`.
    """

    u_NB: Tensor
    tags_NC: Tensor
    first_M: Tensor
    second_M: Tensor
    similarity_M: Tensor
    distance: Callable[[Tensor], Tensor]

    def distances(self) -> Tensor:
        """Return the distance of each pair, ``float[M]`` from 0 to 1."""
        return self.distance(self.u_NB)[self.first_M, self.second_M]


class ContinuousHistogram(nn.Module):
    """:func:`continuous_histogram_loss` of the pairs of a batch."""

    def __init__(self, recipe: MetricRecipe, classes: int) -> None:  # noqa: ARG002
        super().__init__()
        self._recipe = recipe

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        return continuous_histogram_loss(
            batch.distances(),
            batch.similarity_M,
            bins=self._recipe.bins,
            similarity_bins=self._recipe.similarity_bins,
            balance=self._recipe.balance,
        )


class GenerativeSimilarity(nn.Module):
    """Triplets of a batch weighted by similarities, with S = −distance / temperature.

    It is :func:`kernel_triplet_loss` if the batch has all pairs of its documents, and otherwise
    :func:`kernel_pair_loss` of the pairs that it has.
    """

    def __init__(self, recipe: MetricRecipe, classes: int) -> None:  # noqa: ARG002
        super().__init__()
        self._contrast, self._temperature = recipe.contrast, recipe.temperature

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        n = len(batch.u_NB)
        if len(batch.first_M) < n * (n - 1) // 2 or n < 3:
            s_M = -batch.distances() / self._temperature
            return kernel_pair_loss(s_M, batch.similarity_M, contrast=self._contrast)
        kernel_NN = batch.similarity_M.new_zeros((n, n))
        kernel_NN[batch.first_M, batch.second_M] = batch.similarity_M
        kernel_NN[batch.second_M, batch.first_M] = batch.similarity_M
        s_NN = -batch.distance(batch.u_NB) / self._temperature
        return kernel_triplet_loss(s_NN, kernel_NN, contrast=self._contrast)


class PotatoRanking(nn.Module):
    """:class:`RiemannianPotato` of relaxed codes at distances ‖u − v‖ / √(4 B).

    For codes of ±1 this is the root of the share of differing bits. The geometric z-score is the
    same for a distance and its square, so the potato ranks by the Hamming distance.
    """

    def __init__(self, recipe: MetricRecipe, classes: int) -> None:
        super().__init__()
        ranking = Ranking(recipe.potato_threshold, recipe.potato_margin)
        self._codes = RiemannianPotato(
            classes,
            (recipe.n_bits,),
            EUCLIDEAN,
            ranking,
            rate=recipe.potato_rate,
            softness=SOFTNESS,
        )

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        if not bool(batch.tags_NC.any()):
            raise ValueError("label: no document of the batch has one; potatoes need classes")
        scaled_NB = batch.u_NB / (4 * batch.u_NB.shape[1]) ** 0.5
        loss: Tensor = self._codes(scaled_NB, batch.tags_NC)
        return loss


OBJECTIVES: Mapping[str, Callable[[MetricRecipe, int], nn.Module]] = {
    "continuous-histogram": ContinuousHistogram,
    "generative-similarity": GenerativeSimilarity,
    "riemannian-potato": PotatoRanking,
}
"""The constructor of each objective of :data:`encoder.recipes.METRIC_OBJECTIVES`.

It takes the recipe and the number of classes.
"""
