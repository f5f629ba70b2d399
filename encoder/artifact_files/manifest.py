"""``encoder.json``, the manifest of an encoder artifact, and the checks on it."""

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
from encoder.class_code import (
    LEAST_CERTAINTY_WEIGHT,
    MAX_CERTAINTY_POWER,
    MAX_FEW_TERMS,
    MAX_HALF_TERMS,
)
from encoder.codes import check_n_bits
from encoder.encoder import MAX_HYBRID_WEIGHT, MIN_HYBRID_WEIGHT, Activation
from encoder.features import TermWeighting
from encoder.spd_features import triangle_length
from encoder.text_model import MAX_TOKENS, Pooling, Precision
from encoder.texts.openings import MAX_SUMMARY_WEIGHT

MANIFEST = "encoder.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocabulary.txt"
GOLDEN = "golden.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
LABELLED_IDS = "labelled_ids.json"
METRICS = "metrics.json"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TextSpec(_Strict):
    """The settings of :class:`TextFeatures`; the vocabulary and idf are in files of their own.

    `analyzer`, `stemmer_version` and `summary_weight` are left out where they have their defaults,
    as in the first artifacts.
    """

    kind: Literal["text"] = "text"
    weighting: TermWeighting
    max_words: int = Field(ge=1, le=5)
    idf: bool
    l2_normalize: bool
    analyzer: str = WORDS.name
    stemmer_version: str | None = Field(default=None, max_length=100)
    """The version of PyStemmer that stemmed the vocabulary."""
    summary_weight: float = Field(default=0.0, ge=0, le=MAX_SUMMARY_WEIGHT)

    @model_validator(mode="after")
    def _check_summary_weight(self) -> Self:
        if self.summary_weight and not self.l2_normalize:
            raise ValueError("summary_weight needs l2_normalize")
        return self

    @field_validator("analyzer")
    @classmethod
    def _check_analyzer(cls, name: str) -> str:
        return Analyzer.from_name(name).name

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        for name in ("analyzer", "stemmer_version", "summary_weight"):
            if written[name] == TextSpec.model_fields[name].default:
                del written[name]
        return written


class ModelSpec(_Strict):
    """The settings of :class:`~encoder.text_model.TextModel`; its files are in the folder."""

    kind: Literal["model"] = "model"
    dimension: int = Field(ge=1, le=1_000_000)
    pooling: Pooling
    max_tokens: int = Field(ge=2, le=MAX_TOKENS)
    query_prompt: str = Field(max_length=10_000)
    document_prompt: str = Field(max_length=10_000)
    l2_normalize: bool
    precision: Precision


class VectorSpec(_Strict):
    """The settings of :class:`VectorFeatures`."""

    kind: Literal["vector"] = "vector"
    dimension: int = Field(ge=1, le=1_000_000)
    l2_normalize: bool


class SpdSpec(_Strict):
    """The settings of :class:`SpdFeatures`.

    `orders` are the number of rows of the input matrix, then that after each weight.
    """

    kind: Literal["spd"] = "spd"
    orders: tuple[Annotated[int, Field(ge=1, le=512)], ...] = Field(
        min_length=2, max_length=16, strict=False
    )
    floor: float = Field(gt=0, allow_inf_nan=False)


class LayerSpec(_Strict):
    """The shape of a :class:`Layer`; its weight and bias are in ``weights.safetensors``."""

    inputs: int = Field(ge=1)
    outputs: int = Field(ge=1)
    activation: Activation


class ClassCodeSpec(_Strict):
    """The sizes of a :class:`ClassCode`; its maps and codewords are in ``weights.safetensors``."""

    classes: int = Field(ge=2, le=1_000_000)
    codeword_bits: int = Field(ge=1, le=1024)
    certainty_bits: int = Field(ge=0, le=1024)
    certainty_power: float = Field(default=0.0, ge=0, le=MAX_CERTAINTY_POWER)
    """Left out of the file if 0, as in the first artifacts with a class code."""
    certainty_weight: float = Field(default=1.0, ge=LEAST_CERTAINTY_WEIGHT, le=1)
    """Left out of the file if 1, as in earlier artifacts."""
    half_terms: float = Field(default=0.0, ge=0, le=MAX_HALF_TERMS)
    """Left out of the file if 0, as in earlier artifacts."""
    few_terms: int = Field(default=0, ge=0, le=MAX_FEW_TERMS)
    """Left out of the file if 0, as in earlier artifacts."""

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        if not self.certainty_power:
            del written["certainty_power"]
        if self.certainty_weight == 1:
            del written["certainty_weight"]
        if not self.half_terms:
            del written["half_terms"]
        if not self.few_terms:
            del written["few_terms"]
        return written


class Manifest(_Strict):
    """The content of ``encoder.json``."""

    format_version: Literal[1] = 1
    n_bits: int
    features: TextSpec | ModelSpec | VectorSpec | SpdSpec = Field(discriminator="kind")
    layers: tuple[LayerSpec, ...] = Field(min_length=1, max_length=64, strict=False)
    class_code: ClassCodeSpec | None = None
    """Left out of the file if None, as in the first artifacts."""
    hybrid_weight: float | None = Field(default=None, ge=MIN_HYBRID_WEIGHT, le=MAX_HYBRID_WEIGHT)
    """Left out of the file if None."""
    metadata: dict[str, Any]
    files: dict[str, str]

    @model_serializer(mode="wrap")
    def _without_none(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        for name in ("class_code", "hybrid_weight"):
            if written[name] is None:
                del written[name]
        return written

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_n_bits(self.n_bits)
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.outputs != after.inputs:
                found = f"a layer of {before.outputs} outputs precedes one of {after.inputs} inputs"
                raise ValueError(f"layers do not fit together: {found}")
        class_bits = 0
        if self.class_code is not None:
            class_bits = self.class_code.codeword_bits + self.class_code.certainty_bits
        if self.layers[-1].outputs + class_bits != self.n_bits:
            found = f"the last layer has {self.layers[-1].outputs} outputs"
            raise ValueError(f"{found}; it must have {self.n_bits - class_bits}")
        needed = [WEIGHTS, GOLDEN]
        if isinstance(self.features, VectorSpec | ModelSpec):
            self._check_first_layer(self.features.dimension)
        elif isinstance(self.features, SpdSpec):
            self._check_first_layer(triangle_length(self.features.orders[-1]))
        else:
            needed.append(VOCABULARY)
        if isinstance(self.features, ModelSpec):
            needed += [MODEL, TOKENIZER]
        for name in needed:
            if name not in self.files:
                raise ValueError(f"files has no {name}")
        return self

    def _check_first_layer(self, inputs: int) -> None:
        if self.layers[0].inputs != inputs:
            found = f"the first layer has {self.layers[0].inputs} inputs"
            raise ValueError(f"{found}; it must have {inputs}, one for each feature")


def first_error(error: ValidationError) -> str:
    """Return the first error of a manifest, in one line."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def stemmer_mismatch(manifest: Manifest) -> str:
    """Return a hint if this machine has another PyStemmer than the vocabulary; empty if not."""
    spec = manifest.features
    if not isinstance(spec, TextSpec) or spec.stemmer_version is None:
        return ""
    ours = Analyzer.from_name(spec.analyzer).stemmer_version
    if ours == spec.stemmer_version:
        return ""
    theirs = spec.stemmer_version
    return f"; PyStemmer {theirs} stemmed its vocabulary, and this machine has PyStemmer {ours}"
