"""``encoder.json``: what an encoder artifact says of itself, and when that makes sense."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from encoder.analyzers import WORDS, Analyzer
from encoder.codes import check_n_bits
from encoder.encoder import Activation
from encoder.features import TermWeighting
from encoder.spd_features import triangle_length

MANIFEST = "encoder.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocabulary.txt"
GOLDEN = "golden.json"
LABELLED_IDS = "labelled_ids.json"
METRICS = "metrics.json"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TextSpec(_Strict):
    """The settings of :class:`TextFeatures`; its vocabulary and idf lie in files.

    The fields of analyzers are left out where they say nothing, as in the first artifacts.
    """

    kind: Literal["text"] = "text"
    weighting: TermWeighting
    max_words: int = Field(ge=1, le=5)
    idf: bool
    l2_normalize: bool
    analyzer: str = WORDS.name
    stemmer_version: str | None = Field(default=None, max_length=100)
    """The version of the stemmer that the vocabulary was made with."""

    @field_validator("analyzer")
    @classmethod
    def _check_analyzer(cls, name: str) -> str:
        return Analyzer.named(name).name

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        for name in ("analyzer", "stemmer_version"):
            if written[name] == TextSpec.model_fields[name].default:
                del written[name]
        return written


class VectorSpec(_Strict):
    """The settings of :class:`VectorFeatures`."""

    kind: Literal["vector"] = "vector"
    dimension: int = Field(ge=1, le=1_000_000)
    l2_normalize: bool


class SpdSpec(_Strict):
    """The settings of :class:`SpdFeatures`: n and the m of every weight, and the floor."""

    kind: Literal["spd"] = "spd"
    orders: tuple[Annotated[int, Field(ge=1, le=512)], ...] = Field(
        min_length=2, max_length=16, strict=False
    )
    floor: float = Field(gt=0, allow_inf_nan=False)


class LayerSpec(_Strict):
    """The shape of a :class:`Layer`; its weight and bias lie in ``weights.safetensors``."""

    inputs: int = Field(ge=1)
    outputs: int = Field(ge=1)
    activation: Activation


class ClassCodeSpec(_Strict):
    """The sizes of a :class:`ClassCode`; its maps and codewords lie in ``weights.safetensors``."""

    classes: int = Field(ge=2, le=1_000_000)
    codeword_bits: int = Field(ge=1, le=1024)
    certainty_bits: int = Field(ge=0, le=1024)


class Manifest(_Strict):
    """``encoder.json``."""

    format_version: Literal[1] = 1
    n_bits: int
    features: TextSpec | VectorSpec | SpdSpec = Field(discriminator="kind")
    layers: tuple[LayerSpec, ...] = Field(min_length=1, max_length=64, strict=False)
    class_code: ClassCodeSpec | None = None
    """Left out where there is none, as in the first artifacts."""
    metadata: dict[str, Any]
    files: dict[str, str]

    @model_serializer(mode="wrap")
    def _without_class_code(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        if self.class_code is None:
            del written["class_code"]
        return written

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_n_bits(self.n_bits)
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.outputs != after.inputs:
                found = f"{after.inputs} inputs after {before.outputs} outputs"
                raise ValueError(f"layers do not fit each other: {found}")
        class_bits = 0
        if self.class_code is not None:
            class_bits = self.class_code.codeword_bits + self.class_code.certainty_bits
        if self.layers[-1].outputs + class_bits != self.n_bits:
            beside = f" beside {class_bits} class bits" if class_bits else ""
            raise ValueError(f"the last layer has {self.layers[-1].outputs} outputs{beside}")
        if isinstance(self.features, VectorSpec):
            self._check_first_layer(self.features.dimension)
        elif isinstance(self.features, SpdSpec):
            self._check_first_layer(triangle_length(self.features.orders[-1]))
        elif VOCABULARY not in self.files:
            raise ValueError(f"files has no {VOCABULARY}")
        for name in (WEIGHTS, GOLDEN):
            if name not in self.files:
                raise ValueError(f"files has no {name}")
        return self

    def _check_first_layer(self, inputs: int) -> None:
        if self.layers[0].inputs != inputs:
            found = f"the first layer has {self.layers[0].inputs} inputs"
            raise ValueError(f"{found}; the features are {inputs} numbers")


def first_error(error: ValidationError) -> str:
    """Say what is wrong with a manifest, in one line."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def other_stemmer(manifest: Manifest) -> str:
    """Say so if this machine stems with another version than `manifest` was written with."""
    spec = manifest.features
    if not isinstance(spec, TextSpec) or spec.stemmer_version is None:
        return ""
    ours = Analyzer.named(spec.analyzer).stemmer_version
    if ours == spec.stemmer_version:
        return ""
    return f"; its words were stemmed by PyStemmer {spec.stemmer_version}, and this one is {ours}"
