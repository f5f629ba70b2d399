"""``train static``: starts at the encoder that ships, and adapts it to a corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import ClozeRecipe, RecipeError
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.index.catalog import shipped_encoder
from hummingbit.training import cloze, static
from hummingbit.training.data import TrainingData, TrainingDataError, gather
from hummingbit.training.static import static_start
from hummingbit.training_methods import train_by

SUBJECTS = ["physician", "aeroplane", "violin", "garden", "lawsuit", "ocean", "bread", "computer"]
SAYINGS = [
    "the {} of our town was seen by all",
    "nobody knew the {} as xqzzle",
    "a {}, and then rain",
]
TEXTS = [saying.format(subject) for subject in SUBJECTS for saying in SAYINGS]
RECIPE = ClozeRecipe(method="static", n_bits=16, validation_share=0.0)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return gather([Document(str(i), text) for i, text in enumerate(TEXTS)])


def test_the_shipped_encoder_puts_words_of_one_meaning_together() -> None:
    folder = shipped_encoder()
    assert folder is not None
    encoder = load_encoder(folder)
    words = ["physician", "doctor", "aeroplane", "aircraft", "violin", "fiddle"]
    logits = encoder.query_weights(words)
    logits /= np.linalg.norm(logits, axis=1, keepdims=True)
    similar = logits @ logits.T - 2 * np.eye(len(words))
    assert similar.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_the_start_has_the_logits_of_the_shipped_encoder() -> None:
    folder = shipped_encoder()
    assert folder is not None
    shipped = load_encoder(folder)
    start = static_start(TEXTS, RECIPE)
    assert "xqzzle" in start.features.vocabulary
    ours = start.features.transform(TEXTS) @ start.vectors_VE
    assert isinstance(shipped.features, TextFeatures)
    theirs = shipped.features.transform(TEXTS) @ shipped.layers[0].weight
    cosines = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1)
    np.testing.assert_allclose(cosines / np.linalg.norm(theirs, axis=1), 1, atol=1e-4)


def test_a_trained_encoder_reads_words_that_no_document_has(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloze, "MIN_STEPS", 100)
    # Sixteen bits of 24 texts: words of no document find theirs more often than by chance, 1 in 8.
    found = []
    for seed in range(2):
        recipe = replace(RECIPE, seed=seed)
        encoder = train_by(data, recipe, tmp_path / f"{seed}", progress=False).encoder
        assert encoder.metadata["method"] == "static"
        codes = np.unpackbits(encoder.encode(TEXTS), axis=1).astype(float) * 2 - 1
        scores = encoder.query_weights(["doctor", "aircraft", "fiddle"]) @ codes.T
        found += [*(scores[:, ::3].argmax(axis=1) == np.arange(3))]
    assert np.mean(found) > 0.5


def test_without_the_shipped_encoder_one_sentence_says_what_to_install(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static, "shipped_encoder", lambda: None)
    with pytest.raises(TrainingDataError, match=r"install it: pip install .*/models"):
        train_by(data, RECIPE, tmp_path / "out", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_of_fewer_texts_than_bits_the_codes_are_those_that_ship() -> None:
    folder = shipped_encoder()
    assert folder is not None
    start = static_start(TEXTS, RECIPE)
    rows = start.features.transform(TEXTS)
    weight, thresholds = start.codes(rows, 64, 0)
    ours = np.asarray(rows @ weight)
    shipped = load_encoder(folder)
    assert isinstance(shipped.features, TextFeatures)
    theirs = shipped.features.transform(TEXTS) @ shipped.layers[0].weight
    cosines = (ours * theirs[:, :64]).sum(axis=1) / np.linalg.norm(ours, axis=1)
    np.testing.assert_allclose(cosines / np.linalg.norm(theirs[:, :64], axis=1), 1, atol=1e-4)
    assert not thresholds.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"analyzer": "visible+english"}, "analyzer is 'visible.english'; static reads texts by"),
        ({"n_bits": 512}, "n_bits is 512; static has at most 256"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        static_start(TEXTS, ClozeRecipe(method="static", **settings))  # type: ignore[arg-type]
