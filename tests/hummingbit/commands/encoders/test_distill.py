from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.training import distillation
from tests.support.corpora import TOPICS, topic_documents
from tests.support.evaluations import write_lines

SMALL = ["--epochs", "20", "--hidden", "24", "--bits", "16"]
COHERENCE = "perception-coherence"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few documents be as many batches as the epochs have."""
    monkeypatch.setattr(distillation, "MIN_STEPS", 0)
    monkeypatch.setattr(distillation, "BATCH_SIZE", 32)


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def write_corpus(folder: Path, documents: list[Document]) -> Path:
    """Write the documents without their labels."""
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in documents))
    return path


def write_vectors(folder: Path, documents: list[Document]) -> Path:
    rng = np.random.default_rng(0)
    topics = list(TOPICS)
    centres = rng.normal(size=(len(topics), 6))
    rows = [centres[topics.index(d.labels[0])] + 0.3 * rng.normal(size=6) for d in documents]
    np.savez(folder / "teacher.npz", ids=np.array([d.id for d in documents]), vectors=rows)
    return folder / "teacher.npz"


def test_a_file_of_vectors_becomes_an_encoder_that_a_collection_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = topic_documents(160)
    corpus, vectors = write_corpus(tmp_path, documents), write_vectors(tmp_path, documents)
    out = tmp_path / "encoders" / "student"
    assert hummingbit("distill", "--teacher", vectors, "--data", corpus, "--out", out, *SMALL) == 0
    printed = capsys.readouterr().out
    assert "teacher teacher.npz: vectors, 6 numbers a document" in printed
    assert "on 16 documents held out" in printed
    assert "% of ten and" in printed
    encoder = load_encoder(out)
    assert encoder.fingerprint in printed
    assert encoder.metadata["recipe"]["objective"] == "neighbours"
    folder = ["--data-dir", tmp_path]
    assert hummingbit("index", "build", "topics", corpus, "--encoder", "student", *folder) == 0
    capsys.readouterr()
    assert hummingbit("search", "topics", "wave tide anchor sail", "--limit", "5", *folder) == 0
    found = capsys.readouterr().out
    sea = {d.id for d in documents if d.labels == ("sea",)}
    assert sum(id_ in found.split() for id_ in sea) >= 4


def test_an_encoder_teaches_and_its_vectors_can_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = topic_documents(160)
    corpus, vectors = write_corpus(tmp_path, documents), write_vectors(tmp_path, documents)
    wide, kept = tmp_path / "wide", tmp_path / "kept.npz"
    first = ["distill", "--teacher", vectors, "--data", corpus, "--out", wide, *SMALL]
    assert hummingbit(*first) == 0
    assert "--hidden has no effect with --objective neighbours" in capsys.readouterr().err
    second = ["distill", "--teacher", wide, "--data", corpus, "--save-vectors", kept, *SMALL]
    assert (
        hummingbit(*second, "--out", tmp_path / "a", "--bits", "8", "--objective", COHERENCE) == 0
    )
    teacher = load_encoder(tmp_path / "a").metadata["teacher"]
    assert teacher["fingerprint"] == load_encoder(wide).fingerprint
    assert hummingbit(*second, "--out", tmp_path / "b") == 2
    assert "kept.npz already exists" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
    again = ["distill", "--teacher", kept, "--data", corpus, *SMALL, "--bits", "8"]
    assert hummingbit(*again, "--out", tmp_path / "c", "--objective", COHERENCE) == 0
    a, c = (load_encoder(tmp_path / name).layers[-1].weight for name in "ac")
    np.testing.assert_array_equal(a, c)


def test_labels_and_a_teacher_make_class_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = topic_documents(200)
    corpus = write_lines(tmp_path / "labelled.jsonl", documents)
    vectors = write_vectors(tmp_path, documents)
    run: list[object] = ["distill", "--teacher", vectors, "--data", corpus, "--bits", "16"]
    options: list[object] = [
        "--supervision",
        "0.1",
        "--content-share",
        "0.25",
        "--query-classifier",
        "bayes",
    ]
    options += ["--objective", "neighbours"]
    assert hummingbit(*run, *options, "--out", tmp_path / "e") == 0
    printed = capsys.readouterr()
    assert "--objective has no effect with --supervision" in printed.err
    assert "teacher teacher.npz: vectors, 6 numbers a document" in printed.out
    assert "on 20 documents held out" in printed.out
    assert "18 labels shown" in printed.out
    about = load_encoder(tmp_path / "e").metadata
    assert (about["method"], about["recipe"]["max_terms"]) == ("class-codes", 100_000)
    assert hummingbit(*run, "--supervision", "2", "--out", tmp_path / "f") == 2
    assert "--supervision is 2; it must be above 0" in capsys.readouterr().err
    assert not (tmp_path / "f").exists()


def test_coherence_and_labels_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = topic_documents(60)
    corpus = write_lines(tmp_path / "labelled.jsonl", documents)
    vectors = write_vectors(tmp_path, documents)
    run: list[object] = ["distill", "--teacher", vectors, "--data", corpus, "--bits", "16"]
    run += ["--objective", "perception-coherence", "--epochs", "2", "--supervision"]
    assert hummingbit(*run, "0.5", "--out", tmp_path / "e") == 0
    printed = capsys.readouterr()
    assert "27 labels shown" in printed.out
    assert "no effect" not in printed.err
    about = load_encoder(tmp_path / "e").metadata
    assert about["recipe"]["label_fraction"] == 0.5
    assert hummingbit(*run, "2", "--out", tmp_path / "f") == 2
    assert "--supervision is 2; it must be from 0 to 1" in capsys.readouterr().err


def test_what_cannot_be_distilled_is_said_in_a_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = topic_documents(40)
    corpus = write_corpus(tmp_path, documents)
    vectors = write_vectors(tmp_path, documents[:10])
    before = sorted(tmp_path.iterdir())
    run = ["distill", "--data", corpus, "--out", tmp_path / "student"]
    for options, message in (
        (["--teacher", vectors], "no vector for 30 of the 40 documents: 'doc-10'"),
        (["--teacher", vectors, "--epochs", 0], "--epochs is 0; it must be from 1 to"),
        (["--teacher", tmp_path / "none.npz"], "No such file"),
    ):
        assert hummingbit(*run, *options) == 2
        assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
