"""Plots of figures against supervision, the share of labels that a method sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from experiments.drawings import new_drawing, save_drawing
from experiments.result_tables import Record, group


def plot_curves(path: Path, records: Sequence[Record], figure: str, title: str) -> None:
    """Draw `figure` against supervision, a line for each method and width, with deviations.

    Records without supervision, of a method that uses no labels, give a horizontal line. The suffix
    of `path` determines the format.
    """
    drawing = new_drawing(7, 4.5)
    axes = drawing.subplots()
    for (method, n_bits), runs in group(records, "method", "n_bits").items():
        if n_bits is None:
            axes.axhline(mean(run[figure] for run in runs), ls=":", color="grey", label=method)
            continue
        shares = group(sorted(runs, key=lambda run: float(run["supervision"])), "supervision")
        means = [mean(run[figure] for run in cell) for cell in shares.values()]
        spread = [_deviation([run[figure] for run in cell]) for cell in shares.values()]
        x = [supervision for (supervision,) in shares]
        axes.errorbar(x, means, spread, marker="o", capsize=3, label=f"{method}, {n_bits} bits")
    axes.set(xlabel="supervision ρ, share of labels", ylabel=title, ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    save_drawing(drawing, path)


def _deviation(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0
