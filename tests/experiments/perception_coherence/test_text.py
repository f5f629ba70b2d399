from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.perception_coherence import text_corpora
from experiments.perception_coherence.rivals import ALL_OBJECTIVES
from experiments.perception_coherence.text_corpora import vectors_file
from experiments.perception_coherence.text_students import text_recipe
from hummingbit.cli import main
from hummingbit.training.data import gather
from tests.support.corpora import TOPICS, topic_documents, write_snippets

DATABASE = topic_documents(300)
QUERIES = topic_documents(60, seed=1, prefix="test")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small `snippets`, and vectors of a teacher that sees the topic, blurred."""
    write_snippets(tmp_path, DATABASE, QUERIES)
    rng = np.random.default_rng(0)
    topics, documents = list(TOPICS), [*DATABASE, *QUERIES]
    centres = rng.normal(size=(len(topics), 24))
    rows = [centres[topics.index(d.labels[0])] + 0.4 * rng.normal(size=24) for d in documents]
    np.savez(tmp_path / "snippets.npz", ids=np.array([d.id for d in documents]), vectors=rows)
    return tmp_path


def reproduce(folder: Path, part: str, *options: object) -> list[dict[str, Any]]:
    places = ["--data-root", folder, "--work-dir", folder / "work", "--json", folder / "records"]
    vectors = ["--teacher-vectors", folder, "--corpora", "snippets"]
    command = ["reproduce", "perception-coherence", "--part", part, *places, *vectors, *options]
    assert main([str(item) for item in command]) == 0
    records: list[dict[str, Any]] = json.loads((folder / "records").read_text())
    return records


def test_every_student_and_baseline_has_a_record(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--widths", 8, 16, "--compare-at", 16, "--seeds", 1]
    chosen = ["--objectives", "perception-coherence", "pkt"]
    records = reproduce(folder, "text", *options, *chosen)
    assert [(record["method"], record["n_bits"]) for record in records] == [
        ("teacher vectors, cosine", None),
        ("tf-idf cosine", None),
        *(
            (method, n_bits)
            for n_bits in (8, 16)
            for method in ("teacher, PCA and sign", "teacher, ITQ", "tf-idf, ITQ")
        ),
        ("perception-coherence", 8),
        ("perception-coherence", 16),
        ("pkt", 16),
    ]
    assert all(0 < record["p100"] <= 1 for record in records)
    students = [record for record in records if "artifact_bytes" in record]
    for student in students:
        # Codes of chance have a level of 2/3 and a p@100 of a third.
        assert 2 / 3 < student["coherence"] <= 1
        assert student["p100"] > 0.6
        assert student["artifact_bytes"] > 1000
    assert "| snippets | 16   | pkt " in capsys.readouterr().out


def test_students_are_trained_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--widths", 8, "--seeds", 1, "--objectives", "perception-coherence"]
    first = reproduce(folder, "text", *options)
    assert "training" in capsys.readouterr().err
    assert reproduce(folder, "text", *options) == first
    assert "training" not in capsys.readouterr().err
    # Another teacher makes another student.
    arrays = dict(np.load(folder / "snippets.npz"))
    np.savez(folder / "snippets.npz", ids=arrays["ids"], vectors=arrays["vectors"][:, ::-1] ** 3)
    assert reproduce(folder, "text", *options) != first
    assert "training" in capsys.readouterr().err


def test_a_teacher_beside_few_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for topic in TOPICS.values() for word in topic]
    np.savez(folder / "words.npz", ids=words, vectors=np.eye(3).repeat(10, axis=0))
    options = ["--supervision", 0.1, "--compare-at", 16, "--seeds", 1]
    records = reproduce(folder, "semi", *options, "--word-vectors", folder / "words.npz")
    assert [(record["method"], record["supervision"]) for record in records] == [
        ("class-codes", 0.1),
        ("class-codes, teacher", 0.1),
        ("class-codes, teacher, words", 0.1),
    ]
    assert all(record["P@100"] > 0.6 for record in records)
    assert all(record["class alone P@100"] > 0.6 for record in records)
    assert "10%" in capsys.readouterr().out


def test_the_search_keeps_what_raises_the_coherence_of_documents_held_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = reproduce(folder, "text-settings", "--search", "mkt")
    best = records[0]
    for trial in records[1:]:
        # Every trial changes the best one so far in one respect.
        changed = set(trial["settings"].items()) ^ set(best["settings"].items())
        assert {name for name, _ in changed} - {"temperature"} <= {
            "relaxation",
            "learning_rate",
            "word_dropout",
        }
        best = max(best, trial, key=lambda item: float(item["coherence"]))
    assert "mkt *" in capsys.readouterr().out


@pytest.mark.parametrize("objective", ALL_OBJECTIVES)
def test_every_objective_has_settings_that_a_recipe_takes(objective: str) -> None:
    recipe = text_recipe(objective, n_bits=32, seed=4)
    assert (recipe.objective, recipe.n_bits, recipe.seed) == (objective, 32, 4)


def test_without_vectors_and_without_the_library_an_autoencoder_teaches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.perception_coherence.text_corpora.find_spec", lambda _: None)
    monkeypatch.setattr("experiments.perception_coherence.text_corpora.WIDE_BITS", 24)
    places = ["--data-root", folder, "--work-dir", folder / "work", "--json", folder / "records"]
    options = ["--corpora", "snippets", "--widths", 8, "--seeds", 1]
    chosen = ["--objectives", "perception-coherence"]
    command = ["reproduce", "perception-coherence", "--part", "text", *places, *options, *chosen]
    assert main([str(item) for item in command]) == 0
    records = json.loads((folder / "records").read_text())
    assert records[0]["method"] == "teacher encoder, cosine"
    assert records[0]["p100"] > 0.6


def test_vectors_of_another_model_corpus_or_code_are_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names() -> list[Path]:
        corpora = gather(DATABASE), gather(QUERIES)
        return [vectors_file(tmp_path, "c", model, of) for model in "ab" for of in corpora]

    first = names()
    assert len(set(first)) == 4
    assert names() == first
    monkeypatch.setattr(text_corpora, "version_of", lambda _: "other code")
    assert not set(names()) & set(first)
