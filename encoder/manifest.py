"""``encoder.json``, the manifest of an encoder artifact, and the checks on it.

The specs are plain dataclasses, because a search loads an encoder and pydantic takes as long as the
search. :func:`read_spec` checks JSON against their types and bounds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from hummingbit.encoder.analyzers import WORDS, Analyzer
from hummingbit.encoder.artifact import GOLDEN, MODEL, PROBE, TOKENIZER, VOCABULARY, WEIGHTS
from hummingbit.encoder.class_code import (
    LEAST_CERTAINTY_WEIGHT,
    MAX_CERTAINTY_POWER,
    MAX_FEW_TERMS,
    MAX_HALF_TERMS,
)
from hummingbit.encoder.encoder import Activation, Encoder, Features
from hummingbit.encoder.endpoint import EndpointModel
from hummingbit.encoder.limits import (
    MAX_HYBRID_WEIGHT,
    MAX_SUMMARY_WEIGHT,
    MAX_TOKENS,
    MIN_HYBRID_WEIGHT,
    Precision,
    check_n_bits,
)
from hummingbit.encoder.text_features import TermWeighting, TextFeatures
from hummingbit.encoder.text_model import Pooling, TextModel
from hummingbit.encoder.vector_features import SpdFeatures, VectorFeatures, triangle_length
from hummingbit.foundation.errors import abbreviate

LATEST_VERSION = 3
_ALWAYS_WRITTEN = {"kind", "format_version"}
S = TypeVar("S", bound="Spec")


def within(
    least: float,
    most: float = math.inf,
    default: Any = MISSING,
    *,
    items: tuple[int, int] | None = None,
) -> Any:
    """Return a field of a number, or of so many characters or items, each within `items`."""
    return field(default=default, metadata={"within": (least, most), "items": items})


class Spec:
    """A part of the manifest.

    A field with its default is left out of the file, as in the artifacts of versions without it.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """The fields but for the kind."""
        return {name: getattr(self, name) for name in _fields_of(type(self)) if name != "kind"}

    @property
    def json(self) -> dict[str, Any]:
        """What is written."""
        return {
            name: _as_json(getattr(self, name))
            for name, declared in _fields_of(type(self)).items()
            if name in _ALWAYS_WRITTEN or getattr(self, name) != declared.default
        }

    @classmethod
    def of(cls, part: object, **given: Any) -> Self:
        """Return the spec of a `part` of an encoder: its attributes, but for those `given`."""
        names = _fields_of(cls).keys() - {"kind"} - given.keys()
        return cls(**given, **{name: getattr(part, name) for name in names})

    def check(self) -> None:
        """Raise ValueError unless the fields fit together."""


def _declared_fields(spec: Any) -> dict[str, Field[Any]]:
    return {declared.name: declared for declared in fields(spec)}


