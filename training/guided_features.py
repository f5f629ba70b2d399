"""Choosing the features of documents and guessing their classes, the one with the other's help."""

from __future__ import annotations

import numpy as np

from encoder.features import Features, Floats, TextFeatures
from training.class_guesses import guess_classes
from training.data import TrainingData
from training.pipeline import Split, choose_features
from training.recipe import METHODS, Recipe
from training.text_guesses import term_weights
from training.vocabulary import keep_terms

# Classes are guessed from so many times the terms that the encoder may have.
_CANDIDATES = 10


def choose_and_guess(
    data: TrainingData, parts: Split, recipe: Recipe
) -> tuple[Features, Floats | None]:
    """Return the features of the documents trained on and their guessed classes, ``[N, C]``.

    Classifiers may look at rare words that an encoder has no room for. They guess from ten times
    its terms; it is then given those terms that tell most about what was guessed, a name in a
    signature before a stop word. There are no guesses, and the most frequent terms, where the
    recipe goes without guesses or documents have several classes.

    Raises:
        TrainingDataError: if no term occurs in two texts.
    """

    def choose(max_terms: int) -> Features:
        return choose_features(data, parts.training, max_terms, recipe.features, recipe.analyzer)

    wanted = METHODS[recipe.method].pairs == "all" and recipe.guesses == "linear"
    if not wanted or data.is_multi_label:
        return choose(recipe.max_terms), None
    candidates = recipe.max_terms * (_CANDIDATES if recipe.terms == "telling" else 1)
    features = choose(candidates)
    rows = features.transform(data.take(parts.training))  # type: ignore[arg-type]
    guesses = guess_classes(rows, parts.shown[parts.training], recipe.seed)
    if isinstance(features, TextFeatures) and features.dimension > recipe.max_terms:
        weights = term_weights(rows, guesses, recipe.seed)
        telling = np.argsort(-weights, kind="stable")[: recipe.max_terms]
        features = keep_terms(features, telling)
    return features, guesses
