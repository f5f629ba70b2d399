from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import ArtifactError, load_encoder, read_labelled_ids
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.training.batches import SparseBatch, touches_few_terms, vector_scale
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.networks import (
    BernoulliAutoencoder,
    autoencoder_to_encoder,
    to_encoder,
)
from hummingbit.training.objectives.autoencoder import AutoencoderSettings
from hummingbit.training.semi_supervised import (
    Design,
    as_in_the_paper,
    build_model,
    hidden_dropout,
    paper_settings,
    train,
)
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.encoders import random_texts, text_encoder

RECIPE = AutoencoderRecipe(
    n_bits=16, label_fraction=0.5, epochs=15, batch_size=32, hidden=24, max_terms=100
)
# What is the same after any number of epochs.
SHORT = replace(RECIPE, epochs=2)
OURS = Design(AutoencoderSettings())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("encoders") / "topics"
    train(gather(topic_documents(400)), RECIPE, out, progress=False)
    return out


def p_at_10(encoder_folder: Path, database: list[Document], queries: list[Document]) -> float:
    encoder = load_encoder(encoder_folder)

    def codes(documents: list[Document]) -> np.ndarray:
        if encoder.kind == "text":
            return encoder.encode([d.text or "" for d in documents])
        return encoder.encode(np.stack([d.vector for d in documents if d.vector is not None]))

    found = evaluate_codes(
        codes(queries),
        [d.labels for d in queries],
        codes(database),
        [d.labels for d in database],
        ["P@10"],
    )
    return found.metrics["P@10"]


def test_text_codes_find_documents_of_the_same_topic(trained: Path) -> None:
    assert p_at_10(trained, topic_documents(400), topic_documents(100, seed=1)) > 0.9


def test_vector_codes_find_documents_of_the_same_topic(tmp_path: Path) -> None:
    train(gather(topic_vectors(400)), RECIPE, tmp_path / "v", progress=False)
    assert p_at_10(tmp_path / "v", topic_vectors(400), topic_vectors(100, seed=1)) > 0.9


def test_the_artifact_says_how_it_was_made(trained: Path) -> None:
    encoder = load_encoder(trained)
    assert encoder.n_bits == 16
    assert encoder.metadata["recipe"]["label_fraction"] == 0.5
    about = encoder.metadata["trained_on"]
    assert (about["documents"], about["labelled"]) == (400, 180)
    assert about["classes"] == ["algebra", "food", "sea"]
    assert encoder.metadata["validation"]["queries"] == 40
    assert 0 < encoder.metadata["validation"]["classifier_baseline"]["metrics"]["P@100"] <= 1
    assert len(read_labelled_ids(trained, encoder)) == 180
    epochs = json.loads((trained / "metrics.json").read_text())["epochs"]
    assert len(epochs) == RECIPE.epochs
    assert epochs[-1]["pointwise_loss"] < epochs[0]["pointwise_loss"]
    assert not trained.with_name("topics.checkpoint").exists()


