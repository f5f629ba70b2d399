"""Riemannian potato ranking loss: examples should be inside the potato of their class only.

A Riemannian potato (Barachant, Andreev and Congedo 2013) is the region around a reference matrix
whose distance is within some deviations of the mean distance. Geometric statistics are from
Barthélemy et al., "The Riemannian Potato Field: A Tool for Online Signal Quality Index of EEG"
(2019). Here each class has a potato, and ranks all examples, nearest first. Examples of the class
should come before the others by a margin, as in Wang et al., "Ranked List Loss for Deep Metric
Learning" (2019). ``docs/riemannian-potato.md`` derives the equations, and says which are ours.

Shapes: N examples of a batch, C classes, ``n × n`` matrices or D entries of a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# The least log σ. If all examples of a class are equally far from its reference, log σ is 0, and
# every other distance would be infinitely many deviations away.
MIN_LOG_DEVIATION = 0.05


@dataclass(frozen=True)
class Geometry:
    """The operations of a potato: distances, the mean of a class, and geodesics between means.

    `distance` takes ``[N, 1, …]`` and ``[1, C, …]`` and returns ``[N, C]``; `mean` takes
    ``[N, …]``; ``along(a, b, t)`` is the point of the geodesic from a (t = 0) to b (t = 1).
    """

    distance: Callable[[Tensor, Tensor], Tensor]
    mean: Callable[[Tensor], Tensor]
    along: Callable[[Tensor, Tensor, float], Tensor]


EUCLIDEAN = Geometry(
    distance=lambda a, b: (a - b).square().sum(dim=-1).clamp(min=1e-24).sqrt(),
    mean=lambda x_ND: x_ND.mean(dim=0),
    along=torch.lerp,
)
"""The geometry of vectors; on the logarithms of matrices it is the log-Euclidean geometry.

The affine-invariant geometry is :data:`hummingbit.training.spd.AFFINE_INVARIANT`.
"""


AVERAGES = ("pairs", "anchors")


@dataclass(frozen=True)
class Ranking:
    """The targets of z-scores: at most `threshold` for own examples, `margin` more for others.

    `balance` is λ, the weight of the others. `average` is "pairs" for means over all pairs of a
    batch, or "anchors" for means over the pairs of each anchor and then over the anchors, as on the
    poster.

    Raises:
        ValueError: if `average` is not in :data:`AVERAGES`, or `margin` or `balance` is negative.
    """

    threshold: float = -1.0
    margin: float = 6.0
    balance: float = 1.0
    average: str = "pairs"

    def __post_init__(self) -> None:
        if self.average not in AVERAGES:
            allowed = " or ".join(AVERAGES)
            raise ValueError(f"average is {self.average!r}; it must be {allowed}")
        for name, value in (("margin", self.margin), ("balance", self.balance)):
            if not value >= 0:
                raise ValueError(f"{name} is {value:g}; it must be 0 or more")


def check_rate(rate: float) -> None:
    """Check the rate at which statistics follow batches.

    Raises:
        ValueError: unless `rate` is above 0 and at most 1.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"rate is {rate:g}; it must be above 0 and at most 1")


def potato_ranking_loss(z_NC: Tensor, tags_NC: Tensor, ranking: Ranking) -> Tensor:
    """Return L = L_P + λ L_N of the z-scores of N examples in C potatoes; a scalar.

    With P the pairs (i, c) of an example and its class with z_ic > z_th, and N those of an example
    and another class with z_ic < z_th + m,

        L_P = (1/|P|) Σ_P (z_ic − z_th)        L_N = (1/|N|) Σ_N (z_th + m − z_ic),

    or 0 if there are none. Pairs on the right side do not count. `tags_NC`, ``bool[N, C]``, has the
    classes of each example.

    With ``average="anchors"``, each pair of an example and its class is an anchor. Its P are the
    pairs of that class with its other examples, and its N those of the class with examples of other
    classes. L is the mean over the anchors.

    Raises:
        ValueError: if the shapes differ or z contains NaN.
    """
    if z_NC.shape != tags_NC.shape:
        shapes = f"{list(z_NC.shape)} and {list(tags_NC.shape)}"
        raise ValueError(f"z and tags have shapes {shapes}; both must be [N, C]")
    if bool(z_NC.isnan().any()):
        raise ValueError("z: contains NaN; distances and statistics must be finite")
    if ranking.average == "anchors":
        return _mean_over_anchors(z_NC, tags_NC, ranking)
    beyond_P = z_NC[tags_NC] - ranking.threshold
    short_N = ranking.threshold + ranking.margin - z_NC[~tags_NC]
    return _mean_of_positive(beyond_P) + ranking.balance * _mean_of_positive(short_N)


