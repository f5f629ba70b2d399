"""Continuous histogram loss on distances that are free to move, without a network.

Source: Zholus and Putin (2020), section 4.1. Similarities are drawn from one of four priors and
distances from U(0, 1); gradient descent then changes only the distances. The loss is a mean over M
pairs, so with fewer pairs each moves farther in 3,000 steps; but a pair interacts only with pairs
within a node of its own distance, and few pairs may be too far apart. The paper does not give M;
ours is 200. The heat maps pool the runs of all seeds.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr, truncnorm
from torch import Tensor

from experiments.drawings import new_drawing, save_drawing
from experiments.result_tables import Record, group, mean_and_deviation, print_table, save_records
from experiments.saved_tensors import Tensors, load_or_compute
from hummingbit.training.objectives.continuous_histogram import (
    continuous_histogram_loss,
    pair_histogram,
)

BINS = 51
RATE = 0.1
PLOTTED_STEPS = (0, 500, 1000, 3000)
"""The numbers of steps after which distances are recorded."""

PRIORS: dict[str, float | None] = {
    "uniform": None,
    "normal around 0.5": 0.5,
    "normal around 0": 0.0,
    "normal around 1": 1.0,
}
"""The mean of a normal distribution of deviation 0.3, cut to [0, 1]; None is the uniform one."""

_DEVIATION = 0.3


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument(
        "--priors",
        nargs="+",
        default=list(PRIORS),
        choices=PRIORS,
        metavar="NAME",
        help="the distributions of similarity (default: all)",
    )
    group.add_argument("--pairs", type=int, default=200, metavar="N", help="pairs per run")


def run(args: argparse.Namespace) -> int:
    """Optimize the distances for every prior and seed, then print and draw the results."""
    records: list[Record] = []
    histograms: dict[str, list[Tensors]] = {}
    for prior in args.priors:
        for seed in range(args.seeds):
            settings = {"prior": prior, "seed": seed, "pairs": args.pairs, "bins": BINS}
            name = f"synthetic-{prior.replace(' ', '-')}-{args.pairs}-{seed}.safetensors"
            tensors = load_or_compute(args.work_dir / name, settings, partial(descend, settings))
            histograms.setdefault(prior, []).append(tensors)
            records += _records(prior, seed, tensors)
    save_records(args, records)
    _print(records)
    if args.plot:
        _plot(args.plot, histograms)
    return 0


def descend(settings: dict[str, Any]) -> Tensors:
    """Return the similarities ``[M]`` and the distances at each of the plotted steps ``[S, M]``."""
    generator = torch.Generator().manual_seed(settings["seed"])
    quantile_M, d_M = torch.rand(2, settings["pairs"], generator=generator, dtype=torch.float64)
    s_M = draw_similarities(settings["prior"], quantile_M)
    distances = [d_M]
    for step in range(1, PLOTTED_STEPS[-1] + 1):
        d_M = d_M.detach().requires_grad_()
        loss = continuous_histogram_loss(d_M, s_M, bins=BINS, similarity_bins=BINS)
        (gradient_M,) = torch.autograd.grad(loss, d_M)
        d_M = (d_M - RATE * gradient_M).detach().clamp(0, 1)
        if step in PLOTTED_STEPS:
            distances.append(d_M)
    return {"similarity_M": s_M, "distance_SM": torch.stack(distances)}


def draw_similarities(prior: str, quantile_M: Tensor) -> Tensor:
    """Return the values of a prior at these quantiles, ``float64[M]`` from 0 to 1."""
    mean = PRIORS[prior]
    if mean is None:
        return quantile_M
    edges = (0 - mean) / _DEVIATION, (1 - mean) / _DEVIATION
    similarities = truncnorm.ppf(quantile_M.numpy(), *edges, loc=mean, scale=_DEVIATION)
    return torch.from_numpy(similarities).clamp(0, 1)


def _records(prior: str, seed: int, tensors: Tensors) -> list[Record]:
    s_M = tensors["similarity_M"]
    return [
        {
            "part": "synthetic",
            "method": "chl",
            "prior": prior,
            "seed": seed,
            "step": step,
            "loss": float(continuous_histogram_loss(d_M, s_M, bins=BINS, similarity_bins=BINS)),
            "spearman": float(spearmanr(d_M, s_M).statistic),
        }
        for step, d_M in zip(PLOTTED_STEPS, tensors["distance_SM"], strict=True)
    ]


def _print(records: list[Record]) -> None:
    rows = [
        [prior, f"{step:,}", mean_and_deviation(runs, "loss"), mean_and_deviation(runs, "spearman")]
        for (prior, step), runs in group(records, "prior", "step").items()
    ]
    print_table(("similarities", "step", "loss", "Spearman of distance and similarity"), rows)


def _plot(path: Path, histograms: dict[str, list[Tensors]]) -> None:
    """Draw a heat map of h for each prior and step, similarity against distance."""
    drawing = new_drawing(2.4 * len(PLOTTED_STEPS), 2.4 * len(histograms))
    grid = drawing.subplots(
        len(histograms), len(PLOTTED_STEPS), sharex=True, sharey=True, squeeze=False
    )
    for axes_of_prior, (prior, runs) in zip(grid, histograms.items(), strict=True):
        s = torch.cat([tensors["similarity_M"] for tensors in runs])
        for i, (axes, step) in enumerate(zip(axes_of_prior, PLOTTED_STEPS, strict=True)):
            d = torch.cat([tensors["distance_SM"][i] for tensors in runs])
            h_RZ = pair_histogram(d, s, bins=BINS, similarity_bins=BINS).sqrt().numpy()
            axes.imshow(h_RZ, origin="lower", extent=(0, 1, 0, 1), cmap="magma")
            axes.set_title(f"{prior}, step {step:,}", fontsize="small")
            axes.tick_params(labelsize="x-small")
        axes_of_prior[0].set_ylabel("distance", fontsize="small")
    for axes in grid[-1]:
        axes.set_xlabel("similarity", fontsize="small")
    save_drawing(drawing, path)
