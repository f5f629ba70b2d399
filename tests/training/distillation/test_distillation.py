from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import ArtifactError, load_encoder, read_labelled_ids
from hummingbit.encoder.recipes import AutoencoderRecipe, DistillationRecipe, RecipeError
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training import distillation
from hummingbit.training.data import TrainingData, TrainingDataError, gather
from hummingbit.training.distillation import CoherenceLoss, distill, split_documents
from hummingbit.training.loop import CheckpointError
from hummingbit.training.pipeline import choose_features, split
from hummingbit.training.teachers import Teacher, TeacherError
from tests.support.corpora import TOPICS, topic_documents, topic_vectors

RECIPE = DistillationRecipe(n_bits=16, epochs=24, hidden=24, max_terms=100)
# What is the same after any number of epochs.
SHORT = replace(RECIPE, epochs=3)


def unlabelled(data: TrainingData) -> TrainingData:
    return replace(data, classes=(), tags=np.zeros((len(data), 0), dtype=np.bool_))


def topic_teacher(data: TrainingData, seed: int = 0) -> Teacher:
    """A teacher that sees the topic of a document, blurred."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(len(TOPICS), 12))
    vectors = data.tags.astype(float) @ centres + 0.3 * rng.normal(size=(len(data), 12))
    return Teacher("topics", "vectors", "f" * 64, vectors.astype(np.float32))


@pytest.fixture(scope="module")
def corpus() -> TrainingData:
    return gather(topic_documents(400))


@pytest.fixture(scope="module")
def student(corpus: TrainingData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("encoders") / "student"
    distill(unlabelled(corpus), topic_teacher(corpus), RECIPE, out, progress=False)
    return out


@pytest.fixture(scope="module")
def short(corpus: TrainingData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("encoders") / "short"
    distill(unlabelled(corpus), topic_teacher(corpus), SHORT, out, progress=False)
    return out


def p_at_10(folder: Path, database: TrainingData, queries: TrainingData) -> float:
    found = evaluate_encoder(
        load_encoder(folder), database.labelled(), queries.labelled(), ["P@10"]
    )
    return found.metrics["P@10"]


def test_a_student_that_never_saw_a_label_finds_documents_of_the_same_topic(
    corpus: TrainingData, student: Path
) -> None:
    assert p_at_10(student, corpus, gather(topic_documents(100, seed=1))) > 0.9


def test_vectors_are_distilled_too(tmp_path: Path) -> None:
    data = gather(topic_vectors(400))
    distill(data, topic_teacher(data), RECIPE, tmp_path / "v", progress=False)
    assert p_at_10(tmp_path / "v", data, gather(topic_vectors(100, seed=1))) > 0.9


def test_the_artifact_names_its_teacher_and_the_level_reached(
    corpus: TrainingData, student: Path
) -> None:
    encoder = load_encoder(student)
    about = encoder.metadata
    assert about["teacher"] == topic_teacher(corpus).about()
    assert about["recipe"] == asdict(RECIPE)
    assert about["coherence"]["level"] > 0.75
    assert (about["coherence"]["queries"], about["coherence"]["documents"]) == (40, 360)
    assert about["validation"] == {}
    assert read_labelled_ids(student, encoder) == []
    assert not student.with_name("student.checkpoint").exists()


def test_labels_that_were_not_shown_judge_the_student(
    corpus: TrainingData, short: Path, tmp_path: Path
) -> None:
    teacher = topic_teacher(corpus)
    seen = distill(corpus, teacher, SHORT, tmp_path / "s", progress=False)
    assert seen.validation["queries"] == 40
    assert seen.validation["classifier_baseline"] is None
    assert seen.labelled_ids == ()
    for mine, other in zip(seen.encoder.layers, load_encoder(short).layers, strict=True):
        np.testing.assert_array_equal(mine.weight, other.weight)


class BrokenOffError(Exception):
    """Stands for whatever ends a process."""


def test_an_interrupted_run_ends_bit_for_bit_in_the_student_of_another_run(
    corpus: TrainingData, short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, teacher = unlabelled(corpus), topic_teacher(corpus)
    monkeypatch.setattr("hummingbit.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    whole = CoherenceLoss.__call__

    def interrupted(self: Any, rows: Any, generator: Any, progress: float) -> Any:
        if progress > 0.5:
            raise BrokenOffError
        return whole(self, rows, generator, progress)

    monkeypatch.setattr(CoherenceLoss, "__call__", interrupted)
    with pytest.raises(BrokenOffError):
        distill(data, teacher, SHORT, tmp_path / "s", progress=False)
    monkeypatch.setattr(CoherenceLoss, "__call__", whole)
    assert (tmp_path / "s.checkpoint").exists()
    other = replace(teacher, fingerprint="0" * 64)
    with pytest.raises(CheckpointError, match="other settings or data"):
        distill(data, other, SHORT, tmp_path / "s", progress=False)
    resumed = distill(data, teacher, SHORT, tmp_path / "s", progress=False)
    assert resumed.encoder.fingerprint == load_encoder(short).fingerprint


def test_all_methods_hold_out_the_same_and_distillation_shows_no_label(
    corpus: TrainingData,
) -> None:
    mine = split_documents(corpus, replace(RECIPE, seed=5))
    other = split(corpus, AutoencoderRecipe(seed=5))
    np.testing.assert_array_equal(mine.validation, other.validation)
    np.testing.assert_array_equal(mine.training, other.training)
    assert not len(mine.labelled)


def test_documents_without_labels_are_held_out_as_well(corpus: TrainingData) -> None:
    assert len(split_documents(unlabelled(corpus), RECIPE).validation) == 40


def test_a_zero_vector_stops_the_run_before_anything_is_written(
    corpus: TrainingData, tmp_path: Path
) -> None:
    teacher = topic_teacher(corpus)
    teacher.vectors[7] = 0
    with pytest.raises(TeacherError, match="zero vector"):
        distill(corpus, teacher, RECIPE, tmp_path / "s", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_of_one_document_is_an_error(tmp_path: Path) -> None:
    data = gather([Document(id="only", text="one lonely document")])
    teacher = Teacher("t", "vectors", "", np.ones((1, 3), dtype=np.float32))
    with pytest.raises(TrainingDataError, match="1 of 1 documents are left to train on"):
        distill(data, teacher, RECIPE, tmp_path / "s", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_is_not_replaced_unasked(corpus: TrainingData, student: Path) -> None:
    with pytest.raises(ArtifactError, match="already exists"):
        distill(corpus, topic_teacher(corpus), RECIPE, student, progress=False)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("objective", "kd", "must be one of neighbours, perception-coherence"),
        ("hidden", 0, "hidden is 0; it must be from 1"),
        ("n_bits", 12, "multiple of 8"),
        ("validation_share", 1.0, "below 1"),
    ],
)
def test_settings_out_of_range_are_named(setting: str, value: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        replace(RECIPE, **{setting: value})


def soft_ranks_by_hand(d: Any, temperature: float) -> Any:
    """Equation 3 in plain loops."""
    n = len(d)
    ranks = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            ranks[i, j] = sum(
                1 / (1 + np.exp(-(d[i, j] - d[i, k]) / temperature)) for k in range(n)
            )
    return ranks


def cosine_distances(x: Any) -> Any:
    """Equation 12."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return 0.5 * (1 - unit @ unit.T)


