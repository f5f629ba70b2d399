"""A class code that reads the words of a text beside the vector of a language model."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.encoder.artifact import (
    ArtifactError,
    install_artifact,
    load_encoder,
    write_artifact,
)
from hummingbit.encoder.class_code import ClassCode, ClassMap, JointRows
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.text_model import ReadTexts, TextModel
from tests.encoder.test_artifact import rehash
from tests.support.encoders import WORDS, random_texts
from tests.support.models import SIZE, tiny_model

CLASSES, CODEWORD, CERTAINTY, CONTENT = 4, 10, 2, 4


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    model = tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    rng = np.random.default_rng(5)
    idf = rng.uniform(1, 3, len(WORDS)).astype(np.float32)
    words = TextFeatures(WORDS, idf=idf, l2_normalize=True)

    def class_map() -> ClassMap:
        weight = rng.normal(scale=2, size=(SIZE + len(WORDS), CLASSES))
        return ClassMap(weight.astype(np.float32), rng.normal(size=CLASSES).astype(np.float32))

    code = ClassCode(
        class_map(),
        class_map(),
        rng.choice([-1, 1], size=(CLASSES, CODEWORD)).astype(np.float32),
        np.array([2, 1], dtype=np.float32),
    )
    layer = Layer(
        rng.normal(size=(SIZE, CONTENT)).astype(np.float32),
        rng.normal(size=CONTENT).astype(np.float32),
        "identity",
    )
    thresholds = np.zeros(CODEWORD + CERTAINTY + CONTENT, dtype=np.float32)
    return Encoder(model, [layer], thresholds, {}, class_code=code, words=words)


def expected_scores(encoder: Encoder, one: ClassMap, text: str, read: list[str]) -> list[float]:
    """Σ_d v_d W_dc + Σ_t x_t W_(D+t)c + b_c, in Python's own numbers.

    The model reads `text`, and x are ln(1 + tf) · idf of the words `read`, scaled to length 1.
    """
    assert isinstance(encoder.features, TextModel)
    assert encoder.words is not None
    assert encoder.words.idf is not None
    (vector,) = encoder.features.transform([text]).tolist()
    counts = Counter(word for word in read if word in WORDS)
    x = {
        WORDS.index(word): math.log(1 + tf) * float(encoder.words.idf[WORDS.index(word)])
        for word, tf in counts.items()
    }
    length = math.sqrt(sum(value**2 for value in x.values())) or 1.0
    return [
        float(one.bias[c])
        + sum(v * float(one.weight[d, c]) for d, v in enumerate(vector))
        + sum(value / length * float(one.weight[SIZE + t, c]) for t, value in x.items())
        for c in range(CLASSES)
    ]


def softmax(scores: list[float]) -> list[float]:
    shares = [math.exp(score - max(scores)) for score in scores]
    return [share / sum(shares) for share in shares]


def test_bits_are_those_of_the_vector_and_of_the_words(encoder: Encoder) -> None:
    code = encoder.class_code
    assert code is not None
    texts = [*random_texts(20, seed=3), "no known word", "the aple tree and chese"]
    corrected = {"aple": "apple", "chese": "cheese"}
    bits, weights = unpack_codes(encoder.encode(texts)), encoder.query_weights(texts)
    uncorrected = unpack_codes(encoder.encode_uncorrected_queries(texts))
    for row, text in enumerate(texts):
        words = text.split()
        scores = expected_scores(encoder, code.documents, text, words)
        p = softmax(scores)
        second, first = sorted(scores)[-2:]
        as_asked = [corrected.get(word, word) for word in words]
        q = softmax(expected_scores(encoder, code.queries, text, as_asked))
        q_uncorrected = softmax(expected_scores(encoder, code.queries, text, words))
        for bit in range(CODEWORD):
            mean, asked, uncorrected_mean = (
                sum(share[c] * float(code.codewords[c, bit]) for c in range(CLASSES))
                for share in (p, q, q_uncorrected)
            )
            assert weights[row, bit] == pytest.approx(asked, abs=1e-4)
            if abs(mean) > 1e-3:
                assert bits[row, bit] == (mean > 0)
            if abs(uncorrected_mean) > 1e-3:
                assert uncorrected[row, bit] == (uncorrected_mean > 0)
        for number, threshold in enumerate(code.certainty):
            if abs(first - second - threshold) > 1e-3:
                assert bits[row, CODEWORD + number] == (first - second > threshold)
        assert (weights[row, CODEWORD : CODEWORD + CERTAINTY] == 1).all()
    # Content is of the vector alone.
    assert isinstance(encoder.features, TextModel)
    (layer,) = encoder.layers
    content = encoder.features.transform(texts) @ layer.weight + layer.bias
    np.testing.assert_allclose(weights[:, -CONTENT:], content, atol=1e-4)


def test_a_text_has_one_code_whatever_is_beside_it(encoder: Encoder) -> None:
    texts = random_texts(30, seed=7)
    codes, weights = encoder.encode(texts), encoder.query_weights(texts)
    assert isinstance(encoder.features, TextModel)
    vectors = encoder.features.transform(texts)
    np.testing.assert_array_equal(encoder.encode_features(vectors, texts), codes)
    np.testing.assert_array_equal(encoder.encode(texts[9:10]), codes[9:10])
    np.testing.assert_array_equal(encoder.query_weights(texts[9:10]), weights[9:10])
    read = replace(encoder, features=ReadTexts(texts, vectors))
    assert (read.kind, read.is_slow, read.features.dimension) == ("text", True, SIZE)
    np.testing.assert_array_equal(read.encode(texts[::-1]), codes[::-1])
    np.testing.assert_array_equal(read.query_weights(texts[9:12]), weights[9:12])
    assert encoder.encode([]).shape == (0, 2)
    assert encoder.query_weights([]).shape == (0, 16)


def test_rows_of_both_are_products_as_the_whole_matrix_would_be(encoder: Encoder) -> None:
    texts = random_texts(12, seed=1)
    rows = encoder.class_rows(texts)
    assert isinstance(rows, JointRows)
    whole = np.hstack([rows.vectors, rows.words.toarray()])
    assert rows.shape == whole.shape
    assert encoder.class_code is not None
    np.testing.assert_allclose(
        rows[3:7] @ encoder.class_code.documents.weight,
        whole[3:7] @ encoder.class_code.documents.weight,
        atol=1e-5,
    )
    logits = encoder.class_code.logits(rows)
    assert np.array_equal(logits > 0, encoder.logits(texts)[:, : CODEWORD + CERTAINTY] > 0)
    weights = encoder.class_code.query_weights(rows)
    np.testing.assert_allclose(weights, encoder.query_weights(texts)[:, :12], atol=1e-5)


def test_it_is_written_and_installed_as_any_encoder(encoder: Encoder, tmp_path: Path) -> None:
    texts = random_texts(40, seed=2)
    loaded = write_artifact(tmp_path / "e", encoder, texts)
    manifest = json.loads((tmp_path / "e/encoder.json").read_text())
    assert manifest["format_version"] == 3
    assert manifest["words"] == {
        "kind": "text",
        "weighting": "log",
        "max_words": 1,
        "idf": True,
        "l2_normalize": True,
    }
    installed = install_artifact(tmp_path / "e", tmp_path / "installed")
    for other in (loaded, installed):
        assert np.array_equal(other.encode(texts), encoder.encode(texts))
        assert np.array_equal(other.query_weights(texts), encoder.query_weights(texts))
        assert other.fingerprint == loaded.fingerprint
    again = write_artifact(tmp_path / "again", loaded, texts)
    assert again.fingerprint == loaded.fingerprint


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda manifest: manifest.update(format_version=1), "format_version is 1, and there is w"),
        (lambda manifest: manifest.pop("words"), "format_version is 3, and there is no words"),
        (lambda manifest: manifest.update(format_version=4), "this one reads 1, 2, 3"),
        (lambda manifest: manifest["words"].update(summary_weight=1.0), "have no summaries"),
        (lambda manifest: manifest["files"].pop("vocabulary.txt"), "files has no vocabulary.txt"),
    ],
)
def test_a_malformed_manifest_is_refused(
    encoder: Encoder, tmp_path: Path, change: Any, reason: str
) -> None:
    write_artifact(tmp_path / "e", encoder, random_texts(10))
    rehash(tmp_path / "e", change)
    with pytest.raises(ArtifactError, match=reason):
        load_encoder(tmp_path / "e")


def test_terms_that_do_not_fit_the_class_maps_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    write_artifact(tmp_path / "e", encoder, random_texts(10))
    vocabulary = tmp_path / "e/vocabulary.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS[:-1]))
    rehash(tmp_path / "e", lambda _: None)
    with pytest.raises(ArtifactError, match="has 19 terms; it must have 20"):
        load_encoder(tmp_path / "e")
