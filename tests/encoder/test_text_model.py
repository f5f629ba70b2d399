from __future__ import annotations

import pickle
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder.artifact import (
    ArtifactError,
    install_artifact,
    load_encoder,
    write_artifact,
)
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_model import ModelError, Pooling, TextModel
from hummingbit.foundation.errors import InputError
from tests.support.encoders import WORDS, random_layers, random_texts
from tests.support.models import (
    SIZE,
    VOCABULARY,
    oracle,
    random_weights,
    tiny_model,
    tokenizer_json,
)

TEXTS = ["apple bread", "matrix vector tensor scalar", "zzz apples", "honey", "", "?"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TextModel:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def model_encoder(model: TextModel, n_bits: int = 16) -> Encoder:
    rng = np.random.default_rng(0)
    thresholds = rng.normal(size=n_bits).astype(np.float32)
    layers = random_layers(rng, model.dimension, n_bits)
    return Encoder(model, layers, thresholds, {}, hybrid_weight=2.5)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("l2_normalize", [True, False])
@pytest.mark.parametrize("dimension", [SIZE, 12])
def test_vectors_are_those_of_the_network_pooled(
    model: TextModel, pooling: Pooling, l2_normalize: bool, dimension: int
) -> None:
    changed = replace(model, pooling=pooling, l2_normalize=l2_normalize, dimension=dimension)
    weights = random_weights()
    for text, vector in zip(TEXTS, changed.transform(TEXTS), strict=True):
        hidden = oracle(weights, changed.tokenize([text])[0].ids)
        pooled = {"mean": hidden.mean(axis=0), "cls": hidden[0], "last": hidden[-1]}[pooling]
        expected = pooled[:dimension]
        if l2_normalize:
            expected = expected / np.linalg.norm(expected)
        np.testing.assert_allclose(vector, expected, atol=2e-5)


@given(st.lists(st.lists(st.sampled_from([*WORDS, "zq"]), max_size=30).map(" ".join), max_size=40))
def test_no_text_depends_on_those_beside_it(model: TextModel, texts: list[str]) -> None:
    together = model.transform(texts)
    weights, terms = model.transform_queries(texts)
    np.testing.assert_array_equal(together, weights)
    for row, text in enumerate(texts):
        np.testing.assert_array_equal(together[row], model.transform([text])[0])
        assert terms[row] == model.transform_queries([text])[1][0]
    encoder = model_encoder(model)
    codes, queries = encoder.encode(texts), encoder.query_weights(texts)
    for row, text in enumerate(texts):
        np.testing.assert_array_equal(codes[row], encoder.encode([text])[0])
        np.testing.assert_array_equal(queries[row], encoder.query_weights([text])[0])


def test_prompts_precede_queries_and_documents(model: TextModel) -> None:
    prompted = replace(model, query_prompt="q: ", document_prompt="d: ")
    np.testing.assert_array_equal(prompted.transform(["apple"]), model.transform(["d: apple"]))
    queries, terms = prompted.transform_queries(["apple jam", "", "§"])
    np.testing.assert_array_equal(queries[0], model.transform(["q: apple jam"])[0])
    # The tokens of the prompt are none of the query, and the unknown token says nothing.
    assert [term.recognized_terms for term in terms] == [2, 0, 0]


def test_a_text_is_read_to_its_limit_of_tokens(model: TextModel) -> None:
    words = [WORDS[i % 10] for i in range(60)]
    cut, short = model.tokenize([" ".join(words), "apple"])
    assert len(cut.ids) == model.max_tokens == 24
    assert cut.is_cut
    assert not short.is_cut
    first = " ".join(words[:22])
    np.testing.assert_array_equal(model.transform([" ".join(words)]), model.transform([first]))
    longer = replace(model, max_tokens=40)
    assert not np.array_equal(longer.transform([" ".join(words)]), model.transform([first]))


def test_of_a_million_characters_the_first_are_read(model: TextModel) -> None:
    (tokens,) = model.tokenize(["apple " * 170_000])
    assert tokens.is_cut
    assert len(tokens.ids) == model.max_tokens
    (spaces,) = model.tokenize([" " * 1_000_000])
    assert spaces.n_known == 0


def test_it_is_written_loaded_and_installed_as_any_encoder(
    model: TextModel, tmp_path: Path
) -> None:
    encoder = model_encoder(model)
    texts = random_texts(40)
    written = write_artifact(tmp_path / "encoder", encoder, texts)
    assert (written.kind, written.dimension, written.hybrid_weight) == ("text", None, 2.5)
    installed = install_artifact(tmp_path / "encoder", tmp_path / "copy")
    assert installed.fingerprint == written.fingerprint
    for one in (written, installed, pickle.loads(pickle.dumps(written))):  # noqa: S301 - ours
        np.testing.assert_array_equal(one.encode(texts), encoder.encode(texts))
        np.testing.assert_array_equal(one.query_weights(texts), encoder.query_weights(texts))
    settings = {field.name for field in fields(TextModel)}
    assert isinstance(written.features, TextModel)
    assert all(getattr(written.features, name) == getattr(model, name) for name in settings)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_changed_or_missing_file_is_refused(model: TextModel, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "encoder"
    write_artifact(folder, model_encoder(model), random_texts(20))
    path = folder / name
    contents = path.read_bytes()
    path.write_bytes(contents[:-1] + bytes([contents[-1] ^ 1]))
    with pytest.raises(ArtifactError, match=f"{name}: has changed"):
        load_encoder(folder)
    path.unlink()
    with pytest.raises(ArtifactError, match=name):
        load_encoder(folder)


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_without_the_extra_one_sentence_says_what_to_install(
    model: TextModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    folder = tmp_path / "encoder"
    write_artifact(folder, model_encoder(model), random_texts(20))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ArtifactError, match=r"needs onnxruntime and tokenizers: pip .*\[model\]"):
        load_encoder(folder)


def test_a_tokenizer_that_disagrees_with_the_network_is_refused(model: TextModel) -> None:
    larger = tokenizer_json([*VOCABULARY, "another"]).encode()
    with pytest.raises(ModelError, match=rf"tokenizer has {len(VOCABULARY) + 1} tokens"):
        replace(model, tokenizer=larger)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": b"nonsense"}, "onnxruntime cannot read the network"),
        ({"tokenizer": b"{}"}, "tokenizers cannot read the tokenizer"),
        ({"dimension": SIZE + 1}, rf"dimension is {SIZE + 1}; the network's vectors have {SIZE}"),
    ],
)
def test_a_malformed_part_is_named(model: TextModel, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(model, **change)


def test_a_network_with_other_inputs_or_outputs_is_refused(model: TextModel) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto

    def network(inputs: list[str], shape: list[int | str]) -> bytes:
        tensors = [helper.make_tensor_value_info(name, kinds.INT64, [1, 2]) for name in inputs]
        output = helper.make_tensor_value_info("out", kinds.FLOAT, shape)
        node = helper.make_node("Cast", [inputs[0]], ["out"], to=kinds.FLOAT)
        graph = helper.make_graph([node], "graph", tensors, [output])
        opset = [helper.make_opsetid("", 17)]
        contents: bytes = helper.make_model(
            graph, opset_imports=opset, ir_version=8
        ).SerializeToString()
        return contents

    with pytest.raises(ModelError, match="the network's inputs are pixels"):
        replace(model, model=network(["pixels"], [1, 2]))
    with pytest.raises(ModelError, match=r"returns float32\[1, 2\] .* must return float32"):
        replace(model, model=network(["input_ids", "attention_mask"], [1, 2]))


def test_a_network_may_not_read_other_files(model: TextModel, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    network = onnx.load_from_string(model.model)
    (tmp_path / "elsewhere").write_bytes(network.graph.initializer[0].raw_data)
    onnx.external_data_helper.set_external_data(
        network.graph.initializer[0], str(tmp_path / "elsewhere")
    )
    network.graph.initializer[0].ClearField("raw_data")
    with pytest.raises(ModelError, match="onnxruntime cannot read the network"):
        replace(model, model=network.SerializeToString())


def test_what_is_no_list_of_texts_is_refused(model: TextModel) -> None:
    for inputs in ("apple", [1], [None]):
        with pytest.raises(InputError, match="text: must be a sequence of strings"):
            model.transform(inputs)  # type: ignore[arg-type]


def test_golden_codes_are_checked(model: TextModel, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    written = write_artifact(folder, model_encoder(model), random_texts(20))
    codes = {code_to_hex(code) for code in written.encode(random_texts(20))}
    golden = (folder / "golden.json").read_text()
    assert any(code in golden for code in codes)
