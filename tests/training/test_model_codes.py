from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.recipes import ModelRecipe, RecipeError
from hummingbit.encoder.text_model import ModelError, TextModel
from hummingbit.training import networks
from hummingbit.training.data import TrainingData, TrainingDataError, tags_of
from hummingbit.training.linear_codes import MadeQueries
from hummingbit.training.model_codes import MOST_LOST, WIDTHS, fit_head, train_model
from hummingbit.training.model_folders import read_model
from tests.support.encoders import WORDS
from tests.support.models import SIZE, tiny_model, write_model


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn neighbours with at most a hundred steps: what is tested here shows after these."""
    monkeypatch.setattr(networks, "LEAST_STEPS", 20)
    monkeypatch.setattr(networks, "MOST_STEPS", 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder)
    return folder


def corpus(count: int = 300, *, labelled: bool = False, n_words: int = 12) -> TrainingData:
    rng = np.random.default_rng(0)
    texts: list[str] = []
    labels: list[tuple[str, ...]] = []
    for _ in range(count):
        half = int(rng.integers(2))
        words = rng.choice(WORDS[10 * half : 10 * half + 10], n_words).tolist()
        texts.append(f"{' '.join(words[:4])}. {' '.join(words[4:])}.")
        labels.append((("food", "algebra")[half],) if labelled else ())
    ids = tuple(f"d{number}" for number in range(count))
    return TrainingData(ids, texts, *tags_of(labels))


def test_the_first_bits_of_a_long_code_are_the_short_code() -> None:
    rng, dimension = np.random.default_rng(0), 150
    factors = rng.normal(size=(dimension, dimension)) * np.linspace(2, 0.1, dimension)
    vectors = (rng.normal(size=(400, dimension)) @ factors + 3).astype(np.float32)
    widths = (64, 96, 148)
    layers = {n_bits: fit_head(vectors, n_bits, 0, "itq") for n_bits in widths}
    longest, thresholds = layers[148]
    for n_bits, (layer, some_thresholds) in layers.items():
        np.testing.assert_array_equal(layer.weight, longest.weight[:, :n_bits])
        np.testing.assert_array_equal(some_thresholds, thresholds[:n_bits])
    balance = (vectors @ longest.weight > thresholds).mean(axis=0)
    assert np.abs(balance - 0.5).max() < 0.15
    assert WIDTHS[0] == 64


def test_so_are_those_that_keep_the_nearest_neighbours() -> None:
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(20, 80)) * 2
    vectors = (topics[rng.integers(20, size=80)] + rng.normal(size=(80, 80))).astype(np.float32)
    (short, short_thresholds), (long, thresholds) = (fit_head(vectors, n, 0) for n in (64, 72))
    np.testing.assert_array_equal(short.weight, long.weight[:, :64])
    np.testing.assert_array_equal(short_thresholds, thresholds[:64])
    assert not np.array_equal(short.weight, fit_head(vectors, 64, 0, "itq")[0].weight)


def test_an_encoder_contains_model_head_and_weight(folder: Path, tmp_path: Path) -> None:
    data = corpus(100, labelled=True)
    recipe = ModelRecipe(model=str(folder), n_bits=16, seed=3, precision="float32")
    trained = train_model(data, recipe, tmp_path / "out", vectors_file=tmp_path / "v.npz")
    encoder = load_encoder(tmp_path / "out")
    assert encoder.fingerprint == trained.encoder.fingerprint
    assert isinstance(encoder.features, TextModel)
    assert encoder.hybrid_weight is None
    # Any model tells texts apart that have no word in common.
    assert trained.validation["expected"]["mAP@100"] > 0.6
    assert trained.classifier is not None
    recorded = encoder.metadata["model"]
    assert recorded == {"name": "tiny", "sha256": read_model(folder).sha256}
    assert str(folder.parent) not in json.dumps(dict(encoder.metadata))
    saved = np.load(tmp_path / "v.npz")
    assert saved["ids"].tolist() == list(data.ids)
    np.testing.assert_array_equal(
        saved["vectors"], encoder.features.transform(list(map(str, data.inputs)))
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "v.npz"]
    again = train_model(data, recipe, tmp_path / "again")
    assert again.encoder.fingerprint == encoder.fingerprint


def test_a_model_in_8_bits_is_smaller_and_reads_a_text_alone_as_beside_others(
    folder: Path, tmp_path: Path
) -> None:
    data = corpus(100)
    recipe = ModelRecipe(model=str(folder), n_bits=16, head="itq", precision="int8")
    trained = train_model(data, recipe, tmp_path / "out")
    encoder = load_encoder(tmp_path / "out")
    features = encoder.features
    assert isinstance(features, TextModel)
    assert features.precision == encoder.metadata["model"]["precision"] == "int8"
    assert len(features.model) < len(read_model(folder).features.model)
    assert trained.notes[0].startswith("the model has 8 bits: ")
    texts = [*map(str, data.inputs)]
    np.testing.assert_array_equal(encoder.encode(texts[7:9]), encoder.encode(texts)[7:9])
    weights = encoder.query_weights(texts)
    np.testing.assert_array_equal(encoder.query_weights(texts[7:8]), weights[7:8])
    cosines = (features.transform(texts) * read_model(folder).features.transform(texts)).sum(axis=1)
    assert cosines.mean() > 0.95
    again = train_model(data, recipe, tmp_path / "again")
    assert again.encoder.fingerprint == encoder.fingerprint


def test_8_bits_are_taken_where_made_queries_lose_little(folder: Path, tmp_path: Path) -> None:
    data = corpus(300)
    recipe = ModelRecipe(model=str(folder), n_bits=32, head="itq")
    trained = train_model(data, recipe, tmp_path / "out")
    recorded = trained.encoder.metadata["model"]["ndcg_at_10"]
    features = trained.encoder.features
    assert isinstance(features, TextModel)
    assert recorded["queries"] == 4 * 250
    assert 0.1 < recorded["float32"] <= 1
    lost = recorded["float32"] - recorded["int8"]
    assert (features.precision == "int8") == (lost < MOST_LOST)
    assert f"{recorded['int8']:.3f} with 8 bits" in trained.notes[0]
    exact = train_model(data, replace(recipe, precision="float32"), tmp_path / "exact")
    assert exact.notes == ()


def test_bits_are_chosen_for_each_text_alone(folder: Path, tmp_path: Path) -> None:
    data = corpus(100)
    recipe = ModelRecipe(model=str(folder), n_bits=32, head="reconstruction")
    trained = train_model(data, recipe, tmp_path / "out")
    encoder = load_encoder(tmp_path / "out")
    assert encoder.hybrid_weight is None
    given = train_model(data, replace(recipe, hybrid_weight=1.5), tmp_path / "given")
    assert given.encoder.hybrid_weight == 1.5
    texts = [*map(str, data.inputs)]
    codes = encoder.encode(texts)
    assert isinstance(encoder.features, TextModel)
    np.testing.assert_array_equal(
        encoder.encode_features(encoder.features.transform(texts), texts), codes
    )
    np.testing.assert_array_equal(encoder.encode(texts[7:8]), codes[7:8])
    weights = encoder.query_weights(texts)
    np.testing.assert_array_equal(encoder.query_weights(texts[7:8]), weights[7:8])
    again = train_model(data, recipe, tmp_path / "again")
    assert again.encoder.fingerprint == trained.encoder.fingerprint


def test_a_head_of_class_codes_learns_from_labels(folder: Path, tmp_path: Path) -> None:
    data = corpus(120, labelled=True)
    recipe = ModelRecipe(model=str(folder), n_bits=16, head="class-codes", label_fraction=0.2)
    trained = train_model(data, recipe, tmp_path / "out")
    assert len(trained.labelled_ids) < 30
    assert trained.validation["expected"]["mAP@100"] > 0.6
    encoder = load_encoder(tmp_path / "out")
    assert encoder.class_code is not None
    texts = [*map(str, data.inputs)]
    codes, weights = encoder.encode(texts), encoder.query_weights(texts)
    assert isinstance(encoder.features, TextModel)
    # Vectors give the same codes as their texts, and a text the same alone as beside others.
    np.testing.assert_array_equal(
        encoder.encode_features(encoder.features.transform(texts), texts), codes
    )
    np.testing.assert_array_equal(encoder.encode(texts[7:8]), codes[7:8])
    np.testing.assert_array_equal(encoder.query_weights(texts[7:8]), weights[7:8])
    again = train_model(data, recipe, tmp_path / "again")
    assert again.encoder.fingerprint == encoder.fingerprint


def told_by_their_ends(count: int = 160) -> TrainingData:
    """Texts whose class only words say that the model does not read: it reads 24 tokens."""
    rng = np.random.default_rng(1)
    texts, labels = [], []
    for _ in range(count):
        half = int(rng.integers(2))
        ending = rng.choice(WORDS[10 * half + 5 : 10 * half + 10], 8).tolist()
        texts.append(" ".join([*rng.choice(WORDS[:5] + WORDS[10:15], 24).tolist(), *ending]))
        labels.append((("food", "algebra")[half],))
    return TrainingData(tuple(f"d{row}" for row in range(count)), texts, *tags_of(labels))


def test_words_tell_classes_that_the_model_does_not(folder: Path, tmp_path: Path) -> None:
    data = told_by_their_ends()
    recipe = ModelRecipe(
        model=str(folder), n_bits=16, head="class-codes", label_fraction=0.5, validation_share=0.2
    )
    lines: list[str] = []
    trained = train_model(data, recipe, tmp_path / "out", progress=lines.append)
    encoder = load_encoder(tmp_path / "out")
    assert encoder.words is not None
    chosen = encoder.metadata["chosen"]["word_share"]
    assert chosen > 0
    assert f"word share {chosen:g}" in lines[-1]
    assert f"in telling classes: {chosen:g}" in trained.notes[-1]
    vectors = train_model(data, replace(recipe, word_share=0), tmp_path / "vectors").encoder
    assert vectors.words is None
    assert vectors.metadata["recipe"]["word_share"] == 0
    found, by_vectors = (
        item.metadata["validation"]["expected"]["mAP@100"] for item in (encoder, vectors)
    )
    assert found > 0.9
    assert by_vectors < 0.7
    # Training measured the codes that texts have, by vectors that it had read.
    held_out = encoder.metadata["validation"]
    assert {"bm25", "vectors", "soft_class_scores", "classifier_baseline"} <= held_out.keys()
    texts = [*map(str, data.inputs)]
    assert isinstance(encoder.features, TextModel)
    read = encoder.features.transform(texts)
    np.testing.assert_array_equal(encoder.encode_features(read, texts), encoder.encode(texts))


def test_a_share_of_words_that_is_given_is_not_searched_for(folder: Path, tmp_path: Path) -> None:
    data = told_by_their_ends(120)
    recipe = ModelRecipe(model=str(folder), n_bits=16, head="class-codes", word_share=0.35)
    encoder = train_model(data, recipe, tmp_path / "out").encoder
    assert encoder.metadata["chosen"]["word_share"] == 0.35
    tried = {trial["word_share"] for trial in encoder.metadata["chosen"]["trials"]}
    assert tried == {0.35}
    for value in (1.5, -2):
        with pytest.raises(RecipeError, match="word_share"):
            replace(recipe, word_share=value)


def test_texts_without_a_repeated_word_have_vectors_alone(folder: Path, tmp_path: Path) -> None:
    data = corpus(80, labelled=True)
    texts = [f"{text[0]}{row}{text[-2]}" for row, text in enumerate(map(str, data.inputs))]
    data = TrainingData(data.ids, texts, data.classes, data.tags)
    recipe = ModelRecipe(model=str(folder), n_bits=16, head="class-codes")
    encoder = train_model(data, recipe, tmp_path / "out").encoder
    assert encoder.words is None
    assert "word_share" not in encoder.metadata["chosen"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([()] * 100, "label: the documents have 0 distinct labels"),
        ([("a",), ("b",), ("a", "b")] * 40, "label: documents have several labels"),
    ],
)
def test_class_codes_need_one_label_a_document(
    folder: Path, tmp_path: Path, labels: list[tuple[str, ...]], expected: str
) -> None:
    data = corpus(len(labels))
    data = TrainingData(data.ids, data.inputs, *tags_of(labels))
    recipe = ModelRecipe(model=str(folder), n_bits=16, head="class-codes")
    with pytest.raises(TrainingDataError, match=expected):
        train_model(data, recipe, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_the_share_of_longer_texts_is_told(folder: Path, tmp_path: Path) -> None:
    data = corpus(40)
    inputs = [*data.inputs[:30], *(" ".join([text] * 5) for text in data.inputs[30:])]
    data = TrainingData(data.ids, inputs, data.classes, data.tags)
    recipe = ModelRecipe(model=str(folder), n_bits=16, hybrid_weight=1.5, head="itq")
    trained = train_model(data, recipe, tmp_path / "out")
    assert trained.encoder.hybrid_weight == 1.5
    (warning,) = trained.warnings
    assert "10 of the 40 texts (25%) are longer than the 24 tokens that the model reads" in warning


class Interrupted(TextModel):
    """A model that is interrupted after three batches of documents."""

    calls = 0

    def vectors(self, *args: object, **options: object) -> object:  # type: ignore[override]
        Interrupted.calls += 1
        if Interrupted.calls == 3:
            raise KeyboardInterrupt
        return super().vectors(*args, **options)  # type: ignore[arg-type]


def test_a_run_that_was_interrupted_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = corpus(560)
    recipe = ModelRecipe(model=str(folder), n_bits=16, hybrid_weight=1.0, head="itq")
    with monkeypatch.context() as patch:
        patch.setattr("hummingbit.training.model_folders.TextModel", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_model(data, recipe, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    saved = tmp_path / "out.vectors"
    contents = saved.read_bytes()
    header = contents.index(b"\n") + 1
    assert len(contents) == header + 512 * SIZE * 4
    # What follows a whole batch is what a crash may have left; and the rows are not read again.
    read: list[int] = []

    def count(self: TextModel, ids: list[list[int]], n_threads: int | None = None) -> object:
        read.append(len(ids))
        return original(self, ids, n_threads)

    original = TextModel.vectors
    saved.write_bytes(contents + b"torn")
    with monkeypatch.context() as patch:
        patch.setattr(TextModel, "vectors", count)
        resumed = train_model(data, recipe, tmp_path / "out")
    assert read[0] == 560 - 512
    assert not saved.exists()
    whole = train_model(data, recipe, tmp_path / "whole")
    assert whole.encoder.fingerprint == resumed.encoder.fingerprint


def test_vectors_of_another_run_are_not_taken(folder: Path, tmp_path: Path) -> None:
    data = corpus(60)
    recipe = ModelRecipe(model=str(folder), n_bits=16, hybrid_weight=1.0, head="itq")
    expected = train_model(data, recipe, tmp_path / "expected").encoder.fingerprint
    (tmp_path / "out.vectors").write_bytes(b'{"model": "other"}\n' + bytes(60 * SIZE * 4))
    assert train_model(data, recipe, tmp_path / "out").encoder.fingerprint == expected


def test_what_cannot_be_trained_on_gets_a_clear_error_and_writes_nothing(
    folder: Path, tmp_path: Path
) -> None:
    texts, vectors = corpus(30), corpus(30)
    vectors = TrainingData(vectors.ids, np.eye(30, 8, dtype=np.float32), (), vectors.tags)
    out = tmp_path / "out"
    recipe = ModelRecipe(model=str(folder), n_bits=16)
    with pytest.raises(TrainingDataError, match="reads texts, and the documents are vectors"):
        train_model(vectors, recipe, out)
    with pytest.raises(TrainingDataError, match="n_bits is 32, more than 30 documents can fill"):
        train_model(texts, ModelRecipe(model=str(folder), n_bits=32), out)
    with pytest.raises(TrainingDataError, match="n_bits is 64; the model's vectors have 32"):
        train_model(corpus(80), ModelRecipe(model=str(folder), n_bits=64), out)
    with pytest.raises(ModelError, match="there is no such folder"):
        train_model(texts, ModelRecipe(model=str(tmp_path / "absent"), n_bits=16), out)
    assert not list(tmp_path.iterdir())
    with pytest.raises(RecipeError, match="model is empty"):
        train_model(texts, ModelRecipe(n_bits=16), out)
    assert not list(tmp_path.iterdir())
    bad: dict[str, Any] = {"max_tokens": 1, "hybrid_weight": -1.0, "dimension": -1}
    for name, value in bad.items():
        with pytest.raises(RecipeError, match=name):
            ModelRecipe(model="m", **{name: value})


def test_tiny_models_are_deterministic(tmp_path: Path) -> None:
    first, second = tiny_model(tmp_path / "a"), tiny_model(tmp_path / "b")
    assert first.model == second.model


def test_made_queries_teach_the_head_to_find_their_documents() -> None:
    """Queries tell nothing of the directions in which documents differ most."""
    rng = np.random.default_rng(0)
    said, unsaid = rng.normal(size=(300, 12)), rng.normal(size=(300, 20)) * 1.5
    vectors = np.hstack([said, unsaid]).astype(np.float32)
    asked = np.hstack([said, np.zeros((300, 20))]).astype(np.float32)
    vectors, asked = (
        given / np.linalg.norm(given, axis=1, keepdims=True) for given in (vectors, asked)
    )
    rows, others = np.arange(150), np.arange(150, 300)

    def mean_reciprocal_rank(queries: MadeQueries | None) -> float:
        layer, thresholds = fit_head(vectors, 16, 0, queries=queries)
        bits = np.where(layer(vectors) > thresholds, 1.0, -1.0)
        scores = (layer(asked[others]) - thresholds) @ bits.T
        own = scores[np.arange(150), others]
        return float((1 / (scores >= own[:, None]).sum(axis=1)).mean())

    without = mean_reciprocal_rank(None)
    assert mean_reciprocal_rank(MadeQueries(rows, asked[rows])) > 1.3 * without
