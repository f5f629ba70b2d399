from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import (
    RECIPES,
    AutoencoderRecipe,
    ClassCodeRecipe,
    ClozeRecipe,
    LinearRecipe,
)
from hummingbit.training.data import TrainingData, gather
from hummingbit.training_methods import METHOD_NAMES, default_method, in_language, train_by
from tests.support.corpora import topic_documents
from tests.support.recipes import train_in_few_batches


def texts(labels: list[tuple[str, ...]], n_words: int = 20) -> TrainingData:
    return gather(
        Document(id=str(row), text=f"text word{row % n_words}", labels=names)
        for row, names in enumerate(labels)
    )


def vectors(rows: int, width: int, *, labelled: bool) -> TrainingData:
    return gather(
        Document(
            id=str(row),
            vector=np.full(width, row, dtype=np.float32),
            labels=(str(row % 2),) if labelled else (),
        )
        for row in range(rows)
    )


def of_both_labels(data: TrainingData) -> TrainingData:
    return replace(data, tags=np.ones_like(data.tags))


@pytest.mark.parametrize(
    ("data", "n_bits", "method"),
    [
        (texts([("a",), ("b",), ()] * 20), 32, "class-codes"),
        (texts([("a",)] * 60), 32, "ict"),
        (texts([()] * 60), 32, "ict"),
        (texts([("a", "b"), ("b",)] * 30), 32, "class-codes"),
        # Six bits of eight are for the class: 64 codewords.
        (texts([(str(row % 64),) for row in range(130)]), 8, "class-codes"),
        (texts([(str(row % 65),) for row in range(130)]), 8, "ssb-vae"),
        # As many words, four, as bits of content.
        (texts([("a",), ("b",)] * 30, n_words=3), 32, "ssb-vae"),
        (texts([("a",), ("b",)] * 30, n_words=4), 32, "class-codes"),
        # More bits than texts.
        (texts([("a",), ("b",)] * 16), 32, "ssb-vae"),
        (vectors(40, 20, labelled=True), 16, "class-codes"),
        # More bits than vectors; and as many bits of content, two, as the vectors have numbers.
        (vectors(40, 20, labelled=True), 40, "ssb-vae"),
        (vectors(40, 2, labelled=True), 16, "ssb-vae"),
        (replace(vectors(40, 21, labelled=True), are_matrices=True), 16, "ssb-vae"),
        (of_both_labels(vectors(40, 20, labelled=True)), 16, "ssb-vae"),
        (vectors(40, 20, labelled=False), 16, "sne"),
        (vectors(40, 20, labelled=False), 24, "lsh"),
        (vectors(10, 20, labelled=False), 16, "lsh"),
    ],
)
def test_documents_labels_and_bits_decide_the_method(
    data: TrainingData, n_bits: int, method: str
) -> None:
    assert default_method(data, n_bits) == method
    assert method in METHOD_NAMES


@pytest.mark.parametrize("method", ["class-codes", "itq", "ict", "metric"])
def test_the_recipe_says_what_is_run(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_in_few_batches(monkeypatch)
    data = gather(topic_documents(120))
    train_by(data, RECIPES[method](method=method, n_bits=8), tmp_path / "e", progress=False)
    about = load_encoder(tmp_path / "e").metadata
    assert about["method"] == method
    assert about["recipe"]["n_bits"] == 8


def test_every_method_has_its_recipes() -> None:
    kinds = {method: RECIPES[method] for method in METHOD_NAMES}
    assert (kinds["ssb-vae"], kinds["ict"]) == (AutoencoderRecipe, ClozeRecipe)
    assert kinds["class-codes"] is ClassCodeRecipe
    assert kinds["lsh"] is LinearRecipe


def test_the_language_of_texts_is_found_unless_they_are_english() -> None:
    german = "Die Katze und der Hund schlafen nicht in dem Haus, das am Wald steht."
    english = "The cat and the dog do not sleep in the house that is at the wood."
    recipe = LinearRecipe(method="itq")
    for text, found in ((german, "german"), (english, None)):
        data = gather([Document(id=str(i), text=f"{text} {i}") for i in range(200)])
        stems = {None: "visible", "german": "visible+german"}
        assert in_language(recipe, data, "auto")[0].analyzer == stems[found]
        assert in_language(recipe, data, "none")[0] == recipe
        stemming, said = in_language(recipe, data, "german")
        assert stemming.analyzer == "visible+german"
        assert "german" in said
