from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from scipy.stats import spearmanr

from experiments.generative_similarity.quadrilateral_oddball import (
    correlation_with_judgements,
    draw_shapes,
    interval_over_trials,
    oddball_errors,
    read_error_rates,
    read_judgements,
    read_trials,
    regularity,
)
from experiments.generative_similarity.quadrilateral_shapes import (
    PICTURE_WIDTH,
    SHAPES,
    Corners,
    draw,
    features,
    odd_variants,
    place_shape,
    rotate,
)
from hummingbit.cli import main
from hummingbit.corpus.lines import ReadError


@pytest.fixture
def published() -> Path:
    return Path(os.environ["HUMMINGBIT_DATA"], "quadrilaterals")


def area(corners_42: Corners) -> float:
    """The shoelace formula."""
    x, y = corners_42.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


@pytest.mark.public_data
def test_features_of_shapes_and_variants_are_those_published(published: Path) -> None:
    names, expected = np.load(published / "codes.npy"), np.load(published / "reps.npy")
    for name, corners in SHAPES.items():
        found = np.stack([features(item) for item in (corners, *odd_variants(corners))])
        np.testing.assert_array_equal(found, expected[names == name], err_msg=name)


@pytest.mark.public_data
def test_with_the_tolerance_of_people_counts_are_those_published(published: Path) -> None:
    with (published / "shape_properties.csv").open() as file:
        for row in csv.DictReader(file):
            name, *counts = row.values()
            found = features(SHAPES[name], 0.125 * 90, 0.125)
            parts = np.split(found, [4, 10, 16])
            assert [int(part.sum()) for part in parts] == [int(count) for count in counts], name


@pytest.mark.public_data
def test_pictures_are_those_published(published: Path) -> None:
    with zipfile.ZipFile(published / "train_all_shapes.zip") as archive:
        for name, corners in SHAPES.items():
            file = archive.read(f"train_all_shapes/{name}/geom_{name}_reference_6_2.png")
            expected = imread(io.BytesIO(file))[:, :, 0] > 0.5
            turned = place_shape(corners, np.array([1.125]), np.radians([-15.0]))
            found = draw(turned, 224)[0] > 127
            assert (found & expected).sum() / (found | expected).sum() > 0.99, name


def test_regular_shapes_have_many_features() -> None:
    found = {shape: regularity(shape) for shape in SHAPES}
    assert found["square"] == 18
    assert found["rectangle"] == 14
    assert found["random"] == 0
    right_angles = {shape: int(features(corners)[:4].sum()) for shape, corners in SHAPES.items()}
    assert [shape for shape, count in right_angles.items() if count == 4] == ["square", "rectangle"]


@given(
    st.sampled_from(list(SHAPES)),
    st.integers(0, 4),
    st.floats(0.1, 10),
    st.floats(-4, 4),
    st.floats(-5, 5),
)
def test_features_stay_when_a_shape_is_moved(
    name: str, variant: int, scale: float, angle: float, shift: float
) -> None:
    shape = [SHAPES[name], *odd_variants(SHAPES[name])][variant]
    moved = rotate(shape, angle) * scale + shift
    np.testing.assert_array_equal(features(moved), features(shape))


@pytest.mark.parametrize("name", SHAPES)
def test_a_variant_moves_one_corner_by_one_distance(name: str) -> None:
    shape = SHAPES[name]
    variants = odd_variants(shape)
    moved = np.linalg.norm(variants - shape, axis=2)
    assert np.count_nonzero(moved, axis=1).tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(moved[:, 2], moved[0, 2])
    sides = np.linalg.norm(variants[:, 2] - variants[:, 3], axis=1)
    own = np.linalg.norm(shape[2] - shape[3])
    np.testing.assert_allclose(sides - own, [moved[0, 2], -moved[0, 2], 0, 0], atol=1e-12)


@pytest.mark.parametrize("size", [32, 61])
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_drawn_has_the_area_of_the_shape(name: str, size: int) -> None:
    shape = place_shape(SHAPES[name], np.array([0.5, 0.8]), np.array([0.3, -2.0]))
    pixel = (PICTURE_WIDTH / size) ** 2
    for corners, picture in zip(shape, draw(shape, size), strict=True):
        assert picture.sum() / 255 * pixel == pytest.approx(area(corners), rel=0.02)