def _mean_over_anchors(z_NC: Tensor, tags_NC: Tensor, ranking: Ranking) -> Tensor:
    beyond_NC = (z_NC - ranking.threshold).clamp(min=0) * tags_NC
    short_NC = (ranking.threshold + ranking.margin - z_NC).clamp(min=0) * ~tags_NC
    # Without the anchor itself.
    others_NC = beyond_NC.sum(dim=0) - beyond_NC
    count_NC = (beyond_NC > 0).sum(dim=0) - (beyond_NC > 0).long()
    near_NC = others_NC / count_NC.clamp(min=1) * (count_NC > 0)
    far_C = short_NC.sum(dim=0) / (short_NC > 0).sum(dim=0).clamp(min=1)
    return (near_NC + ranking.balance * far_C)[tags_NC].mean()


def geometric_z_score(distance_NC: Tensor, log_mean_C: Tensor, log_deviation_C: Tensor) -> Tensor:
    """Return z = log(d/μ) / log σ, of the shape of the distances, from log μ and log σ.

    It is the ordinary z-score of log d: 0 at the geometric mean μ, 1 at μ σ.
    """
    return (distance_NC.log() - log_mean_C) / log_deviation_C


def geometric_statistics(distance_N: Tensor) -> tuple[Tensor, Tensor]:
    """Return log μ = mean(log d) and log σ = sqrt(mean(log²(d/μ))), scalars."""
    log_N = distance_N.log()
    return log_N.mean(), log_N.std(correction=0)


