"""Reads a language model from a folder of sentence-transformers, as ONNX.

The folder has the network as ``model.onnx`` or ``onnx/model.onnx``, or its weights as
``model.safetensors``; weights of BERT, RoBERTa and XLM-RoBERTa are written as an ONNX graph here.
Besides, it has ``tokenizer.json``, and tells in ``modules.json``, ``1_Pooling/config.json``,
``sentence_bert_config.json`` and ``config_sentence_transformers.json`` how vectors are made.
Nothing is unpickled, no code of a model is run, and nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from hummingbit.encoder.artifact import MANIFEST, ArtifactError, load_encoder
from hummingbit.encoder.limits import MAX_TOKENS
from hummingbit.encoder.text_model import (
    ModelError,
    Pooling,
    TextModel,
    count_tokens,
)
from hummingbit.foundation.errors import counted, install_command
from hummingbit.foundation.files import read_regular_file

Weights = Mapping[str, npt.NDArray[Any]]

NETWORKS = ("onnx/model.onnx", "model.onnx")
SAFETENSORS = "model.safetensors"
PICKLES = ("pytorch_model.bin", "model.bin", "model.pt", "model.pkl")
_MAX_BYTES = 4 << 30
_MAX_CONFIG_BYTES = 64 << 20
# The operators of the graph: those of ONNX, and onnxruntime's own, which fuse several of them.
_OPSET, _FUSED, _FUSED_OPSET = 17, "com.microsoft", 1
_IR_VERSION = 8
_FLOAT = 1
_POOLINGS: Mapping[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_DEFAULT_MAX_TOKENS = 512
_LEAST_USED = 0.9


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """A model as it was read, and where from; `sha256` is that of its network or weights."""

    name: str
    sha256: str
    features: TextModel


def read_model(
    folder: Path,
    *,
    max_tokens: int | None = None,
    dimension: int | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
) -> ModelFolder:
    """Read the model in `folder`; what is given replaces what the folder says.

    The folder may be an encoder that contains a model (:mod:`hummingbit.encoder.artifact`).
    `dimension` keeps the first so many numbers of a vector, which Matryoshka models allow.

    Raises:
        ModelError: if the folder is not a model of a known kind, or lacks a file. The message names
            the file.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such folder; a model is the folder that it is in")
    if (folder / MANIFEST).is_file():
        given = {
            "max_tokens": max_tokens,
            "dimension": dimension,
            "query_prompt": query_prompt,
            "document_prompt": document_prompt,
        }
        return _model_of_encoder(folder, {k: v for k, v in given.items() if v is not None})
    config = _read_json(folder / "config.json", needed=True)
    network, digest = _read_network(folder, config)
    pooling, normalizes, size = _read_pooling(folder, config)
    tokenizer = _read_tokenizer(folder, config)
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    if query_prompt is None:
        query_prompt = prompts.get("query", "")
    if document_prompt is None:
        document_prompt = prompts.get("document", prompts.get("passage", ""))
    try:
        features = TextModel(
            model=network,
            tokenizer=tokenizer,
            dimension=size if dimension is None else dimension,
            pooling=pooling,
            max_tokens=max_tokens or _read_max_tokens(folder, config),
            query_prompt=query_prompt,
            document_prompt=document_prompt,
            l2_normalize=normalizes,
        )
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    return ModelFolder(folder.resolve().name, digest, features)


def _model_of_encoder(folder: Path, settings: Mapping[str, Any]) -> ModelFolder:
    try:
        encoder = load_encoder(folder)
        features = encoder.features
        if not isinstance(features, TextModel):
            raise ModelError("the encoder contains no language model")
        features = replace(features, **settings)
    except (ArtifactError, ModelError) as error:
        reason = str(error)
        raise ModelError(
            reason if reason.startswith(str(folder)) else f"{folder}: {reason}"
        ) from error
    about = encoder.metadata.get("model") or {}
    digest = hashlib.sha256(features.model).hexdigest()
    return ModelFolder(about.get("name", folder.resolve().name), digest, features)


