"""``encoder.json``, the manifest of an encoder artifact, and the checks on it.

Only loading and writing an encoder import this module: pydantic takes a tenth of a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
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

from hummingbit.encoder.analyzers import WORDS, Analyzer
from hummingbit.encoder.artifact import GOLDEN, MODEL, PROBE, TOKENIZER, VOCABULARY, WEIGHTS
from hummingbit.encoder.class_code import (
    LEAST_CERTAINTY_WEIGHT,
    MAX_CERTAINTY_POWER,
    MAX_FEW_TERMS,
    MAX_HALF_TERMS,
)
from hummingbit.encoder.encoder import (
    Activation,
    Encoder,
    Features,
)
from hummingbit.encoder.endpoint import EndpointModel
from hummingbit.encoder.limits import (
    MAX_HYBRID_WEIGHT,
    MAX_SUMMARY_WEIGHT,
    MAX_TOKENS,
    MIN_HYBRID_WEIGHT,
    Precision,
    check_n_bits,
)
from hummingbit.encoder.text_features import (
    TermWeighting,
    TextFeatures,
)
from hummingbit.encoder.text_model import (
    Pooling,
    TextModel,
)
from hummingbit.encoder.vector_features import SpdFeatures, VectorFeatures, triangle_length

_ALWAYS_WRITTEN = {"kind", "format_version"}


class _Spec(BaseModel):
    """A part of the manifest.

    A field with its default is left out of the file, as in the artifacts of versions without it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in write(self).items()
            if name in _ALWAYS_WRITTEN or value != fields[name].default
        }

    @classmethod
    def of(cls, part: object, **given: Any) -> Self:
        """Return the spec of a `part` of an encoder: its attributes, but for those `given`."""
        names = cls.model_fields.keys() - {"kind"} - given.keys()
        return cls(**given, **{name: getattr(part, name) for name in names})


class TextSpec(_Spec):
    """The settings of :class:`TextFeatures`; the vocabulary and idf are in files of their own."""

    kind: Literal["text"] = "text"
    weighting: TermWeighting
    max_words: int = Field(ge=1, le=5)
    idf: bool
    l2_normalize: bool
    analyzer: str = WORDS.name
    stemmer_version: str | None = Field(default=None, max_length=100)
    """The version of PyStemmer that stemmed the vocabulary."""
    summary_weight: float = Field(default=0.0, ge=0, le=MAX_SUMMARY_WEIGHT)
    pieces: bool = False
    corrections: bool = True

    @model_validator(mode="after")
    def _check_summary_weight(self) -> Self:
        if self.summary_weight and not self.l2_normalize:
            raise ValueError("summary_weight needs l2_normalize")
        return self

    @field_validator("analyzer")
    @classmethod
    def _check_analyzer(cls, name: str) -> str:
        return Analyzer.from_name(name).name


class ModelSpec(_Spec):
    """The settings of :class:`TextModel`; its files are in the folder."""

    kind: Literal["model"] = "model"
    dimension: int = Field(ge=1, le=1_000_000)
    pooling: Pooling
    max_tokens: int = Field(ge=2, le=MAX_TOKENS)
    query_prompt: str = Field(max_length=10_000)
    document_prompt: str = Field(max_length=10_000)
    l2_normalize: bool
    precision: Precision


class EndpointSpec(_Spec):
    """The settings of :class:`EndpointModel`; what it returned for a few texts is in a file."""

    kind: Literal["endpoint"] = "endpoint"
    url: str = Field(max_length=2_000)
    name: str = Field(min_length=1, max_length=500)
    dimension: int = Field(ge=1, le=1_000_000)
    query_prompt: str = Field(max_length=10_000)
    document_prompt: str = Field(max_length=10_000)
    l2_normalize: bool
    max_tokens: int = Field(ge=0, le=1_000_000)


class VectorSpec(_Spec):
    """The settings of :class:`VectorFeatures`."""

    kind: Literal["vector"] = "vector"
    dimension: int = Field(ge=1, le=1_000_000)
    l2_normalize: bool


