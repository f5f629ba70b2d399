"""An encoder as an ONNX graph, for runtimes without Python.

Texts are split into terms outside the graph, because no ONNX operator splits text as an analyzer
does. The rest is in the graph: term weights, the network, thresholds and packing.

=========  ==================  ====================================================================
input      ``columns``         int64 ``[N, M]``: each text's distinct known terms, as lines of the
                               vocabulary from 0; rows are padded with 0
           ``counts``          float32 ``[N, M]``: how often each occurs; 0 for padding. With a
                               summary weight, :func:`counts_of_documents`
           ``vectors``         float32 ``[N, D]``: the only input of an encoder of vectors
output     ``margins``         float32 ``[N, n_bits]``: logit less threshold
           ``codes``           uint8 ``[N, code_size]``: packed; bit b is 1 where margin b > 0
=========  ==================  ====================================================================

The file's metadata hold ``fingerprint``, ``n_bits``, ``kind`` and, for texts, ``analyzer``,
``max_words``, ``vocabulary``, one term a line, and ``summary_weight`` unless it is 0.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.encoder import Encoder, Inputs, LanguageModel, Layer
from hummingbit.encoder.text_features import SparseRows, TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.foundation.errors import HummingbitError, install_command

OPSET = 17
# The format of the file, which onnxruntime reads since 1.15.
IR_VERSION = 8
COLUMNS, COUNTS, VECTORS, MARGINS, CODES = "columns", "counts", "vectors", "margins", "codes"


class OnnxError(HummingbitError, ValueError):
    """An encoder cannot be exported, or a library that the export needs is missing."""


def onnx_model(encoder: Encoder) -> bytes:
    """Return the contents of an ONNX file of `encoder`.

    Raises:
        OnnxError: if `encoder` takes matrices, has a class code, a reconstruction, a language model
            or no layer, or onnx is not installed.
    """
    if encoder.class_code is not None:
        raise OnnxError(
            "an encoder with a class code cannot be exported: it encodes queries in another way"
        )
    if isinstance(encoder.features, LanguageModel):
        raise OnnxError(
            "an encoder of a language model cannot be exported: it has a network inside"
        )
    if encoder.reconstruction is not None:
        raise OnnxError(
            "an encoder with a reconstruction cannot be exported: bits are chosen in many steps"
        )
    if not encoder.layers:
        raise OnnxError("an encoder by signs has no network: bit b is 1 where number b is positive")
    onnx = _library("onnx")
    graph = _Graph(onnx)
    features = encoder.features
    if isinstance(features, TextFeatures):
        hidden = _text_layer(graph, features, encoder.layers[0])
    elif isinstance(features, VectorFeatures):
        hidden = _vector_layer(graph, features, encoder.layers[0])
    else:
        reason = "ONNX has no logarithm of a matrix"
        raise OnnxError(f"an encoder of matrices cannot be exported: {reason}")
    for layer in encoder.layers[1:]:
        hidden = _layer(graph, hidden, layer)
    _pack(graph, hidden, encoder)
    model = graph.model()
    onnx.helper.set_model_props(model, _metadata(encoder))
    onnx.checker.check_model(model)
    contents: bytes = model.SerializeToString()
    return contents


def onnx_inputs(encoder: Encoder, inputs: Inputs) -> dict[str, npt.NDArray[Any]]:
    """Return the inputs of the graph of `encoder` for `inputs`, by name.

    Raises:
        InputError: if `inputs` is not what the encoder takes.
    """
    if not isinstance(encoder.features, TextFeatures):
        return {VECTORS: np.asarray(inputs, dtype=np.float32)}
    rows = counts_of_documents(encoder.features, inputs)  # type: ignore[arg-type]
    lengths = np.diff(rows.indptr)
    is_term = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    columns, counts = np.zeros(is_term.shape, np.int64), np.zeros(is_term.shape, np.float32)
    columns[is_term], counts[is_term] = rows.indices, rows.data
    return {COLUMNS: columns, COUNTS: counts}


def counts_of_documents(features: TextFeatures, texts: Sequence[str]) -> SparseRows:
    """Return how often each term occurs in each of `texts`, float32 ``(N, V)``.

    With a summary weight, they are the counts whose weights are in proportion to the features of
    the documents: g⁻¹(feature / idf), with the g of
    :class:`~hummingbit.encoder.text_features.TextFeatures`.
    """
    if not features.summary_weight:
        return features.count_terms(texts)
    rows = features.add_summaries(features.transform(texts), texts)
    if features.idf is not None:
        rows.data /= features.idf[rows.indices]
    if features.weighting == "log":
        np.expm1(rows.data, out=rows.data)
    return rows


def run_onnx(model: bytes | Path, encoder: Encoder, inputs: Inputs) -> Sequence[npt.NDArray[Any]]:
    """Return the margins and the codes that onnxruntime computes for `inputs`.

    `model` is the contents of an ONNX file, or its path.

    Raises:
        OnnxError: if onnxruntime is not installed.
        InputError: if `inputs` is not what the encoder takes.
    """
    runtime = _library("onnxruntime")
    contents_or_path = model if isinstance(model, bytes) else str(model)
    session = runtime.InferenceSession(contents_or_path, providers=["CPUExecutionProvider"])
    feeds = onnx_inputs(encoder, inputs)
    outputs: Sequence[npt.NDArray[Any]] = session.run([MARGINS, CODES], feeds)
    return outputs


class _Graph:
    """A graph that grows node by node; values and constants are numbered."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: str, shape: Sequence[str | int]) -> str:
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, dtype: str, shape: Sequence[str | int]) -> None:
        self._outputs.append(self._value(name, dtype, shape))

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"constant{len(self._constants)}"
        array = np.ascontiguousarray(array, dtype=dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        name = name or f"value{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self._nodes.append(node)
        return name

    def model(self) -> Any:
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "hummingbit", self._inputs, self._outputs, self._constants
        )
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(
            graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="hummingbit"
        )

    def _value(self, name: str, dtype: str, shape: Sequence[str | int]) -> Any:
        kind = getattr(self._onnx.TensorProto, dtype)
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)


