from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.artifact import ArtifactError, load_encoder, write_artifact
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.onnx_graph import OnnxError, onnx_model
from hummingbit.encoder.reconstruction import Reconstruction, descend
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.model_codes import fit_reconstruction
from tests.encoder.test_artifact import edit_tensors, rehash


def unit_vectors(count: int, dimension: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(dimension, dimension)) * np.linspace(2, 0.1, dimension)
    vectors = rng.normal(size=(count, dimension)) @ factors + 1
    units: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


VECTORS = unit_vectors(300, 90, 0)
HEAD = fit_reconstruction(VECTORS, 80, 0)


def encoder_of(head: Reconstruction) -> Encoder:
    dimension, n_bits = head.decoder.shape
    zeros: Floats = np.zeros(n_bits, dtype=np.float32)
    layer = Layer(head.decoder, zeros, "identity")
    return Encoder(VectorFeatures(dimension), [layer], zeros, {}, reconstruction=head)


@pytest.mark.parametrize("n_rows", [5, 300])
def test_the_descent_gives_each_bit_the_better_value_beside_the_others(n_rows: int) -> None:
    rng = np.random.default_rng(0)
    decoder, targets = rng.normal(size=(6, 9)), rng.normal(size=(n_rows, 9))
    bits = np.where(rng.random((n_rows, 6)) < 0.5, 1.0, -1.0)
    expected = bits.copy()
    saved = np.zeros_like(bits)
    least = np.full(n_rows, np.inf)
    for position, (row, target) in enumerate(zip(expected, targets, strict=True)):
        for number in 3 * [*range(6)]:
            errors = []
            for value in (-1, 1):
                row[number] = value
                errors.append(np.square(target - row @ decoder).sum())
            row[number] = 1 if errors[1] < errors[0] else -1
            saved[position, number] = (errors[0] - errors[1]) / 4
            least[position] = min(least[position], abs(saved[position, number]))
    found = np.full(n_rows, np.inf)
    logits = descend(bits, (targets - bits @ decoder) @ decoder.T, decoder @ decoder.T, found)
    np.testing.assert_array_equal(bits, expected)
    np.testing.assert_allclose(logits, saved, atol=1e-12)
    np.testing.assert_allclose(found, least, atol=1e-12)


def test_the_first_bits_of_a_long_code_are_the_short_code() -> None:
    short = encoder_of(fit_reconstruction(VECTORS, 64, 0))
    long = encoder_of(HEAD)
    np.testing.assert_array_equal(short.encode(VECTORS), long.encode(VECTORS)[:, :8])
    weights = long.query_weights(VECTORS)[:, :64]
    np.testing.assert_allclose(short.query_weights(VECTORS), weights, atol=1e-6)


def test_scores_are_nearer_to_the_cosines_than_those_of_itq() -> None:
    vectors, queries = unit_vectors(500, 100, 0), unit_vectors(50, 100, 1)
    cosines = queries @ vectors.T
    encoder = encoder_of(fit_reconstruction(vectors, 64, 0))
    directions, thresholds = fit_itq(vectors, 64, 0)
    bits = unpack_codes(encoder.encode(vectors)).astype(np.float32) * 2 - 1
    scores = encoder.query_weights(queries) @ bits.T
    of_itq = (queries @ directions - thresholds) @ np.where(
        vectors @ directions > thresholds, 1, -1
    ).T
    ours, theirs = (
        np.mean([np.corrcoef(*pair)[0, 1] for pair in zip(some, cosines, strict=True)])
        for some in (scores, of_itq)
    )
    assert ours > theirs + 0.03


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.integers(0, 299), min_size=1, max_size=40),
    sizes=st.floats(0.01, 100),
)
def test_a_code_depends_neither_on_the_batch_nor_on_the_length(
    rows: list[int], sizes: float
) -> None:
    whole, least = HEAD.logits(VECTORS)
    some, some_least = HEAD.logits(VECTORS[rows])
    np.testing.assert_array_equal(some, whole[rows])
    np.testing.assert_array_equal(some_least, least[rows])
    scaled = HEAD.logits(VECTORS[rows] * np.float32(sizes))[0]
    is_sure = least[rows] > 1e-5
    np.testing.assert_array_equal(scaled[is_sure] > 0, whole[rows][is_sure] > 0)


