"""Figures of experiments: drawn without a display, written in the format of a suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def new_drawing(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of so many inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - takes a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def save_drawing(drawing: Any, path: Path) -> None:
    """Write a figure, the same bytes each time; folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
