from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from PIL import Image

from experiments.perception_coherence import cifar10, estimator, image_training
from experiments.perception_coherence.cifar10 import OUT_OF_TIME, SETTINGS, Scale
from experiments.perception_coherence.estimator import fit_exponent
from hummingbit.cli import main

COMMAND = ["reproduce", "perception-coherence", "--seeds", "1", "--part"]


def reproduce(folder: Path, part: str, *options: object) -> list[dict[str, Any]]:
    out = folder / "records.json"
    paths = ["--work-dir", folder / "work", "--json", out]
    assert main([*COMMAND, part, *map(str, [*paths, *options])]) == 0
    records: list[dict[str, Any]] = json.loads(out.read_text())
    return records


def test_toy_students_come_to_rank_as_their_teachers(tmp_path: Path) -> None:
    picture = tmp_path / "toy.png"
    options = ["--datasets", "five-gaussians", "--batch-sizes", "64", "--toy-epochs", "8"]
    records = reproduce(tmp_path, "toy", *options, "--plot", picture)
    (one,) = records
    assert (one["part"], one["method"], one["seed"]) == ("toy", "perception-coherence", 0)
    assert one["coherence_untrained"] < 0.7
    assert one["coherence"] > 0.8
    pixels = imread(picture)
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.safetensors")}
    assert reproduce(tmp_path, "toy", *options) == records
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_the_estimators_error_falls_as_one_over_the_root_of_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimator, "HELD_OUT", 64)
    records = reproduce(tmp_path, "gpcl", "--examples", "1024", "--plot", tmp_path / "gpcl.svg")
    exponents = [one["exponent"] for one in records if "exponent" in one]
    assert len(exponents) == 3
    assert all(abs(exponent + 0.5) < 0.1 for exponent in exponents)
    largest = [one for one in records if one["batch_size"] == 256]
    assert all(abs(one["bias"]) < 0.005 and one["error"] < 0.03 for one in largest)
    assert "<svg" in (tmp_path / "gpcl.svg").read_text()
    # The trend of the paper's Table 4: the level of small batches is too high, and falls.
    for dimension in {one["student_dim"] for one in records}:
        runs = [one for one in records if one["student_dim"] == dimension]
        defined = [one["coherence_as_defined"] for one in runs]
        assert defined[0] > defined[1] > defined[2] > defined[3] > defined[-1]
        assert defined[0] - defined[-1] > 0.05
        assert abs(defined[-2] - defined[-1]) < 0.01


def test_an_exponent_is_that_of_a_power_law() -> None:
    assert fit_exponent([4, 16, 64], [3.0, 1.5, 0.75]) == pytest.approx(-0.5)


def write_images(folder: Path, split: str, n_per_class: int, seed: int) -> None:
    """Write pictures of ten plain colours with noise, as JPEG in one npz."""
    rng = np.random.default_rng(seed)
    files, labels = [], np.repeat(np.arange(10, dtype=np.uint8), n_per_class)
    for label in labels.tolist():
        colour = np.array([25 * label, 255 - 25 * label, (80 * label) % 256])
        pixels = np.clip(colour + rng.normal(0, 20, (32, 32, 3)), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    offsets = np.cumsum([0, *map(len, files)])
    data = np.frombuffer(b"".join(files), dtype=np.uint8)
    (folder / "cifar10").mkdir(exist_ok=True)
    np.savez(folder / f"cifar10/jpeg_{split}.npz", data=data, offsets=offsets, labels=labels)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_images(tmp_path, "train", 8, seed=0)
    write_images(tmp_path, "test", 5, seed=1)
    tiny = Scale(((4, 8), 1, 3), 6, 4, 2, 2, 1)
    monkeypatch.setitem(cifar10.SCALES, "small", tiny)
    for method, settings in SETTINGS.items():
        monkeypatch.setitem(cifar10.SETTINGS, method, settings[:2])
    return tmp_path


def test_image_students_of_every_method_are_measured(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data-root", images, "--plot", images / "methods.svg"]
    ablations = ["--ablations", "temperature", "size"]
    methods = list(SETTINGS)
    records = reproduce(images, "cifar10", *options, *ablations)
    compared = [one for one in records if one["ablation"] is None]
    assert [one["method"] for one in compared] == ["teacher", "untrained", *methods]
    assert all(0 <= one[key] <= 1 for one in records for key in ("map11", "top100", "coherence"))
    temperatures = [one for one in records if one["ablation"] == "temperature"]
    assert (
        len({(one["teacher_temperature"], one["student_temperature"]) for one in temperatures}) == 9
    )
    widths = [one["width"] for one in records if one["ablation"] == "size"]
    assert widths == [0.5, 1.0, 2.0, 4.0]
    assert "| perception-coherence |" in capsys.readouterr().out
    assert not list((images / "work").rglob("*.checkpoint.safetensors"))


def test_a_run_cut_off_at_any_time_goes_on_to_the_same_figures(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--data-root", images, "--methods", "perception-coherence", "crd"]
    whole = reproduce(images, "cifar10", *options)
    pieces = images / "pieces"
    pieces.mkdir()
    checks = iter(range(1000))

    class EveryThirdCheck:
        at: float | None = None

        def passed(self) -> bool:
            return next(checks) % 3 == 2

    def deadline(_minutes: float | None) -> EveryThirdCheck:
        return EveryThirdCheck()

    monkeypatch.setattr("experiments.perception_coherence.image_training.Deadline.after", deadline)
    out = pieces / "records.json"
    paths = ["--work-dir", pieces / "work", "--json", out, "--minutes", "1"]
    command = [*COMMAND, "cifar10", *map(str, [*options, *paths])]
    statuses = [main(command)]
    while statuses[-1] == OUT_OF_TIME:
        statuses.append(main(command))
    assert statuses[-1] == 0
    assert len(statuses) > 3
    assert json.loads(out.read_text()) == whole


def test_batches_have_one_size_and_no_image_twice() -> None:
    shuffled = image_training._batches(300, 128, torch.Generator().manual_seed(0))
    assert [len(batch) for batch in shuffled] == [128, 128]
    assert len(set(torch.cat(shuffled).tolist())) == 256
    (only,) = image_training._batches(60, 128, torch.Generator().manual_seed(0))
    assert sorted(only.tolist()) == list(range(60))


def test_without_the_images_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "cifar10", "--data-root", str(tmp_path)]) == 2
    assert "jpeg_train.npz does not exist; is" in capsys.readouterr().err
