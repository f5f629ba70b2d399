from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from experiments.ssb_vae import curves
from experiments.ssb_vae.curves import plot_curves


def record(
    method: str, n_bits: int | None, supervision: float | None, value: float
) -> dict[str, object]:
    return {"method": method, "n_bits": n_bits, "supervision": supervision, "map100": value}


RECORDS = [
    record("ssb-vae", 32, 1.0, 0.8),
    record("ssb-vae", 32, 0.1, 0.6),
    record("ssb-vae", 32, 0.1, 0.7),
    record("tf-idf cosine", None, None, 0.5),
]


@pytest.mark.parametrize("name", ["curve.png", "curve.svg"])
def test_a_picture_is_drawn(name: str, tmp_path: Path) -> None:
    path = tmp_path / "figures" / name
    plot_curves(path, RECORDS, "map100", "mAP@100")
    if path.suffix == ".png":
        pixels = imread(path)
        assert pixels.shape[0] > 300
        assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20
    else:
        assert "<svg" in path.read_text()


def test_a_picture_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one.png", "other.png"):
        plot_curves(tmp_path / name, RECORDS, "map100", "mAP@100")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()


def drawn(records: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    """The panels of a drawing, from left to right."""
    figures: list[Figure] = []

    def keep(drawing: Figure, _path: Path) -> None:
        figures.append(drawing)

    monkeypatch.setattr(curves, "save_drawing", keep)
    plot_curves(Path("unused.svg"), records, "map100", "mAP@100")
    return figures[0].axes


def test_each_width_has_a_panel_and_the_most_bits_are_on_the_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = [record("ssb-vae", 16, rho, rho / 2) for rho in (0.5, 0.1)]
    left, right = drawn([*more, *RECORDS], monkeypatch)
    assert [left.get_title(), right.get_title()] == ["32 bits", "16 bits"]
    (curve, bars) = left.containers[0][0], left.containers[0][2][0]
    assert curve.get_xydata() == pytest.approx(np.array([[0.1, 0.65], [1.0, 0.8]]))
    # The deviation of .6 and .7 is .0707.
    ends = [segment[:, 1] for segment in bars.get_segments()]
    assert ends[0] == pytest.approx([0.65 - 0.0707, 0.65 + 0.0707], abs=1e-4)
    assert right.containers[0][0].get_xydata() == pytest.approx(
        np.array([[0.1, 0.05], [0.5, 0.25]])
    )
    for panel in (left, right):
        assert panel.lines[-1].get_ydata() == [0.5, 0.5]


def test_methods_without_labels_have_a_panel_of_their_own_if_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (panel,) = drawn(RECORDS[-1:], monkeypatch)
    assert panel.get_title() == ""
    assert [line.get_label() for line in panel.lines] == ["tf-idf cosine"]
