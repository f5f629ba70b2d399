"""What continuous histogram loss does to distances that are free to move, without a network.

Source: Zholus and Putin (2020), section 4.1. Similarities are drawn from one of four priors and
distances from U(0, 1); gradient descent then moves the distances alone. Each pair feels the mean
over all M, so the fewer they are the farther 3,000 steps carry them; but a pair only feels those
within a node of its own distance, and too few lose sight of each other. 200 pairs is ours. The heat
maps pool the runs of all seeds.
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
from experiments.result_tables import Record, give_records, group, mean_and_deviation, print_table
from experiments.saved_tensors import Tensors, load_or_compute
from training.objectives.continuous_histogram import continuous_histogram_loss, pair_histogram

BINS = 51
RATE = 0.1
SHOWN = (0, 500, 1000, 3000)
"""The steps after which distances are looked at."""

PRIORS: dict[str, float | None] = {
    "uniform": None,
    "normal around 0.5": 0.5,
    "normal around 0": 0.0,
    "normal around 1": 1.0,
}
"""The mean of the normal distribution, of deviation 0.3 and cut to [0, 1], or none if uniform."""

_DEVIATION = 0.3


def configure(group: Any) -> None:
    """Add the options."""
    group.add_argument("--priors", nargs="+", default=list(PRIORS), choices=PRIORS, metavar="NAME")
    group.add_argument("--pairs", type=int, default=200, metavar="N", help="pairs of a run")


def run(args: argparse.Namespace) -> int:
    """Move the distances for every prior and seed, then print and draw what became of them."""
    records: list[Record] = []
    histograms: dict[str, list[Tensors]] = {}
    for prior in args.priors:
        for seed in range(args.seeds):
            settings = {"prior": prior, "seed": seed, "pairs": args.pairs, "bins": BINS}
            name = f"synthetic-{prior.replace(' ', '-')}-{args.pairs}-{seed}.safetensors"
            found = load_or_compute(args.work_dir / name, settings, partial(descend, settings))
            histograms.setdefault(prior, []).append(found)
            records += _records(prior, seed, found)
    give_records(args, records)
    _print(records)
    if args.plot:
        _plot(args.plot, histograms)
    return 0


def descend(settings: dict[str, Any]) -> Tensors:
    """Return the similarities ``[M]`` and, by step, the distances ``[steps, M]``."""
    generator = torch.Generator().manual_seed(settings["seed"])
    quantile_M, d_M = torch.rand(2, settings["pairs"], generator=generator, dtype=torch.float64)
    s_M = draw_similarities(settings["prior"], quantile_M)
    shown = [d_M]
    for step in range(1, SHOWN[-1] + 1):
        d_M = d_M.detach().requires_grad_()
        loss = continuous_histogram_loss(d_M, s_M, bins=BINS, similarity_bins=BINS)
        (gradient_M,) = torch.autograd.grad(loss, d_M)
        d_M = (d_M - RATE * gradient_M).detach().clamp(0, 1)
        if step in SHOWN:
            shown.append(d_M)
    return {"similarity_M": s_M, "distance_SM": torch.stack(shown)}


def draw_similarities(prior: str, quantile_M: Tensor) -> Tensor:
    """Return the values of a prior at these quantiles, ``float64[M]`` from 0 to 1."""
    mean = PRIORS[prior]
    if mean is None:
        return quantile_M
    edges = (0 - mean) / _DEVIATION, (1 - mean) / _DEVIATION
    drawn = truncnorm.ppf(quantile_M.numpy(), *edges, loc=mean, scale=_DEVIATION)
    return torch.from_numpy(drawn).clamp(0, 1)


def _records(prior: str, seed: int, found: Tensors) -> list[Record]:
    s_M = found["similarity_M"]
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
        for step, d_M in zip(SHOWN, found["distance_SM"], strict=True)
    ]


def _print(records: list[Record]) -> None:
    rows = [
        [prior, f"{step:,}", mean_and_deviation(runs, "loss"), mean_and_deviation(runs, "spearman")]
        for (prior, step), runs in group(records, "prior", "step").items()
    ]
    print_table(("similarities", "step", "loss", "Spearman of distance and similarity"), rows)


def _plot(path: Path, histograms: dict[str, list[Tensors]]) -> None:
    """Draw a heat map of h for each prior and step, similarity against distance."""
    drawing = new_drawing(2.4 * len(SHOWN), 2.4 * len(histograms))
    grid = drawing.subplots(len(histograms), len(SHOWN), sharex=True, sharey=True, squeeze=False)
    for axes_of_prior, (prior, runs) in zip(grid, histograms.items(), strict=True):
        s = torch.cat([one["similarity_M"] for one in runs])
        for i, (axes, step) in enumerate(zip(axes_of_prior, SHOWN, strict=True)):
            d = torch.cat([one["distance_SM"][i] for one in runs])
            h_RZ = pair_histogram(d, s, bins=BINS, similarity_bins=BINS).sqrt().numpy()
            axes.imshow(h_RZ, origin="lower", extent=(0, 1, 0, 1), cmap="magma")
            axes.set_title(f"{prior}, step {step:,}", fontsize="small")
            axes.tick_params(labelsize="x-small")
        axes_of_prior[0].set_ylabel("distance", fontsize="small")
    for axes in grid[-1]:
        axes.set_xlabel("similarity", fontsize="small")
    save_drawing(drawing, path)
