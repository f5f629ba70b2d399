from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from hummingbit.encoder import class_code, text_features
from hummingbit.encoder.artifact import ArtifactError, load_encoder, write_artifact
from hummingbit.encoder.class_code import ClassCode, ClassMap, covariance_of, fit_signs
from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import Encoder, explain_text
from hummingbit.encoder.onnx_graph import OnnxError, onnx_model
from hummingbit.encoder.text_features import TextFeatures
from tests.encoder.test_artifact import rehash
from tests.support.encoders import WORDS, class_encoder, random_texts, text_encoder


def probabilities(encoder: Encoder, one: ClassMap, text: str) -> list[float]:
    """The softmax of Σ_v x_v W_vc + b_c, term by term in Python's own numbers."""
    assert isinstance(encoder.features, TextFeatures)
    row = encoder.features.transform([text])
    scores = [
        float(bias)
        + sum(
            float(v) * float(one.weight[c, k]) for c, v in zip(row.indices, row.data, strict=True)
        )
        for k, bias in enumerate(one.bias)
    ]
    top = max(scores)
    shares = [math.exp(score - top) for score in scores]
    return [share / sum(shares) for share in shares]


def code_of(encoder: Encoder) -> ClassCode:
    assert encoder.class_code is not None
    return encoder.class_code


def test_the_bits_of_documents_and_queries_are_those_of_the_definition() -> None:
    encoder = class_encoder()
    code = code_of(encoder)
    texts = random_texts(40, seed=3)
    bits, query_bits = (unpack_codes(f(texts)) for f in (encoder.encode, encoder.encode_queries))
    weights = encoder.query_weights(texts)
    for row, text in enumerate(texts):
        p = probabilities(encoder, code.documents, text)
        q = probabilities(encoder, code.queries, text)
        for bit in range(12):
            mean = sum(p[c] * code.codewords[c, bit] for c in range(5))
            asked = sum(q[c] * code.codewords[c, bit] for c in range(5))
            assert weights[row, bit] == pytest.approx(asked, abs=1e-5)
            if abs(mean) > 1e-4:
                assert bits[row, bit] == (mean > 0)
            if abs(asked) > 1e-4:
                assert query_bits[row, bit] == (asked > 0)
        for bit, threshold in enumerate(code.certainty):
            second, first = sorted(p)[-2:]
            if abs(math.log(first / second) - threshold) > 1e-4:
                assert bits[row, 12 + bit] == (math.log(first / second) > threshold)
        assert query_bits[row, 12:16].all()
    assert np.array_equal(bits[:, 16:], query_bits[:, 16:])


@pytest.mark.parametrize(("power", "factor"), [(0, 1), (1, 1), (4, 1), (4, 0.5)])
def test_certainty_bits_weigh_the_probability_of_the_class(power: float, factor: float) -> None:
    encoder = class_encoder()
    code = replace(code_of(encoder), certainty_power=power, certainty_weight=factor)
    encoder = replace(encoder, class_code=code)
    texts = random_texts(20, seed=5)
    weights = encoder.query_weights(texts)
    for row, text in enumerate(texts):
        highest = max(probabilities(encoder, code_of(encoder).queries, text))
        signs = [-1, 1, -1, 1] if power and highest < 0.5 else [1, 1, 1, 1]
        expected = [sign * factor * highest**power for sign in signs]
        assert weights[row, 12:16] == pytest.approx(expected, rel=1e-4)
    alternates = (unpack_codes(encoder.encode_queries(texts))[:, 12:16] == [0, 1, 0, 1]).all(axis=1)
    assert alternates.any() == bool(power)
    assert not alternates.all()


