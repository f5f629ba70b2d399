from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from scipy.stats import kstest, truncnorm, uniform

from experiments.continuous_histogram.mnist import centroid_spearman
from experiments.continuous_histogram.synthetic import PRIORS, draw_similarities
from hummingbit.cli import main

COMMAND = ["reproduce", "continuous-histogram"]


def run(*options: object) -> None:
    assert main([*COMMAND, *map(str, options)]) == 0


def test_free_distances_come_into_the_order_of_similarities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--part", "synthetic", "--seeds", 1, "--work-dir", tmp_path / "w"]
    options += ["--priors", "uniform", "normal around 0"]
    run(*options, "--json", tmp_path / "r.json", "--plot", tmp_path / "heat.png")
    printed = capsys.readouterr().out
    records = json.loads((tmp_path / "r.json").read_text())
    assert [record["step"] for record in records] == [0, 500, 1000, 3000] * 2
    for first, *_, last in (records[i : i + 4] for i in (0, 4)):
        assert last["loss"] < 0.1 < first["loss"]
        assert last["spearman"] < -0.75
    assert imread(tmp_path / "heat.png").shape[0] > 300
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "w").iterdir()}
    assert len(kept) == 2
    run(*options)
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "w").iterdir()} == kept


@pytest.mark.parametrize(("prior", "mean"), PRIORS.items())
def test_similarities_follow_their_prior(prior: str, mean: float | None) -> None:
    quantile = torch.rand(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = draw_similarities(prior, quantile).numpy()
    cdf: Any = uniform.cdf
    if mean is not None:
        cdf = truncnorm((0 - mean) / 0.3, (1 - mean) / 0.3, loc=mean, scale=0.3).cdf
    assert kstest(drawn, cdf).pvalue > 0.01


def write_digits(root: Path, seed: int) -> Path:
    """Write images of four pixels that tell their digit, in place of MNIST."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for split, count in (("train", 400), ("test", 200)):
        digits = rng.integers(0, 10, count)
        images = 24 * digits[:, None] + rng.integers(0, 24, (count, 4))
        arrays |= {f"x_{split}": images.astype(np.uint8), f"y_{split}": digits.astype(np.uint8)}
    (root / "mnist").mkdir(parents=True)
    np.savez(root / "mnist" / "mnist.npz", **arrays)
    return root


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    return write_digits(tmp_path, 0)


def test_other_images_in_the_same_number_are_embedded_anew(tmp_path: Path) -> None:
    work = tmp_path / "w"

    def saved_by(root: Path) -> dict[str, int]:
        options = ["--part", "mnist", "--seeds", 1, "--epochs", 1, "--batch-size", 64]
        run(*options, "--data-root", root, "--work-dir", work)
        return {path.name: path.stat().st_mtime_ns for path in work.iterdir()}

    first = saved_by(write_digits(tmp_path / "a", 0))
    assert saved_by(write_digits(tmp_path / "b", 0)) == first
    other = saved_by(write_digits(tmp_path / "c", 1))
    assert other.keys() == first.keys()
    assert all(other[name] > first[name] for name in first)


def test_digits_in_the_plane(data_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, picture = data_root / "r.json", data_root / "plane.svg"
    places = ["--data-root", data_root, "--work-dir", data_root / "w", "--json", out]
    options = ["--part", "mnist", "--seeds", 2, "--epochs", 2, "--batch-size", 64]
    run(*options, *places, "--plot", picture)
    records = json.loads(out.read_text())
    assert [(record["method"], record["seed"]) for record in records] == [
        ("chl", 0),
        ("chl", 1),
        ("hl", 0),
        ("hl", 1),
    ]
    assert all(-1 <= record["centroid_spearman"] <= 1 for record in records)
    assert min(record["centroid_spearman"] for record in records[:2]) > 0.9
    assert "| continuous histogram loss | 2" in capsys.readouterr().out
    assert "<svg" in picture.read_text()


def test_centroids_on_a_line_are_in_order() -> None:
    digits = torch.arange(10).repeat(3)
    line = torch.stack([digits.float(), torch.zeros(30)], dim=1)
    assert centroid_spearman(line, digits) == pytest.approx(1)
    assert (
        centroid_spearman(
            line[torch.randperm(30, generator=torch.Generator().manual_seed(0))], digits
        )
        < 0.9
    )