def test_with_labels_the_loss_is_that_of_section_5_3(corpus: TrainingData) -> None:
    recipe = replace(RECIPE, label_fraction=0.5, validation_share=0.2)
    parts = split_documents(corpus, recipe)
    teacher = topic_teacher(corpus)
    features = choose_features(corpus, parts.training, recipe.max_terms, analyzer=recipe.analyzer)
    loss = CoherenceLoss(corpus, teacher, recipe, features, parts)
    loss.word_dropout = 0.0
    rows = np.arange(12)
    terms = {
        name: float(term.detach())
        for name, term in loss(rows, torch.Generator(), progress=0.0).items()
    }

    # The student: the tanh of the logits of its network, and a linear head on these.
    network: Any = loss.model.encoder
    x: Any = features.transform(corpus.take(parts.training[rows]))  # type: ignore[arg-type]
    h: Any = x.toarray().astype(np.float64)
    for layer in (network.first, network.second, network.logits):
        scale = getattr(layer, "scale", 1.0)
        weight = layer.weight.detach().double().numpy()
        h = scale * h @ (weight.T if isinstance(layer, torch.nn.Linear) else weight)
        h = h + layer.bias.detach().double().numpy()
        h = h if layer is network.logits else np.maximum(h, 0)
    bits = np.tanh(h)
    head: Any = loss.model.get_submodule("losses.classes")
    scores = bits @ head.weight.detach().double().numpy().T + head.bias.detach().double().numpy()

    # The teacher: its vectors, and scores that a ridge regression learns from the visible labels.
    tags = parts.visible_tags[parts.training]
    shown = tags.any(axis=1)
    assert shown.sum() == round(0.5 * len(parts.training))
    vectors = teacher.vectors[parts.training].astype(np.float64)
    targets = np.where(tags[shown], 1.0, -1.0)
    centred = vectors[shown] - vectors[shown].mean(axis=0)
    of_classes = np.linalg.solve(
        centred.T @ centred + np.eye(vectors.shape[1]), centred.T @ (targets - targets.mean(axis=0))
    )
    logits = (vectors - vectors[shown].mean(axis=0)) @ of_classes + targets.mean(axis=0)

    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    labelled = np.asarray(shown)[rows]
    assert 0 < labelled.sum() < 12
    class_loss = -log_p[labelled][np.asarray(tags)[rows][labelled]].mean()
    assert terms["class_loss"] == pytest.approx(class_loss, rel=1e-5)
    hamming = 0.5 * (1 - bits @ bits.T / 16)
    pairs = {
        "transfer_loss": (hamming, cosine_distances(vectors[rows])),
        "logit_transfer_loss": (cosine_distances(scores), cosine_distances(logits[rows])),
    }
    for name, (student, of_teacher) in pairs.items():
        difference = soft_ranks_by_hand(student, distillation.STUDENT_TEMPERATURE)
        difference -= soft_ranks_by_hand(of_teacher, distillation.TEACHER_TEMPERATURE)
        expected = 5.0 * np.square(difference).sum() / 12**3
        assert terms[name] == pytest.approx(expected, rel=2e-3), name


def test_a_student_with_labels_knows_their_classes(
    corpus: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distillation, "COHERENCE_WEIGHT", 0.01)
    rng = np.random.default_rng(0)
    blind = Teacher(
        "blind", "vectors", "f" * 64, rng.normal(size=(len(corpus), 12)).astype(np.float32)
    )
    recipe = replace(RECIPE, label_fraction=0.5, validation_share=0.2)
    trained = distill(corpus, blind, recipe, tmp_path / "student", progress=False)
    assert len(trained.labelled_ids) == round(0.5 * 0.8 * len(corpus))
    assert p_at_10(tmp_path / "student", corpus, gather(topic_documents(100, seed=1))) > 0.9


def test_other_objectives_and_documents_without_labels_are_refused(
    corpus: TrainingData, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=r"label_fraction is 0.5; it must be 0"):
        replace(RECIPE, objective="neighbours", label_fraction=0.5)
    recipe = replace(RECIPE, label_fraction=0.5)
    with pytest.raises(TrainingDataError, match="label: "):
        distill(unlabelled(corpus), topic_teacher(corpus), recipe, tmp_path / "out")