@pytest.mark.parametrize("n_certainty", [1, 2, 3, 4])
def test_certainty_bits_do_not_order_documents_for_a_query_of_no_clear_class(
    n_certainty: int,
) -> None:
    thresholds = np.linspace(3, 0.5, n_certainty, dtype=np.float32)
    scores = np.array([0.1, 0.7, 1.2, 1.8, 2.4, 9], dtype=np.float32)[:, None]
    one_class = ClassMap(np.array([[1, 0, 0]], dtype=np.float32), np.zeros(3, dtype=np.float32))
    code = ClassCode(one_class, one_class.soften(100), np.ones((3, 8), np.float32), thresholds, 4.0)
    documents = code.logits(scores)[:, 8:] > 0
    query = code.query_weights(scores[:1])[0, 8:] > 0
    distances = (documents != query).sum(axis=1)
    assert documents.sum(axis=1).max() == n_certainty
    assert np.ptp(distances) == 1


def test_the_class_of_a_query_weighs_less_the_fewer_terms_it_has() -> None:
    plain = class_encoder()
    encoder = replace(plain, class_code=replace(code_of(plain), half_terms=3))
    texts = [" ".join(WORDS[:4]), f"{WORDS[1]} {WORDS[1]} {WORDS[2]} zzqx", "zzqx", ""]
    factors = np.array([4 / 7, 2 / 5, 1 / 4, 1 / 4])[:, None]
    before, weights = plain.query_weights(texts), encoder.query_weights(texts)
    np.testing.assert_allclose(weights[:, :16], factors * before[:, :16], rtol=1e-5)
    assert np.array_equal(weights[:, 16:], before[:, 16:])
    assert np.array_equal(encoder.encode_queries(texts), plain.encode_queries(texts))
    assert np.array_equal(encoder.encode(texts), plain.encode(texts))


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 11))
def test_fitted_signs_make_codewords_as_far_as_the_weights_do_but_for_a_single_change(
    seed: int, classes: int, n_bits: int
) -> None:
    rng = np.random.default_rng(seed)
    codewords = rng.choice([-1, 1], size=(classes, n_bits)).astype(np.float32)
    weights = rng.uniform(-1, 1, size=(4, n_bits)).astype(np.float32)

    def variance(signs: list[float], row: int) -> float:
        differences = [
            sum(
                (z - float(w)) * float(c) for z, w, c in zip(signs, weights[row], word, strict=True)
            )
            for word in codewords
        ]
        mean = sum(differences) / classes
        return sum((difference - mean) ** 2 for difference in differences) / classes

    for row, fitted in enumerate(fit_signs(weights, covariance_of(codewords))):
        signs = [float(z) for z in fitted]
        assert set(signs) <= {-1, 1}
        found = variance(signs, row)
        assert found <= variance([1.0 if w > 0 else -1.0 for w in weights[row]], row) + 1e-6
        for bit in range(n_bits):
            changed = [-z if position == bit else z for position, z in enumerate(signs)]
            assert found <= variance(changed, row) + 1e-5


def test_a_query_of_few_terms_and_no_clear_class_has_fitted_signs() -> None:
    plain = class_encoder()
    encoder = replace(plain, class_code=replace(code_of(plain), few_terms=4))
    texts = [*WORDS, *random_texts(200, seed=8)]
    assert isinstance(plain.features, TextFeatures)
    n_terms = np.diff(plain.features.transform(texts).indptr)
    highest = [max(probabilities(plain, code_of(plain).queries, text)) for text in texts]
    is_question = (n_terms < 4) & (np.array(highest) < 0.5)
    before, weights = plain.query_weights(texts), encoder.query_weights(texts)
    assert 0 < is_question.sum() < len(texts)
    assert np.array_equal(weights[~is_question], before[~is_question])
    assert np.array_equal(np.abs(weights), np.abs(before))
    fitted = fit_signs(before[is_question, :12], covariance_of(code_of(plain).codewords))
    assert np.array_equal(np.sign(weights[is_question, :12]), fitted)
    assert (weights != before).any()
    assert np.array_equal(encoder.encode(texts), plain.encode(texts))
    assert np.array_equal(
        unpack_codes(encoder.encode_queries(texts)), (weights > 0).astype(np.uint8)
    )


