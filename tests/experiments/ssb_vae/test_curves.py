from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

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
