"""The figures of the perception-coherence experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from experiments.drawings import new_drawing, save_drawing
from experiments.saved_tensors import Tensors

Configurations = Mapping[str, tuple[Tensor, Tensor, Tensors]]
"""By data set: the teacher's points, the group of each, and the student's snapshots."""


def plot_configurations(path: Path, configurations: Configurations) -> None:
    """Draw a row for each data set: the teacher, the student over time, and its coherence level."""
    steps = max(len(result["epochs"]) for _, _, result in configurations.values())
    drawing = new_drawing(2.2 * (steps + 2), 2.2 * len(configurations))
    panels = drawing.subplots(len(configurations), steps + 2, squeeze=False)
    for row, (dataset, (teacher, groups, result)) in zip(
        panels, configurations.items(), strict=True
    ):
        row[0].scatter(*teacher[:, :2].T, c=groups, s=2, cmap="tab10")
        row[0].set_title(f"{dataset}\nteacher, {teacher.shape[1]}-D", fontsize="small")
        for axes, points, epoch in zip(row[1:], result["points"], result["epochs"], strict=False):
            axes.scatter(*points.T, c=groups, s=2, cmap="tab10")
            axes.set_title(f"epoch {int(epoch)}", fontsize="small")
        for axes in row[:-1]:
            axes.set(xticks=[], yticks=[])
        row[-1].plot(result["epochs"], result["coherence"], marker="o", ms=3)
        row[-1].set(ylim=(0.5, 1.02), xscale="symlog", xlim=(0, None))
        row[-1].set_title("coherence level", fontsize="small")
        row[-1].grid(alpha=0.3)
    save_drawing(drawing, path)


def plot_estimator(path: Path, curves: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> None:
    """Draw, for each student, the error of mini-batch estimates against B, both logarithmic."""
    drawing = new_drawing(5.5, 4)
    axes = drawing.subplots()
    for name, (sizes, errors) in curves.items():
        axes.loglog(sizes, errors, marker="o", label=name)
    sizes = next(iter(curves.values()))[0]
    start = max(errors[0] for _, errors in curves.values())
    axes.loglog(sizes, [start * (b / sizes[0]) ** -0.5 for b in sizes], ls=":", c="grey",
                label="1/√B")  # fmt: skip
    axes.set(xlabel="batch size B", ylabel="root mean square error of the level")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")
    save_drawing(drawing, path)


def plot_methods(path: Path, bars: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
    """Draw a panel for each figure, with a bar of mean and deviation for each method."""
    drawing = new_drawing(3.4 * len(bars), 3.4)
    for axes, (figure, methods) in zip(
        drawing.subplots(1, len(bars), squeeze=False)[0], bars.items(), strict=True
    ):
        means, spreads = zip(*methods.values(), strict=True)
        axes.barh(list(methods), means, xerr=spreads, capsize=2)
        lowest, highest = min(means), max(means)
        margin = max(highest - lowest, 0.01) / 2
        axes.set(title=figure, xlim=(max(0.0, lowest - margin), highest + margin))
        axes.invert_yaxis()
        axes.grid(alpha=0.3, axis="x")
    save_drawing(drawing, path)
