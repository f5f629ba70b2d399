"""Writes an encoder: the contents of the files in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save as save_tensors

from encoder.artifact_files.manifest import (
    GOLDEN,
    MANIFEST,
    MODEL,
    TOKENIZER,
    VOCABULARY,
    WEIGHTS,
    ClassCodeSpec,
    LayerSpec,
    Manifest,
    ModelSpec,
    SpdSpec,
    TextSpec,
    VectorSpec,
)
from encoder.codes import code_to_hex
from encoder.encoder import Encoder, Features, Inputs
from encoder.features import Floats, TextFeatures
from encoder.spd_features import SpdFeatures
from encoder.text_model import TextModel
from encoder.vector_features import VectorFeatures

GOLDEN_INPUTS = 8


def artifact_contents(
    encoder: Encoder, examples: Inputs, extra_files: Mapping[str, str | bytes]
) -> dict[str, bytes]:
    """Return the contents of every file in the folder of `encoder`, by name.

    The golden inputs are those of `examples` whose logits are farthest from their thresholds.
    """
    contents = {
        name: extra.encode() if isinstance(extra, str) else extra
        for name, extra in extra_files.items()
    }
    contents[WEIGHTS] = save_tensors(_tensors(encoder))
    contents[GOLDEN] = _json_bytes(_golden(encoder, examples))
    if isinstance(encoder.features, TextFeatures):
        contents[VOCABULARY] = "".join(f"{term}\n" for term in encoder.features.vocabulary).encode()
    if isinstance(encoder.features, TextModel):
        contents[MODEL] = encoder.features.model
        contents[TOKENIZER] = encoder.features.tokenizer
    contents[MANIFEST] = _json_bytes(_manifest(encoder, contents).model_dump(mode="json"))
    return contents


def as_inputs(encoder: Encoder, inputs: Sequence[Any]) -> Inputs:
    """Return golden inputs parsed from JSON in the form that the encoder takes."""
    return inputs if encoder.kind == "text" else np.asarray(inputs, dtype=np.float32)


def _tensors(encoder: Encoder) -> dict[str, Floats]:
    tensors = {"thresholds": encoder.thresholds}
    for i, layer in enumerate(encoder.layers):
        tensors[f"layers.{i}.weight"] = layer.weight
        tensors[f"layers.{i}.bias"] = layer.bias
    if isinstance(encoder.features, TextFeatures) and encoder.features.idf is not None:
        tensors["idf"] = encoder.features.idf
    if isinstance(encoder.features, SpdFeatures):
        for i, weight in enumerate(encoder.features.weights):
            tensors[f"spd.{i}.weight"] = weight
    if (code := encoder.class_code) is not None:
        for name, class_map in (("documents", code.documents), ("queries", code.queries)):
            tensors[f"class_code.{name}.weight"] = class_map.weight
            tensors[f"class_code.{name}.bias"] = class_map.bias
        tensors["class_code.codewords"] = code.codewords
        tensors["class_code.certainty"] = code.certainty
    return {
        name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in tensors.items()
    }


def _manifest(encoder: Encoder, contents: Mapping[str, bytes]) -> Manifest:
    shapes = [(*layer.weight.shape, layer.activation) for layer in encoder.layers]
    return Manifest(
        n_bits=encoder.n_bits,
        features=_features_spec(encoder.features),
        layers=tuple(LayerSpec(inputs=i, outputs=o, activation=a) for i, o, a in shapes),
        class_code=_class_code_spec(encoder),
        hybrid_weight=encoder.hybrid_weight,
        metadata=dict(encoder.metadata),
        files={name: hashlib.sha256(raw).hexdigest() for name, raw in sorted(contents.items())},
    )


def _class_code_spec(encoder: Encoder) -> ClassCodeSpec | None:
    code = encoder.class_code
    if code is None:
        return None
    classes, bits = code.codewords.shape
    return ClassCodeSpec(
        classes=classes,
        codeword_bits=bits,
        certainty_bits=len(code.certainty),
        certainty_power=code.certainty_power,
        certainty_weight=code.certainty_weight,
        half_terms=code.half_terms,
        few_terms=code.few_terms,
    )


def _features_spec(features: Features) -> TextSpec | ModelSpec | VectorSpec | SpdSpec:
    if isinstance(features, SpdFeatures):
        orders = (features.order, *(weight.shape[1] for weight in features.weights))
        return SpdSpec(orders=orders, floor=features.floor)
    if isinstance(features, TextModel):
        names = ModelSpec.model_fields.keys() - {"kind"}
        return ModelSpec(**{name: getattr(features, name) for name in names})
    if isinstance(features, VectorFeatures):
        return VectorSpec(dimension=features.dimension, l2_normalize=features.l2_normalize)
    return TextSpec(
        weighting=features.weighting,
        max_words=features.max_words,
        idf=features.idf is not None,
        l2_normalize=features.l2_normalize,
        analyzer=features.analyzer.name,
        stemmer_version=features.analyzer.stemmer_version,
        summary_weight=features.summary_weight,
    )


def _golden(encoder: Encoder, examples: Inputs) -> dict[str, Any]:
    margins = np.abs(encoder.margins(examples)).min(axis=1)
    farthest = np.argsort(-margins, kind="stable")[:GOLDEN_INPUTS]
    inputs: Sequence[Any] = (
        [examples[i] for i in farthest]
        if encoder.kind == "text"
        else np.asarray(examples, dtype=np.float32)[farthest].astype(float).tolist()
    )
    codes = [code_to_hex(code) for code in encoder.encode(as_inputs(encoder, inputs))]
    return {"inputs": list(inputs), "codes": codes}


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()
