"""Covariances from an archive to a search by Hamming distance, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.cli import main
from hummingbit.corpus.matrices import upper_triangle
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import Query
from tests.support.matrices import class_matrices

TRAIN = "train metric --objective riemannian-potato --similarity labels --bits 16 --epochs 20"
SIZES = "--hidden 24 --spd-order 3 --batch-size 32"


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def write_archive(path: Path, count: int, seed: int) -> None:
    matrices, labels = class_matrices(count, seed)
    ids = np.array([f"{path.stem}-{i}-{label}" for i, label in enumerate(labels)])
    np.savez(path, matrices=matrices, labels=np.array(labels), ids=ids)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an encoder of matrices and a collection that it encoded."""
    folder = tmp_path_factory.mktemp("data")
    write_archive(folder / "train.npz", 150, seed=0)
    encoder = folder / "encoders" / "motion"
    command = [*TRAIN.split(), *SIZES.split(), "--data", folder / "train.npz", "--out", encoder]
    assert hummingbit(*command) == 0
    build = ["index", "build", "motions", folder / "train.npz", "--encoder", "motion"]
    assert hummingbit(*build, "--data-dir", folder) == 0
    return folder


def test_a_stored_matrix_finds_those_of_its_class(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"train-0-{class_matrices(150)[1][0]}"
    search = ["search", "motions", "--id", name, "--data-dir", folder, "--json"]
    capsys.readouterr()
    assert hummingbit(*search, "--limit", 20) == 0
    hits = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["distance"] for hit in hits] == sorted(hit["distance"] for hit in hits)
    assert sum(hit["id"][-1] == name[-1] for hit in hits) >= 18


def test_matrices_that_were_never_seen_are_queries(folder: Path) -> None:
    matrices, labels = class_matrices(40, seed=7)
    queries = [Query(vector=upper_triangle(matrix)) for matrix in matrices]
    data = DataFolder(folder, writable=False)
    try:
        found = data.collection("motions").search(queries, k=10)
    finally:
        data.close()
    right = [
        hit.id[-1] == label for hits, label in zip(found.hits, labels, strict=True) for hit in hits
    ]
    assert len(right) == 400
    assert np.mean(right) > 0.85


def test_evaluation_takes_an_archive_of_queries(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_archive(folder / "test.npz", 40, seed=7)
    capsys.readouterr()
    command = ["evaluate", "motions", "--queries", folder / "test.npz", "--data-dir", folder]
    assert hummingbit(*command) == 0
    assert "mAP@100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (-np.eye(6), "is not the upper triangle of a positive definite 6 × 6 matrix"),
        (np.eye(5), "has 15 numbers; it must have 21"),
    ],
)
def test_a_query_that_is_no_such_matrix_is_explained(
    folder: Path, vector: Any, message: str
) -> None:
    rows, columns = np.triu_indices(len(vector))
    query = Query(vector=vector[rows, columns].astype(np.float32))
    data = DataFolder(folder, writable=False)
    try:
        with pytest.raises(InputError, match=message) as raised:
            data.collection("motions").search([query], k=1)
        assert raised.value.field == "vector"
    finally:
        data.close()


def test_a_bad_archive_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrices, labels = class_matrices(30)
    matrices[4] -= 50 * np.eye(6)
    np.savez(tmp_path / "bad.npz", matrices=matrices, labels=np.array(labels))
    command = [*TRAIN.split(), "--data", tmp_path / "bad.npz", "--out", tmp_path / "e"]
    assert hummingbit(*command) == 2
    shown = capsys.readouterr().err
    assert "bad.npz:5: vector: is not positive definite: its least eigenvalue is" in shown
    assert not (tmp_path / "e").exists()
