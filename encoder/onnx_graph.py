"""An encoder as an ONNX graph, for runtimes without Python.

Texts become terms outside the graph, for no operator of ONNX splits a text as an analyzer does. All
that follows is inside: term weights, the network, thresholds and packing.

=========  ==================  ====================================================================
input      ``columns``         int64 ``[N, M]``: each text's distinct known terms, as lines of the
                               vocabulary from 0; rows are filled up with 0
           ``counts``          float32 ``[N, M]``: how often they occur; 0 where filled up
           ``vectors``         float32 ``[N, D]``, instead, for an encoder of vectors
output     ``margins``         float32 ``[N, n_bits]``: logit less threshold
           ``codes``           uint8 ``[N, code_size]``: packed, bit b being 1 where margin b > 0
=========  ==================  ====================================================================

The file's metadata hold ``fingerprint``, ``n_bits`` and, for texts, ``analyzer``, ``max_words`` and
``vocabulary``, a term a line.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.encoder import Encoder, Inputs, Layer
from encoder.features import TextFeatures
from encoder.vector_features import VectorFeatures
from foundation.errors import HummingbitError

OPSET = 17
# Format of the file; onnxruntime reads it since 1.15.
IR_VERSION = 8
COLUMNS, COUNTS, VECTORS, MARGINS, CODES = "columns", "counts", "vectors", "margins", "codes"


class OnnxError(HummingbitError, ValueError):
    """An encoder cannot be exported, or the libraries that this needs are missing."""


def onnx_model(encoder: Encoder) -> bytes:
    """Return the ONNX file of `encoder`.

    Raises:
        OnnxError: if it takes matrices or has a class code, or the library onnx is missing.
    """
    if encoder.class_code is not None:
        raise OnnxError(
            "encoders with a class code are not exported: queries have a head of their own"
        )
    onnx = _library("onnx")
    graph = _Graph(onnx)
    features = encoder.features
    if isinstance(features, TextFeatures):
        hidden = _text_layer(graph, features, encoder.layers[0])
    elif isinstance(features, VectorFeatures):
        hidden = _vector_layer(graph, features, encoder.layers[0])
    else:
        raise OnnxError("encoders of matrices are not exported: ONNX has no logarithm of a matrix")
    for layer in encoder.layers[1:]:
        hidden = _layer(graph, hidden, layer)
    _pack(graph, hidden, encoder)
    model = graph.model()
    onnx.helper.set_model_props(model, _metadata(encoder))
    onnx.checker.check_model(model)
    written: bytes = model.SerializeToString()
    return written


def onnx_inputs(encoder: Encoder, inputs: Inputs) -> dict[str, npt.NDArray[Any]]:
    """Return what the graph of `encoder` takes for `inputs`, by name.

    Raises:
        InputError: if `inputs` is not what the encoder takes.
    """
    if not isinstance(encoder.features, TextFeatures):
        return {VECTORS: np.asarray(inputs, dtype=np.float32)}
    rows = encoder.features.count_terms(inputs)  # type: ignore[arg-type]
    lengths = np.diff(rows.indptr)
    filled = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    columns, counts = np.zeros(filled.shape, np.int64), np.zeros(filled.shape, np.float32)
    columns[filled], counts[filled] = rows.indices, rows.data
    return {COLUMNS: columns, COUNTS: counts}


def run_onnx(model: bytes | Path, encoder: Encoder, inputs: Inputs) -> Sequence[npt.NDArray[Any]]:
    """Return the margins and the codes that onnxruntime gives for `inputs`.

    Raises:
        OnnxError: if onnxruntime is missing.
        InputError: if `inputs` is not what the encoder takes.
    """
    runtime = _library("onnxruntime")
    given = model if isinstance(model, bytes) else str(model)
    session = runtime.InferenceSession(given, providers=["CPUExecutionProvider"])
    found: Sequence[npt.NDArray[Any]] = session.run([MARGINS, CODES], onnx_inputs(encoder, inputs))
    return found


class _Graph:
    """A graph that grows node by node; values and constants have numbers as names."""

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
        made = self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self._nodes.append(made)
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
    """Add the weights of the terms and the first layer, which gathers the rows of known terms."""
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
    return _activated(graph, graph.node("Squeeze", products, graph.constant([1], np.int64)), layer)


def _vector_layer(graph: _Graph, features: VectorFeatures, layer: Layer) -> str:
    vectors = graph.input(VECTORS, "FLOAT", ("N", features.dimension))
    return _layer(graph, _unit_length(graph, vectors) if features.l2_normalize else vectors, layer)


def _unit_length(graph: _Graph, rows: str) -> str:
    """Scale rows to unit length; a row of zeros stays."""
    norms = graph.node("ReduceL2", rows, axes=[1], keepdims=1)
    is_zero = graph.node("Equal", norms, graph.constant(0.0))
    return graph.node("Div", rows, graph.node("Where", is_zero, graph.constant(1.0), norms))


def _layer(graph: _Graph, rows: str, layer: Layer) -> str:
    return _activated(graph, graph.node("MatMul", rows, graph.constant(layer.weight)), layer)


def _activated(graph: _Graph, products: str, layer: Layer) -> str:
    added = graph.node("Add", products, graph.constant(layer.bias))
    return graph.node("Relu", added) if layer.activation == "relu" else added


def _pack(graph: _Graph, logits: str, encoder: Encoder) -> None:
    """Add the two outputs."""
    thresholds = graph.constant(encoder.thresholds)
    graph.node("Sub", logits, thresholds, name=MARGINS)
    bits = graph.node("Cast", graph.node("Greater", logits, thresholds), to=6)  # int32
    by_byte = graph.node("Reshape", bits, graph.constant([-1, encoder.code_size, 8], np.int64))
    places = graph.constant([128, 64, 32, 16, 8, 4, 2, 1], np.int32)
    parts = graph.node("Mul", by_byte, places)
    axis = graph.constant([2], np.int64)
    graph.node("Cast", graph.node("ReduceSum", parts, axis, keepdims=0), to=2, name=CODES)  # uint8
    graph.output(MARGINS, "FLOAT", ("N", encoder.n_bits))
    graph.output(CODES, "UINT8", ("N", encoder.code_size))


def _metadata(encoder: Encoder) -> dict[str, str]:
    about = {
        "fingerprint": encoder.fingerprint,
        "n_bits": str(encoder.n_bits),
        "kind": encoder.kind,
    }
    if isinstance(encoder.features, TextFeatures):
        about |= {
            "analyzer": encoder.features.analyzer.name,
            "max_words": str(encoder.features.max_words),
            "vocabulary": "\n".join(encoder.features.vocabulary),
        }
    return about


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        cure = "install it with: pip install 'hummingbit[onnx]'"
        raise OnnxError(f"exporting to ONNX needs {name}; {cure}") from None