class SpdSpec(_Spec):
    """The settings of :class:`SpdFeatures`.

    `orders` are the number of rows of the input matrix, then that after each weight.
    """

    kind: Literal["spd"] = "spd"
    orders: tuple[Annotated[int, Field(ge=1, le=512)], ...] = Field(
        min_length=2, max_length=16, strict=False
    )
    floor: float = Field(gt=0, allow_inf_nan=False)


FeaturesSpec = TextSpec | ModelSpec | EndpointSpec | VectorSpec | SpdSpec
_FILES_OF_FEATURES: Mapping[type[_Spec], Sequence[str]] = {
    TextSpec: (VOCABULARY,),
    ModelSpec: (MODEL, TOKENIZER),
    EndpointSpec: (PROBE,),
}


class LayerSpec(_Spec):
    """The shape of a :class:`Layer`; its weight and bias are in ``weights.safetensors``.

    Of a layer in 8 bits, the weight is ``layers.I.rows``, int8, times ``layers.I.scale``, float32,
    a number for each input.
    """

    inputs: int = Field(ge=1)
    outputs: int = Field(ge=1)
    activation: Activation
    precision: Precision = "float32"


class ClassCodeSpec(_Spec):
    """The sizes of a :class:`ClassCode`; its maps and codewords are in ``weights.safetensors``."""

    classes: int = Field(ge=2, le=1_000_000)
    codeword_bits: int = Field(ge=1, le=1024)
    certainty_bits: int = Field(ge=0, le=1024)
    certainty_power: float = Field(default=0.0, ge=0, le=MAX_CERTAINTY_POWER)
    certainty_weight: float = Field(default=1.0, ge=LEAST_CERTAINTY_WEIGHT, le=1)
    half_terms: float = Field(default=0.0, ge=0, le=MAX_HALF_TERMS)
    few_terms: int = Field(default=0, ge=0, le=MAX_FEW_TERMS)


class ReconstructionSpec(_Spec):
    """The blocks of a :class:`Reconstruction`; its mean and lengths are in ``weights.safetensors``.

    Its decoder is the weight of the layer.
    """

    ends: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1, max_length=64, strict=False)


class Manifest(_Spec):
    """The content of ``encoder.json``.

    The `format_version` is 3 for an encoder with words beside a language model and 2 for one with a
    reconstruction, which readers of lower versions refuse, and 1 for every other.
    """

    format_version: Literal[1, 2, 3] = 1
    n_bits: int
    features: FeaturesSpec = Field(discriminator="kind")
    layers: tuple[LayerSpec, ...] = Field(max_length=64, strict=False)
    """None where the bits are the signs of a vector."""
    class_code: ClassCodeSpec | None = None
    reconstruction: ReconstructionSpec | None = None
    words: TextSpec | None = None
    """What a class code reads beside a language model."""
    hybrid_weight: float | None = Field(default=None, ge=MIN_HYBRID_WEIGHT, le=MAX_HYBRID_WEIGHT)
    metadata: dict[str, Any]
    files: dict[str, str]

    @field_validator("format_version", mode="before")
    @classmethod
    def _check_format(cls, version: Any) -> Any:
        if isinstance(version, int) and version > 3:
            found = f"is {version}, of a later version of hummingbit"
            raise ValueError(f"{found}; this one reads 1, 2, 3")
        return version

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_n_bits(self.n_bits)
        for before, after in pairwise(self.layers):
            if before.outputs != after.inputs:
                found = f"a layer of {before.outputs} outputs precedes one of {after.inputs} inputs"
                raise ValueError(f"layers do not fit together: {found}")
        expected = self.n_bits
        if self.class_code is not None:
            expected -= self.class_code.codeword_bits + self.class_code.certainty_bits
        outputs = self.layers[-1].outputs if self.layers else self._outputs_of_features()
        if outputs != expected:
            found = f"the last layer has {outputs} outputs"
            raise ValueError(f"{found}; it must have {expected}")
        if self.layers and not isinstance(self.features, TextSpec):
            inputs = self._outputs_of_features()
            if self.layers[0].inputs != inputs:
                found = f"the first layer has {self.layers[0].inputs} inputs"
                raise ValueError(f"{found}; it must have {inputs}, one for each feature")
        self._check_version()
        self._check_parts()
        needed = [WEIGHTS, GOLDEN, *_FILES_OF_FEATURES.get(type(self.features), ())]
        for name in [*needed, VOCABULARY] if self.words else needed:
            if name not in self.files:
                raise ValueError(f"files has no {name}")
        return self

    def _outputs_of_features(self) -> int:
        """Return the number of features; a text's are known from its vocabulary only."""
        if isinstance(self.features, SpdSpec):
            return triangle_length(self.features.orders[-1])
        if isinstance(self.features, TextSpec):
            raise ValueError("an encoder of terms needs a layer")  # noqa: TRY004 - of pydantic
        return self.features.dimension

    def _check_version(self) -> None:
        parts = {2: (self.reconstruction, "a reconstruction"), 3: (self.words, "words")}
        for version, (part, name) in parts.items():
            is_expected = self.format_version == version
            if is_expected != (part is not None):
                has = f"no {name.removeprefix('a ')}" if is_expected else name
                raise ValueError(f"format_version is {self.format_version}, and there is {has}")

    def _check_parts(self) -> None:
        if self.reconstruction is not None:
            is_linear = len(self.layers) == 1 and self.layers[0].activation == "identity"
            if not is_linear or self.class_code or isinstance(self.features, TextSpec | SpdSpec):
                raise ValueError("a reconstruction needs vectors and one layer without activation")
        if self.words is not None:
            has_model = isinstance(self.features, ModelSpec | EndpointSpec)
            if not has_model or self.class_code is None or self.words.summary_weight:
                needed = "a language model and a class code"
                raise ValueError(f"words need {needed}, and have no summaries")


