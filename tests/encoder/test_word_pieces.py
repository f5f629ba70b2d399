"""Features that read unknown words by pieces, and layers in 8 bits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from hummingbit.encoder.artifact import ArtifactError, load_encoder, write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures

VOCABULARY = ["read", "data", "frame", "big data", "c", "s", "##s", "##v", "##frame", "cs", "20"]
FEATURES = TextFeatures(VOCABULARY, weighting="count", max_words=2, pieces=True, corrections=False)


def _pieces(word: str, known: set[str]) -> list[str]:
    """Split a run of letters as BERT's WordPiece does, up to the first that has no piece."""
    pieces: list[str] = []
    rest = word
    while rest:
        mark = "##" if pieces else ""
        fitting = [mark + rest[:n] for n in range(len(rest), 0, -1) if mark + rest[:n] in known]
        if not fitting:
            break
        pieces.append(fitting[0])
        rest = rest[len(fitting[0]) - len(mark) :]
    return pieces


def _terms(features: TextFeatures, text: str) -> dict[str, float]:
    row = features.count_terms([text])
    names = [features.vocabulary[column] for column in row.indices]
    return dict(zip(names, row.data.tolist(), strict=True))


def test_an_unknown_word_is_read_by_its_longest_pieces() -> None:
    assert _terms(FEATURES, "dataframe") == {"data": 1, "##frame": 1}
    assert _terms(FEATURES, "read_csv") == {"read": 1, "cs": 1, "##v": 1}
    assert _terms(FEATURES, "Big data read") == {"big data": 1, "data": 1, "read": 1}


def test_without_pieces_an_unknown_word_is_not_read() -> None:
    assert _terms(replace(FEATURES, pieces=False), "dataframe read_csv") == {}


def test_characters_without_a_piece_end_the_word() -> None:
    assert _terms(FEATURES, "qqq csé2020") == {"cs": 1, "20": 1}


@given(st.text("csv", min_size=2, max_size=12))
def test_pieces_are_those_of_wordpiece(word: str) -> None:
    expected = [word] if word in VOCABULARY else _pieces(word, set(VOCABULARY))
    found = [name for name, n in _terms(FEATURES, word).items() for _ in range(int(n))]
    assert sorted(found) == sorted(expected)


@given(
    st.lists(st.sampled_from(["read", "csv", "data", "datas", "frames", "big", "ä"]), max_size=9)
)
def test_a_query_is_read_as_a_document(words: list[str]) -> None:
    text = " ".join(words)
    row = FEATURES.transform([text])
    (columns, values), terms = FEATURES.read_query(text)
    assert columns.tolist() == row.indices.tolist()
    assert values.tolist() == row.data.tolist()
    assert terms.corrected == ()


def test_a_misspelt_word_is_corrected_before_it_is_read_by_pieces() -> None:
    _, terms = replace(FEATURES, corrections=True).read_query("framee")
    assert terms.corrected == (("framee", "frame"),)


def test_a_word_of_a_million_letters_is_read_quickly() -> None:
    assert FEATURES.count_terms(["cs" * 500_000]).sum() <= 64


def _encoder(precision: str) -> Encoder:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(len(VOCABULARY), 16)).astype(np.float32)
    weight[0] = 0
    bias = np.zeros(16, dtype=np.float32)
    layer = Layer(weight, bias, "identity", precision)  # type: ignore[arg-type]
    return Encoder(FEATURES, [layer], np.full(16, 0.01, dtype=np.float32), {})


def test_a_layer_in_8_bits_is_near_its_weight_and_is_written_again_alike(tmp_path: Path) -> None:
    encoder = _encoder("int8")
    once = write_artifact(tmp_path / "once", encoder, VOCABULARY)
    largest = np.abs(encoder.layers[0].weight).max(axis=1, keepdims=True)
    difference = np.abs(once.layers[0].weight - encoder.layers[0].weight)
    assert (difference <= largest / 127 * 0.501).all()
    again = write_artifact(tmp_path / "again", once, VOCABULARY)
    assert again.fingerprint == once.fingerprint
    assert np.array_equal(again.layers[0].weight, once.layers[0].weight)
    assert load_encoder(tmp_path / "again").features == once.features


def test_an_artifact_of_whole_words_says_nothing_of_pieces(tmp_path: Path) -> None:
    features = TextFeatures(VOCABULARY)
    write_artifact(tmp_path / "one", replace(_encoder("float32"), features=features), VOCABULARY)
    manifest = json.loads((tmp_path / "one/encoder.json").read_text())
    assert not {"pieces", "corrections"} & manifest["features"].keys()
    assert "precision" not in manifest["layers"][0]


@pytest.mark.parametrize("name", ["rows", "scale"])
def test_a_layer_in_8_bits_without_a_part_is_refused(tmp_path: Path, name: str) -> None:
    write_artifact(tmp_path / "one", _encoder("int8"), VOCABULARY)
    weights = tmp_path / "one/weights.safetensors"
    tensors = load_file(weights)
    del tensors[f"layers.0.{name}"]
    save_file(tensors, weights)
    manifest = json.loads((tmp_path / "one/encoder.json").read_text())
    manifest["files"][weights.name] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (tmp_path / "one/encoder.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=f"layers.0.{name} is missing"):
        load_encoder(tmp_path / "one")
