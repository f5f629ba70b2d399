from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from hummingbit.cli import main
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import unpack_codes
from hummingbit.evaluation.coherence import document_levels, mean_by_class
from hummingbit.evaluation.result import EvaluationError
from hummingbit.training.data import TrainingData
from tests.support.encoders import random_texts, text_encoder

TEXTS = random_texts(40, seed=3)


def corpus(texts: list[str], classes: int = 2) -> TrainingData:
    names = tuple(f"class {column}" for column in range(classes))
    tags = np.eye(classes, dtype=bool)[np.arange(len(texts)) % classes]
    return TrainingData(tuple(f"d{row}" for row in range(len(texts))), texts, names, tags)


def level_by_hand(encoder_distances: np.ndarray, teacher_distances: np.ndarray) -> float:
    """Definition 3.2 over the other documents, half of the ties counted."""
    parts = [
        # rankdata counts the others below, half of the ties, and one half more for itself.
        (rankdata(d) - 0.5) / len(d)
        for d in (encoder_distances, teacher_distances)
    ]
    return float(1 - np.abs(parts[0] - parts[1]).mean())


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(3, 40),
    ranking=st.sampled_from(["hamming", "asymmetric"]),
)
def test_levels_are_those_computed_by_hand(seed: int, n: int, ranking: str) -> None:
    encoder = text_encoder(n_bits=16)
    vectors = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    data = corpus(TEXTS[:n])
    found = document_levels(encoder, data.inputs, vectors, ranking)  # type: ignore[arg-type]

    signs = unpack_codes(encoder.encode(data.inputs)).astype(np.float64) * 2 - 1
    queries = signs if ranking == "hamming" else encoder.query_weights(data.inputs)
    exact = vectors.astype(np.float64)
    unit = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    for row in range(n):
        others = np.delete(np.arange(n), row)
        mine, theirs = (
            -(queries[row] @ signs[others].T).astype(np.float32),
            -(unit[row] @ unit[others].T).astype(np.float32),
        )
        assert found.levels[row] == pytest.approx(level_by_hand(mine, theirs), abs=1e-5)
        nearest = others[np.argmin(theirs)]
        assert found.teacher_nearest[row] == nearest
        assert found.encoder_nearest[row] == others[np.argmin(mine)]
        rank = rankdata(mine)[np.argmin(theirs)]
        assert found.nearest_rank[row] == pytest.approx(rank)
    assert found.levels[found.worst()].tolist() == sorted(found.levels)


def test_an_interval_covers_the_level_among_all_documents_where_these_are_a_sample() -> None:
    texts = random_texts(1500, seed=5)
    encoder = text_encoder(n_bits=32)
    vectors = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)
    whole = document_levels(encoder, texts, vectors)
    covered = []
    for seed in range(10):
        rows = np.sort(np.random.default_rng(seed).permutation(1500)[:150])
        sample = document_levels(encoder, [texts[row] for row in rows], vectors[rows])
        covered.append(np.abs(sample.levels - whole.levels[rows]) <= sample.margins)
    assert 0.9 <= np.mean(covered) <= 0.99


def test_a_teacher_of_the_codes_themselves_has_a_level_of_one() -> None:
    encoder, data = text_encoder(n_bits=32), corpus(TEXTS)
    signs = unpack_codes(encoder.encode(data.inputs)).astype(np.float32) * 2 - 1
    found = document_levels(encoder, data.inputs, signs)
    np.testing.assert_allclose(found.levels, 1)
    assert found.mean().mean == pytest.approx(1)


def test_classes_of_few_documents_are_left_out_and_the_lowest_comes_first() -> None:
    encoder, data = text_encoder(), corpus(TEXTS, classes=3)
    vectors = np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    found = document_levels(encoder, data.inputs, vectors)
    means = mean_by_class(found, data.classes, data.tags, least=14)
    assert [name for name, _, _ in means] == ["class 0"]
    means = mean_by_class(found, data.classes, data.tags)
    assert {name: n for name, n, _ in means} == {"class 0": 14, "class 1": 13, "class 2": 13}
    levels = [interval.mean for _, _, interval in means]
    assert levels == sorted(levels)
    rows = np.arange(40) % 3 == int(means[0][0][-1])
    assert levels[0] == pytest.approx(found.levels[rows].mean())


def test_two_documents_are_too_few() -> None:
    with pytest.raises(EvaluationError, match="there are 2 documents; coherence needs at least 3"):
        document_levels(text_encoder(), TEXTS[:2], np.eye(2, dtype=np.float32))


def test_the_command_lists_the_documents_that_the_encoder_does_not_rank_as_its_teacher(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, teacher, out = (tmp_path / name for name in ("c.jsonl", "t.npz", "levels.jsonl"))
    lines = [
        {"id": f"d{row}", "text": text, "label": "even" if row % 2 == 0 else "odd"}
        for row, text in enumerate(TEXTS)
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    encoder = text_encoder(n_bits=32)
    write_artifact(tmp_path / "encoder", encoder, TEXTS)
    vectors = unpack_codes(encoder.encode(TEXTS)).astype(np.float32) * 2 - 1
    vectors[7] = np.random.default_rng(2).normal(size=32)
    np.savez(teacher, ids=np.array([line["id"] for line in lines]), vectors=vectors)
    arguments = ["coherence", str(tmp_path / "encoder"), "--teacher", str(teacher)]
    arguments += ["--data", str(source), "--limit", "2"]

    assert main([*arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "of 40 documents, ranked by hamming" in printed
    assert "classes with the lowest mean level" in printed
    assert f"d7: {TEXTS[7][:20]}" in printed

    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 40
    assert rows[0]["id"] == "d7"
    assert rows[:2] == result["worst"]
    assert {class_name["label"] for class_name in result["classes"]} == {"even", "odd"}
    assert result["level"] == pytest.approx(np.mean([row["level"] for row in rows]))

    assert main([*arguments, "--out", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*arguments, "--documents", "2"]) == 2
    assert "--documents 2: must be at least 3" in capsys.readouterr().err
    assert main([*arguments, "--documents", "10", "--ranking", "asymmetric"]) == 0
    assert "of 10 documents, a sample of 40, ranked by asymmetric" in capsys.readouterr().out
