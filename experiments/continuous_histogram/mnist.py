"""Images of digits embedded in the plane, so that digits of near values lie near each other.

Source: Zholus and Putin (2020), the experiment on MNIST. The network has 784 – 256 – 128 – 2 units
with ELU, the similarity of digits i and j is 1 − |i − j| / 10, Euclidean distances are squashed by
f / (1 + f), and there are 100 bins; Adam with 0.002 runs for 10 epochs. The baseline is the binary
histogram loss on the same network, which knows only whether two digits are the same. The paper does
not give the batch size; ours is 256.

The figure is Spearman's correlation of |i − j| and the distance of the mean embeddings of i and j,
over the 45 pairs of digits, on the test images.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from experiments.continuous_histogram.histograms import histogram_loss
from experiments.drawings import new_drawing, save_drawing
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, content_sha256, load_or_compute
from hummingbit.corpus.readers import read_documents
from hummingbit.training.data import Rows, gather
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.objectives.continuous_histogram import continuous_histogram_loss
from hummingbit.training.objectives.dissimilarity import euclidean_dissimilarity

METHODS = {"chl": "continuous histogram loss", "hl": "histogram loss"}
BINS = 100
_DIGITS = 10
_LABEL_BOX = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "alpha": 0.75}
_LABEL = {"weight": "bold", "size": "large", "ha": "center", "va": "center", "bbox": _LABEL_BOX}


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument("--epochs", type=int, default=10, metavar="N", help="passes over the images")
    group.add_argument(
        "--batch-size",
        type=int,
        default=256,
        metavar="N",
        help="images in a batch (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Train every method and seed, then print the correlations and draw the embeddings."""
    images, digits = _read("mnist:train", args.data_root)
    test_images, test_digits = _read("mnist:test", args.data_root)
    data = content_sha256(images, digits, test_images)
    records: list[Record] = []
    embeddings: dict[str, Tensor] = {}
    for method in METHODS:
        for seed in range(args.seeds):
            schedule = Schedule(args.epochs, args.batch_size, 0.002, seed)
            settings = {"method": method, "data": data, **vars(schedule)}
            compute = partial(embed, method, images, digits, test_images, schedule)
            name = f"mnist-{method}-{args.epochs}-{args.batch_size}-{seed}.safetensors"
            embedding_N2 = load_or_compute(args.work_dir / name, settings, compute)["embedding_N2"]
            embeddings.setdefault(method, embedding_N2)
            records.append(_record(method, seed, embedding_N2, test_digits))
    save_records(args, records)
    rows = [
        [METHODS[method], str(len(runs)), mean_and_deviation(runs, "centroid_spearman")]
        for (method,), runs in group(records, "method").items()
    ]
    print_table(("trained with", "seeds", "Spearman of |i − j| and distance of centroids"), rows)
    if args.plot:
        _plot(args.plot, embeddings, test_digits)
    return 0


def embed(
    method: str, images: Tensor, digits: Tensor, test_images: Tensor, schedule: Schedule
) -> Tensors:
    """Train a network on images and their digits; return the embeddings of the test images."""
    network = train_network(method, images, digits, schedule)
    with torch.no_grad():
        return {"embedding_N2": network(test_images)}


def train_network(method: str, images: Tensor, digits: Tensor, schedule: Schedule) -> nn.Module:
    """Return a trained network from images ``[N, 784]`` to the plane ``[N, 2]``."""
    torch.manual_seed(schedule.seed)
    network = nn.Sequential(
        nn.Linear(images.shape[1], 256),
        nn.ELU(),
        nn.Linear(256, 128),
        nn.ELU(),
        nn.Linear(128, 2),
    )

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> dict[str, Tensor]:  # noqa: ARG001
        batch = torch.from_numpy(rows)
        first, second = torch.triu_indices(len(rows), len(rows), offset=1)
        distance_M = squashed_euclidean_distance(network(images[batch]))[first, second]
        gap_M = (digits[batch][first] - digits[batch][second]).abs()
        if method == "hl":
            return {"loss": histogram_loss(distance_M, gap_M == 0, bins=BINS)}
        similarity_M = 1 - gap_M / _DIGITS
        return {
            "loss": continuous_histogram_loss(
                distance_M, similarity_M, bins=BINS, similarity_bins=BINS
            )
        }

    fit(network, loss, len(images), schedule)
    return network


def centroid_spearman(embedding_ND: Tensor, digits_N: Tensor) -> float:
    """Return Spearman's correlation of |i − j| and the distance of the mean embeddings of i, j."""
    classes = sorted(set(digits_N.tolist()))
    means = {digit: embedding_ND[digits_N == digit].mean(dim=0) for digit in classes}
    pairs = list(combinations(classes, 2))
    gaps = [abs(i - j) for i, j in pairs]
    distances = [float(torch.dist(means[i], means[j])) for i, j in pairs]
    return float(spearmanr(gaps, distances).statistic)


def _record(method: str, seed: int, embedding_N2: Tensor, digits_N: Tensor) -> Record:
    figure = centroid_spearman(embedding_N2, digits_N)
    return {"part": "mnist", "method": method, "seed": seed, "centroid_spearman": figure}


def _read(source: str, data_root: Path | None) -> tuple[Tensor, Tensor]:
    data = gather(read_documents(source, data_root=data_root))
    digits = np.array([int(name) for name in data.classes])[data.tags.argmax(axis=1)]
    return torch.from_numpy(np.asarray(data.inputs)), torch.from_numpy(digits)


def _plot(path: Path, embeddings: dict[str, Tensor], digits_N: Tensor) -> None:
    """Draw the test images of the first seed in the plane, and the means of the digits."""
    drawing = new_drawing(5.5 * len(embeddings), 5)
    grid = drawing.subplots(1, len(embeddings), squeeze=False)[0]
    for axes, (method, embedding_N2) in zip(grid, embeddings.items(), strict=True):
        dots = axes.scatter(
            *embedding_N2.T.numpy(), c=digits_N, cmap="viridis", s=2, linewidths=0, rasterized=True
        )
        for digit in sorted(set(digits_N.tolist())):
            x, y = embedding_N2[digits_N == digit].mean(dim=0).tolist()
            axes.text(x, y, str(digit), **_LABEL)
        axes.set_title(METHODS[method])
    drawing.colorbar(dots, ax=grid, label="digit")
    save_drawing(drawing, path)


def squashed_euclidean_distance(x_ND: Tensor) -> Tensor:
    """Return f / (1 + f) of the Euclidean distances f, ``[N, N]``; from 0 to below 1."""
    f_NN = euclidean_dissimilarity(x_ND, x_ND)
    return f_NN / (1 + f_NN)