@pytest.mark.skipif(text_features.native is None, reason="the module was not built")
@given(
    seed=st.integers(0, 2**32 - 1), classes=st.integers(2, 40), n_bits=st.sampled_from([1, 7, 16])
)
def test_the_compiled_weights_of_a_query_are_those_of_numpy(
    seed: int, classes: int, n_bits: int
) -> None:
    rng = np.random.default_rng(seed)
    maps = [
        ClassMap(rng.normal(size=(50, classes)).astype(np.float32), np.zeros(classes, np.float32))
        for _ in range(2)
    ]
    codewords = rng.choice([-1, 1], size=(classes, n_bits)).astype(np.float32)
    certainty = np.sort(rng.normal(size=3).astype(np.float32))
    code = ClassCode(maps[0], maps[1], codewords, certainty, 4.0, 0.5, 2.0, 40)
    for _ in range(5):
        columns = np.sort(rng.choice(50, rng.integers(0, 30), replace=False))
        values = rng.random(len(columns), np.float32)
        compiled = code.weights_of_row(columns, values)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(class_code, "native", None)
            assert np.array_equal(code.weights_of_row(columns, values), compiled)


def test_the_terms_of_a_vector_are_its_entries_that_are_not_0() -> None:
    one_class = ClassMap(np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.float32))
    codewords = np.array([[1, 1], [1, -1], [-1, 1]], dtype=np.float32)
    code = ClassCode(one_class, one_class, codewords, np.zeros(1, dtype=np.float32))
    rows = np.array([[0.5, 0, 2], [1, 2, 3]], dtype=np.float32)
    weights = replace(code, half_terms=2).query_weights(rows)
    expected = code.query_weights(rows) * np.array([[0.5], [0.6]])
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_a_softened_map_divides_its_scores() -> None:
    encoder = class_encoder()
    queries = code_of(encoder).queries
    for text in random_texts(5, seed=6):
        expected = np.array(probabilities(encoder, queries, text)) ** 0.5
        found = probabilities(encoder, queries.soften(2), text)
        assert found == pytest.approx(expected / expected.sum(), abs=1e-5)


def test_queries_are_read_alike_one_by_one_and_together() -> None:
    encoder = class_encoder()
    texts = random_texts(40, seed=4)
    one_by_one = np.vstack([encoder.query_weights([text]) for text in texts])
    np.testing.assert_allclose(one_by_one, encoder.query_weights(texts), atol=1e-6)
    assert encoder.query_weights([]).shape == (0, 32)
    assert encoder.encode([]).shape == (0, 4)


def test_a_class_code_is_written_and_read(tmp_path: Path) -> None:
    encoder = class_encoder()
    loaded = write_artifact(tmp_path / "e", encoder, random_texts(50))
    texts = random_texts(100, seed=9)
    assert np.array_equal(loaded.encode(texts), encoder.encode(texts))
    assert np.array_equal(loaded.query_weights(texts), encoder.query_weights(texts))
    spec = json.loads((tmp_path / "e" / "encoder.json").read_text())["class_code"]
    assert spec == {"classes": 5, "codeword_bits": 12, "certainty_bits": 4}


