from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import ClassCodeRecipe, LinearRecipe
from hummingbit.evaluation.baselines import (
    ClassifierReference,
    TrainingLabels,
    classifier_baseline,
    classifier_warnings,
    collection_classifier_baseline,
    logistic_baseline,
)
from hummingbit.evaluation.metrics import DEFAULT_METRICS
from hummingbit.index.records import StoredDocument
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import gather
from hummingbit.training.linear_codes import train_linear
from hummingbit.training.soft_labels import fit_classifier
from hummingbit.training.text_features import fit_text_features
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.encoders import text_encoder, vector_encoder


def test_the_classifier_beside_an_encoder_finds_the_class(tmp_path: Path) -> None:
    data, asked = gather(topic_documents(300)), gather(topic_documents(60, seed=1))
    trained = train_linear(
        data, LinearRecipe("pca-sign", n_bits=8, label_fraction=0.2), tmp_path / "e"
    )
    assert trained.classifier is not None
    reference = ClassifierReference(trained.encoder, trained.classifier)
    shown = data.labelled(data.rows_of(trained.labelled_ids))
    found = classifier_baseline(reference, shown, data.labelled(), asked.labelled(), ["P@20"])
    assert found.distinct_codes == 3
    assert found.expected["P@20"] > 0.95


def test_vectors_have_a_classifier_too(tmp_path: Path) -> None:
    data, asked = gather(topic_vectors(300)), gather(topic_vectors(60, seed=1))
    recipe = LinearRecipe("pca-sign", n_bits=8, label_fraction=0.2)
    trained = train_linear(data, recipe, tmp_path / "e")
    reference = ClassifierReference(trained.encoder, trained.classifier)
    shown = data.labelled(data.rows_of(trained.labelled_ids))
    found = classifier_baseline(reference, shown, data.labelled(), asked.labelled(), ["P@20"])
    assert trained.classifier is not None
    assert found.expected["P@20"] > 0.95


def test_without_a_classifier_the_labels_shown_are_fitted(tmp_path: Path) -> None:
    data, asked = gather(topic_documents(200)), gather(topic_documents(40, seed=1))
    trained = train_linear(data, LinearRecipe("pca-sign", n_bits=8), tmp_path / "e")
    shown = data.labelled(data.rows_of(trained.labelled_ids))
    beside = ClassifierReference(trained.encoder)
    found = classifier_baseline(beside, shown, data.labelled(), asked.labelled())
    expected = logistic_baseline(shown, data.labelled(), asked.labelled())
    assert found.expected == expected.expected
    assert tuple(found.expected) == DEFAULT_METRICS


def test_with_one_label_a_collection_has_no_baseline() -> None:
    documents = [
        StoredDocument(str(at), at, "00", "text", None, {"label": "x" if at else "y"})
        for at in range(4)
    ]
    reference = ClassifierReference(text_encoder())
    queries = [Document(id="q", text="text", labels=("x",))]
    alone = TrainingLabels(["1", "2"], reference)
    assert collection_classifier_baseline(documents, alone, queries) is None
    both = TrainingLabels(["0", "1", "2"], reference)
    assert collection_classifier_baseline(documents, both, queries) is not None


def test_a_sentence_says_where_the_codes_lose_and_what_to_try() -> None:
    codes = {"P@100": 0.712, "mAP@100": 0.8}
    encoder = replace(text_encoder(), metadata={"recipe": {"word_dropout": 0.25}})
    (sentence,) = classifier_warnings(codes, {"P@100": 0.731, "mAP@100": 0.7}, encoder)
    assert "classifier baseline (P@100 0.712 against 0.731, tie-averaged)" in sentence
    assert "mAP" not in sentence
    assert "--word-dropout 0.1" in sentence
    assert classifier_warnings(codes, codes, encoder) == []
    assert classifier_warnings(codes, None, encoder) == []


@pytest.mark.parametrize(
    "encoder",
    [
        text_encoder(),
        replace(text_encoder(), metadata={"recipe": "none"}),
        replace(text_encoder(), metadata={"recipe": {"word_dropout": 0.1}}),
        replace(vector_encoder(), metadata={"recipe": {"word_dropout": 0.25}}),
    ],
    ids=["unknown", "foreign", "little", "vectors"],
)
def test_less_word_dropout_is_advice_only_where_words_are_left_out(encoder: Encoder) -> None:
    (sentence,) = classifier_warnings({"P@100": 0.7}, {"P@100": 0.8}, encoder)
    assert "--word-dropout" not in sentence
    assert sentence.endswith("more bits or the asymmetric ranking")


def test_class_codes_are_advice_for_texts_whose_codes_are_others(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(n_bits=16, query_classifier="both", content_share=0.125)
    by_class = train_class_codes(gather(topic_documents(60)), recipe, tmp_path / "e").encoder
    advice = "try hummingbit train class-codes"
    for encoder, is_advised in (
        (text_encoder(), True),
        (by_class, False),
        (vector_encoder(), False),
    ):
        (sentence,) = classifier_warnings({"P@100": 0.7}, {"P@100": 0.8}, encoder)
        assert (advice in sentence) is is_advised


def test_codes_are_not_behind_by_less_than_is_shown() -> None:
    assert classifier_warnings({"P@100": 0.8511}, {"P@100": 0.8513}, text_encoder()) == []


@pytest.mark.parametrize("make", [topic_documents, topic_vectors])
@pytest.mark.parametrize("labels", [1, 2])
def test_only_vectors_of_several_labels_have_no_fair_classifier(
    make: Any, labels: int, tmp_path: Path
) -> None:
    documents = make(60)
    if labels == 2:
        documents[-1] = replace(documents[-1], labels=("food", "sea"))
    trained = train_linear(gather(documents), LinearRecipe("pca-sign", n_bits=8), tmp_path / "e")
    assert (trained.classifier is None) == (labels == 2 and make is topic_vectors)


def test_texts_of_several_labels_are_classified_by_each_of_them() -> None:
    """The classifier learns the second label of a text as well as the first."""
    documents = [
        replace(one, labels=("all", *one.labels) if number % 2 else (*one.labels,))
        for number, one in enumerate(topic_documents(200))
    ]
    data = gather(documents)
    features = fit_text_features([str(text) for text in data.inputs], 1000)
    classifier = fit_classifier(features, data.inputs, data.tags, None, seed=0)
    assert classifier is not None
    predicted = classifier.predict(features.transform([str(text) for text in data.inputs]))
    assert data.tags[np.arange(200), predicted].mean() > 0.9
