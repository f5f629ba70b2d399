from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hummingbit.encoder.codes import pack_bits, unpack_codes
from hummingbit.encoder.encoder import Encoder, forward
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.foundation.errors import InputError
from tests.support.encoders import (
    class_encoder,
    random_layers,
    random_texts,
    text_encoder,
    vector_encoder,
)


def reference_logits(encoder: Encoder, x: np.ndarray) -> np.ndarray:
    for layer in encoder.layers:
        x = np.array(
            [
                [
                    np.dot(row, layer.weight[:, j].astype(np.float64)) + layer.bias[j]
                    for j in range(len(layer.bias))
                ]
                for row in x.astype(np.float64)
            ]
        )
        x = np.maximum(x, 0) if layer.activation == "relu" else x
    return x


@pytest.mark.parametrize("n_bits", [8, 32, 128])
def test_text_logits_and_bits_equal_a_float64_reference(n_bits: int) -> None:
    encoder, texts = text_encoder(n_bits), random_texts(40)
    expected = reference_logits(encoder, encoder.features.transform(texts).toarray())  # type: ignore[arg-type, union-attr]
    np.testing.assert_allclose(encoder.logits(texts), expected, atol=1e-4)
    bits = unpack_codes(encoder.encode(texts))
    sure = np.abs(expected - encoder.thresholds) > 1e-3
    assert sure.mean() > 0.9
    assert np.array_equal(bits[sure], (expected > encoder.thresholds)[sure])


def test_vector_logits_equal_a_float64_reference() -> None:
    encoder, vectors = (
        vector_encoder(),
        np.random.default_rng(1).normal(size=(30, 6)).astype(np.float32),
    )
    np.testing.assert_allclose(
        encoder.logits(vectors), reference_logits(encoder, vectors), atol=1e-4
    )


def test_a_batch_gives_the_codes_that_single_texts_give() -> None:
    encoder, texts = text_encoder(), random_texts(1200)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    assert np.array_equal(encoder.encode(texts), alone)


def test_few_documents_have_the_codes_that_batches_give() -> None:
    texts = ["Title apple\n\nBread apple. Butter and cherry, bread. Apple", "", *random_texts(60)]
    for encoder in (text_encoder(), class_encoder()):
        assert isinstance(encoder.features, TextFeatures)
        features = replace(encoder.features, l2_normalize=True, summary_weight=1.5)
        for one in (encoder, replace(encoder, features=features)):
            sure = np.abs(one.margins(texts)) > 1e-4
            few, batch = (
                unpack_codes(codes) for codes in (one.encode_few(texts), one.encode(texts))
            )
            assert sure.mean() > 0.9
            assert np.array_equal(few[sure], batch[sure])
    vectors = np.random.default_rng(1).normal(size=(30, 6)).astype(np.float32)
    assert np.array_equal(vector_encoder().encode_few(vectors), vector_encoder().encode(vectors))


def test_an_empty_batch_gives_no_codes() -> None:
    assert text_encoder().encode([]).shape == (0, 4)
    assert vector_encoder(64).encode(np.empty((0, 6), dtype=np.float32)).shape == (0, 8)


def test_kinds_and_dimensions() -> None:
    assert (text_encoder().kind, text_encoder().dimension) == ("text", None)
    assert (vector_encoder().kind, vector_encoder().dimension) == ("vector", 6)
    assert (text_encoder(64).n_bits, text_encoder(64).code_size) == (64, 8)


def test_an_encoder_refuses_the_other_kind_of_input() -> None:
    with pytest.raises(InputError, match="sequence of strings"):
        text_encoder().encode(np.zeros((1, 6), dtype=np.float32))
    with pytest.raises(InputError, match="vectors of 6 numbers"):
        vector_encoder().encode(["text"])


@pytest.mark.parametrize("n_bits", [8, 64])
def test_query_weights_are_logits_above_thresholds_and_their_signs_the_code(n_bits: int) -> None:
    encoder, texts = text_encoder(n_bits), random_texts(700)
    weights = encoder.query_weights(texts)
    assert weights.shape == (700, n_bits)
    assert weights.dtype == np.float32
    assert np.array_equal(weights, encoder.logits(texts) - encoder.thresholds)
    codes = encoder.encode_queries(texts)
    assert np.array_equal(unpack_codes(codes), (weights > 0).astype(np.uint8))
    assert np.array_equal(codes, encoder.encode(texts))


def test_vectors_as_queries_give_the_codes_they_give_as_documents() -> None:
    encoder = vector_encoder()
    vectors = np.random.default_rng(2).normal(size=(600, 6)).astype(np.float32)
    assert np.array_equal(encoder.encode_queries(vectors), encoder.encode(vectors))
    assert encoder.query_weights(vectors[:0]).shape == (0, encoder.n_bits)


def test_queries_are_read_with_what_is_known_of_them() -> None:
    encoder = text_encoder()
    read = encoder.read_queries(["aple bread", "unheard of"])
    assert read.terms == [(2, (("aple", "apple"),), 0), (0, (), 2)]
    assert np.array_equal(read.weights, encoder.query_weights(["apple bread", ""]))
    assert np.array_equal(encoder.encode_queries(["aple bread"]), encoder.encode(["apple bread"]))
    assert not np.array_equal(encoder.encode(["aple bread"]), encoder.encode(["apple bread"]))
    assert encoder.read_queries([]).weights.shape == (0, 32)


def test_of_vectors_nothing_more_is_known() -> None:
    vectors = np.zeros((2, 6), dtype=np.float32)
    assert vector_encoder().read_queries(vectors).terms == [None, None]


def test_queries_read_one_by_one_are_those_of_scipy() -> None:
    encoder = text_encoder(64)
    assert isinstance(encoder.features, TextFeatures)
    wide = TextFeatures([f"w{number}" for number in range(300)], weighting="log")
    rng = np.random.default_rng(3)
    long_encoder = replace(encoder, features=wide, layers=random_layers(rng, 300, 50, 64))
    long_texts = [" ".join(rng.choice(wide.vocabulary, size=size)) for size in (1, 63, 65, 400)]
    cases = [(encoder, ["", "nothing known", *random_texts(200)]), (long_encoder, long_texts)]
    for one, texts in cases:
        for text in texts:
            rows, terms = one.features.transform_queries([text])  # type: ignore[union-attr]
            expected = forward(one.layers, rows) - one.thresholds
            found = one.read_queries([text])
            np.testing.assert_allclose(found.weights, expected, rtol=1e-4, atol=1e-4)
            assert np.array_equal(one.encode_queries([text]), pack_bits(expected > 0))
            assert found.terms == terms


def test_few_and_many_queries_have_the_codes_that_each_has_alone() -> None:
    encoder, texts = text_encoder(), random_texts(40, seed=5)
    alone = [encoder.encode_queries([text]) for text in texts]
    for count in (2, 7, 16, 17, 40):
        together = encoder.encode_queries(texts[:count])
        assert np.array_equal(together, np.concatenate(alone[:count]))


def test_a_notebook_shows_one_line_of_an_encoder() -> None:
    trained = replace(text_encoder(), metadata={"method": "ict"}, fingerprint="0123456789abcdef")
    assert repr(trained) == "<Encoder of texts, 32 bits, ict, 0123456789ab>"
    assert repr(vector_encoder(16)) == "<Encoder of vectors, 16 bits, no method, not saved>"
