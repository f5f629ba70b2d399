from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.recipes import ClozeRecipe
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.training import cloze
from hummingbit.training.batches import SparseBatch
from hummingbit.training.cloze import train_cloze
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.linear_codes import itq_of_directions
from hummingbit.training.networks import LinearEncoderNetwork, Shape, to_encoder
from hummingbit.training.queries import ClozeTask
from hummingbit.training.text_features import fit_text_features, quick_directions
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.encoders import random_texts, text_encoder


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
    recipe = ClozeRecipe(n_bits=64)
    encoder = train_cloze(gather(documents), recipe, tmp_path / "e", progress=False).encoder
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
    network = LinearEncoderNetwork(Shape.of(features, 0, 8))
    if along_directions:
        network.learn_along(torch.rand(len(features.vocabulary), 3))  # type: ignore[union-attr]
        torch.nn.init.normal_(network.along.weight_KB)  # type: ignore[union-attr]
    x = SparseBatch.of_rows(features.transform(random_texts(50)), np.arange(50))  # type: ignore[arg-type]
    with torch.no_grad():
        expected = network(x)[1].detach().numpy()
    exported = to_encoder(network, features)
    assert len(exported.layers) == 1
    np.testing.assert_allclose(exported.logits(random_texts(50)), expected, atol=1e-5)


@pytest.mark.parametrize("beside_classes", [False, True])
def test_codes_that_find_texts_begin_as_itq_codes(beside_classes: bool) -> None:
    texts = random_texts(60)
    features = fit_text_features(texts, 100)
    network = LinearEncoderNetwork(Shape.of(features, 0, 16))
    rows = features.transform(texts)
    task = ClozeTask(features, texts, rows, seed=0, shared=0.9, beside_classes=beside_classes)
    task.start(network)
    assert (network.along is None) == beside_classes
    directions, coordinates = quick_directions(rows, 0, 200 if beside_classes else 400)
    n_bits = len(network.logits.bias)
    start = itq_of_directions(directions[:n_bits], coordinates[:, :n_bits], seed=0)
    exported = to_encoder(network, features)
    expected = rows @ start[0] - start[1]
    np.testing.assert_allclose(exported.logits(texts), expected, atol=1e-5)


def test_texts_are_needed_to_learn_from_their_own_words(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match="vector: ict learns from the words of texts"):
        train_cloze(gather(topic_vectors(40)), ClozeRecipe(), tmp_path / "e", progress=False)


def test_few_documents_are_passed_over_more_often() -> None:
    batches = -(-100_000 // cloze.BATCH_SIZE)
    assert cloze.schedule_for(15, 100_000, 0).epochs == 15
    assert 15 * batches > cloze.MIN_STEPS
    few = cloze.schedule_for(15, 2_000, 0)
    batches = 2_000 // cloze.BATCH_SIZE
    assert few.epochs * batches >= cloze.MIN_STEPS
    assert few.learning_rate == cloze.LEARNING_RATE
    # Fewer documents get fewer and larger steps, and the weights can move as far.
    fewest = cloze.schedule_for(15, 10, 0)
    assert fewest.epochs < few.epochs * batches
    moved = fewest.epochs * fewest.learning_rate
    assert moved == pytest.approx(few.epochs * batches * few.learning_rate, rel=0.05)


def test_counts_of_terms_are_used_as_they_are(tmp_path: Path) -> None:
    data = gather(topic_documents(60))
    encoder = train_cloze(data, ClozeRecipe(n_bits=8), tmp_path / "e", progress=False).encoder
    assert isinstance(encoder.features, TextFeatures)
    assert (encoder.features.weighting, encoder.features.l2_normalize) == ("count", True)