def _read_network(folder: Path, config: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the network as ONNX, and the SHA-256 of the file that it was read from."""
    for name in (*NETWORKS, SAFETENSORS):
        if (folder / name).is_file():
            contents = _read(folder / name, _MAX_BYTES)
            digest = hashlib.sha256(contents).hexdigest()
            if name != SAFETENSORS:
                return contents, digest
            try:
                return onnx_of_weights(load_tensors(contents), config), digest
            except (SafetensorError, ModelError) as error:
                raise ModelError(f"{folder / name}: {error}") from error
    expected = f"{SAFETENSORS} or {NETWORKS[0]}"
    pickles = [name for name in PICKLES if (folder / name).is_file()]
    if pickles:
        reason = f"has its weights only as {pickles[0]}, a pickle, which can run any program"
        raise ModelError(f"{folder}: {reason}; save them as {expected}")
    raise ModelError(f"{folder}: has no weights; a model has {expected}")


def _read_tokenizer(folder: Path, config: Mapping[str, Any]) -> bytes:
    """Return the file of the tokenizer, which has about as many tokens as the network."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        hint = "save the model's fast tokenizer there"
        raise ModelError(f"{folder}: has no tokenizer.json; {hint}")
    contents = _read(path, _MAX_CONFIG_BYTES)
    n_rows = config.get("vocab_size")
    if isinstance(n_rows, int):
        try:
            n_tokens = count_tokens(contents)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error
        # Networks have up to a few hundred rows that no token uses.
        if not _LEAST_USED * n_rows <= n_tokens <= n_rows:
            found = f"has {counted(n_tokens, 'token')}, and config.json {n_rows:,}"
            raise ModelError(f"{path}: {found}; they are of different models")
    return contents


def _read_pooling(folder: Path, config: Mapping[str, Any]) -> tuple[Pooling, bool, int]:
    """Return the pooling, whether vectors are scaled to length 1, and their dimension."""
    modules = _read_json(folder / "modules.json") or []
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    unknown = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if unknown:
        raise ModelError(
            f"{folder / 'modules.json'}: has a module {unknown[0]}; a model is read that consists"
            " of Transformer, Pooling and perhaps Normalize"
        )
    paths = [module.get("path", "") for module in modules if "Pooling" in str(module.get("type"))]
    path = folder / (paths[0] if paths else "1_Pooling") / "config.json"
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"{folder / 'modules.json'}: names a file outside of the folder")
    settings = _read_json(path)
    chosen = [mode for mode, value in settings.items() if mode.startswith("pooling_mode") and value]
    if not chosen:
        chosen = ["pooling_mode_mean_tokens"]
    if len(chosen) > 1 or chosen[0] not in _POOLINGS:
        found = f"pools by {', '.join(chosen)}"
        raise ModelError(f"{path}: {found}; it must be by one of {', '.join(_POOLINGS)}")
    size = settings.get("word_embedding_dimension") or config.get("hidden_size")
    if not isinstance(size, int):
        raise ModelError(f"{folder / 'config.json'}: has no hidden_size")
    # Without a list of modules, cosines are meant, which need no length.
    return _POOLINGS[chosen[0]], "Normalize" in kinds or not kinds, size


def _read_max_tokens(folder: Path, config: Mapping[str, Any]) -> int:
    given = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    if given is None:
        given = config.get("max_position_embeddings", _DEFAULT_MAX_TOKENS) - _offset(config)
    return min(int(given), MAX_TOKENS)


def _read_json(path: Path, *, needed: bool = False) -> Any:
    if not path.is_file():
        if needed:
            raise ModelError(f"{path.parent}: has no {path.name}; it is no folder of a model")
        return {}
    try:
        return json.loads(_read(path, _MAX_CONFIG_BYTES))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is not JSON: {error}") from error


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        return read_regular_file(path.resolve(), max_bytes)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _offset(config: Mapping[str, Any]) -> int:
    """Return the row of the first position: the models of RoBERTa's family leave some unused."""
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
        return int(config.get("pad_token_id", 1)) + 1
    return 0


