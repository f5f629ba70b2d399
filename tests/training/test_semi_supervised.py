from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import ArtifactError, load_encoder, read_labelled_ids
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.recipes import Recipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.training.batches import SparseBatch, TrainingInputs, vector_scale
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.linear_codes import itq_of_terms
from hummingbit.training.networks import (
    BernoulliAutoencoder,
    LinearEncoderNetwork,
    TextDecoder,
    autoencoder_to_encoder,
    to_encoder,
)
from hummingbit.training.paper_weights import as_in_the_paper
from hummingbit.training.queries import ClozeTask
from hummingbit.training.semi_supervised import (
    build_model,
    hidden_dropout,
    start_at_word_frequencies,
    touches_few_terms,
    train,
)
from hummingbit.training.text_features import fit_text_features
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.encoders import random_texts, text_encoder

RECIPE = Recipe(n_bits=16, label_fraction=0.5, epochs=15, batch_size=32, hidden=24, max_terms=100)


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
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("hummingbit.training.pipeline.validate", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(gather(topic_documents(400)), RECIPE, tmp_path / "again", progress=False)
    assert (tmp_path / "again.checkpoint").exists()
    assert not (tmp_path / "again").exists()
    monkeypatch.undo()
    resumed = train(gather(topic_documents(400)), RECIPE, tmp_path / "again", progress=False)
    assert resumed.encoder.fingerprint == load_encoder(trained).fingerprint
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
    model = build_model(replace(RECIPE, batch_norm=batch_norm, n_bits=8), features, classes=2)
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
    model = build_model(RECIPE, features, 3, vector_scale=scale).eval()
    with torch.no_grad():
        expected = model.encoder(torch.from_numpy(vectors))[1].numpy()
    found = to_encoder(model.encoder, features).logits(vectors)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_hidden_units_drop_out_by_the_share_of_labels() -> None:
    tags = np.eye(3, dtype=np.bool_)[np.arange(10) % 3]
    tags[4:] = False
    text, recipe = text_encoder().features, Recipe(hidden_dropout=0.5)
    assert hidden_dropout(recipe, text, tags) == pytest.approx(0.2)
    assert hidden_dropout(as_in_the_paper(recipe), text, tags) == 0
    assert hidden_dropout(replace(recipe, method="psh-gs"), text, tags) == 0
    assert hidden_dropout(recipe, VectorFeatures(4), tags) == 0


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


@pytest.mark.parametrize("method", ["psh-gs", "vdsh-s"])
def test_the_other_methods_learn_from_labels(method: str, tmp_path: Path) -> None:
    recipe = replace(RECIPE, method=method)
    trained = train(gather(topic_documents(400)), recipe, tmp_path / "e", progress=False)
    assert trained.encoder.metadata["method"] == method
    assert p_at_10(tmp_path / "e", topic_documents(400), topic_documents(100, seed=1)) > 0.85


def test_the_method_without_labels_ignores_them(tmp_path: Path) -> None:
    recipe = replace(RECIPE, method="b-vae", epochs=5)
    labelled = topic_documents(200)
    some = train(gather(labelled), recipe, tmp_path / "some", progress=False)
    swapped = [
        replace(d, labels=("food",) if d.labels != ("food",) else ("sea",)) for d in labelled
    ]
    other = train(gather(swapped), recipe, tmp_path / "other", progress=False)
    texts = [d.text or "" for d in labelled]
    assert np.array_equal(some.encoder.encode(texts), other.encoder.encode(texts))


def test_the_decoder_without_labels_begins_at_the_frequencies_of_terms() -> None:
    texts = ["sea wave wave", "sea sail", "wave sea"]
    features = fit_text_features(texts, 3)
    model = build_model(replace(RECIPE, method="b-vae"), features, 0)
    start_at_word_frequencies(model, TrainingInputs(features, texts, idf_target=False))
    # Shares of a text, and not of the words of all texts, are added up.
    assert isinstance(model.decoder, TextDecoder)
    found = dict(zip(features.vocabulary, model.decoder.bias.softmax(0).tolist(), strict=True))
    # A single text has "sail", so it is no term.
    expected = {"sea": (1 / 3 + 1 + 1 / 2) / 3, "wave": (2 / 3 + 1 / 2) / 3}
    assert found == pytest.approx(expected)


def test_a_corpus_without_labels_trains_without_figures(tmp_path: Path) -> None:
    bare = [replace(d, labels=()) for d in topic_documents(200)]
    recipe = replace(RECIPE, method="b-vae", epochs=5)
    trained = train(gather(bare), recipe, tmp_path / "e", progress=False)
    assert trained.validation == {}
    assert len(np.unique(trained.encoder.encode([d.text or "" for d in bare]), axis=0)) > 3


def test_where_nothing_is_held_out_every_label_is_shown(tmp_path: Path) -> None:
    recipe = replace(RECIPE, validation_share=0.0, label_fraction=1.0, epochs=2)
    trained = train(gather(topic_documents(60)), recipe, tmp_path / "e", progress=False)
    assert len(trained.labelled_ids) == 60
    assert trained.validation == {}


@pytest.mark.parametrize("recipe", [RECIPE, as_in_the_paper(RECIPE, "tmc")], ids=["ours", "paper"])
def test_documents_of_several_classes(tmp_path: Path, recipe: Recipe) -> None:
    def doubled(documents: list[Document], seed: int) -> list[Document]:
        partners = np.random.default_rng(seed).permutation(np.array(documents, dtype=object))
        return [
            replace(a, text=f"{a.text} {b.text}", labels=tuple({*a.labels, *b.labels}))
            for a, b in zip(documents, partners, strict=True)
        ]

    database, queries = doubled(topic_documents(400), 0), doubled(topic_documents(100, seed=1), 1)
    train(gather(database), recipe, tmp_path / "e", progress=False)
    # Two documents of two of three topics share one more often than not.
    chance = np.mean([bool({*a.labels} & {*b.labels}) for a in database for b in queries])
    assert p_at_10(tmp_path / "e", database, queries) > (1 + chance) / 2


def test_the_papers_settings_train(tmp_path: Path) -> None:
    recipe = as_in_the_paper(RECIPE)
    trained = train(gather(topic_documents(400)), recipe, tmp_path / "e", progress=False)
    assert trained.encoder.metadata["recipe"]["batch_norm"] is True
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


def known_items(count: int) -> list[Document]:
    """Documents of two sentences; the second has a pair of words that no other document has."""
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(2 * count)]
    common = [f"common{number}" for number in range(10)]
    return [
        Document(
            id=str(row),
            text=f"{' '.join(rng.choice(common, 6))}. {words[row]} {words[count - 1 - row]}",
        )
        for row in range(count)
    ]


