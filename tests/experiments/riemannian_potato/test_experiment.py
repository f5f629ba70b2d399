from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from pyriemann.classification import MDM
from pyriemann.geometry.distance import distance_riemann

from experiments.riemannian_potato import library_losses
from experiments.riemannian_potato.experiment import FIGURES, METHODS, OF_LIBRARY
from experiments.riemannian_potato.library_losses import SEMIHARD_MARGIN, SemihardTriplets
from experiments.riemannian_potato.spd_corpora import CLASSES, ORDER, draw_wishart, read_corpus
from experiments.riemannian_potato.spd_training import (
    MATRIX_MARGIN,
    MatrixTriplets,
    Potato,
    make_loss,
    train_and_evaluate,
    within_over_between,
)
from hummingbit.cli import main
from hummingbit.training.loop import DivergedError, Schedule
from hummingbit.training.objectives.riemannian_potato import Ranking

COMMAND = ["reproduce", "riemannian-potato"]


def run(*options: object) -> int:
    return main([*COMMAND, *map(str, options)])


def test_every_method_learns_and_is_not_trained_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--dataset", "wishart", "--seeds", 1, "--epochs", 3, "--work-dir", tmp_path / "w"]
    assert (
        run(
            *options,
            "--json",
            tmp_path / "r.json",
            "--plot",
            tmp_path / "bars.png",
            "--effect",
            tmp_path / "effect.png",
        )
        == 0
    )
    printed = capsys.readouterr().out
    records = json.loads((tmp_path / "r.json").read_text())
    assert [record["method"] for record in records] == list(METHODS)
    assert all(0 <= record[figure] <= 1 for record in records for figure in FIGURES)
    assert all((record["dataset"], record["seed"]) == ("wishart", 0) for record in records)
    untrained, *trained = records
    assert sum(item["r1"] > untrained["r1"] for item in trained) >= 6
    assert imread(tmp_path / "bars.png").shape[1] > 300
    assert imread(tmp_path / "effect.png").shape[1] > 300
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "w").iterdir()}
    assert len(kept) == len(METHODS)
    assert run(*options) == 0
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "w").iterdir()} == kept


def test_the_hash_of_a_corpus_is_that_of_its_matrices_and_labels() -> None:
    corpus = draw_wishart(3)
    labels = corpus.test_labels.copy()
    labels[0] = 5
    changed = replace(corpus, test_labels=labels)
    scaled = replace(corpus, training=2 * corpus.training)
    assert len({item.sha256 for item in (corpus, changed, scaled, draw_wishart(4))}) == 4
    assert draw_wishart(3).sha256 == corpus.sha256


def test_wishart_classes_differ_where_they_are_said_to() -> None:
    corpus = draw_wishart(3)
    assert corpus.training.shape == corpus.test.shape == (180, ORDER, ORDER)
    assert np.bincount(corpus.test_labels).tolist() == [30] * CLASSES
    assert np.linalg.eigvalsh(corpus.training).min() > 0
    assert np.array_equal(draw_wishart(3).test, corpus.test)
    assert not np.array_equal(draw_wishart(4).test, corpus.test)
    whole = MDM().fit(corpus.training, corpus.training_labels)
    found = whole.score(corpus.test, corpus.test_labels)
    assert 1 / CLASSES < found < 0.95


@pytest.mark.public_data
@pytest.mark.parametrize(
    ("dataset", "order", "classes", "training", "test"),
    [("hdm05", 93, 11, 189, 99), ("erp", 32, 4, 110, 106)],
)
def test_public_data_has_the_shapes_it_is_known_by(
    dataset: str, order: int, classes: int, training: int, test: int
) -> None:
    corpus = read_corpus(dataset, 0, None)
    assert corpus.training.shape == (training, order, order)
    assert corpus.test.shape == (test, order, order)
    assert corpus.n_classes == classes == len(np.unique(corpus.test_labels))