def _text_layer(graph: _Graph, features: TextFeatures, layer: Layer) -> str:
    """Add the weights of the terms and the first layer; it multiplies only rows of known terms."""
    columns = graph.input(COLUMNS, "INT64", ("N", "M"))
    counts = graph.input(COUNTS, "FLOAT", ("N", "M"))
    weights = counts
    if features.weighting == "log":
        weights = graph.node("Log", graph.node("Add", counts, graph.constant(1.0)))
    elif features.weighting == "binary":
        weights = graph.node("Sign", counts)
    if features.idf is not None:
        idf = graph.node("Gather", graph.constant(features.idf), columns)
        weights = graph.node("Mul", weights, idf)
    if features.l2_normalize:
        weights = _unit_length(graph, weights)
    rows = graph.node("Gather", graph.constant(layer.weight), columns)
    one_row = graph.node("Unsqueeze", weights, graph.constant([1], np.int64))
    products = graph.node("MatMul", one_row, rows)
    return _activate(graph, graph.node("Squeeze", products, graph.constant([1], np.int64)), layer)


def _vector_layer(graph: _Graph, features: VectorFeatures, layer: Layer) -> str:
    vectors = graph.input(VECTORS, "FLOAT", ("N", features.dimension))
    return _layer(graph, _unit_length(graph, vectors) if features.l2_normalize else vectors, layer)


def _unit_length(graph: _Graph, rows: str) -> str:
    """Add the scaling of rows to unit length; a row of zeros stays."""
    norms = graph.node("ReduceL2", rows, axes=[1], keepdims=1)
    is_zero = graph.node("Equal", norms, graph.constant(0.0))
    return graph.node("Div", rows, graph.node("Where", is_zero, graph.constant(1.0), norms))


def _layer(graph: _Graph, rows: str, layer: Layer) -> str:
    return _activate(graph, graph.node("MatMul", rows, graph.constant(layer.weight)), layer)


def _activate(graph: _Graph, products: str, layer: Layer) -> str:
    sums = graph.node("Add", products, graph.constant(layer.bias))
    return graph.node("Relu", sums) if layer.activation == "relu" else sums


def _pack(graph: _Graph, logits: str, encoder: Encoder) -> None:
    """Add the two outputs, margins and codes."""
    thresholds = graph.constant(encoder.thresholds)
    graph.node("Sub", logits, thresholds, name=MARGINS)
    bits = graph.node("Cast", graph.node("Greater", logits, thresholds), to=6)  # int32
    by_byte = graph.node("Reshape", bits, graph.constant([-1, encoder.code_size, 8], np.int64))
    places = graph.constant([128, 64, 32, 16, 8, 4, 2, 1], np.int32)
    powers = graph.node("Mul", by_byte, places)
    axis = graph.constant([2], np.int64)
    graph.node("Cast", graph.node("ReduceSum", powers, axis, keepdims=0), to=2, name=CODES)  # uint8
    graph.output(MARGINS, "FLOAT", ("N", encoder.n_bits))
    graph.output(CODES, "UINT8", ("N", encoder.code_size))


def _metadata(encoder: Encoder) -> dict[str, str]:
    metadata = {
        "fingerprint": encoder.fingerprint,
        "n_bits": str(encoder.n_bits),
        "kind": encoder.kind,
    }
    if isinstance(encoder.features, TextFeatures):
        metadata |= {
            "analyzer": encoder.features.analyzer.name,
            "max_words": str(encoder.features.max_words),
            "vocabulary": "\n".join(encoder.features.vocabulary),
        }
        if encoder.features.summary_weight:
            metadata["summary_weight"] = str(encoder.features.summary_weight)
    return metadata


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        hint = f"install it with: {install_command('onnx')}"
        raise OnnxError(f"exporting to ONNX needs {name}; {hint}") from None