def manifest_of(encoder: Encoder, contents: Mapping[str, bytes]) -> Manifest:
    """Return the manifest of an encoder whose other files have the `contents`."""
    blocks, words, code = encoder.reconstruction, encoder.words, encoder.class_code
    layers = [
        LayerSpec.of(layer, inputs=layer.weight.shape[0], outputs=layer.weight.shape[1])
        for layer in encoder.layers
    ]
    class_code = None
    if code is not None:
        sizes = dict(zip(("classes", "codeword_bits"), code.codewords.shape, strict=True))
        class_code = ClassCodeSpec.of(code, **sizes, certainty_bits=len(code.certainty))
    return Manifest(
        format_version=3 if words is not None else 2 if blocks is not None else 1,
        n_bits=encoder.n_bits,
        features=_features_spec(encoder.features),
        layers=tuple(layers),
        class_code=class_code,
        reconstruction=None if blocks is None else ReconstructionSpec(ends=tuple(blocks.ends)),
        words=None if words is None else _text_spec(words),
        hybrid_weight=encoder.hybrid_weight,
        metadata=dict(encoder.metadata),
        files={name: hashlib.sha256(raw).hexdigest() for name, raw in sorted(contents.items())},
    )


def _features_spec(features: Features) -> FeaturesSpec:
    if isinstance(features, SpdFeatures):
        orders = (features.order, *(weight.shape[1] for weight in features.weights))
        return SpdSpec.of(features, orders=orders)
    if isinstance(features, TextModel):
        return ModelSpec.of(features)
    if isinstance(features, EndpointModel):
        return EndpointSpec.of(features)
    if isinstance(features, VectorFeatures):
        return VectorSpec.of(features)
    assert isinstance(features, TextFeatures)  # noqa: S101 - no encoder of read texts is written
    return _text_spec(features)


def _text_spec(features: TextFeatures) -> TextSpec:
    analyzer = features.analyzer
    return TextSpec.of(
        features,
        idf=features.idf is not None,
        analyzer=analyzer.name,
        stemmer_version=analyzer.stemmer_version,
    )


def parse_manifest(raw: bytes) -> Manifest:
    """Parse a manifest.

    Raises:
        ValueError: if it is not one; the message names the first field that is wrong.
    """
    try:
        return Manifest.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        location = "".join(f"{part}." for part in first["loc"]).removesuffix(".")
        reason = f"{location}: {first['msg']}" if location else first["msg"]
        raise ValueError(reason) from error