@pytest.mark.parametrize("order", [np.arange(89, -1, -1), np.random.default_rng(0).permutation(90)])
def test_sums_are_exact_in_any_order(order: np.ndarray) -> None:
    other = Reconstruction(HEAD.decoder[order], HEAD.mean[order], HEAD.ends, HEAD.lengths)
    # The length of a vector is rounded, so these have numbers whose squares add up exactly.
    vectors = np.rint(VECTORS * 1000).astype(np.float32)
    np.testing.assert_array_equal(HEAD.logits(vectors)[0], other.logits(vectors[:, order])[0])


def test_zeros_and_no_rows_have_codes() -> None:
    encoder = encoder_of(HEAD)
    assert np.isfinite(encoder.margins(np.zeros((1, 90), np.float32))).all()
    assert encoder.encode(np.zeros((0, 90), np.float32)).shape == (0, 10)


def test_an_artifact_has_the_mean_and_the_lengths(tmp_path: Path) -> None:
    encoder = encoder_of(HEAD)
    written = write_artifact(tmp_path / "e", encoder, VECTORS[:50])
    np.testing.assert_array_equal(written.encode(VECTORS), encoder.encode(VECTORS))
    np.testing.assert_array_equal(written.query_weights(VECTORS), encoder.query_weights(VECTORS))
    np.testing.assert_array_equal(written.margins(VECTORS), encoder.margins(VECTORS))
    assert write_artifact(tmp_path / "f", encoder, VECTORS[:50]).fingerprint == written.fingerprint
    manifest = json.loads((tmp_path / "e/encoder.json").read_text())
    # Readers of version 1 refuse it by its format.
    assert (manifest["format_version"], manifest["reconstruction"]) == (2, {"ends": [64, 80]})
    golden = json.loads((tmp_path / "e/golden.json").read_text())
    inputs = np.array(golden["inputs"], dtype=np.float32)
    least = encoder.least_margins(VECTORS[:50])
    assert encoder.least_margins(inputs).min() == np.sort(least)[-8]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reconstruction.mean", None, "reconstruction.mean is missing"),
        ("reconstruction.mean", np.zeros(91, np.float32), "reconstruction.mean is float32"),
        ("reconstruction.mean", np.full(90, np.nan, np.float32), "holds NaN or infinity"),
        ("reconstruction.mean", np.full(90, 1e4, np.float32), "too large"),
        ("reconstruction.mean", -HEAD.mean, "does not give the recorded codes"),
        ("reconstruction.lengths", np.ones(3, np.float32), "reconstruction.lengths is float32"),
        ("reconstruction.lengths", np.array([1, 0], np.float32), "lengths must be positive"),
        ("thresholds", np.ones(80, np.float32), "thresholds must be 0"),
        ("layers.0.bias", np.ones(80, np.float32), "thresholds must be 0"),
    ],
)
def test_damage_is_refused(
    tmp_path: Path, name: str, value: np.ndarray | None, message: str
) -> None:
    write_artifact(tmp_path / "e", encoder_of(HEAD), VECTORS[:50])
    edit_tensors(
        tmp_path / "e", lambda t: t.pop(name) if value is None else t.update({name: value})
    )
    with pytest.raises(ArtifactError, match=message):
        load_encoder(tmp_path / "e")


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"format_version": 1}, "format_version is 1, and there is a reconstruction"),
        ({"format_version": 4}, "format_version: .*is 4, of a later version of hummingbit"),
        ({"reconstruction": None}, "format_version is 2, and there is no reconstruction"),
        ({"reconstruction": {"ends": [64, 72]}}, r"ends is \[64, 72\]; it must rise to 80"),
        ({"reconstruction": {"ends": [80, 80]}}, r"ends is \[80, 80\]"),
        ({"reconstruction": {"ends": []}}, "reconstruction.ends"),
        (
            {"layers": [{"inputs": 90, "outputs": 80, "activation": "relu"}]},
            "a reconstruction needs vectors and one layer without activation",
        ),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    tmp_path: Path, update: dict[str, object], message: str
) -> None:
    write_artifact(tmp_path / "e", encoder_of(HEAD), VECTORS[:50])
    rehash(tmp_path / "e", lambda manifest: manifest.update(update))
    with pytest.raises(ArtifactError, match=message):
        load_encoder(tmp_path / "e")


def test_it_is_not_exported_as_one_linear_map() -> None:
    with pytest.raises(OnnxError, match="bits are chosen in many steps"):
        onnx_model(replace(encoder_of(HEAD), metadata={"method": "model"}))