def test_an_interrupted_run_ends_bit_for_bit_in_the_artifact_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(gather(topic_documents(400)), SHORT, tmp_path / "whole", progress=False)
    monkeypatch.setattr("hummingbit.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("hummingbit.training.pipeline.validate", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(gather(topic_documents(400)), SHORT, tmp_path / "again", progress=False)
    assert (tmp_path / "again.checkpoint").exists()
    assert not (tmp_path / "again").exists()
    monkeypatch.undo()
    resumed = train(gather(topic_documents(400)), SHORT, tmp_path / "again", progress=False)
    assert resumed.encoder.fingerprint == whole.encoder.fingerprint
    assert not (tmp_path / "again.checkpoint").exists()


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_existing_encoder_is_kept_unless_overwritten(trained: Path) -> None:
    with pytest.raises(ArtifactError, match="already exists"):
        train(gather(topic_documents(400)), RECIPE, trained, progress=False)


def test_what_is_no_encoder_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    with pytest.raises(ArtifactError, match="not an encoder"):
        train(gather(topic_documents(400)), RECIPE, tmp_path / "thesis", overwrite=True)
    assert not (tmp_path / "thesis.checkpoint").exists()
    assert not any((tmp_path / "thesis").iterdir())


@pytest.mark.parametrize("batch_norm", [True, False])
def test_the_exported_forward_pass_equals_the_networks(batch_norm: bool) -> None:
    features = text_encoder().features
    design = Design(AutoencoderSettings(batch_norm=batch_norm))
    model = build_model(replace(RECIPE, n_bits=8), design, features, classes=2)
    x = SparseBatch.of_rows(features.transform(random_texts(50)), np.arange(50))  # type: ignore[arg-type]
    for _ in range(20):  # so that the running statistics are something
        model.encoder(x)
    model.eval()
    with torch.no_grad():
        expected = model.encoder(x)[1].numpy()
    found = to_encoder(model.encoder, features).logits(random_texts(50))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_scale_of_vectors_is_folded_into_the_export() -> None:
    vectors = 0.01 * np.array(gather(topic_vectors(50)).inputs, dtype=np.float32)
    features = VectorFeatures(dimension=8)
    scale = vector_scale(features, vectors)
    assert np.square(scale * vectors).mean() == pytest.approx(1)
    assert vector_scale(features, np.zeros((3, 8), np.float32)) == 1
    model = build_model(RECIPE, OURS, features, 3, vector_scale=scale).eval()
    with torch.no_grad():
        expected = model.encoder(torch.from_numpy(vectors))[1].numpy()
    found = to_encoder(model.encoder, features).logits(vectors)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_hidden_units_drop_out_by_the_share_of_labels() -> None:
    tags = np.eye(3, dtype=np.bool_)[np.arange(10) % 3]
    tags[4:] = False
    text, settings = text_encoder().features, AutoencoderSettings(hidden_dropout=0.5)
    assert hidden_dropout(settings, text, tags) == pytest.approx(0.2)
    assert hidden_dropout(paper_settings(0.1, 32), text, tags) == 0
    assert hidden_dropout(settings, VectorFeatures(4), tags) == 0


@pytest.mark.parametrize(("batch_size", "few"), [(10, True), (11, False)])
def test_a_batch_touches_few_terms_where_it_has_half_as_many_words(
    batch_size: int, few: bool
) -> None:
    features = TextFeatures([f"term{i}" for i in range(40)])
    assert touches_few_terms(features, ["term1 term2 term2 other"] * 5, batch_size) is few
    assert not touches_few_terms(VectorFeatures(dimension=3), np.zeros((5, 3), np.float32), 1)


def test_the_unit_in_which_vectors_are_measured_changes_nothing(tmp_path: Path) -> None:
    documents = topic_vectors(200)
    # A power of two, so that every product is rounded as before.
    larger = [
        replace(document, vector=np.float32(64) * np.asarray(document.vector))
        for document in documents
    ]
    recipe = replace(RECIPE, epochs=5, label_fraction=0.2)
    trained = train(gather(documents), recipe, tmp_path / "e", progress=False).encoder
    again = train(gather(larger), recipe, tmp_path / "again", progress=False).encoder
    codes = trained.encode(gather(documents).inputs)
    assert np.array_equal(codes, again.encode(gather(larger).inputs))
    assert len(np.unique(codes, axis=0)) > 2


def test_where_nothing_is_held_out_every_label_is_shown(tmp_path: Path) -> None:
    recipe = replace(RECIPE, validation_share=0.0, label_fraction=1.0, epochs=2)
    trained = train(gather(topic_documents(60)), recipe, tmp_path / "e", progress=False)
    assert len(trained.labelled_ids) == 60
    assert trained.validation == {}


@pytest.mark.parametrize("paper", [False, True])
def test_documents_of_several_classes(tmp_path: Path, paper: bool) -> None:
    def doubled(documents: list[Document], seed: int) -> list[Document]:
        partners = np.random.default_rng(seed).permutation(np.array(documents, dtype=object))
        return [
            replace(a, text=f"{a.text} {b.text}", labels=tuple({*a.labels, *b.labels}))
            for a, b in zip(documents, partners, strict=True)
        ]

    database, queries = doubled(topic_documents(400), 0), doubled(topic_documents(100, seed=1), 1)
    recipe = replace(RECIPE, paper=paper)
    train(gather(database), recipe, tmp_path / "e", progress=False)
    # Two documents of two of three topics share one more often than not.
    chance = np.mean([bool({*a.labels} & {*b.labels}) for a in database for b in queries])
    assert p_at_10(tmp_path / "e", database, queries) > (1 + chance) / 2


def test_the_papers_settings_train(tmp_path: Path) -> None:
    recipe = replace(RECIPE, paper=True)
    trained = train(gather(topic_documents(400)), recipe, tmp_path / "e", progress=False)
    recorded = trained.encoder.metadata["recipe"]
    assert (recorded["paper"], recorded["epochs"], recorded["batch_size"]) == (True, 30, 100)
    assert trained.validation["expected"]["P@100"] > 0.5


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([Document(id=str(i), text="same words") for i in range(20)], "0 distinct labels"),
        ([Document(id="1", text="a b", labels=("x",))], "1 distinct label;"),
        (
            [Document(id=str(i), text="same words", labels=(str(i % 2),)) for i in range(4)],
            "more labelled documents are needed",
        ),
    ],
)
def test_corpora_without_enough_labels_are_refused(
    documents: list[Document], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TrainingDataError, match=message):
        train(gather(documents), RECIPE, tmp_path / "e", progress=False)
    assert not (tmp_path / "e").exists()


def test_content_bits_stand_after_those_of_classes_in_the_export() -> None:
    features = text_encoder().features
    recipe = replace(RECIPE, n_bits=16, content_share=0.5)
    model = build_model(recipe, OURS, features, classes=2).eval()
    assert isinstance(model, BernoulliAutoencoder)
    assert model.content is not None
    with torch.no_grad():
        x = SparseBatch.of_rows(features.transform(random_texts(50)), np.arange(50))  # type: ignore[arg-type]
        classes, content = model.encoder(x)[1].numpy(), model.content(x)[1].numpy()
    encoder = autoencoder_to_encoder(model, features, random_texts(50))
    assert encoder.n_bits == 16
    found = encoder.logits(random_texts(50))
    np.testing.assert_allclose(found[:, 8:], content, atol=1e-5)
    scaled = classes * np.abs(content).mean() / np.abs(classes).mean()
    np.testing.assert_allclose(found[:, :8], scaled, atol=1e-5)


def test_a_code_tells_the_class_and_finds_the_text(tmp_path: Path) -> None:
    recipe = replace(RECIPE, n_bits=32, content_share=0.5, epochs=20)
    encoder = train(gather(topic_documents(200)), recipe, tmp_path / "e", progress=False).encoder
    assert encoder.n_bits == 32
    assert p_at_10(tmp_path / "e", topic_documents(200), topic_documents(100, seed=1)) > 0.9
    epochs = json.loads((tmp_path / "e" / "metrics.json").read_text())["epochs"]
    assert epochs[-1]["cloze_loss"] < epochs[0]["cloze_loss"]


def test_a_code_has_content_bits_where_classes_are_told_besides() -> None:
    assert AutoencoderRecipe(n_bits=32).content_bits == 0
    recipe = AutoencoderRecipe(n_bits=32, content_share=0.25)
    assert recipe.content_bits == 8
    assert as_in_the_paper(recipe).content_bits == 0
