from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hummingbit.encoder.encoder import Features
from hummingbit.encoder.recipes import Recipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.pipeline import Split, choose_features, split
from hummingbit.training.semi_supervised import choose_features_and_soft_labels
from hummingbit.training.text_features import inverse_document_frequency
from tests.support.corpora import COMMON, TOPICS, topic_documents, topic_vectors

TOPIC_WORDS = {word for words in TOPICS.values() for word in words}
RECIPE = Recipe(max_terms=len(TOPIC_WORDS), label_fraction=0.3)


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
    features, soft_labels = choose_features_and_soft_labels(texts, parts, RECIPE)
    assert isinstance(features, TextFeatures)
    assert set(features.vocabulary) == TOPIC_WORDS
    counts = features.count_terms(texts.take(parts.training))  # type: ignore[arg-type]
    idf = inverse_document_frequency(np.bincount(counts.indices), len(parts.training))
    assert np.array_equal(features.idf, idf)  # type: ignore[arg-type]
    assert soft_labels is not None
    right = soft_labels.argmax(axis=1) == texts.tags[parts.training].argmax(axis=1)
    assert right.mean() > 0.9


def test_the_most_frequent_terms_where_the_recipe_asks_for_them(texts: TrainingData) -> None:
    recipe = replace(RECIPE, terms="frequent")
    parts = split(texts, recipe)
    features, soft_labels = choose_features_and_soft_labels(texts, parts, recipe)
    assert is_most_frequent(features, texts, parts)
    assert set(COMMON) <= set(features.vocabulary)  # type: ignore[union-attr]
    assert soft_labels is not None


def test_documents_of_several_classes_get_no_soft_labels(texts: TrainingData) -> None:
    tags = texts.tags.copy()
    tags[0] = True
    several = replace(texts, tags=tags)
    parts = split(several, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(several, parts, RECIPE)
    assert is_most_frequent(features, several, parts)
    assert soft_labels is None


@pytest.mark.parametrize(
    "recipe", [replace(RECIPE, method="psh-gs"), replace(RECIPE, soft_labels="none")]
)
def test_recipes_without_soft_labels(recipe: Recipe, texts: TrainingData) -> None:
    parts = split(texts, recipe)
    features, soft_labels = choose_features_and_soft_labels(texts, parts, recipe)
    assert is_most_frequent(features, texts, parts)
    assert soft_labels is None


@pytest.mark.parametrize(
    ("method", "features", "weighting"),
    [("ict", "tf-idf", "count"), ("ict", "log-tf", "log"), ("b-vae", "tf-idf", "log")],
)
def test_counts_of_terms_are_used_as_they_are_by_ict_alone(
    method: str, features: str, weighting: str, texts: TrainingData
) -> None:
    recipe = replace(RECIPE, method=method, features=features)
    found, _ = choose_features_and_soft_labels(texts, split(texts, recipe), recipe)
    assert isinstance(found, TextFeatures)
    assert (found.weighting, found.l2_normalize) == (weighting, features == "tf-idf")


def test_vectors_are_taken_as_they_are() -> None:
    data = gather(topic_vectors(100))
    parts = split(data, RECIPE)
    features, soft_labels = choose_features_and_soft_labels(data, parts, RECIPE)
    assert features == choose_features(data, parts.training, RECIPE.max_terms)
    assert soft_labels is not None