def onnx_of_weights(weights: Weights, config: Mapping[str, Any]) -> bytes:
    """Return the ONNX file of an encoder of BERT's architecture with these `weights`.

    The graph uses onnxruntime's fused operators, so it is as fast as one that onnxruntime's own
    optimizer for transformers has rewritten. Its inputs are ``input_ids`` and ``attention_mask``,
    int32 ``[N, L]``, and its output ``last_hidden_state``, float32 ``[N, L, E]``.

    Raises:
        ModelError: if `config` is of another architecture, a weight is missing, or onnx is not
            installed.
    """
    return _BertGraph(weights, config).contents()


@dataclass
class _BertGraph:
    weights: Weights
    config: Mapping[str, Any]
    nodes: list[Any] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        kinds = ("bert", "roberta", "xlm-roberta", "camembert")
        kind, act = self.config.get("model_type"), self.config.get("hidden_act", "gelu")
        if kind not in kinds:
            found = f"is of the architecture {kind!r}"
            raise ModelError(f"{found}; without {NETWORKS[0]} it must be {', '.join(kinds)}")
        position = self.config.get("position_embedding_type", "absolute")
        if act != "gelu" or position != "absolute":
            found = f"has the activation {act!r} and {position!r} positions"
            raise ModelError(f"{found}; without {NETWORKS[0]} they must be 'gelu' and 'absolute'")
        try:
            self._onnx = importlib.import_module("onnx")
        except ModuleNotFoundError as error:
            needed = install_command("train")
            raise ModelError(f"writing a model as ONNX needs the package onnx: {needed}") from error
        prefixes = ("bert.", "roberta.", "")
        start = "embeddings.word_embeddings.weight"
        self._prefix = next((prefix for prefix in prefixes if prefix + start in self.weights), "")
        self._epsilon = float(self.config.get("layer_norm_eps", 1e-12))

    def contents(self) -> bytes:
        """Return the file."""
        hidden = self._embeddings()
        for number in range(int(self.config["num_hidden_layers"])):
            hidden = self._block(f"encoder.layer.{number}.", hidden)
        self._add("Identity", [hidden], "last_hidden_state")
        onnx = self._onnx
        size = int(self.config["hidden_size"])
        integers, floats = onnx.TensorProto.INT32, onnx.TensorProto.FLOAT
        inputs = [
            onnx.helper.make_tensor_value_info(name, integers, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        output = onnx.helper.make_tensor_value_info(
            "last_hidden_state", floats, ["texts", "tokens", size]
        )
        graph = onnx.helper.make_graph(self.nodes, "encoder", inputs, [output], self.tensors)
        opsets = [("", _OPSET), (_FUSED, _FUSED_OPSET)]
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid(*opset) for opset in opsets],
            ir_version=_IR_VERSION,
        )
        contents: bytes = model.SerializeToString()
        return contents

    def _embeddings(self) -> str:
        """Add the sum of the vectors of tokens and places, normalized."""
        words = self._weight("embeddings.word_embeddings.weight")
        positions = self._array("embeddings.position_embeddings.weight")[_offset(self.config) :]
        # One text at a time is read, so all tokens are of the first kind.
        positions = positions + self._array("embeddings.token_type_embeddings.weight")[0]
        self._add("Gather", [words, "input_ids"], "words")
        self._add("Shape", ["input_ids"], "length", start=1, end=2)
        start = self._constant("start", np.zeros(1, np.int64))
        self._add("Slice", [self._constant("positions", positions), start, "length"], "places")
        self._add("Add", ["words", "places"], "sum")
        norm = [self._weight(f"embeddings.LayerNorm.{part}") for part in ("weight", "bias")]
        return self._add("LayerNormalization", ["sum", *norm], "embedded", epsilon=self._epsilon)

    def _block(self, layer: str, hidden: str) -> str:
        """Add a layer: attention, and two maps with GELU between them."""
        parts = [f"{layer}attention.self.{part}." for part in ("query", "key", "value")]
        weight = np.concatenate([self._array(part + "weight").T for part in parts], axis=1)
        bias = np.concatenate([self._array(part + "bias") for part in parts])
        attended = self._add(
            "Attention",
            [
                hidden,
                self._constant(layer + "attention.weight", weight),
                self._constant(layer + "attention.bias", bias),
                "attention_mask",
            ],
            layer + "attended",
            _FUSED,
            num_heads=int(self.config["num_attention_heads"]),
        )
        hidden = self._map_and_add(layer + "attention.output", attended, hidden)
        wide = self._multiply(layer + "intermediate.dense", hidden)
        bias_name = self._weight(layer + "intermediate.dense.bias")
        active = self._add("BiasGelu", [wide, bias_name], layer + "active", _FUSED)
        return self._map_and_add(layer + "output", active, hidden)

    def _map_and_add(self, name: str, hidden: str, skipped: str) -> str:
        """Add ``norm(map(hidden) + skipped)``."""
        mapped = self._multiply(f"{name}.dense", hidden)
        names = (f"{name}.LayerNorm.weight", f"{name}.LayerNorm.bias", f"{name}.dense.bias")
        inputs = [mapped, skipped, *map(self._weight, names)]
        kind = "SkipLayerNormalization"
        return self._add(kind, inputs, f"{name}.normalized", _FUSED, epsilon=self._epsilon)

    def _multiply(self, name: str, hidden: str) -> str:
        weight = self._constant(f"{name}.weight", self._array(f"{name}.weight").T)
        return self._add("MatMul", [hidden, weight], f"{name}.product")

    def _weight(self, name: str) -> str:
        return self._constant(name, self._array(name))

    def _array(self, name: str) -> npt.NDArray[np.float32]:
        array = self.weights.get(self._prefix + name)
        if array is None:
            raise ModelError(f"has no weight {name}")
        return np.asarray(array, dtype=np.float32)

    def _constant(self, name: str, array: npt.NDArray[Any]) -> str:
        tensor = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        self.tensors.append(tensor)
        return name

    def _add(
        self, kind: str, inputs: Sequence[str], output: str, domain: str = "", **settings: Any
    ) -> str:
        make: Callable[..., Any] = self._onnx.helper.make_node
        self.nodes.append(make(kind, list(inputs), [output], domain=domain, **settings))
        return output


