"""Figures of experiments, drawn without a display and saved in the format of the file's suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def new_drawing(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of `width` by `height` inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - takes a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def save_drawing(drawing: Any, path: Path) -> None:
    """Save a figure, with the same bytes each time, and create missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