def test_texts_without_labels_are_found_by_words_of_theirs(tmp_path: Path) -> None:
    documents = known_items(64)
    recipe = Recipe(method="ict", n_bits=64, epochs=100, min_steps=0, batch_size=32, hidden=32)
    encoder = train(gather(documents), recipe, tmp_path / "e", progress=False).encoder
    assert len(encoder.layers) == 1
    texts = [document.text or "" for document in documents]
    signs = 2.0 * unpack_codes(encoder.encode(texts)) - 1
    # Half of the words are in two documents: row and its mirror image.
    scores = encoder.query_weights([text.partition(". ")[2] for text in texts]) @ signs.T
    nearest = np.argsort(-scores, axis=1)[:, :2]
    rows = np.arange(64)
    found = (nearest == rows[:, None]).any(axis=1)
    assert found.mean() > 0.9


@pytest.mark.parametrize("along_directions", [False, True])
def test_a_linear_network_is_exported_as_one_layer(along_directions: bool) -> None:
    features = text_encoder().features
    model = build_model(replace(RECIPE, method="ict", n_bits=8), features, classes=2).eval()
    if along_directions:
        assert isinstance(model.encoder, LinearEncoderNetwork)
        model.encoder.learn_along(torch.rand(len(features.vocabulary), 3))  # type: ignore[union-attr]
        torch.nn.init.normal_(model.encoder.along.weight_KB)  # type: ignore[union-attr]
    x = SparseBatch.of_rows(features.transform(random_texts(50)), np.arange(50))  # type: ignore[arg-type]
    with torch.no_grad():
        expected = model.encoder(x)[1].numpy()
    exported = to_encoder(model.encoder, features)
    assert len(exported.layers) == 1
    np.testing.assert_allclose(exported.logits(random_texts(50)), expected, atol=1e-5)


@pytest.mark.parametrize("beside_classes", [False, True])
def test_codes_that_find_texts_begin_as_itq_codes(beside_classes: bool) -> None:
    texts = random_texts(60)
    features = fit_text_features(texts, 100)
    model = build_model(replace(RECIPE, method="ict", n_bits=16), features, classes=2)
    rows = features.transform(texts)
    recipe = Recipe(method="ict", seed=0)
    ClozeTask(recipe, features, texts, rows, beside_classes=beside_classes).start(model.encoder)
    network = model.encoder
    assert isinstance(network, LinearEncoderNetwork)
    assert (network.along is None) == beside_classes
    start = itq_of_terms(rows, len(network.logits.bias), seed=0)
    assert start is not None
    exported = to_encoder(network, features)
    expected = rows @ start[0] - start[1]
    np.testing.assert_allclose(exported.logits(texts), expected, atol=1e-5)


def test_texts_are_needed_to_learn_from_their_own_words(tmp_path: Path) -> None:
    recipe = replace(RECIPE, method="ict")
    with pytest.raises(TrainingDataError, match="vector: ict learns from the words of texts"):
        train(gather(topic_vectors(40)), recipe, tmp_path / "e", progress=False)


def test_few_documents_are_passed_over_more_often() -> None:
    recipe = Recipe(method="ict", epochs=15, batch_size=200, min_steps=600)
    assert recipe.epochs_for(100_000) == 15
    assert recipe.epochs_for(2_001) == 55
    assert recipe.learning_rate_for(2_001) == recipe.learning_rate
    # Fewer documents get fewer and larger steps, and the weights can move as far.
    assert recipe.epochs_for(1_000) == 60
    assert recipe.learning_rate_for(1_000) == pytest.approx(2 * recipe.learning_rate)
    assert recipe.epochs_for(10) == 100
    assert recipe.learning_rate_for(10) == pytest.approx(6 * recipe.learning_rate)
    assert replace(recipe, min_steps=0).learning_rate_for(10) == recipe.learning_rate
    assert replace(recipe, method="ssb-vae").epochs_for(10) == 15


def test_content_bits_stand_after_those_of_classes_in_the_export() -> None:
    features = text_encoder().features
    recipe = replace(RECIPE, n_bits=16, content_share=0.5)
    model = build_model(recipe, features, classes=2).eval()
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
    assert Recipe(n_bits=32).content_bits == 0
    assert Recipe(n_bits=32, content_share=0.25).content_bits == 8
    assert Recipe(n_bits=32, content_share=0.25, method="ict").content_bits == 0
    assert Recipe(n_bits=32, content_share=0.25, method="b-vae").content_bits == 0
    assert as_in_the_paper(Recipe(n_bits=32, content_share=0.25)).content_bits == 0