@settings(max_examples=25)
@given(st.sampled_from(list(SHAPES)), st.floats(-3, 3))
def test_a_quarter_turn_of_a_shape_turns_its_picture(name: str, angle: float) -> None:
    # Off the grid's lines, where a corner would be rounded to either side.
    turned = place_shape(SHAPES[name], np.full(2, 1.0123), np.array([angle, angle + np.pi / 2]))
    first, second = draw(turned, 24).astype(np.int64)
    assert np.abs(np.rot90(first, -1) - second).max() <= 2 * 255 // 9


@pytest.mark.parametrize(
    ("corners", "message"),
    [
        (np.zeros((3, 2)), r"corners have shape \[3, 2\]; it must be \[4, 2\]"),
        (np.array([[0.0, 0], [0, 0], [1, 1], [0, 1]]), "two successive ones coincide"),
    ],
)
def test_what_is_no_quadrilateral_has_no_features(corners: Corners, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        features(corners)


def test_errors_are_those_of_the_embedding() -> None:
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.normal(size=(3, 5, 20, 4)))
    far = torch.tensor([0.0, 50, 50, 50, 50])[:, None, None]
    # All variants apart; none; one of four.
    one = torch.tensor([0.0, 50, 0, 0, 0])[:, None, None]
    errors = oddball_errors(torch.stack([noise[0] + far, noise[1], noise[2] + one]), rng, 4000)
    assert errors[0] == 0
    assert errors[1] == pytest.approx(5 / 6, abs=0.02)
    assert errors[2] == pytest.approx(3 / 4 * 5 / 6, abs=0.03)


def test_pictures_are_drawn_once_and_for_all() -> None:
    first, second = draw_shapes(2, 1), draw_shapes(2, 1)
    assert first["train_KVNHW"].shape == (11, 5, 2, 32, 32)
    assert first["test_KVTHW"].shape == (11, 5, 1, 32, 32)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    """Rates that fall with regularity, and rates that rise, in place of those of the study."""
    (tmp_path / "quadrilaterals").mkdir()
    lines = ["group,shape,trials,error_rate"]
    for shape in SHAPES:
        lines.append(f"french_adults_1,{shape},10,{0.5 - regularity(shape) / 50}")
        lines.append(f"baboons_target,{shape},10,{0.1 + regularity(shape) / 50}")
    (tmp_path / "quadrilaterals" / "oddball_error_rates.csv").write_text("\n".join(lines))
    return tmp_path


def test_every_method_looks_for_the_odd_one(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = data_root / "r.json", data_root / "errors.svg"
    command = ["reproduce", "generative-similarity", "--part", "quadrilaterals", "--seeds", "2"]
    command += ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    command += ["--oddball-epochs", "1", "--oddball-pictures", "4"]
    assert main([*command, "--json", str(out), "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    records = json.loads(out.read_text())
    methods = "generative-regression generative-triplets classification simclr untrained".split()
    assert [(record["method"], record["seed"]) for record in records] == [
        (method, seed) for method in methods for seed in range(2)
    ]
    for record in records:
        assert record["train"] == "all"
        assert 0 < record["error_rate"] < 1
        assert record["spearman_french_adults_1"] == pytest.approx(record["spearman_regularity"])
        assert record["spearman_baboons_target"] == pytest.approx(-record["spearman_regularity"])
    assert "generative similarity, regression" in printed
    assert "95 % intervals" in printed
    assert "<svg" in picture.read_text()
    kept = {path: path.stat().st_mtime_ns for path in (data_root / "w").iterdir()}
    assert main(command) == 0
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in (data_root / "w").iterdir()} == kept


def test_shapes_alone_can_be_trained_on(data_root: Path) -> None:
    out = data_root / "r.json"
    command = ["reproduce", "generative-similarity", "--part", "quadrilaterals", "--seeds", "1"]
    command += ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    command += ["--oddball-train", "shapes", "--oddball-methods", "generative-regression"]
    command += ["--oddball-epochs", "1", "--oddball-pictures", "4", "--json", str(out)]
    judged = data_root / "judged.csv"
    judged.write_text("first,second,similarity\nkite,square,1\nhinge,kite,4\nhinge,square,2\n")
    assert main([*command, "--oddball-judgements", str(judged)]) == 0
    (record,) = json.loads(out.read_text())
    assert -1 <= record["spearman_judgements"] <= 1
    assert (record["train"], record["method"]) == ("shapes", "generative-regression")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("himbas,square,3,1.5", r"csv:24: error_rate is 1.5; it must be from 0 to 1"),
        (
            "himbas,square,3,many",
            r"csv:24: a row must have a group, a shape and a numeric error_rate",
        ),
        ("himbas,square,3,0.5", r"group himbas has no rate for hinge, isoTrapezoid, kite, losange"),
    ],
)
def test_wrong_rates_are_refused(line: str, message: str, data_root: Path) -> None:
    path = data_root / "quadrilaterals" / "oddball_error_rates.csv"
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(ReadError, match=message):
        read_error_rates(data_root)