def in_8_bits(model: TextModel) -> TextModel:
    """Return `model` with weights and activations of 8 bits.

    Each column of a weight has a scale, and so have the activations of each matrix product, which
    are rounded as they are computed (onnxruntime's dynamic quantization). Weights have 7 bits, so
    that sums of products fit 16 bits: processors without VNNI would cut them off otherwise, and
    codes would depend on the processor.

    Raises:
        ModelError: if onnx is not installed, or the network cannot be quantized.
    """
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = f"a model in 8 bits needs the package onnx: {install_command('train')}"
        raise ModelError(message) from error
    logger = logging.getLogger()
    level = logger.level
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.onnx"), Path(folder, "model.int8.onnx")
        source.write_bytes(model.model)
        logger.setLevel(logging.ERROR)  # the quantizer recommends a step that changes nothing here
        try:
            quantize_dynamic(
                source,
                target,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=True,
                # The type of what fused operators return, which onnx cannot infer.
                extra_options={"DefaultTensorType": _FLOAT},
            )
        except Exception as error:
            reason = str(error).strip().partition("\n")[0][:300]
            raise ModelError(f"the network cannot be brought to 8 bits: {reason}") from error
        finally:
            logger.setLevel(level)
        return replace(model, model=target.read_bytes(), precision="int8")
