"""Plots of figures against supervision, the share of labels that a method sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from experiments.drawings import new_drawing, save_drawing
from experiments.result_tables import Record, group


def plot_curves(path: Path, records: Sequence[Record], figure: str, title: str) -> None:
    """Draw `figure` against supervision with deviations, a panel for each number of bits.

    A panel has a line for each method; that of the most bits is on the left, as in Figure 2 of
    SSB-VAE's paper. Records without supervision, of a method that uses no labels, give a horizontal
    line in every panel. The suffix of `path` determines the format.
    """
    trained = [run for run in records if run["n_bits"] is not None]
    untrained = [run for run in records if run["n_bits"] is None]
    widths = sorted({run["n_bits"] for run in trained}, reverse=True)
    drawing = new_drawing(5.5 * max(1, len(widths)), 4.5)
    panels = drawing.subplots(1, max(1, len(widths)), sharey=True, squeeze=False)[0]
    for axes, n_bits in zip(panels, widths or [None], strict=True):
        _draw_panel(axes, [run for run in trained if run["n_bits"] == n_bits], figure)
        for (method,), runs in group(untrained, "method").items():
            axes.axhline(mean(run[figure] for run in runs), ls=":", color="grey", label=method)
        axes.set(xlabel="supervision ρ, share of labels", ylim=(0, 1))
        if n_bits is not None:
            axes.set_title(f"{n_bits} bits")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    panels[0].set_ylabel(title)
    save_drawing(drawing, path)


def _draw_panel(axes: Any, records: Sequence[Record], figure: str) -> None:
    """Draw a line for each method of `records`, from few labels to many."""
    for (method,), runs in group(records, "method").items():
        shares = group(sorted(runs, key=lambda run: float(run["supervision"])), "supervision")
        means = [mean(run[figure] for run in cell) for cell in shares.values()]
        spread = [_deviation([run[figure] for run in cell]) for cell in shares.values()]
        x = [supervision for (supervision,) in shares]
        axes.errorbar(x, means, spread, marker="o", capsize=3, label=method)


def _deviation(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0
