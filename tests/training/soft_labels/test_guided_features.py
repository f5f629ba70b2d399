from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hummingbit.encoder.encoder import Features
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.objectives.autoencoder import AutoencoderSettings
from hummingbit.training.pipeline import Split, choose_features, split
from hummingbit.training.semi_supervised import choose_features_and_soft_labels
from hummingbit.training.text_features import inverse_document_frequency
from tests.support.corpora import COMMON, TOPICS, topic_documents, topic_vectors

TOPIC_WORDS = {word for words in TOPICS.values() for word in words}
RECIPE = AutoencoderRecipe(max_terms=len(TOPIC_WORDS), label_fraction=0.3)
OURS = AutoencoderSettings()


def is_most_frequent(features: Features, data: TrainingData, parts: Split) -> bool:
    expected = choose_features(data, parts.training, RECIPE.max_terms)
    assert isinstance(features, TextFeatures)
    assert isinstance(expected, TextFeatures)
    return features.vocabulary == expected.vocabulary


@pytest.fixture(scope="module")
def texts() -> TrainingData:
    return gather(topic_documents(300))


def test_an_encoder_is_given_the_terms_that_tell_classes_apart(texts: TrainingData) -> None:
    parts = split(texts, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(texts, parts, RECIPE, OURS)
    assert isinstance(features, TextFeatures)
    assert set(features.vocabulary) == TOPIC_WORDS
    counts = features.count_terms(texts.take(parts.training))  # type: ignore[arg-type]
    idf = inverse_document_frequency(np.bincount(counts.indices), len(parts.training))
    assert np.array_equal(features.idf, idf)  # type: ignore[arg-type]
    assert soft_labels is not None
    right = soft_labels.argmax(axis=1) == texts.tags[parts.training].argmax(axis=1)
    assert right.mean() > 0.9


def test_the_most_frequent_terms_where_the_recipe_asks_for_them(texts: TrainingData) -> None:
    settings = replace(OURS, terms="frequent")
    parts = split(texts, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(texts, parts, RECIPE, settings)
    assert is_most_frequent(features, texts, parts)
    assert set(COMMON) <= set(features.vocabulary)  # type: ignore[union-attr]
    assert soft_labels is not None


def test_documents_of_several_classes_get_no_soft_labels(texts: TrainingData) -> None:
    tags = texts.tags.copy()
    tags[0] = True
    several = replace(texts, tags=tags)
    parts = split(several, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(several, parts, RECIPE, OURS)
    assert is_most_frequent(features, several, parts)
    assert soft_labels is None


def test_settings_without_soft_labels(texts: TrainingData) -> None:
    settings = replace(OURS, soft_labels=False)
    parts = split(texts, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(texts, parts, RECIPE, settings)
    assert is_most_frequent(features, texts, parts)
    assert soft_labels is None


def test_vectors_are_taken_as_they_are() -> None:
    data = gather(topic_vectors(100))
    parts = split(data, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(data, parts, RECIPE, OURS)
    assert features == choose_features(data, parts.training, RECIPE.max_terms)
    assert soft_labels is not None
