from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoder.artifact import load_encoder
from encoder.codes import unpack_codes
from evaluation.retrieval import evaluate_encoder
from tests.support.corpora import topic_documents, topic_vectors
from training.class_codes.class_recipe import CONTENT_SHARES, QUERY_CLASSIFIERS, ClassCodeRecipe
from training.class_codes.run import train_class_codes
from training.data import TrainingDataError, gather
from training.recipe import RecipeError


@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
def test_class_codes_find_documents_of_the_class(documents: object, tmp_path: Path) -> None:
    data, queries = gather(documents(400)), gather(documents(80, seed=1))  # type: ignore[operator]
    recipe = ClassCodeRecipe(n_bits=16, supervision=0.3)
    heard: list[str] = []
    trained = train_class_codes(data, recipe, tmp_path / "e", progress=heard.append)
    encoder = load_encoder(tmp_path / "e")
    assert encoder.fingerprint == trained.encoder.fingerprint
    found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@50"])
    assert found.expected["P@50"] > 0.9
    # More is told apart than the three classes.
    assert (found.distinct_codes or 0) > 20
    chosen = encoder.metadata["chosen"]
    assert chosen["query_classifier"] in QUERY_CLASSIFIERS
    assert chosen["content_share"] in CONTENT_SHARES
    assert len(heard) == len(chosen["trials"]) + 1
    again = train_class_codes(data, recipe, tmp_path / "again")
    assert again.encoder.fingerprint == encoder.fingerprint


def test_a_part_of_the_documents_has_each_certainty_bit(tmp_path: Path) -> None:
    data = gather(topic_documents(500))
    recipe = ClassCodeRecipe(
        query_classifier="both", content_share=0.25, certainty_share=0.125, validation_share=0
    )
    encoder = train_class_codes(data, recipe, tmp_path / "e").encoder
    bits = unpack_codes(encoder.encode(data.inputs))[:, 20:24]
    np.testing.assert_allclose(bits.mean(axis=0), [0.2, 0.4, 0.6, 0.8], atol=0.02)
    # A thermometer: a document that has one bit has all after it.
    assert (np.diff(bits.astype(int), axis=1) >= 0).all()


def test_settings_that_are_given_are_not_searched_for(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(query_classifier="svm", content_share=0.375)
    heard: list[str] = []
    trained = train_class_codes(
        gather(topic_documents(200)), recipe, tmp_path / "e", progress=heard.append
    )
    assert heard == []
    chosen = trained.encoder.metadata["chosen"]
    assert (chosen["query_classifier"], chosen["content_share"]) == ("svm", 0.375)


def test_documents_of_several_labels_are_refused(tmp_path: Path) -> None:
    documents = [replace(one, labels=("a", *one.labels)) for one in topic_documents(100)]
    with pytest.raises(TrainingDataError, match="label: documents have several labels"):
        train_class_codes(gather(documents), ClassCodeRecipe(), tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_one_label_is_not_enough(tmp_path: Path) -> None:
    documents = [replace(one, labels=("a",)) for one in topic_documents(100)]
    with pytest.raises(TrainingDataError, match="at least two"):
        train_class_codes(gather(documents), ClassCodeRecipe(), tmp_path / "e")


def test_content_that_the_documents_cannot_fill_is_refused(tmp_path: Path) -> None:
    recipe = ClassCodeRecipe(n_bits=256, content_share=0.5, query_classifier="both")
    with pytest.raises(TrainingDataError, match="128 bits for content are more than"):
        train_class_codes(gather(topic_documents(100)), recipe, tmp_path / "e")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"n_bits": 12}, "n_bits is 12"),
        ({"content_share": 0.9}, "content_share is 0.9; it must be from 0 to 0.75"),
        ({"certainty_share": -1}, "certainty_share is -1; it must be from 0 to 0.25"),
        ({"query_classifier": "knn"}, "query_classifier is 'knn'"),
    ],
)
def test_settings_out_of_their_range_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        ClassCodeRecipe(**settings)


@pytest.mark.parametrize("n_bits", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("share", CONTENT_SHARES)
def test_every_width_has_bits_for_the_class(n_bits: int, share: float) -> None:
    widths = ClassCodeRecipe(n_bits=n_bits).widths(share)
    assert sum(widths) == n_bits
    assert widths[0] >= 3
    assert widths[2] >= 1
