from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save
from scipy import sparse

from hummingbit.encoder.artifact import ArtifactError, load_encoder, read_classifier, write_artifact
from hummingbit.encoder.classifier import CLASSIFIER, Classifier, classifier_bytes, parse_classifier
from tests.support.encoders import WORDS, random_texts, text_encoder


def classifier(seed: int = 0, features: int = len(WORDS), classes: int = 3) -> Classifier:
    rng = np.random.default_rng(seed)
    weights = tuple(rng.normal(size=(features, classes)).astype(np.float32) for _ in range(2))
    return Classifier(weights, tuple(rng.normal(size=classes).astype(np.float32) for _ in range(2)))


def test_the_class_with_the_highest_sum_of_standardized_scores_is_predicted() -> None:
    ours = classifier()
    rows = np.random.default_rng(1).normal(size=(20, len(WORDS))).astype(np.float32)
    predicted = ours.predict(rows)
    for row, found in zip(rows, predicted, strict=True):
        total = np.zeros(3)
        for weight, bias in zip(ours.weights, ours.biases, strict=True):
            scores = row.astype(np.float64) @ weight.astype(np.float64) + bias
            total += (scores - scores.mean()) / scores.std()
        assert found == total.argmax()
    assert np.array_equal(ours.predict(sparse.csr_array(rows)), predicted)


def test_a_classifier_survives_its_artifact(tmp_path: Path) -> None:
    ours = classifier()
    extra = {CLASSIFIER: classifier_bytes(ours)}
    encoder = write_artifact(tmp_path / "e", text_encoder(), random_texts(40), extra_files=extra)
    read = read_classifier(tmp_path / "e", encoder)
    assert read is not None
    for name in ("weights", "biases"):
        for a, b in zip(getattr(read, name), getattr(ours, name), strict=True):
            assert np.array_equal(a, b)


def test_an_encoder_without_a_classifier_has_none(tmp_path: Path) -> None:
    encoder = write_artifact(tmp_path / "e", text_encoder(), random_texts(40))
    assert read_classifier(tmp_path / "e", encoder) is None


def test_a_classifier_of_other_features_is_refused(tmp_path: Path) -> None:
    extra = {CLASSIFIER: classifier_bytes(classifier(features=7))}
    write_artifact(tmp_path / "e", text_encoder(), random_texts(40), extra_files=extra)
    with pytest.raises(ArtifactError, match=r"classifier.safetensors: is for 7 features; "):
        read_classifier(tmp_path / "e", load_encoder(tmp_path / "e"))


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({}, "holds no tensors"),
        ({"0.weight": np.ones((2, 3), np.float32), "weights": np.ones(3, np.float32)}, "holds 0.w"),
        (
            {"0.weight": np.ones((2, 3), np.float32), "0.bias": np.ones(2, np.float32)},
            r"they must be \[F, C\]",
        ),
        (
            {"0.weight": np.full((2, 3), np.nan, np.float32), "0.bias": np.ones(3, np.float32)},
            "must be finite",
        ),
    ],
)
def test_what_is_no_classifier_is_refused(tensors: dict[str, np.ndarray], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_classifier(save(tensors))