@pytest.mark.parametrize("trials", ["", "0", "-3", "2.5"])
def test_wrong_numbers_of_trials_are_refused(trials: str, data_root: Path) -> None:
    path = data_root / "quadrilaterals" / "oddball_error_rates.csv"
    path.write_text(f"{path.read_text()}\nhimbas,square,{trials},0.5\n")
    with pytest.raises(ReadError, match=r"csv:24: trials is '.*'; it must be a whole number above"):
        read_trials(data_root)


def test_judgements_are_compared_with_cosines_of_mean_embeddings(tmp_path: Path) -> None:
    """The angles of square, rectangle and hinge are 0°, 20° and 90°; others are not judged."""
    path = tmp_path / "judged.csv"
    rows = ["square,rectangle,6", "rectangle,square,4", "hinge,square,1", "rectangle,hinge,2"]
    path.write_text("\n".join(["first,second,similarity", *rows]))
    judgements = read_judgements(path)
    assert judgements == {
        ("rectangle", "square"): 5,
        ("hinge", "square"): 1,
        ("hinge", "rectangle"): 2,
    }
    angle = dict.fromkeys(SHAPES, 45.0) | {"square": 0.0, "rectangle": 20.0, "hinge": 90.0}
    radians = np.radians([angle[shape] for shape in SHAPES])
    mean_KD = torch.from_numpy(3 * np.stack([np.cos(radians), np.sin(radians)], axis=1))
    assert correlation_with_judgements(mean_KD, judgements) == pytest.approx(1)
    turned = {pair: -value for pair, value in judgements.items()}
    assert correlation_with_judgements(mean_KD, turned) == pytest.approx(-1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("square,circle,3", "csv:2: first and second are 'square' and 'circle'; they must be two"),
        ("square,square,3", "csv:2: first and second are 'square' and 'square'; they must be two"),
        ("square,kite,many", "csv:2: similarity is 'many'; it must be a finite number"),
        ("square,kite,nan", "csv:2: similarity is 'nan'; it must be a finite number"),
        ("square,kite,3", "judges 1 pairs; there must be three or more"),
    ],
)
def test_wrong_judgements_are_refused(row: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "judged.csv"
    path.write_text(f"first,second,similarity\n{row}\n")
    with pytest.raises(ReadError, match=message):
        read_judgements(path)
    with pytest.raises(ReadError, match="cannot be read"):
        read_judgements(tmp_path / "none.csv")


def test_intervals_of_correlations_narrow_with_trials() -> None:
    rng = np.random.default_rng(3)
    rates = np.linspace(0.1, 0.6, 11)
    errors = rates + rng.normal(0, 0.1, 11)
    found = float(spearmanr(errors, rates).statistic)
    few, many, all_ = (
        interval_over_trials(errors, rates, np.full(11, n)) for n in (20, 2000, 10**9)
    )
    assert few[0] < many[0] <= found <= many[1] < 1
    assert few[1] - few[0] > many[1] - many[0]
    assert all_ == pytest.approx((found, found))
    assert interval_over_trials(errors, np.zeros(11), np.full(11, 9)) == (0, 0)


def test_without_rates_nothing_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUMMINGBIT_DATA", raising=False)
    command = ["reproduce", "generative-similarity", "--part", "quadrilaterals"]
    assert main([*command, "--work-dir", str(tmp_path / "w")]) == 2
    assert "pass --data-root FOLDER or set HUMMINGBIT_DATA" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()
