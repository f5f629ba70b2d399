"""``encoder.json``: what an encoder artifact says of itself, and when that makes sense."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from encoder.codes import check_n_bits
from encoder.features import TermWeighting
from encoder.network import Activation

MANIFEST = "encoder.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocabulary.txt"
GOLDEN = "golden.json"
LABELLED_IDS = "labelled_ids.json"
METRICS = "metrics.json"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TextSpec(_Strict):
    """The settings of :class:`TextFeatures`; its vocabulary and idf lie in files."""

    kind: Literal["text"] = "text"
    weighting: TermWeighting
    max_words: int = Field(ge=1, le=5)
    idf: bool
    l2_normalize: bool


class VectorSpec(_Strict):
    """The settings of :class:`VectorFeatures`."""

    kind: Literal["vector"] = "vector"
    dimension: int = Field(ge=1, le=1_000_000)
    l2_normalize: bool


class LayerSpec(_Strict):
    """The shape of a :class:`Layer`; its weight and bias lie in ``weights.safetensors``."""

    inputs: int = Field(ge=1)
    outputs: int = Field(ge=1)
    activation: Activation


class Manifest(_Strict):
    """``encoder.json``."""

    format_version: Literal[1] = 1
    n_bits: int
    features: TextSpec | VectorSpec = Field(discriminator="kind")
    layers: tuple[LayerSpec, ...] = Field(min_length=1, max_length=64, strict=False)
    metadata: dict[str, Any]
    files: dict[str, str]

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_n_bits(self.n_bits)
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.outputs != after.inputs:
                found = f"{after.inputs} inputs after {before.outputs} outputs"
                raise ValueError(f"layers do not fit each other: {found}")
        if self.layers[-1].outputs != self.n_bits:
            raise ValueError(f"the last layer has {self.layers[-1].outputs} outputs")
        if isinstance(self.features, VectorSpec):
            if self.layers[0].inputs != self.features.dimension:
                raise ValueError(f"the first layer has {self.layers[0].inputs} inputs")
        elif VOCABULARY not in self.files:
            raise ValueError(f"files has no {VOCABULARY}")
        for name in (WEIGHTS, GOLDEN):
            if name not in self.files:
                raise ValueError(f"files has no {name}")
        return self


def first_error(error: ValidationError) -> str:
    """Say what is wrong with a manifest, in one line."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])
