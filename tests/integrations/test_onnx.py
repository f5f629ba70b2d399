"""Encoders as ONNX graphs give the same bits through onnxruntime, on 10,000 texts and vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from hummingbit.cli import main
from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.onnx_graph import OnnxError, onnx_inputs, onnx_model, run_onnx
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from tests.support.encoders import random_layers, spd_encoder, text_encoder

SYLLABLES = "ka lo mi ne pu ra so ti vu ze".split()
VOCABULARY = [a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES]


def large_encoder(**settings: object) -> Encoder:
    """An encoder of 1,000 words with two layers and 128 bits."""
    rng = np.random.default_rng(1)
    idf = rng.uniform(1, 8, size=len(VOCABULARY)).astype(np.float32)
    return Encoder(
        features=TextFeatures(vocabulary=VOCABULARY, idf=idf, **settings),  # type: ignore[arg-type]
        layers=random_layers(rng, len(VOCABULARY), 64, 128),
        thresholds=rng.normal(size=128).astype(np.float32),
        metadata={},
    )


def texts(count: int) -> list[str]:
    """Texts of 0 to 60 words, one in ten of them unknown."""
    rng = np.random.default_rng(2)
    words = [*VOCABULARY, *(f"unknown{i}" for i in range(100))]
    return [" ".join(rng.choice(words, size=rng.integers(0, 60))) for _ in range(count)]


def assert_equal_bits(encoder: Encoder, inputs: list[str] | np.ndarray) -> None:
    """Hold every bit to the encoder's, but for those whose margin is rounding error."""
    model = onnx_model(encoder)
    margins, codes = run_onnx(model, encoder, inputs)
    expected = encoder.margins(inputs)
    np.testing.assert_allclose(margins, expected, rtol=1e-3, atol=1e-4)
    differing = np.unpackbits(codes ^ encoder.encode(inputs), axis=1).astype(bool)
    assert not (differing & (np.abs(expected) > 1e-4)).any()


@pytest.mark.parametrize("weighting", ["count", "log", "binary"])
@pytest.mark.parametrize("l2_normalize", [False, True])
def test_equal_bits_of_ten_thousand_texts(weighting: str, l2_normalize: bool) -> None:
    encoder = large_encoder(weighting=weighting, l2_normalize=l2_normalize)
    assert_equal_bits(encoder, texts(10_000 if weighting == "log" else 1_000))


@pytest.mark.parametrize("weighting", ["count", "log"])
def test_equal_bits_of_documents_with_summaries(weighting: str) -> None:
    encoder = large_encoder(weighting=weighting, l2_normalize=True, summary_weight=1.5)
    first, second = texts(1_000)[:500], texts(1_000)[500:]
    assert_equal_bits(encoder, [f"{a}.\n{b}" for a, b in zip(first, second, strict=True)])


@pytest.mark.parametrize("l2_normalize", [False, True])
def test_equal_bits_of_ten_thousand_vectors(l2_normalize: bool) -> None:
    rng = np.random.default_rng(3)
    encoder = Encoder(
        features=VectorFeatures(dimension=96, l2_normalize=l2_normalize),
        layers=random_layers(rng, 96, 32, 64),
        thresholds=np.zeros(64, dtype=np.float32),
        metadata={},
    )
    vectors = rng.normal(size=(10_000, 96)).astype(np.float32)
    vectors[0] = 0
    assert_equal_bits(encoder, vectors)


def test_no_text_and_texts_without_known_words() -> None:
    encoder = large_encoder(l2_normalize=True)
    assert_equal_bits(encoder, ["", "nothing known"])
    assert run_onnx(onnx_model(encoder), encoder, [])[1].shape == (0, 16)


def test_the_file_says_what_its_inputs_mean() -> None:
    features = TextFeatures(
        vocabulary=["jam bread", "jam"], max_words=2, analyzer=Analyzer.from_name("unicode")
    )
    rng = np.random.default_rng(0)
    layers = random_layers(rng, 2, 8)
    encoder = Encoder(features, layers, np.zeros(8, dtype=np.float32), {}, fingerprint="f" * 64)
    model = onnx.load_from_string(onnx_model(encoder))
    held = {property_.key: property_.value for property_ in model.metadata_props}
    assert held == {
        "fingerprint": "f" * 64,
        "n_bits": "8",
        "kind": "text",
        "analyzer": "unicode",
        "max_words": "2",
        "vocabulary": "jam bread\njam",
    }
    given = onnx_inputs(encoder, ["bread jam bread", "jam jam"])
    assert given["columns"].tolist() == [[0, 1], [1, 0]]
    assert given["counts"].tolist() == [[1, 1], [2, 0]]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = write_artifact(tmp_path / "encoders" / "plain", text_encoder(), ["apple jam"])
    out = tmp_path / "plain.onnx"
    command = ["encoder", "export", "plain", "--data-dir", str(tmp_path), "--onnx", str(out)]
    assert main(command) == 0
    assert "the golden inputs give the same codes" in capsys.readouterr().out
    again = load_encoder(tmp_path / "encoders" / "plain")
    assert np.array_equal(run_onnx(out, again, ["apple jam"])[1], encoder.encode(["apple jam"]))
    assert main(command) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


def test_what_is_not_exported() -> None:
    with pytest.raises(OnnxError, match="an encoder of matrices cannot be exported"):
        onnx_model(spd_encoder())
    zero = replace(text_encoder(), thresholds=np.zeros(32, dtype=np.float32))
    assert_equal_bits(zero, ["apple"])
