"""Chooses the method of ``hummingbit quickstart`` by the corpus, and trains by it."""

from __future__ import annotations

import sys
from pathlib import Path

from hummingbit.quickstart_corpus import Corpus
from hummingbit.training_methods import AnyRecipe, default_method, train_by
from training.class_codes.class_recipe import CLASS_CODES, WORDS_AND_CLASSES, ClassCodeRecipe
from training.class_codes.word_vectors import WordVectors
from training.data import TrainingData, TrainingDataError
from training.pipeline import Trained
from training.recipe import Recipe


def choose_recipe(corpus: Corpus, data: TrainingData, n_bits: int) -> AnyRecipe:
    """Choose the method. If there are labels, some bits learn them and the others the words."""
    if not corpus.has_labels:
        return Recipe(method="ict", n_bits=n_bits)
    recipe = ClassCodeRecipe(n_bits=n_bits, **WORDS_AND_CLASSES)
    fits = recipe.can_hold(len(data.classes), recipe.content_share)
    if fits and default_method(data, n_bits) == CLASS_CODES:
        return recipe
    return _for_few_terms(n_bits)


def train_recipe(
    data: TrainingData, recipe: AnyRecipe, out: Path, word_vectors: WordVectors | None = None
) -> Trained:
    """Train by a recipe; if class codes refuse the texts, as for too few terms, by ssb-vae.

    Raises:
        TrainingDataError: if training is refused, and it is not by class codes or there are
            `word_vectors`, which no other method uses.
    """
    try:
        return train_by(data, recipe, out, word_vectors=word_vectors)
    except TrainingDataError as error:
        if recipe.method != CLASS_CODES or word_vectors is not None:
            raise
        print(f"{error}; training by ssb-vae instead", file=sys.stderr)
        return train_by(data, _for_few_terms(recipe.n_bits), out)


def _for_few_terms(n_bits: int) -> Recipe:
    return Recipe(method="ssb-vae", n_bits=n_bits, content_share=0.5)