def test_the_weights_of_a_query_are_written_and_read(tmp_path: Path) -> None:
    encoder = class_encoder()
    code = replace(code_of(encoder), certainty_power=2.5, certainty_weight=0.25, half_terms=1.5)
    code = replace(code, few_terms=6)
    encoder = replace(encoder, class_code=code)
    loaded = write_artifact(tmp_path / "e", encoder, random_texts(50))
    assert code_of(loaded).certainty_power == 2.5
    assert code_of(loaded).certainty_weight == 0.25
    assert code_of(loaded).half_terms == 1.5
    assert code_of(loaded).few_terms == 6
    texts = random_texts(30, seed=9)
    assert np.array_equal(loaded.query_weights(texts), encoder.query_weights(texts))
    spec = json.loads((tmp_path / "e" / "encoder.json").read_text())["class_code"]
    assert spec["certainty_power"] == 2.5
    assert spec["certainty_weight"] == 0.25
    assert spec["half_terms"] == 1.5
    assert spec["few_terms"] == 6


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("certainty_power", -1, "from 0 to 6"),
        ("certainty_power", 7, "from 0 to 6"),
        ("certainty_weight", 0, "from 0.01 to 1"),
        ("certainty_weight", 1.5, "from 0.01 to 1"),
        ("half_terms", -1, "from 0 to 1000"),
        ("half_terms", 1001, "from 0 to 1000"),
        ("few_terms", -1, "from 0 to 1000"),
        ("few_terms", 1001, "from 0 to 1000"),
    ],
)
def test_a_setting_of_query_weights_out_of_its_range_is_refused(
    tmp_path: Path, field: str, value: float, rule: str
) -> None:
    setting: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=f"{field} is {value}; it must be {rule}"):
        replace(code_of(class_encoder()), **setting)
    write_artifact(tmp_path / "e", class_encoder(), random_texts(50))
    rehash(tmp_path / "e", lambda manifest: manifest["class_code"].update(setting))
    with pytest.raises(ArtifactError, match=rf"class_code\.{field}"):
        load_encoder(tmp_path / "e")


def test_an_encoder_without_a_class_code_says_nothing_of_one(tmp_path: Path) -> None:
    write_artifact(tmp_path / "e", text_encoder(), random_texts(50))
    assert "class_code" not in json.loads((tmp_path / "e" / "encoder.json").read_text())


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("codewords", np.zeros((5, 12)), "entries -1 and 1"),
        ("codewords", np.ones((4, 12)), "must be float32 \\(5, 12\\)"),
        ("certainty", np.full(4, np.nan), "NaN or infinity"),
        ("queries.weight", np.ones((3, 5)), "must be float32 \\(20, 5\\)"),
        ("documents.bias", None, "is missing"),
    ],
)
def test_a_broken_class_code_is_refused(
    tmp_path: Path, name: str, value: np.ndarray | None, reason: str
) -> None:
    folder = tmp_path / "e"
    write_artifact(folder, class_encoder(), random_texts(50))
    tensors = load_file(folder / "weights.safetensors")
    if value is None:
        del tensors[f"class_code.{name}"]
    else:
        tensors[f"class_code.{name}"] = value.astype(np.float32)
    save_file(tensors, folder / "weights.safetensors")
    rehash(folder)
    with pytest.raises(ArtifactError, match=reason):
        load_encoder(folder)


def test_bits_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    write_artifact(folder, class_encoder(), random_texts(50))
    rehash(folder, lambda manifest: manifest["class_code"].update(certainty_bits=5))
    with pytest.raises(ArtifactError, match="16 outputs; it must have 15"):
        load_encoder(folder)


def test_onnx_has_no_class_code() -> None:
    with pytest.raises(OnnxError, match="it encodes queries in another way"):
        onnx_model(class_encoder())


def test_maps_of_other_shapes_are_refused() -> None:
    code = code_of(class_encoder())
    with pytest.raises(ValueError, match="do not fit 4 codewords"):
        replace(code, codewords=code.codewords[:4])


@pytest.mark.parametrize("seed", range(4))
def test_a_query_is_explained_by_the_class_bits_that_queries_have(seed: int) -> None:
    encoder = class_encoder(seed=seed)
    found = explain_text(encoder, f"{WORDS[0]} {WORDS[15]}")
    texts = [f"{WORDS[0]} {WORDS[15]}", WORDS[0]]
    whole, without = unpack_codes(encoder.encode_queries(texts))
    (last,) = [item for item in found if item.term == WORDS[15]]
    assert last.flipped_bits == np.flatnonzero(whole != without).tolist()
    weights = encoder.query_weights(texts).astype(np.float64)
    first, second = 1 / (1 + np.exp(-weights))
    assert last.influence == pytest.approx(np.abs(first - second).sum(), abs=1e-5)
