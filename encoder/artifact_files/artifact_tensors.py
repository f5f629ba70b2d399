"""Reads the parts of an encoder from its files and checks each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from encoder.analyzers import Analyzer
from encoder.artifact_files.manifest import (
    MODEL,
    TOKENIZER,
    VOCABULARY,
    WEIGHTS,
    Manifest,
    ModelSpec,
    SpdSpec,
    VectorSpec,
)
from encoder.class_code import ClassCode, ClassMap
from encoder.encoder import Features
from encoder.features import Floats, TextFeatures
from encoder.spd_features import SpdFeatures
from encoder.text_model import ModelError, TextModel
from encoder.vector_features import VectorFeatures
from foundation.errors import HummingbitError


class ArtifactError(HummingbitError, ValueError):
    """A folder is not an intact encoder artifact, or one cannot be written there."""


def read_features(
    manifest: Manifest, tensors: Mapping[str, Floats], files: Mapping[str, bytes], folder: Path
) -> Features:
    """Return the features that a manifest describes.

    Raises:
        ArtifactError: if a file or tensor of them is missing or malformed, or a language model
            cannot be used.
    """
    spec = manifest.features
    if isinstance(spec, VectorSpec):
        return VectorFeatures(dimension=spec.dimension, l2_normalize=spec.l2_normalize)
    if isinstance(spec, ModelSpec):
        settings = spec.model_dump(exclude={"kind"})
        try:
            return TextModel(files[MODEL], files[TOKENIZER], **settings)
        except ModelError as error:
            raise ArtifactError(f"{folder}: {error}") from error
    if isinstance(spec, SpdSpec):
        shapes = enumerate(zip(spec.orders, spec.orders[1:], strict=False))
        weights = [read_tensor(tensors, folder, f"spd.{i}.weight", shape) for i, shape in shapes]
        return SpdFeatures(weights, spec.floor)
    try:
        vocabulary = files[VOCABULARY].decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{folder / VOCABULARY}: {error}") from error
    if len(vocabulary) != manifest.layers[0].inputs or len(set(vocabulary)) != len(vocabulary):
        expected = f"it must have {manifest.layers[0].inputs}, each once"
        found = f"has {len(vocabulary)} terms, {len(set(vocabulary))} of them distinct"
        raise ArtifactError(f"{folder / VOCABULARY}: {found}; {expected}")
    return TextFeatures(
        vocabulary=vocabulary,
        weighting=spec.weighting,
        max_words=spec.max_words,
        idf=read_tensor(tensors, folder, "idf", (len(vocabulary),)) if spec.idf else None,
        l2_normalize=spec.l2_normalize,
        analyzer=Analyzer.from_name(spec.analyzer),
        summary_weight=spec.summary_weight,
    )


def read_class_code(
    manifest: Manifest, tensors: Mapping[str, Floats], folder: Path
) -> ClassCode | None:
    """Return the class code that a manifest describes, or None if it has none.

    Raises:
        ArtifactError: if a tensor of it is missing or malformed.
    """
    spec = manifest.class_code
    if spec is None:
        return None
    shape = (manifest.layers[0].inputs, spec.classes)
    documents, queries = (
        ClassMap(
            read_tensor(tensors, folder, f"class_code.{name}.weight", shape),
            read_tensor(tensors, folder, f"class_code.{name}.bias", shape[1:]),
        )
        for name in ("documents", "queries")
    )
    codewords_shape = (spec.classes, spec.codeword_bits)
    codewords = read_tensor(tensors, folder, "class_code.codewords", codewords_shape)
    certainty = read_tensor(tensors, folder, "class_code.certainty", (spec.certainty_bits,))
    try:
        return ClassCode(
            documents,
            queries,
            codewords,
            certainty,
            spec.certainty_power,
            spec.certainty_weight,
            spec.half_terms,
            spec.few_terms,
        )
    except ValueError as error:
        raise ArtifactError(f"{folder / WEIGHTS}: {error}") from error


def read_tensor(
    tensors: Mapping[str, Floats], folder: Path, name: str, shape: tuple[int, ...]
) -> Floats:
    """Return the tensor `name`, float32 of shape `shape`.

    Raises:
        ArtifactError: if it is missing, has another shape or type, or holds NaN or infinity.
    """
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape or tensor.dtype != np.float32:
        found = "missing" if tensor is None else f"{tensor.dtype} {tensor.shape}"
        raise ArtifactError(f"{folder / WEIGHTS}: {name} is {found}; it must be float32 {shape}")
    if not np.isfinite(tensor).all():
        raise ArtifactError(f"{folder / WEIGHTS}: {name} holds NaN or infinity")
    return tensor