@pytest.mark.parametrize("method", OF_LIBRARY)
def test_lengths_count_if_they_are_kept(method: str) -> None:
    x = torch.randn(12, 36, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(3).repeat(4)
    for keep_lengths in (False, True):
        torch.manual_seed(0)
        potato = Potato(Ranking(), 0.5)
        loss = make_loss(method, 3, 8, potato, keep_lengths=keep_lengths)
        same = torch.allclose(loss(x, labels), loss(3 * x, labels), rtol=1e-4)
        assert same is not keep_lengths


class ZeroRoot(torch.nn.Module):
    """A loss of 0 whose gradient is NaN."""

    distance = torch.nn.Identity()

    def forward(self, x_ND: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return (0 * x_ND).sum().sqrt()


def test_a_gradient_of_nan_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {"triplet": lambda _classes, _width: ZeroRoot()}
    monkeypatch.setattr(library_losses, "LIBRARY_LOSSES", losses)
    schedule, potato = Schedule(2, 48, 0.03, 0), Potato(Ranking(), 0.5)
    with pytest.raises(DivergedError, match="triplet: the last gradient contained NaN"):
        train_and_evaluate("triplet", draw_wishart(0), 8, schedule, potato, progress=False)


@pytest.mark.parametrize(
    ("flag", "message"),
    [("--margin=-1", "margin is -1; it must be 0 or more"), ("--rate=0", "rate is 0; it must be")],
)
def test_a_potato_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, message: str
) -> None:
    options = ["--dataset", "wishart", "--methods", "rpl", "--seeds", 1, "--work-dir", tmp_path]
    assert run(*options, flag) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unit_length", [True, False])
def test_semihard_triplets_are_those_within_the_margin(unit_length: bool) -> None:
    """The loss of FaceNet over all triplets, chosen and summed in loops."""
    x = torch.randn((9, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 4
    classes = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    loss = SemihardTriplets()
    loss.distance.normalize_embeddings = unit_length
    found = loss(x, torch.tensor(classes))
    rows = x.numpy()
    if unit_length:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = []
    for a, p, n in itertools.product(range(9), repeat=3):
        if a == p or classes[a] != classes[p] or classes[a] == classes[n]:
            continue
        near, far = np.linalg.norm(rows[a] - rows[p]), np.linalg.norm(rows[a] - rows[n])
        if near < far < near + SEMIHARD_MARGIN:
            values.append(near - far + SEMIHARD_MARGIN)
    assert len(values) > 3
    assert float(found) == pytest.approx(np.mean(values))
    apart = torch.eye(2, dtype=torch.float64) * 9
    assert float(loss(apart, torch.tensor([0, 1]))) == 0


def test_triplets_of_matrices_are_those_of_plain_loops() -> None:
    torch.manual_seed(0)
    a = torch.randn(7, 3, 5, dtype=torch.float64)
    x = a @ a.mT + 0.1 * torch.eye(3, dtype=torch.float64)
    labels = [0, 0, 1, 1, 1, 2, 0]
    distance = [[distance_riemann(p.numpy(), q.numpy()) for q in x] for p in x]
    excesses = [
        distance[i][j] - distance[i][k] + MATRIX_MARGIN
        for i, j, k in itertools.product(range(7), repeat=3)
        if i != j and labels[i] == labels[j] and labels[i] != labels[k]
    ]
    expected = np.mean([excess for excess in excesses if excess > 0])
    found = MatrixTriplets()(x, torch.tensor(labels))
    assert float(found) == pytest.approx(float(expected))
    assert float(MatrixTriplets()(x, torch.arange(7))) == 0


def test_the_ratio_of_distances_by_hand() -> None:
    # Of one class: 0 and 1 (distance 2). Of two: 0 and 2 (6), 1 and 2 (4).
    distance = np.array([[0.0, 2, 6], [2, 0, 4], [6, 4, 0]])
    assert within_over_between(distance, np.array([0, 0, 1])) == pytest.approx(0.4)