class RiemannianPotato(nn.Module):
    """:func:`potato_ranking_loss` of embeddings, with references and statistics that follow them.

    A class gets its potato in the first batch with two of its examples: the reference Σ̄ is their
    mean, and μ and σ are the geometric statistics of their distances from it. After each batch,
    with d the distances of the examples of the class and M their mean,

        Σ̄ ← the point at β of the geodesic from Σ̄ to M
        log μ ← (1 − β) log μ + β mean(log d)
        log² σ ← (1 − β) log² σ + β mean(log²(d/μ)).

    Gradients flow only through the distances. References and statistics are buffers, so checkpoints
    save them.
    """

    def __init__(
        self,
        classes: int,
        shape: tuple[int, ...],
        geometry: Geometry,
        ranking: Ranking,
        *,
        rate: float = 0.5,
        softness: float = 0.0,
    ) -> None:
        """Create the buffers, without potatoes, for embeddings of `shape`, ``(n, n)`` or ``(D,)``.

        `rate` is β. Distances are sqrt(d² + `softness`²). Without it, log d would be unbounded when
        a class of bounded embeddings shrinks to a point.

        Raises:
            ValueError: unless `rate` is above 0 and at most 1.
        """
        super().__init__()
        check_rate(rate)
        self._geometry, self._ranking = geometry, ranking
        self._rate, self._softness = rate, softness
        self.references: Tensor
        self.log_mean_C: Tensor
        self.log_deviation_C: Tensor
        self.known_C: Tensor
        start = torch.eye(shape[0]) if len(shape) == 2 else torch.zeros(shape)
        self.register_buffer("references", start.double().repeat(classes, *(1 for _ in shape)))
        self.register_buffer("log_mean_C", torch.zeros(classes, dtype=torch.float64))
        self.register_buffer("log_deviation_C", torch.ones(classes, dtype=torch.float64))
        # A float and not a bool, since checkpoints restore other types as integers.
        self.register_buffer("known_C", torch.zeros(classes, dtype=torch.float64))

    def forward(self, embeddings: Tensor, tags_NC: Tensor) -> Tensor:
        """Return the loss of a batch ``[N, …]`` and update the statistics.

        Raises:
            ValueError: if an embedding contains NaN or infinity, or there are fewer than two
                classes.
        """
        _check_batch(embeddings, tags_NC)
        x = embeddings.double()
        with torch.no_grad():
            self._initialize(x, tags_NC)
        known_K = self.known_C > 0
        if not bool(known_K.any()):
            return 0 * embeddings.sum()
        z_NK = geometric_z_score(
            self.distances(x, known_K), self.log_mean_C[known_K], self.log_deviation_C[known_K]
        )
        loss = potato_ranking_loss(z_NK, tags_NC[:, known_K], self._ranking)
        with torch.no_grad():
            self._update(x, tags_NC)
        return loss

    def distances(self, x: Tensor, mask_C: Tensor) -> Tensor:
        """Return the distances of embeddings to the references of classes, ``[N, K]``.

        `mask_C`, ``bool[C]``, selects K classes.
        """
        d_NK = self._geometry.distance(x.unsqueeze(1), self.references[mask_C].unsqueeze(0))
        return d_NK if self._softness == 0 else (d_NK.square() + self._softness**2).sqrt()

    def _initialize(self, x: Tensor, tags_NC: Tensor) -> None:
        """Create the potatoes of classes with two examples for the first time."""
        for c in range(len(self.known_C)):
            own = x[tags_NC[:, c]]
            if self.known_C[c] == 0 and len(own) >= 2:
                self.references[c] = self._geometry.mean(own)
                log_mean, log_deviation = geometric_statistics(self._own_distances(own, c))
                self.log_mean_C[c] = log_mean
                self.log_deviation_C[c] = log_deviation.clamp(min=MIN_LOG_DEVIATION)
                self.known_C[c] = 1

    def _update(self, x: Tensor, tags_NC: Tensor) -> None:
        """Move references and statistics towards those of the batch."""
        rate = self._rate
        for c in range(len(self.known_C)):
            own = x[tags_NC[:, c]]
            if self.known_C[c] == 0 or len(own) == 0:
                continue
            mean = self._geometry.mean(own)
            self.references[c] = self._geometry.along(self.references[c], mean, rate)
            log_N = self._own_distances(own, c).log()
            log_mean = torch.lerp(self.log_mean_C[c], log_N.mean(), rate)
            spread = (log_N - log_mean).square().mean()
            variance = torch.lerp(self.log_deviation_C[c].square(), spread, rate)
            self.log_mean_C[c] = log_mean
            self.log_deviation_C[c] = variance.sqrt().clamp(min=MIN_LOG_DEVIATION)

    def _own_distances(self, own: Tensor, c: int) -> Tensor:
        mask_C = torch.arange(len(self.known_C)) == c
        return self.distances(own, mask_C)[:, 0]


def _mean_of_positive(values: Tensor) -> Tensor:
    """Return the mean of the values above 0, or 0 if there are none."""
    positive = values[values > 0]
    return positive.mean() if len(positive) else values.sum() * 0


def _check_batch(embeddings: Tensor, tags_NC: Tensor) -> None:
    if len(embeddings) != len(tags_NC):
        found = f"there are {len(embeddings)} embeddings and {len(tags_NC)} rows of tags"
        raise ValueError(f"tags: {found}; the numbers must be equal")
    invalid = ~torch.isfinite(embeddings.detach().flatten(1)).all(dim=1)
    if bool(invalid.any()):
        first = int(invalid.nonzero()[0])
        raise ValueError(
            f"embedding: row {first} contains NaN or infinity; every number must be finite"
        )
    n_classes = int(tags_NC.any(dim=0).sum())
    if n_classes < 2:
        found = f"the number of classes of the {len(tags_NC)} examples in the batch is {n_classes}"
        raise ValueError(f"label: {found}; there must be at least two classes in a batch")
