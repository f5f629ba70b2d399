"""The methods of training by name: their recipes, their runs, and the default for a corpus.

This module needs no torch until a method that learns a network is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hummingbit.encoder.analyzers import VISIBLE, Analyzer
from hummingbit.encoder.recipes import (
    CLASS_CODES,
    CONTENT_SHARES,
    DISTILLATION,
    ICT,
    ITQ,
    MAX_KNOWN_TERMS,
    MODEL,
    RECIPES,
    STATIC,
    STATIC_BITS,
    WORDS_AND_CLASSES,
    AutoencoderRecipe,
    BaseRecipe,
    ClassCodeRecipe,
    ClozeRecipe,
    LinearRecipe,
    MetricRecipe,
    ModelRecipe,
)
from hummingbit.foundation.errors import install_command
from hummingbit.index.catalog import shipped_encoder
from hummingbit.index.languages import DEFAULT_LANGUAGE, check_language, find_language
from hummingbit.index.names import AUTO, NONE, SHIPPED_DISTRIBUTION
from hummingbit.installed_models import MODEL_VARIABLE, MODELS_FOLDER, NO_MODEL
from hummingbit.training.class_codes import train_class_codes
from hummingbit.training.data import TrainingData, TrainingDataError
from hummingbit.training.linear_codes import train_linear
from hummingbit.training.model_codes import train_model
from hummingbit.training.pipeline import Trained, split
from hummingbit.training.text_features import TermCounts, have_more_terms

_PACKAGES_OF_MODELS = ("onnxruntime", "tokenizers", "onnx")
# The texts that tell whether those of a corpus are short.
_TEXTS_MEASURED = 1000

AnyRecipe = TypeVar("AnyRecipe", bound=BaseRecipe)

METHOD_NAMES = tuple(name for name in RECIPES if name != DISTILLATION)
"""The methods that need nothing beside the documents, their labels and a language model."""
WITHOUT_ANALYZER = frozenset({MODEL, STATIC})
"""The methods whose encoder splits texts in a way of its own, but for words beside a model."""
WITHOUT_TORCH = (
    "torch is not installed; codes learned with it find more documents. Install it with:"
    f" {install_command('train')}"
)


def has_torch() -> bool:
    """Return whether torch is installed."""
    return find_spec("torch") is not None


def check_torch(recipe: object) -> None:
    """Check that torch is installed if training by `recipe` needs it.

    All recipes need it but those of itq, pca-sign and lsh, of model with another head than sne, and
    of class-codes whose content is not learned by ict.

    Raises:
        ModuleNotFoundError: if it is not.
    """
    if isinstance(recipe, LinearRecipe):
        is_needed = recipe.method == "sne"
    elif isinstance(recipe, ModelRecipe):
        is_needed = recipe.head == "sne"
    else:
        is_needed = not isinstance(recipe, ClassCodeRecipe) or recipe.content == ICT
    if is_needed and not has_torch():
        name = getattr(recipe, "method", "training")
        raise ModuleNotFoundError(f"{name} needs torch", name="torch")


class ChosenModel(NamedTuple):
    """A language model, STATIC or None, and a line that says which, and how to choose another."""

    model: str | None
    line: str


def choose_model(
    given: str | None,
    texts: Iterable[str] = (),
    *,
    has_labels: bool = False,
    n_bits: int | None = None,
) -> ChosenModel:
    """Return the language model that reads `texts`: the one `given`, or the one installed.

    If none is `given`, it is that of the variable :data:`MODEL_VARIABLE`. If that is not set
    either, it is the first folder by name in :data:`MODELS_FOLDER`, provided that the packages that
    read it are installed. Otherwise it is :data:`~hummingbit.encoder.recipes.STATIC`, the encoder
    that ships, adapted to the texts, if it is installed, torch is, the texts are not as short as
    titles, and codes have no more than its bits. :data:`NO_MODEL` stands for none.

    Unless it is `given`, texts with labels have none, because class codes of words find more texts
    of a label and by words as many. Neither have those in another language than English, unless
    the variable names a model, since most models know no other.
    """
    if given is not None:
        return ChosenModel(*((None, "none, by --model") if given == NO_MODEL else (given, given)))
    model, line = _installed_model(list(texts), n_bits)
    if model is None:
        return ChosenModel(None, line)
    if has_labels:
        hint = f"--model {model} reads texts by what it knows"
        return ChosenModel(None, f"none, as words and labels find more of a label; {hint}")
    return ChosenModel(model, f"{line}; --model {NO_MODEL}: words alone")


def _installed_model(texts: Sequence[str], n_bits: int | None) -> ChosenModel:
    """Return the model of the variable, or else the best that is installed and can read `texts`."""
    if named := os.environ.get(MODEL_VARIABLE):
        is_none = named == NO_MODEL
        return ChosenModel(None if is_none else named, f"{named}, by {MODEL_VARIABLE}")
    folder = min((path.parent for path in MODELS_FOLDER.glob("*/config.json")), default=None)
    line = "" if folder is None else f"{folder.name} in {MODELS_FOLDER}"
    if folder is not None and all(find_spec(package) for package in _PACKAGES_OF_MODELS):
        model = str(folder)
    else:
        hint = "is installed; --model FOLDER reads the texts with one"
        needs = f"{line} needs {install_command('model', 'train')}"
        if not _can_be_static(texts, n_bits):
            return ChosenModel(None, f"none: {needs}" if line else f"none {hint}")
        known = f"what {SHIPPED_DISTRIBUTION} knows, adapted to the texts"
        model, line = STATIC, f"{STATIC}, {known}, as {needs if line else f'no other {hint}'}"
    language, is_sure = find_language(texts)
    if is_sure and language != DEFAULT_LANGUAGE:
        hint = f"--model {'FOLDER' if model == STATIC else model} reads them nevertheless"
        return ChosenModel(None, f"none, as the texts are not English; {hint}")
    return ChosenModel(model, line)


def _can_be_static(texts: Sequence[str], n_bits: int | None) -> bool:
    """Return whether the encoder that ships can be adapted to `texts` here, to codes of `n_bits`.

    Short texts are told apart by their own words, which codes of ict have rows for.
    """
    fits = n_bits is None or n_bits <= STATIC_BITS
    if not fits or not has_torch() or shipped_encoder() is None:
        return False
    counts = TermCounts(MAX_KNOWN_TERMS)
    for text in texts[:: 1 + len(texts) // _TEXTS_MEASURED]:
        counts.add(text)
    return not counts.are_short


def default_method(data: TrainingData, n_bits: int, *, with_torch: bool = True) -> str:
    """Return the default method for codes of `n_bits`.

    If there are labels of two classes or more, it is class-codes if these
    :func:`can learn <class_codes_can_learn>` the documents, and ssb-vae otherwise. Without labels,
    it is ict for texts and sne for vectors, or lsh if there are fewer vectors, or they have fewer
    numbers, than a code has bits. Without torch, itq takes the places of ssb-vae, ict and sne.
    """
    if len(data.classes) > 1 and class_codes_can_learn(data, ClassCodeRecipe(n_bits=n_bits)):
        return CLASS_CODES
    if isinstance(data.inputs, np.ndarray) and min(data.inputs.shape) < n_bits:
        return "lsh" if len(data.classes) < 2 or not with_torch else "ssb-vae"
    if not with_torch:
        return "itq"
    if len(data.classes) > 1:
        return "ssb-vae"
    return "sne" if isinstance(data.inputs, np.ndarray) else "ict"


def in_language(recipe: AnyRecipe, data: TrainingData, language: str) -> tuple[AnyRecipe, str]:
    """Return a recipe that reads texts by the stems of a language, and what to say about it.

    With ``auto`` the language is found; texts in English, and few words, are read as written. There
    is nothing to say about vectors and about methods with words of their own.

    Raises:
        InputError: if the language has no stemmer.
    """
    reads_words = isinstance(recipe, ModelRecipe) and recipe.head == CLASS_CODES
    if not data.is_text or (recipe.method in WITHOUT_ANALYZER and not reads_words):
        return recipe, ""
    if language == AUTO:
        detected, is_sure = find_language(str(text) for text in data.inputs)
        stemmed = is_sure and detected not in (NONE, DEFAULT_LANGUAGE)
        name = detected if is_sure or detected == NONE else f"{detected}, by few words"
    else:
        stemmed, name = check_language(language) != NONE, language
        detected = language
    if not stemmed:
        return recipe, f"language: {name}; words are read as written"
    stemming = replace(recipe, analyzer=f"{VISIBLE.name}+{detected}")
    return stemming, f"language: {name}; words are read by their stems"


MIN_LABELLED = 20


def can_learn_labels(data: TrainingData) -> bool:
    """Return whether there are :data:`MIN_LABELLED` labels or more, not the same on all texts."""
    labelled = data.tags[data.tags.any(axis=1)]
    return int(labelled.sum()) >= MIN_LABELLED and len(np.unique(labelled, axis=0)) > 1


def class_codes_can_learn(data: TrainingData, recipe: ClassCodeRecipe) -> bool:
    """Return whether class codes can be trained on `data`.

    They take texts, and vectors of one label each. There must be more documents than bits, more
    words that occur in two texts (or numbers in a vector) than bits of content, and no more classes
    than codewords.
    """
    content_share = recipe.content_share or CONTENT_SHARES[-1]
    if recipe.n_bits >= len(data) or not recipe.can_hold(len(data.classes), content_share):
        return False
    n_content = recipe.widths(content_share)[2]
    if isinstance(data.inputs, np.ndarray):
        is_taken = not data.are_matrices and not data.is_multi_label
        return is_taken and n_content < data.inputs.shape[1]
    texts = data.take(split(data, recipe).training)
    return have_more_terms(texts, n_content, Analyzer.from_name(recipe.analyzer))


def model_recipe(
    model: str, model_name: str | None, n_bits: int | None = None
) -> ClozeRecipe | ModelRecipe:
    """Return the recipe of codes of what `model` knows, a language model or STATIC.

    A language model's head is ITQ if torch is not installed.
    """
    recipe: ClozeRecipe | ModelRecipe
    if model == STATIC:
        recipe = ClozeRecipe(method=STATIC)
    else:
        head = ModelRecipe().head if has_torch() else ITQ
        recipe = ModelRecipe(model=model, model_name=model_name or "", head=head)
    return recipe if n_bits is None else replace(recipe, n_bits=n_bits)


def recipe_for_search(
    data: TrainingData,
    n_bits: int,
    *,
    has_labels: bool,
    model: str | None = None,
    model_name: str | None = None,
) -> AutoencoderRecipe | ClozeRecipe | ClassCodeRecipe | LinearRecipe | ModelRecipe:
    """Return the recipe of codes that find texts by their words and, with labels, by their class.

    It is ssb-vae for labelled texts that class codes cannot learn. Without torch, it is class-codes
    or, without labels that these can learn, itq: both find fewer texts by their words. The codes
    are those of a language model if the folder of one is given, or the endpoint that has it. With
    :data:`~hummingbit.encoder.recipes.STATIC` they start at the encoder that ships.
    """
    if model is not None:
        return model_recipe(model, model_name, n_bits)
    if not has_torch():
        classes = ClassCodeRecipe(n_bits=n_bits)
        is_learned = has_labels and class_codes_can_learn(data, classes)
        return classes if is_learned else LinearRecipe(method="itq", n_bits=n_bits)
    if not has_labels:
        return ClozeRecipe(n_bits=n_bits)
    recipe = ClassCodeRecipe(n_bits=n_bits, **WORDS_AND_CLASSES)
    if class_codes_can_learn(data, recipe):
        return recipe
    return AutoencoderRecipe(n_bits=n_bits, content_share=0.5)


def train_by(
    data: TrainingData,
    recipe: BaseRecipe,
    out: Path,
    *,
    words: TermCounts | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **options: Any,
) -> Trained:
    """Train on `data` by the method of the `recipe`, and write the encoder to `out`.

    The method is one of :data:`METHOD_NAMES`. The codes of ict know the `words`, if given, beside
    those of `data`. A method that learns a network takes its `options`, such as the device.

    With `progress`, trials and epochs are shown.

    Raises:
        ModuleNotFoundError: if the method learns a network and torch is not installed.
        TrainingDataError, ArtifactError, CheckpointError, ModelError: as the run of the method.
    """
    check_torch(recipe)
    show = print_trial if progress else _ignore
    if isinstance(recipe, LinearRecipe):
        return train_linear(data, recipe, out, overwrite=overwrite)
    if isinstance(recipe, ModelRecipe):
        return train_model(data, recipe, out, overwrite=overwrite, progress=show)
    if isinstance(recipe, ClassCodeRecipe):
        return train_class_codes(data, recipe, out, overwrite=overwrite, progress=show)
    # torch takes a second.
    if isinstance(recipe, AutoencoderRecipe):
        from hummingbit.training.semi_supervised import train  # noqa: PLC0415

        return train(data, recipe, out, overwrite=overwrite, progress=progress, **options)
    if isinstance(recipe, MetricRecipe):
        from hummingbit.training.metric_learning import train_metric  # noqa: PLC0415

        return train_metric(data, recipe, out, overwrite=overwrite, progress=progress)
    if not isinstance(recipe, ClozeRecipe):
        raise TrainingDataError(f"method: {recipe.method} is trained by its own command")
    from hummingbit.training.cloze import train_cloze  # noqa: PLC0415

    options |= {"overwrite": overwrite, "progress": progress, "words": words}
    return train_cloze(data, recipe, out, **options)


def print_trial(line: str) -> None:
    """Print the outcome of a trial where progress is printed."""
    print(line, file=sys.stderr, flush=True)


def _ignore(_line: str) -> None:
    pass


@contextmanager
def resumable() -> Iterator[None]:
    """Say how to go on if a training that writes checkpoints is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        print("\nto resume from the last checkpoint, run the command again", file=sys.stderr)
        raise
