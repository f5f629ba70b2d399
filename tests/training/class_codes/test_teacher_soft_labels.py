from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import ClassCodeRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.class_codes import fit_teacher, rows_of_soft_labels, train_class_codes
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.teachers import Teacher, TeacherError
from tests.support.corpora import topic_documents, topic_vectors

RECIPE = ClassCodeRecipe(n_bits=16, query_classifier="both", content_share=0.25)


def teacher_of(data: TrainingData, numbers: int = 12, noise: float = 0.3) -> Teacher:
    """A teacher that sees the classes of a document, blurred."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(len(data.classes), numbers))
    vectors = data.tags @ centres + noise * rng.normal(size=(len(data), numbers))
    return Teacher("topics", "vectors", "f" * 64, vectors.astype(np.float32))


def few_labels(count: int = 240) -> TrainingData:
    """Texts of two classes, each of four groups with words of their own; one has all labels."""
    rng = np.random.default_rng(0)
    documents = []
    for number in range(count):
        label, group = number % 2, number // 2 % 4
        words = [f"word{label}x{group}x{word}" for word in rng.choice(12, 4)]
        documents.append(Document(id=str(number), text=" ".join(words), labels=(f"c{label}",)))
    return gather(documents)


def test_the_teacher_is_predicted_by_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    rows = sparse.random_array((90, 30), density=0.3, random_state=rng, dtype=np.float32).tocsr()
    vectors = rng.normal(size=(90, 5)).astype(np.float32)
    found = fit_teacher(rows, vectors, 33)
    expected = Ridge(alpha=1.0).fit(rows.toarray(), vectors).coef_.T
    np.testing.assert_allclose(found[:30], expected, atol=1e-3)
    assert found.dtype == np.float32
    assert not found[30:].any()


def test_a_teacher_that_does_not_know_the_classes_is_not_asked_for_them() -> None:
    data = gather(topic_vectors(200))
    tags = data.tags.copy()
    tags[100:] = False
    good = teacher_of(data).vectors
    noise = np.random.default_rng(1).normal(size=good.shape).astype(np.float32)
    assert rows_of_soft_labels(data.inputs, good, tags, 0) is good
    assert rows_of_soft_labels(data.inputs, noise, tags, 0) is data.inputs
    # There is nothing to compare if all documents have labels, or all but one class has none.
    assert rows_of_soft_labels(data.inputs, noise, data.tags, 0) is noise
    one = np.zeros_like(tags)
    one[:3, 0] = True
    assert rows_of_soft_labels(data.inputs, noise, one, 0) is noise


def test_a_teacher_tells_the_classes_of_words_that_no_labelled_text_has(tmp_path: Path) -> None:
    data = few_labels()
    group = np.arange(len(data)) // 2 % 4
    shown = replace(data, tags=data.tags & (group == 0)[:, None])
    unseen = data.select(np.flatnonzero(group > 0))
    accuracy = {}
    for teacher in (None, teacher_of(data)):
        out = tmp_path / str(teacher is None)
        train_class_codes(shown, RECIPE, out, teacher=teacher)
        encoder = load_encoder(out)
        assert encoder.class_code is not None
        rows: Any = encoder.features.transform(unseen.inputs)  # type: ignore[arg-type]
        found = encoder.class_code.queries.predict(rows)
        accuracy[teacher is None] = float(unseen.tags[np.arange(len(unseen)), found].mean())
    assert accuracy[False] > 0.95
    assert accuracy[True] < 0.8


def test_content_follows_the_teacher(tmp_path: Path) -> None:
    """The teacher sees half of the words, those of one of six groups; the other half is noise."""
    rng = np.random.default_rng(0)
    documents, groups = [], rng.integers(6, size=400)
    for number, group in enumerate(groups):
        words = [f"group{group}x{word}" for word in rng.choice(30, 3)]
        words += [f"noise{number // 7 % 9}x{word}" for word in rng.choice(8, 5)]
        label = "even" if group % 2 == 0 else "odd"
        documents.append(Document(id=str(number), text=" ".join(words), labels=(label,)))
    data = gather(documents)
    vectors = np.eye(6)[groups] @ rng.normal(size=(6, 24)) + 0.1 * rng.normal(size=(400, 24))
    teacher = Teacher("groups", "vectors", "", vectors.astype(np.float32))
    by_group = replace(data.labelled(), labels=[(str(group),) for group in groups])
    precision = {}
    for given in (None, teacher):
        recipe = replace(RECIPE, content_share=0.5, validation_share=0.0)
        out = tmp_path / str(given is None)
        encoder = train_class_codes(data, recipe, out, teacher=given).encoder
        precision[given is None] = evaluate_encoder(encoder, by_group, by_group, ["P@30"])
    assert precision[False].expected["P@30"] > precision[True].expected["P@30"] + 0.1


@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
@pytest.mark.parametrize("numbers", [2, 12])
def test_the_artifact_names_its_teacher(documents: Any, numbers: int, tmp_path: Path) -> None:
    data = gather(documents(200))
    teacher = teacher_of(data, numbers)
    trained = train_class_codes(
        data, replace(RECIPE, label_fraction=0.2), tmp_path / "e", teacher=teacher
    )
    about = load_encoder(tmp_path / "e").metadata
    assert about["teacher"] == teacher.about()
    assert about["coherence"]["queries"] == 20
    assert trained.validation["expected"]["P@100"] > 0.2


def test_texts_of_several_labels_can_have_a_teacher(tmp_path: Path) -> None:
    data = few_labels()
    # The third class accompanies others and is the first of no document.
    third = (np.arange(len(data)) % 10 == 0)[:, None]
    data = replace(data, classes=(*data.classes, "c2"), tags=np.hstack([data.tags, third]))
    recipe = replace(RECIPE, label_fraction=0.3, validation_share=0.0)
    encoder = train_class_codes(data, recipe, tmp_path / "e", teacher=teacher_of(data)).encoder
    found = evaluate_encoder(encoder, data.labelled(), data.labelled(), ["P@50"])
    assert found.expected["P@50"] > 0.9


def test_a_zero_vector_stops_the_run_before_anything_is_written(tmp_path: Path) -> None:
    data = few_labels(60)
    teacher = teacher_of(data)
    teacher.vectors[7] = 0
    with pytest.raises(TeacherError, match="zero vector"):
        train_class_codes(data, RECIPE, tmp_path / "e", teacher=teacher)
    assert list(tmp_path.iterdir()) == []
