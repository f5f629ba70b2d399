"""The choice of features by soft labels."""

from __future__ import annotations

import numpy as np

from encoder.encoder import Features
from encoder.features import Floats, TextFeatures
from encoder.recipes import METHODS, Recipe
from foundation.stages import begin_stage
from training.data import TrainingData
from training.pipeline import Split, choose_features
from training.soft_labels.estimation import estimate_soft_labels
from training.soft_labels.text_classifiers import term_weights
from training.text_features import MIN_DOCUMENTS, keep_terms

# Soft labels are estimated from this many times the terms that the encoder may have.
_CANDIDATES = 10


def choose_features_and_soft_labels(
    data: TrainingData, parts: Split, recipe: Recipe
) -> tuple[Features, Floats | None]:
    """Return the features of the training documents and their soft labels, ``[N, C]``.

    Classifiers can use rare words for which an encoder has no room. So soft labels are estimated
    from ten times the encoder's terms, and the encoder gets the terms that tell most about the soft
    labels, such as a name in a signature rather than a stop word. If the recipe has no soft labels,
    or documents have several classes, the encoder gets the most frequent terms, and the soft labels
    are None. Terms of a single text are used only by ict, which finds texts by their words alone.

    Raises:
        TrainingDataError: if no term occurs in two texts.
    """

    # A word that only one text has is the best word to find it by, and a word that a text repeats
    # is more often asked for than the others.
    is_linear = METHODS[recipe.method].is_linear
    min_documents = 1 if is_linear else MIN_DOCUMENTS
    weighting = "count-idf" if is_linear and recipe.features == "tf-idf" else recipe.features

    def choose(max_terms: int) -> Features:
        return choose_features(
            data,
            parts.training,
            max_terms,
            weighting,
            recipe.analyzer,
            min_documents=min_documents,
            summary_weight=recipe.summary_weight if is_linear else 0.0,
        )

    has_soft_labels = METHODS[recipe.method].pairs == "all" and recipe.soft_labels == "linear"
    if not has_soft_labels or data.is_multi_label:
        return choose(recipe.max_terms), None
    candidates = recipe.max_terms * (_CANDIDATES if recipe.terms == "telling" else 1)
    features = choose(candidates)
    rows = features.transform(data.take(parts.training))  # type: ignore[arg-type]
    begin_stage("estimating soft labels")
    soft_labels = estimate_soft_labels(rows, parts.visible_tags[parts.training], recipe.seed)
    if isinstance(features, TextFeatures) and features.dimension > recipe.max_terms:
        weights = term_weights(rows, soft_labels)
        heaviest = np.argsort(-weights, kind="stable")[: recipe.max_terms]
        features = keep_terms(features, heaviest)
    return features, soft_labels
