from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hummingbit.encoder.text_model import ModelError
from hummingbit.training.model_folders import read_model
from tests.support.models import SIZE, public_model, tokenizer_json, write_model

TEXTS = ["apple bread cheese", "matrix vector", "honey"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder)
    return folder


def edit(folder: Path, name: str, **changes: Any) -> None:
    settings = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**settings, **changes}))


def test_settings_are_those_of_the_folder(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "passage": "passage: "}
    write_model(tmp_path / "model", "cls_token", prompts=prompts)
    features = read_model(tmp_path / "model").features
    assert (features.pooling, features.max_tokens, features.dimension) == ("cls", 24, SIZE)
    assert (features.query_prompt, features.document_prompt) == ("query: ", "passage: ")
    assert features.l2_normalize
    given = {"max_tokens": 9, "dimension": 5, "query_prompt": "", "document_prompt": "d"}
    features = read_model(tmp_path / "model", **given).features  # type: ignore[arg-type]
    assert {name: getattr(features, name) for name in given} == given


def test_onnx_in_the_folder_is_used_as_it_is(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "model.safetensors").unlink()
    (copy / "onnx").mkdir()
    written = read_model(folder)
    (copy / "onnx/model.onnx").write_bytes(written.features.model)
    read = read_model(copy)
    assert read.features.model == written.features.model
    assert read.sha256 != written.sha256
    np.testing.assert_array_equal(read.features.transform(TEXTS), written.features.transform(TEXTS))


def test_roberta_begins_its_positions_after_the_padding(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    edit(copy, "config.json", model_type="xlm-roberta", pad_token_id=1)
    weights = load_file(copy / "model.safetensors")
    places = weights["embeddings.position_embeddings.weight"]
    weights["embeddings.position_embeddings.weight"] = np.vstack([places[:2] * 9, places])
    save_file(
        {f"roberta.{name}": weight for name, weight in weights.items()}, copy / "model.safetensors"
    )
    expected = read_model(folder).features.transform(TEXTS)
    np.testing.assert_array_equal(read_model(copy).features.transform(TEXTS), expected)


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def only_pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


def without_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, folder / "model.safetensors")


def of_other_architecture(folder: Path) -> None:
    edit(folder, "config.json", model_type="mpnet")


def pooled_by_maximum(folder: Path) -> None:
    edit(folder, "1_Pooling/config.json", pooling_mode_mean_tokens=False)
    edit(folder, "1_Pooling/config.json", pooling_mode_max_tokens=True)


def with_a_dense_module(folder: Path) -> None:
    kind = "sentence_transformers.models.Dense"
    (folder / "modules.json").write_text(json.dumps([{"type": kind, "path": "2_Dense"}]))


def with_a_path_that_leads_out(folder: Path) -> None:
    kind = "sentence_transformers.models.Pooling"
    (folder / "modules.json").write_text(json.dumps([{"type": kind, "path": "../../etc"}]))


def with_a_larger_tokenizer(folder: Path) -> None:
    words = [f"word{number}" for number in range(500)]
    (folder / "tokenizer.json").write_text(tokenizer_json(["[PAD]", "[UNK]", "[CLS]", *words]))


def of_a_smaller_vocabulary(folder: Path) -> None:
    edit(folder, "config.json", vocab_size=80)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "apple"]
    (folder / "tokenizer.json").write_text(tokenizer_json(words))


def with_cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "there is no such folder"),
        (without("config.json"), "has no config.json"),
        (without("model.safetensors"), "has no weights; a model has model.safetensors or"),
        (without("tokenizer.json"), "has no tokenizer.json"),
        (only_pickled, r"only as pytorch_model.bin, a pickle, .* save them as model.safetensors"),
        (without_a_weight, "has no weight encoder.layer.1.output.dense.bias"),
        (of_other_architecture, "is of the architecture 'mpnet'"),
        (pooled_by_maximum, "pools by pooling_mode_max_tokens"),
        (with_a_dense_module, "has a module Dense"),
        (with_a_path_that_leads_out, "names a file outside of the folder"),
        (with_a_larger_tokenizer, "the tokenizer has 503 tokens, and the network reads fewer"),
        (of_a_smaller_vocabulary, "has 5 tokens, and config.json 80; they are of different"),
        (with_cut_weights, "model.safetensors"),
    ],
)
def test_a_folder_that_is_no_model_gets_a_clear_error(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    spoil(copy)
    with pytest.raises(ModelError, match=message) as raised:
        read_model(copy)
    assert str(copy) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_onnx_one_sentence_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"needs the package onnx: pip install .*\[train\]"):
        read_model(folder)


def test_the_public_model_has_the_published_similarities(tmp_path: Path) -> None:
    # The card of all-MiniLM-L6-v2 and the manual of sentence-transformers print these cosines.
    model = read_model(public_model(tmp_path / "minilm")).features
    assert (model.pooling, model.max_tokens, model.dimension) == ("mean", 256, 384)
    vectors = model.transform(
        [
            "The weather is lovely today.",
            "It's so sunny outside!",
            "He drove to the stadium.",
        ]
    )
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-4)
