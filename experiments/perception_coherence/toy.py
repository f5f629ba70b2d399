"""Toy data: free points in the plane learn the rankings of given points.

The teacher is the data itself under Euclidean distance. The student is a free point in the plane
for each example, so the result shows the objective and not a network. The settings are the paper's:
Adam at 0.1, batches of 64, 800 epochs, τ = 0.1 for both. For data in the plane the points start
from N(0, 1). For clusters in space they start from a random linear image of the data, like the
output of a student with fewer dimensions. From N(0, 1) such a run may end with whole clusters in
the wrong place, because free clusters do not pass through each other.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from experiments.parts import add_choices
from experiments.perception_coherence.coherence_estimates import global_perception_coherence
from experiments.perception_coherence.figures import plot_configurations
from experiments.processes import map_runs
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from hummingbit.training.objectives.dissimilarity import euclidean_dissimilarity
from hummingbit.training.objectives.perception_coherence import perception_coherence_embedding_loss

DATASETS = ("two-moons", "five-gaussians", "clusters-3d")
BATCH_SIZE = 64
ABLATION = (3, 7, 15, 64)
SNAPSHOTS = (0, 5, 20, 100, 300, 800)


@dataclass(frozen=True)
class Toy:
    """The settings of one run."""

    dataset: str
    batch_size: int
    seed: int
    epochs: int
    learning_rate: float = 0.1
    temperature: float = 0.1


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of this part."""
    add_choices(group, "--datasets", DATASETS, "the data sets")
    group.add_argument(
        "--batch-sizes", type=int, nargs="+", default=list(ABLATION), metavar="B",
        help="for the first data set; the others have the largest",
    )  # fmt: skip
    group.add_argument(
        "--toy-epochs",
        type=int,
        default=800,
        metavar="N",
        help="epochs of each run (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Train every run, print the coherence levels and draw the runs of the first seed."""
    toys = list(_toys(args))
    folder = args.work_dir / "toy"
    results = _train_all(toys, folder, args.jobs)
    records = [_record(toy, result) for toy, result in zip(toys, results, strict=True)]
    save_records(args, records)
    _print_levels(records)
    if args.plot:
        largest = max(args.batch_sizes)
        configurations = {
            toy.dataset: (*toy_data(toy.dataset), result)
            for toy, result in zip(toys, results, strict=True)
            if toy.seed == 0 and toy.batch_size == largest
        }
        plot_configurations(args.plot, configurations)
    return 0


def toy_data(dataset: str) -> tuple[Tensor, Tensor]:
    """Return the teacher's points, float32[N, 2 or 3], and the group of each, int64[N]."""
    from sklearn.datasets import make_blobs, make_moons  # noqa: PLC0415 - takes a second

    if dataset == "two-moons":
        points, groups = make_moons(700, noise=0.05, random_state=0)
    elif dataset == "five-gaussians":
        points, groups = make_blobs(1000, centers=5, cluster_std=0.5, random_state=0)
    else:
        points, groups = make_blobs(1000, n_features=3, centers=5, cluster_std=0.5, random_state=0)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(groups)


def train_toy(toy: Toy) -> Tensors:
    """Train the student; return its points and its coherence level at each snapshot.

    ``points`` is float32[S, N, 2]; ``coherence``, float64[S], is exact, over all pairs; ``epochs``,
    int64[S], holds the epoch of each snapshot.
    """
    teacher_ND, _ = toy_data(toy.dataset)
    generator = torch.Generator().manual_seed(toy.seed)
    student_N2 = _initial_points(teacher_ND, generator).requires_grad_()
    optimizer = torch.optim.Adam([student_N2], lr=toy.learning_rate)
    snapshots = [epoch for epoch in SNAPSHOTS if epoch < toy.epochs] + [toy.epochs]
    points, levels = [], []
    for epoch in range(toy.epochs + 1):
        if epoch in snapshots:
            points.append(student_N2.detach().clone())
            levels.append(_level(student_N2, teacher_ND))
        if epoch < toy.epochs:
            order = torch.randperm(len(teacher_ND), generator=generator)
            for batch in torch.split(order, toy.batch_size):
                if len(batch) > 1:
                    _step(optimizer, student_N2, teacher_ND, batch, toy.temperature)
    return {
        "points": torch.stack(points),
        "coherence": torch.tensor(levels, dtype=torch.float64),
        "epochs": torch.tensor(snapshots),
    }


def _initial_points(teacher_ND: Tensor, generator: torch.Generator) -> Tensor:
    n, dimension = teacher_ND.shape
    if dimension == 2:
        return torch.randn(n, 2, generator=generator)
    standard_ND = (teacher_ND - teacher_ND.mean(dim=0)) / teacher_ND.std()
    image_D2 = torch.randn(dimension, 2, generator=generator) / math.sqrt(dimension)
    return standard_ND @ image_D2


def _step(
    optimizer: torch.optim.Optimizer,
    student_N2: Tensor,
    teacher_ND: Tensor,
    batch: Tensor,
    temperature: float,
) -> None:
    loss = perception_coherence_embedding_loss(
        student_N2[batch],
        teacher_ND[batch],
        student_dissimilarity=euclidean_dissimilarity,
        teacher_dissimilarity=euclidean_dissimilarity,
        student_temperature=temperature,
        teacher_temperature=temperature,
    )
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _level(student_N2: Tensor, teacher_ND: Tensor) -> float:
    return global_perception_coherence(
        student_N2.detach(),
        teacher_ND,
        student_dissimilarity=euclidean_dissimilarity,
        teacher_dissimilarity=euclidean_dissimilarity,
    )


def _toys(args: argparse.Namespace) -> Iterator[Toy]:
    for number, dataset in enumerate(args.datasets):
        for batch_size in args.batch_sizes if number == 0 else [max(args.batch_sizes)]:
            for seed in range(args.seeds):
                yield Toy(dataset, batch_size, seed, args.toy_epochs)


def _train_all(toys: list[Toy], folder: Path, jobs: int) -> list[Tensors]:
    return list(map_runs(partial(_load_or_train, folder), toys, jobs))


def _load_or_train(folder: Path, toy: Toy) -> Tensors:
    path = folder / f"{toy.dataset}-{toy.batch_size}-{toy.seed}.safetensors"
    return load_or_compute(path, asdict(toy), lambda: train_toy(toy))


def _record(toy: Toy, result: Tensors) -> Record:
    return {
        "part": "toy",
        "dataset": toy.dataset,
        "method": "perception-coherence",
        "batch_size": toy.batch_size,
        "epochs": toy.epochs,
        "seed": toy.seed,
        "coherence": float(result["coherence"][-1]),
        "coherence_untrained": float(result["coherence"][0]),
    }


def _print_levels(records: list[Record]) -> None:
    rows = []
    for (dataset, batch_size), runs in group(records, "dataset", "batch_size").items():
        before, after = (
            mean_and_deviation(runs, key) for key in ("coherence_untrained", "coherence")
        )
        rows.append([dataset, str(batch_size), before, after])
    print_table(("data set", "batch", "coherence before", "after"), rows)