_fields_of: Callable[[Any], dict[str, Field[Any]]] = cache(_declared_fields)
_types_of: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def _as_json(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.json
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value


def read_spec(spec: type[S], value: Any, place: str = "") -> S:
    """Return a part of the manifest from its JSON.

    Raises:
        ValueError: if it is not one; the message names the first field that is wrong.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{place[:-1]}: is {abbreviate(value)}; it must be an object")  # noqa: TRY004 - it is JSON
    read: dict[str, Any] = {}
    for name, declared in _fields_of(spec).items():
        if name in value:
            read[name] = _read_field(declared, _types_of(spec)[name], value[name], place + name)
        elif declared.default is MISSING:
            raise ValueError(f"{place}{name}: is missing")
    for name in value:
        if name not in read:
            raise ValueError(f"{place}{name[:80]}: is not known")
    part = spec(**read)
    try:
        part.check()
    except ValueError as error:
        raise ValueError(f"{place[:-1]}: {error}" if place else str(error)) from error
    return part


def _read_field(declared: Field[Any], type_: Any, value: Any, place: str) -> Any:
    read = _read_value(type_, value, place)
    bounds, items = declared.metadata.get("within"), declared.metadata.get("items")
    if bounds is not None and read is not None:
        is_number = isinstance(read, int | float)
        _check_within(read if is_number else len(read), bounds, place, is_length=not is_number)
    if items is not None:
        for position, item in enumerate(read):
            _check_within(item, items, f"{place}.{position}")
    return read


def _check_within(
    number: float, bounds: tuple[float, float], place: str, *, is_length: bool = False
) -> None:
    least, most = bounds
    if not least <= number <= most:
        rule = f"from {least:,} to {most:,}" if most < math.inf else f"{least:,} or more"
        has = "has the length" if is_length else "is"
        raise ValueError(f"{place}: {has} {number}; it must be {rule}")


def _read_value(type_: Any, value: Any, place: str) -> Any:
    """Return a value of a field's type, as strict as JSON is: 1 is no bool, and "1" no number."""
    if isinstance(type_, type) and issubclass(type_, Spec):
        return read_spec(type_, value, f"{place}.")
    read = _READERS.get(get_origin(type_))
    if read is not None:
        return read(get_args(type_), value, place)
    return value if type_ is Any else _read_plain(type_, value, place)


def _read_plain(type_: type, value: Any, place: str) -> Any:
    if type_ is float and type(value) in {int, float} and abs(value) <= _LARGEST:
        return float(value)
    if type(value) is not type_ or type_ is float:
        wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise ValueError(f"{place}: is {abbreviate(value)}; it must be {wanted[type_]}")
    return value


def _read_one_of_types(types: tuple[Any, ...], value: Any, place: str) -> Any:
    """Return a value that may be None, or a spec of the kind that it names."""
    if NoneType in types:
        (type_,) = (kind for kind in types if kind is not NoneType)
        return None if value is None else _read_value(type_, value, place)
    kinds = {_fields_of(kind)["kind"].default: kind for kind in types}
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        known = ", ".join(map(str, kinds))
        raise ValueError(f"{place}: kind is {abbreviate(kind)}; it must be one of {known}")
    return read_spec(kinds[kind], value, f"{place}.")


def _read_literal(known: tuple[Any, ...], value: Any, place: str) -> Any:
    if type(value) is not type(known[0]) or value not in known:
        names = ", ".join(map(str, known))
        raise ValueError(f"{place}: is {abbreviate(value)}; it must be one of {names}")
    return value


def _read_tuple(types: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{place}: is {abbreviate(value)}; it must be a list")  # noqa: TRY004 - it is JSON
    return tuple(_read_value(types[0], item, f"{place}.{at}") for at, item in enumerate(value))


def _read_dict(types: tuple[Any, ...], value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: is {abbreviate(value)}; it must be an object")  # noqa: TRY004 - it is JSON
    return {
        name: _read_value(types[1], item, f"{place}.{name[:80]}") for name, item in value.items()
    }


_READERS: Mapping[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {
    Union: _read_one_of_types,
    UnionType: _read_one_of_types,
    Literal: _read_literal,
    tuple: _read_tuple,
    dict: _read_dict,
}
_LARGEST = float.fromhex("0x1.fffffep+127")
"""The largest number of 32 bits; nothing in a manifest is so large."""


@dataclass(frozen=True, kw_only=True)
class TextSpec(Spec):
    """The settings of :class:`TextFeatures`; the vocabulary and idf are in files of their own."""

    kind: Literal["text"] = "text"
    weighting: TermWeighting
    max_words: int = within(1, 5)
    idf: bool
    l2_normalize: bool
    analyzer: str = WORDS.name
    stemmer_version: str | None = within(0, 100, None)
    """The version of PyStemmer that stemmed the vocabulary."""
    summary_weight: float = within(0, MAX_SUMMARY_WEIGHT, 0.0)
    pieces: bool = False
    corrections: bool = True

    def check(self) -> None:
        """Raise ValueError unless the fields fit together."""
        if self.summary_weight and not self.l2_normalize:
            raise ValueError("summary_weight needs l2_normalize")
        Analyzer.from_name(self.analyzer)


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """The settings of :class:`TextModel`; its files are in the folder."""

    kind: Literal["model"] = "model"
    dimension: int = within(1, 1_000_000)
    pooling: Pooling
    max_tokens: int = within(2, MAX_TOKENS)
    query_prompt: str = within(0, 10_000)
    document_prompt: str = within(0, 10_000)
    l2_normalize: bool
    precision: Precision


@dataclass(frozen=True, kw_only=True)
class EndpointSpec(Spec):
    """The settings of :class:`EndpointModel`; what it returned for a few texts is in a file."""

    kind: Literal["endpoint"] = "endpoint"
    url: str = within(0, 2_000)
    name: str = within(1, 500)
    dimension: int = within(1, 1_000_000)
    query_prompt: str = within(0, 10_000)
    document_prompt: str = within(0, 10_000)
    l2_normalize: bool
    max_tokens: int = within(0, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class VectorSpec(Spec):
    """The settings of :class:`VectorFeatures`."""

    kind: Literal["vector"] = "vector"
    dimension: int = within(1, 1_000_000)
    l2_normalize: bool


@dataclass(frozen=True, kw_only=True)
class SpdSpec(Spec):
    """The settings of :class:`SpdFeatures`.

    `orders` are the number of rows of the input matrix, then that after each weight.
    """

    kind: Literal["spd"] = "spd"
    orders: tuple[int, ...] = within(2, 16, items=(1, 512))
    floor: float

    def check(self) -> None:
        """Raise ValueError unless the floor is positive."""
        if self.floor <= 0:
            raise ValueError(f"floor is {self.floor:g}; it must be above 0")


FeaturesSpec = TextSpec | ModelSpec | EndpointSpec | VectorSpec | SpdSpec
_FILES_OF_FEATURES: Mapping[type[Spec], Sequence[str]] = {
    TextSpec: (VOCABULARY,),
    ModelSpec: (MODEL, TOKENIZER),
    EndpointSpec: (PROBE,),
}


@dataclass(frozen=True, kw_only=True)
class LayerSpec(Spec):
    """The shape of a :class:`Layer`; its weight and bias are in ``weights.safetensors``.

    Of a layer in 8 bits, the weight is ``layers.I.rows``, int8, times ``layers.I.scale``, float32,
    a number for each input.
    """

    inputs: int = within(1)
    outputs: int = within(1)
    activation: Activation
    precision: Precision = "float32"


@dataclass(frozen=True, kw_only=True)
class ClassCodeSpec(Spec):
    """The sizes of a :class:`ClassCode`; its maps and codewords are in ``weights.safetensors``."""

    classes: int = within(2, 1_000_000)
    codeword_bits: int = within(1, 1024)
    certainty_bits: int = within(0, 1024)
    certainty_power: float = within(0, MAX_CERTAINTY_POWER, 0.0)
    certainty_weight: float = within(LEAST_CERTAINTY_WEIGHT, 1, 1.0)
    half_terms: float = within(0, MAX_HALF_TERMS, 0.0)
    few_terms: int = within(0, MAX_FEW_TERMS, 0)


@dataclass(frozen=True, kw_only=True)
class ReconstructionSpec(Spec):
    """The blocks of a :class:`Reconstruction`; its mean and lengths are in ``weights.safetensors``.

    Its decoder is the weight of the layer.
    """

    ends: tuple[int, ...] = within(1, 64, items=(1, 1 << 62))


@dataclass(frozen=True, kw_only=True)
class Manifest(Spec):
    """The content of ``encoder.json``.

    The `format_version` is 3 for an encoder with words beside a language model and 2 for one with a
    reconstruction, which readers of lower versions refuse, and 1 for every other.
    """

    n_bits: int
    features: FeaturesSpec
    layers: tuple[LayerSpec, ...] = within(0, 64)
    """None where the bits are the signs of a vector."""
    metadata: dict[str, Any]
    files: dict[str, str]
    format_version: Literal[1, 2, 3] = 1
    class_code: ClassCodeSpec | None = None
    reconstruction: ReconstructionSpec | None = None
    words: TextSpec | None = None
    """What a class code reads beside a language model."""
    hybrid_weight: float | None = within(MIN_HYBRID_WEIGHT, MAX_HYBRID_WEIGHT, None)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
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

    def _outputs_of_features(self) -> int:
        """Return the number of features; a text's are known from its vocabulary only."""
        if isinstance(self.features, SpdSpec):
            return triangle_length(self.features.orders[-1])
        if isinstance(self.features, TextSpec):
            raise ValueError("an encoder of terms needs a layer")  # noqa: TRY004 - of its file
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
    manifest = Manifest(
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
    # Reading checks it.
    return read_spec(Manifest, manifest.json)


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
        value = json.loads(raw)
        if b"\\" in raw:
            # Half of a character cannot be printed.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    version = value.get("format_version") if isinstance(value, dict) else None
    if isinstance(version, int) and version > LATEST_VERSION:
        found = f"format_version: is {version}, of a later version of hummingbit"
        raise ValueError(f"{found}; this one reads 1, 2, 3")
    return read_spec(Manifest, value)
