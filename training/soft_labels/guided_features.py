"""Choosing the features of documents by their soft labels."""

from __future__ import annotations

import numpy as np

from encoder.encoder import Features
from encoder.features import Floats, TextFeatures
from training.data import TrainingData
from training.pipeline import Split, choose_features
from training.recipe import METHODS, Recipe
from training.soft_labels.estimation import estimate_soft_labels
from training.soft_labels.text_classifiers import term_weights
from training.text_features import MIN_DOCUMENTS, keep_terms

# Soft labels are estimated from so many times the terms that the encoder may have.
_CANDIDATES = 10


def choose_features_and_soft_labels(
    data: TrainingData, parts: Split, recipe: Recipe
) -> tuple[Features, Floats | None]:
    """Return the features of the documents trained on and their soft labels, ``[N, C]``.

    Classifiers may use rare words that an encoder has no room for. Soft labels are estimated from
    ten times the encoder's terms; the encoder then gets the terms that tell most about the soft
    labels, a name in a signature before a stop word. Where the recipe goes without soft labels, or
    documents have several classes, it gets the most frequent terms and there are no soft labels.
    Terms of a single text count only where texts are to be found by their words alone (ict).

    Raises:
        TrainingDataError: if no term occurs in two texts.
    """

    # A word that one text alone has is the best there is to find it by.
    least = 1 if METHODS[recipe.method].is_linear else MIN_DOCUMENTS

    def choose(max_terms: int) -> Features:
        return choose_features(
            data,
            parts.training,
            max_terms,
            recipe.features,
            recipe.analyzer,
            least_documents=least,
        )

    wanted = METHODS[recipe.method].pairs == "all" and recipe.soft_labels == "linear"
    if not wanted or data.is_multi_label:
        return choose(recipe.max_terms), None
    candidates = recipe.max_terms * (_CANDIDATES if recipe.terms == "telling" else 1)
    features = choose(candidates)
    rows = features.transform(data.take(parts.training))  # type: ignore[arg-type]
    soft_labels = estimate_soft_labels(rows, parts.shown[parts.training], recipe.seed)
    if isinstance(features, TextFeatures) and features.dimension > recipe.max_terms:
        weights = term_weights(rows, soft_labels, recipe.seed)
        telling = np.argsort(-weights, kind="stable")[: recipe.max_terms]
        features = keep_terms(features, telling)
    return features, soft_labels
