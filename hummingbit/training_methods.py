"""The methods of training by name: their recipes, their runs, and the default for a corpus.

This module needs no torch until a method that learns a network is run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from training.class_codes.class_recipe import CLASS_CODES, CONTENT_SHARES, ClassCodeRecipe
from training.class_codes.run import train_class_codes
from training.class_codes.word_vectors import WordVectors
from training.data import TrainingData, TrainingDataError
from training.linear_codes import LINEAR_METHODS, train_linear
from training.pipeline import Trained
from training.recipe import METHODS, LinearRecipe, Recipe

AnyRecipe = Recipe | ClassCodeRecipe | LinearRecipe
METHOD_NAMES = (*METHODS, CLASS_CODES, *LINEAR_METHODS)


def default_method(data: TrainingData, n_bits: int) -> str:
    """Return the default method for codes of `n_bits`.

    If there are labels of two classes or more, it is class-codes, or ssb-vae where class-codes does
    not take the documents: matrices, vectors of several labels or with too few numbers for the bits
    of content, no more documents than bits, or more classes than codewords. Without labels, it is
    ict for texts and sne for vectors, or lsh if there are fewer vectors, or they have fewer
    numbers, than a code has bits.
    """
    if len(data.classes) > 1:
        return CLASS_CODES if _class_codes_fit(data, n_bits) else "ssb-vae"
    if not isinstance(data.inputs, np.ndarray):
        return "ict"
    return "sne" if min(data.inputs.shape) >= n_bits else "lsh"


def _class_codes_fit(data: TrainingData, n_bits: int) -> bool:
    recipe = ClassCodeRecipe(n_bits=n_bits)
    if n_bits >= len(data) or not recipe.can_hold(len(data.classes)):
        return False
    if not isinstance(data.inputs, np.ndarray):
        return True
    n_content = recipe.widths(CONTENT_SHARES[-1])[2]
    is_taken = not data.are_matrices and not data.is_multi_label
    return is_taken and n_content < data.inputs.shape[1]


def recipe_type(method: str) -> type[AnyRecipe]:
    """Return the type of the recipes of a method, one of METHOD_NAMES."""
    if method == CLASS_CODES:
        return ClassCodeRecipe
    return LinearRecipe if method in LINEAR_METHODS else Recipe


def train_by(
    data: TrainingData,
    recipe: AnyRecipe,
    out: Path,
    *,
    word_vectors: WordVectors | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Trained:
    """Train on `data` by the method of the `recipe` and write the encoder to `out`.

    With `progress`, trials and epochs are shown.

    Raises:
        ModuleNotFoundError: if the method learns a network and torch is not installed.
        TrainingDataError: if there are `word_vectors` and the method does not use them.
        TrainingDataError, ArtifactError, CheckpointError: as the run of the method.
    """
    check_word_vectors(recipe.method, given=word_vectors is not None)
    if isinstance(recipe, LinearRecipe):
        return train_linear(data, recipe, out, overwrite=overwrite)
    if isinstance(recipe, ClassCodeRecipe):
        show = print_trial if progress else _ignore
        return train_class_codes(
            data, recipe, out, word_vectors=word_vectors, overwrite=overwrite, progress=show
        )
    from training.semi_supervised import train  # noqa: PLC0415 - torch takes a second

    return train(data, recipe, out, overwrite=overwrite, progress=progress)


def check_word_vectors(method: str, *, given: bool) -> None:
    """Check that the method uses word vectors if they are `given`.

    Raises:
        TrainingDataError: if it does not.
    """
    if given and method != CLASS_CODES:
        problem = f"{method} does not use them; {CLASS_CODES} of texts with labels does"
        raise TrainingDataError(f"word_vectors: {problem}")


def print_trial(line: str) -> None:
    """Print the outcome of a trial where progress is printed."""
    print(line, file=sys.stderr, flush=True)


def _ignore(_line: str) -> None:
    pass
