"""Two clouds of points in the plane, embedded by the probability that two points share a cloud.

Source: Marjieh et al. (2024), the experiment on a mixture of two Gaussians: means (5, 5) and
(1, 1), σ = 1, a perceptron of two layers with 32 units, 10,000 triplets, 300 epochs. Ours are the
batches of 256 triplets (of 32 points for methods that compare all points of a batch), Adam with
10⁻⁴, and the 32 dimensions of the embedding. `printed` has the paper's: H1, one dimension, Adam
with 10⁻⁵.

The figures are from 2,000 points and as many pairs outside the training points: the share of points
whose embedding is nearest to the mean embedding of their own cloud, and Spearman's correlation of
s_gen and the distance of embeddings. The correlation is over single pairs and, as in the paper,
over the means of all pairs in 500 quantiles of distance. The mean distances are those of pairs from
one cloud and of independent pairs, half of which are from one cloud. Only the three baselines with
classes know the clouds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn import functional

from experiments.drawings import new_drawing, save_drawing
from experiments.generative_similarity.contrastive_baselines import (
    OF_LIBRARY,
    class_triplet_loss,
    info_nce_loss,
    supervised_contrastive_loss,
)
from experiments.generative_similarity.triplet_losses import squared_distance_loss, triplet_loss
from experiments.parts import need
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from hummingbit.training.data import Rows
from hummingbit.training.generative_models import GaussianMixture, Numbers
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.objectives.generative_similarity import (
    kernel_triplet_loss,
    regression_loss,
)

MIXTURE = GaussianMixture([[5.0, 5.0], [1.0, 1.0]])
UNITS = 32
TEST_POINTS = 2000
# Methods that compare all points of a batch use only this many: triplets grow with the third power.
_COMPARED_POINTS = 32
QUANTILES = 500
_PRINTED = "printed"
_TITLES = {
    "accuracy": "accuracy",
    "spearman": "Spearman of distance and s_gen",
    "spearman_of_means": "of the means of 500 quantiles",
    "distance_same": "mean distance, same",
    "distance_different": "different",
}


class Batch:
    """A batch: triplets of points, and points with their clouds.

    ``points_T3D`` holds an anchor, a point of its cloud, and a point of a cloud drawn anew;
    ``source_T`` is the cloud of each row of ``labelled_TD``.
    """

    def __init__(
        self, network: nn.Module, points_T3D: Tensor, labelled_TD: Tensor, source_T: Tensor
    ) -> None:
        self.network, self.points_T3D = network, points_T3D
        self.labelled_TD, self.source_T = labelled_TD, source_T

    def similarities(self) -> tuple[Tensor, Tensor]:
        """Return S = −distance between each anchor and its two other points."""
        anchor, same, different = self.network(self.points_T3D).unbind(dim=1)
        return -_distance(anchor, same), -_distance(anchor, different)


def _triplet_loss(batch: Batch, contrast: str) -> Tensor:
    return triplet_loss(*batch.similarities(), contrast=contrast)


def _squared_distance_loss(batch: Batch) -> Tensor:
    return squared_distance_loss(*batch.network(batch.points_T3D).unbind(dim=1))


def _kernel_loss(batch: Batch) -> Tensor:
    points_TD = batch.points_T3D[:_COMPARED_POINTS, 0]
    x_TD = batch.network(points_TD)
    kernel_TT = _generative_similarity(points_TD[:, None], points_TD)
    return kernel_triplet_loss(-_distance(x_TD[:, None], x_TD), kernel_TT)


def _regression_loss(batch: Batch) -> Tensor:
    anchor, same, different = batch.points_T3D.unbind(dim=1)
    similarity = [_generative_similarity(anchor, other) for other in (same, different)]
    # s_gen is at most 2 here, so the most similar points get the target distance 0.
    return regression_loss(torch.cat(batch.similarities()), torch.cat(similarity) - 2)


def _simclr_loss(batch: Batch) -> Tensor:
    anchor, same, _ = batch.network(batch.points_T3D[:_COMPARED_POINTS]).unbind(dim=1)
    return info_nce_loss(anchor, same)


def _class_loss(batch: Batch, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    labelled_TD, source_T = batch.labelled_TD[:_COMPARED_POINTS], batch.source_T[:_COMPARED_POINTS]
    return loss(batch.network(labelled_TD), source_T)


METHODS: Mapping[str, Callable[[Batch], Tensor]] = {
    _PRINTED: _squared_distance_loss,
    "softplus": partial(_triplet_loss, contrast="softplus"),
    "quadratic": partial(_triplet_loss, contrast="quadratic"),
    "kernel": _kernel_loss,
    "regression": _regression_loss,
    "simclr": _simclr_loss,
    "classification": partial(_class_loss, loss=functional.cross_entropy),
    "class-triplets": partial(_class_loss, loss=class_triplet_loss),
    "sup-con": partial(_class_loss, loss=supervised_contrastive_loss),
}
"""By name: the paper's loss on triplets, triplets with either contrast, pairs of a batch weighted
by s_gen, regression on s_gen, and the baselines. `simclr` uses two points of one cloud as views;
`classification` uses the first two of the 32 numbers as logits of the clouds.
"""


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument(
        "--gaussian-methods",
        nargs="+",
        default=list(METHODS),
        choices=METHODS,
        metavar="NAME",
        help=", ".join(METHODS),
    )
    group.add_argument(
        "--triplets",
        type=int,
        default=10_000,
        metavar="N",
        help="triplets to train on (default: %(default)s)",
    )
    group.add_argument(
        "--passes", type=int, default=300, metavar="N", help="passes over the triplets"
    )


def run(args: argparse.Namespace) -> int:
    """Train every method and seed, then print the figures of the embeddings."""
    need("pytorch_metric_learning", OF_LIBRARY.intersection(args.gaussian_methods))
    records: list[Record] = []
    embeddings: dict[str, Tensors] = {}
    for seed in range(args.seeds):
        for method in args.gaussian_methods:
            schedule = Schedule(args.passes, 256, 1e-5 if method == _PRINTED else 1e-4, seed)
            settings = {"method": method, "triplets": args.triplets, **vars(schedule)}
            name = f"gaussian-{method}-{args.triplets}-{args.passes}-{seed}.safetensors"
            compute = partial(embed, method, args.triplets, schedule)
            tensors = load_or_compute(args.work_dir / name, settings, compute)
            embeddings.setdefault(method, tensors)
            records.append(_record(method, seed, tensors))
    save_records(args, records)
    rows = [
        [method, str(len(runs)), *(mean_and_deviation(runs, figure) for figure in _TITLES)]
        for (method,), runs in group(records, "method").items()
    ]
    print_table(("trained with", "seeds", *_TITLES.values()), rows)
    if args.plot:
        _plot(args.plot, embeddings)
    return 0


def embed(method: str, triplets: int, schedule: Schedule) -> Tensors:
    """Train on triplets; return the embeddings of test pairs and the mean embeddings.

    ``point_ND`` and ``partner_ND`` are the embeddings of the pairs; ``mean_KD`` is the mean
    embedding of the training points of each cloud.
    """
    rng = np.random.default_rng([schedule.seed, 0])
    points_T3D = _tensor(np.stack(MIXTURE.sample_triplets(triplets, rng), axis=1))
    points, source = MIXTURE.sample(triplets, rng)
    labelled_TD, source_T = _tensor(points), torch.from_numpy(source)
    torch.manual_seed(schedule.seed)
    width = 1 if method == _PRINTED else UNITS
    network = nn.Sequential(nn.Linear(2, UNITS), nn.ReLU(), nn.Linear(UNITS, width))

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
        batch_rows = torch.from_numpy(rows)
        batch = Batch(
            network, points_T3D[batch_rows], labelled_TD[batch_rows], source_T[batch_rows]
        )
        return {"loss": METHODS[method](batch)}

    fit(network, loss, triplets, schedule)
    with torch.no_grad():
        x_TD = network(labelled_TD)
        means = [x_TD[source_T == k].mean(dim=0) for k in range(len(MIXTURE.means_KD))]
        point_ND, partner_ND = (
            network(_tensor(points)) for points in _test_pairs(schedule.seed)[0]
        )
    return {"point_ND": point_ND, "partner_ND": partner_ND, "mean_KD": torch.stack(means)}


def _generative_similarity(x: Tensor, y: Tensor) -> Tensor:
    return _tensor(np.exp(MIXTURE.log_similarity(x.numpy(), y.numpy())))


def _test_pairs(seed: int) -> tuple[tuple[Numbers, Numbers], Any]:
    """Return the two points of each pair, and the clouds of the first points."""
    rng = np.random.default_rng([seed, 1])
    points, source = MIXTURE.sample(TEST_POINTS, rng)
    partners, _ = MIXTURE.sample(TEST_POINTS, rng)
    return (points, partners), source


def _record(method: str, seed: int, tensors: Tensors) -> Record:
    (points, partners), source = _test_pairs(seed)
    nearest = torch.cdist(tensors["point_ND"], tensors["mean_KD"]).argmin(dim=1).numpy()
    distance = _distance(tensors["point_ND"], tensors["partner_ND"])
    similarity = MIXTURE.log_similarity(points, partners)
    return {
        "part": "gaussian",
        "method": method,
        "seed": seed,
        "accuracy": float((nearest == source).mean()),
        "spearman": float(spearmanr(distance, similarity).statistic),
        "spearman_of_means": _spearman_of_means(tensors["point_ND"], _test_similarities(seed)),
        "distance_same": _distance_in_clouds(tensors["point_ND"], source),
        "distance_different": float(distance.mean()),
    }


def _distance_in_clouds(x_ND: Tensor, source_N: Any) -> float:
    """Return the mean distance of independent pairs of points, each pair from one cloud."""
    halves = []
    for cloud in np.unique(source_N):
        rows = np.flatnonzero(source_N == cloud)
        count = len(rows) // 2
        halves.append(_distance(x_ND[rows[:count]], x_ND[rows[count : 2 * count]]))
    return float(torch.cat(halves).mean())


@lru_cache(maxsize=1)
def _test_similarities(seed: int) -> Numbers:
    """Return s_gen of every two of the first points, in the order of :func:`torch.pdist`."""
    (points, _), _ = _test_pairs(seed)
    i, j = np.triu_indices(len(points), k=1)
    return np.exp(MIXTURE.log_similarity(points[i], points[j]))


def _spearman_of_means(x_ND: Tensor, similarity: Numbers) -> float:
    """Return Spearman's correlation of the quantiles of distance and the mean s_gen in each.

    It is over all pairs of points; ``similarity`` is their s_gen.
    """
    distance = torch.pdist(x_ND).numpy()
    by_distance = similarity[np.argsort(distance, kind="stable")]
    means = [part.mean() for part in np.array_split(by_distance, QUANTILES)]
    return float(spearmanr(np.arange(QUANTILES), means).statistic)


def _distance(x: Tensor, y: Tensor) -> Tensor:
    """Return Euclidean distances along the last axis; their gradient is 0 where they are 0."""
    return (x - y).square().sum(dim=-1).clamp(min=1e-12).sqrt()


def _tensor(points: Numbers) -> Tensor:
    return torch.from_numpy(points).float()


def _plot(path: Path, embeddings: dict[str, Tensors]) -> None:
    """Plot the distance of embeddings against s_gen, for the first seed of each method."""
    drawing = new_drawing(2.6 * len(embeddings), 2.6)
    grid = drawing.subplots(1, len(embeddings), squeeze=False)[0]
    similarity = np.exp(MIXTURE.log_similarity(*_test_pairs(0)[0]))
    for axes, (method, tensors) in zip(grid, embeddings.items(), strict=True):
        distance = _distance(tensors["point_ND"], tensors["partner_ND"])
        axes.plot(similarity, distance, ".", markersize=1, rasterized=True)
        axes.set_title(method, fontsize="small")
        axes.set_xlabel("generative similarity", fontsize="small")
    grid[0].set_ylabel("distance of embeddings", fontsize="small")
    save_drawing(drawing, path)
