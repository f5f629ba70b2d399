"""Encoders on disk: a folder of plain files, checked in full before it is trusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.class_code import (
    ClassCode,
    ClassMap,
)
from hummingbit.encoder.classifier import CLASSIFIER, Classifier, parse_classifier
from hummingbit.encoder.codes import code_to_hex
from hummingbit.encoder.encoder import (
    ByteRows,
    Encoder,
    Features,
    Inputs,
    Layer,
    LearnedDocuments,
)
from hummingbit.encoder.endpoint import EndpointError, EndpointModel
from hummingbit.encoder.reconstruction import Reconstruction
from hummingbit.encoder.tensors import load_tensors, save_tensors
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.encoder.text_model import ModelError, TextModel
from hummingbit.encoder.vector_features import SpdFeatures, VectorFeatures
from hummingbit.foundation.errors import HummingbitError
from hummingbit.foundation.files import read_regular_file, replace_folder

if TYPE_CHECKING:
    from hummingbit.encoder.manifest import LayerSpec, Manifest, TextSpec

# What the metadata of an encoder say about where it comes from.
#
# Training writes these keys and values, and retraining a collection reads them.


WORD_VECTORS, TEACHER = "word_vectors", "teacher"
"""The keys of what an encoder may have learned from beside the documents."""
WORD_BITS = "word_bits"
"""The key of how many bits tell which words a text has; absent if none do."""


def learned_from(metadata: Mapping[str, Any]) -> list[str]:
    """Return the kind and the name of all that an encoder learned from beside the documents."""
    kinds = {WORD_VECTORS: "word vectors", TEACHER: "teacher"}
    return [
        f"{kind} {name}"
        for key, kind in kinds.items()
        if (name := (metadata.get(key) or {}).get("name"))
    ]


# The names of the files in an encoder's folder.


MANIFEST = "encoder.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocabulary.txt"
GOLDEN = "golden.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
PROBE = "probe.json"
LABELLED_IDS = "labelled_ids.json"
LEARNED = "learned_documents.bin"
METRICS = "metrics.json"


# Reads the parts of an encoder from its files and checks each.


class ArtifactError(HummingbitError, ValueError):
    """A folder is not an intact encoder artifact, or one cannot be written there."""


@dataclass(frozen=True, eq=False)
class _Contents:
    """The artifact in `folder`: its manifest, and its files, whose hashes were checked.

    Every method raises ArtifactError if what it reads is missing or malformed.
    """

    folder: Path
    manifest: Manifest
    files: Mapping[str, bytes]
    tensors: Mapping[str, npt.NDArray[Any]]

    def tensor(
        self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32
    ) -> npt.NDArray[Any]:
        """Return a tensor of this shape and type, of finite numbers."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape != shape or tensor.dtype != dtype:
            found = "missing" if tensor is None else f"{tensor.dtype} {tensor.shape}"
            raise self._error(WEIGHTS, f"{name} is {found}; it must be {np.dtype(dtype)} {shape}")
        if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
            raise self._error(WEIGHTS, f"{name} holds NaN or infinity")
        return tensor

    def layer(self, i: int, spec: LayerSpec) -> Layer:
        """Return layer `i`; see :class:`LayerSpec`."""
        shape = (spec.inputs, spec.outputs)
        if spec.precision == "float32":
            weight: Floats | ByteRows = self.tensor(f"layers.{i}.weight", shape)
        else:
            numbers = self.tensor(f"layers.{i}.rows", shape, np.int8)
            weight = ByteRows(numbers, self.tensor(f"layers.{i}.scale", shape[:1]))
        bias = self.tensor(f"layers.{i}.bias", shape[1:])
        return Layer(weight, bias, spec.activation, spec.precision)

    def features(self) -> Features:
        """Return the features that the manifest describes."""
        spec = self.manifest.features
        settings = spec.settings
        try:
            if spec.kind == "vector":
                return VectorFeatures(**settings)
            if spec.kind == "model":
                return TextModel(self.files[MODEL], self.files[TOKENIZER], **settings)
            if spec.kind == "endpoint":
                texts, vectors = self._probe(spec.dimension)
                return EndpointModel(**settings, probe_texts=texts, probe_vectors=vectors)
        except (ModelError, EndpointError) as error:
            raise ArtifactError(f"{self.folder}: {error}") from error
        if spec.kind == "spd":
            shapes = enumerate(pairwise(spec.orders))
            weights = [self.tensor(f"spd.{i}.weight", shape) for i, shape in shapes]
            return SpdFeatures(weights, spec.floor)
        return self._text_features(spec, self.manifest.layers[0].inputs)

    def words(self) -> TextFeatures | None:
        """Return the words beside a language model, or None without any."""
        if self.manifest.words is None:
            return None
        weight = self.tensors.get("class_code.documents.weight")
        n_rows = 0 if weight is None or weight.ndim != 2 else len(weight)
        return self._text_features(self.manifest.words, n_rows - self.manifest.layers[0].inputs)

    def _text_features(self, spec: TextSpec, n_terms: int) -> TextFeatures:
        try:
            vocabulary = self.files[VOCABULARY].decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise self._error(VOCABULARY, error) from error
        if len(vocabulary) != n_terms:
            raise self._error(VOCABULARY, f"has {len(vocabulary)} terms; it must have {n_terms}")
        features = TextFeatures(
            vocabulary=vocabulary,
            weighting=spec.weighting,
            max_words=spec.max_words,
            idf=self.tensor("idf", (len(vocabulary),)) if spec.idf else None,
            l2_normalize=spec.l2_normalize,
            analyzer=Analyzer.from_name(spec.analyzer),
            summary_weight=spec.summary_weight,
            pieces=spec.pieces,
            corrections=spec.corrections,
        )
        if features.n_distinct != n_terms:
            found = f"has {n_terms} terms, {features.n_distinct} of them distinct"
            raise self._error(VOCABULARY, f"{found}; it must have each once")
        return features

    def _probe(self, dimension: int) -> tuple[tuple[str, ...], Floats]:
        """Return the texts of an endpoint's probe, and their vectors; no request is sent."""
        with self._reading(PROBE):
            probe = json.loads(self.files[PROBE])
            texts, vectors = probe["texts"], np.array(probe["vectors"], dtype=np.float32)
            is_valid = all(isinstance(text, str) for text in texts) and len(texts) > 0
            if not is_valid or vectors.shape != (len(texts), dimension):
                raise ValueError(f"holds vectors of shape {vectors.shape} of {len(texts)} texts")
            if not np.isfinite(vectors).all():
                raise ValueError("holds a vector with NaN or infinity")
        return tuple(texts), vectors

    def class_code(self, n_terms: int) -> ClassCode | None:
        """Return the class code, which reads what the first layer does, and `n_terms` more."""
        spec = self.manifest.class_code
        if spec is None:
            return None
        shape = (self.manifest.layers[0].inputs + n_terms, spec.classes)
        documents, queries = (
            ClassMap(
                self.tensor(f"class_code.{name}.weight", shape),
                self.tensor(f"class_code.{name}.bias", shape[1:]),
            )
            for name in ("documents", "queries")
        )
        codewords = self.tensor("class_code.codewords", (spec.classes, spec.codeword_bits))
        certainty = self.tensor("class_code.certainty", (spec.certainty_bits,))
        sizes = {"classes", "codeword_bits", "certainty_bits"}
        settings = {name: value for name, value in spec.settings.items() if name not in sizes}
        try:
            return ClassCode(documents, queries, codewords, certainty, **settings)
        except ValueError as error:
            raise self._error(WEIGHTS, error) from error

    def reconstruction(self, layers: Sequence[Layer]) -> Reconstruction | None:
        """Return the reconstruction, whose decoder is the weight of the only layer, or None."""
        spec = self.manifest.reconstruction
        if spec is None:
            return None
        (layer,) = layers
        mean = self.tensor("reconstruction.mean", layer.weight.shape[:1])
        lengths = self.tensor("reconstruction.lengths", (len(spec.ends),))
        if layer.bias.any() or self.tensors["thresholds"].any():
            raise self._error(WEIGHTS, "with a reconstruction, thresholds must be 0")
        try:
            return Reconstruction(layer.weight, mean, spec.ends, lengths)
        except ValueError as error:
            raise self._error(WEIGHTS, f"reconstruction: {error}") from error

    def learned(self) -> LearnedDocuments:
        """Return the record of the documents that the encoder learned from."""
        raw = self.files.get(LEARNED, b"")
        if len(raw) % 8:
            raise self._error(LEARNED, f"has {len(raw)} bytes, not 8 for each document")
        ids = _parse_ids(self.files.get(LABELLED_IDS), self.folder)
        return LearnedDocuments(np.frombuffer(raw, "<u8"), frozenset(ids))

    def check_golden(self, encoder: Encoder) -> None:
        """Check that the golden inputs have the recorded codes."""
        with self._reading(GOLDEN):
            golden = json.loads(self.files[GOLDEN])
            inputs, expected = golden["inputs"], golden["codes"]
            if isinstance(encoder.features, EndpointModel):
                # The endpoint may be down now. It is compared with the probe before it is used.
                probe = encoder.features
                encoded = encoder.encode_features(probe.probe_vectors, probe.probe_texts)
            else:
                encoded = encoder.encode_few(as_inputs(encoder, inputs))
            codes = [code_to_hex(code) for code in encoded]
            if codes != expected and isinstance(encoder.features, TextFeatures):
                # A sum that is nearly 0 may be rounded otherwise; the recorded codes are of
                # matrices.
                codes = [code_to_hex(code) for code in encoder.encode(as_inputs(encoder, inputs))]
        if not codes or codes != expected:
            message = "the encoder does not give the recorded codes of the golden inputs"
            raise self._error(GOLDEN, f"{message}{self._stemmer_mismatch()}")

    def _stemmer_mismatch(self) -> str:
        """Return a hint if this machine has another PyStemmer than the vocabulary, or nothing."""
        spec = self.manifest.words or self.manifest.features
        if spec.kind != "text" or spec.stemmer_version is None:
            return ""
        theirs, ours = spec.stemmer_version, Analyzer.from_name(spec.analyzer).stemmer_version
        if ours == theirs:
            return ""
        return f"; PyStemmer {theirs} stemmed its vocabulary, and this machine has PyStemmer {ours}"

    def _error(self, name: str, reason: object) -> ArtifactError:
        return ArtifactError(f"{self.folder / name}: {reason}")

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Turn what malformed JSON of a file raises into an ArtifactError."""
        try:
            yield
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._error(name, f"cannot be read: {error}") from error


# Writes an encoder: the contents of the files in its folder.


GOLDEN_INPUTS = 8


def _contents_of(
    encoder: Encoder, examples: Inputs, extra_files: Mapping[str, str | bytes]
) -> dict[str, bytes]:
    """Return the contents of every file in the folder of `encoder`, by name."""
    from hummingbit.encoder.manifest import manifest_of  # noqa: PLC0415 - it imports this module

    contents = {
        name: extra.encode() if isinstance(extra, str) else extra
        for name, extra in extra_files.items()
    }
    features = encoder.features
    contents[WEIGHTS] = save_tensors(_tensors(encoder))
    contents[GOLDEN] = _json_bytes(_golden(encoder, examples))
    if (words := _words_of(encoder)) is not None:
        contents[VOCABULARY] = "".join(f"{term}\n" for term in words.vocabulary).encode()
    if isinstance(features, TextModel):
        contents[MODEL], contents[TOKENIZER] = features.model, features.tokenizer
    if isinstance(features, EndpointModel):
        vectors = features.probe_vectors.astype(float).tolist()
        contents[PROBE] = _json_bytes({"texts": [*features.probe_texts], "vectors": vectors})
    contents[MANIFEST] = _json_bytes(manifest_of(encoder, contents).json)
    return contents


def _words_of(encoder: Encoder) -> TextFeatures | None:
    """Return the terms that an encoder reads, alone or beside a language model."""
    return encoder.features if isinstance(encoder.features, TextFeatures) else encoder.words


def as_inputs(encoder: Encoder, inputs: Sequence[Any]) -> Inputs:
    """Return golden inputs parsed from JSON in the form that the encoder takes."""
    return inputs if encoder.kind == "text" else np.asarray(inputs, dtype=np.float32)


def _tensors(encoder: Encoder) -> dict[str, npt.NDArray[Any]]:
    integers: dict[str, npt.NDArray[np.int8]] = {}
    tensors = {"thresholds": encoder.thresholds}
    for i, layer in enumerate(encoder.layers):
        tensors[f"layers.{i}.bias"] = layer.bias
        if layer.precision == "float32":
            tensors[f"layers.{i}.weight"] = layer.weight
        else:
            rows, tensors[f"layers.{i}.scale"] = _in_8_bits(layer.weight)
            integers[f"layers.{i}.rows"] = rows
    if (words := _words_of(encoder)) is not None and words.idf is not None:
        tensors["idf"] = words.idf
    if isinstance(encoder.features, SpdFeatures):
        for i, weight in enumerate(encoder.features.weights):
            tensors[f"spd.{i}.weight"] = weight
    if (code := encoder.class_code) is not None:
        for name, class_map in (("documents", code.documents), ("queries", code.queries)):
            tensors[f"class_code.{name}.weight"] = class_map.weight
            tensors[f"class_code.{name}.bias"] = class_map.bias
        tensors["class_code.codewords"] = code.codewords
        tensors["class_code.certainty"] = code.certainty
    if encoder.reconstruction is not None:
        tensors["reconstruction.mean"] = encoder.reconstruction.mean
        tensors["reconstruction.lengths"] = encoder.reconstruction.lengths
    floats = {
        name: np.ascontiguousarray(tensor, dtype=np.float32) for name, tensor in tensors.items()
    }
    return {**floats, **integers}


def _in_8_bits(weight: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return the rows of `weight` as whole numbers from -127 to 127, and the scale of each.

    A scale has 12 bits of precision, so that a row is the exact product of both and the largest
    number of a row is 127. Rows that came from 8 bits give the same numbers again.
    """
    largest = np.abs(weight).max(axis=1, initial=0)
    mantissa, exponent = np.frexp(largest / np.float32(127))
    scale = np.ldexp(np.ceil(mantissa * 4096) / 4096, exponent).astype(np.float32)
    scale[largest == 0] = 1
    return np.rint(weight / scale[:, None]).astype(np.int8), scale


def _golden(encoder: Encoder, examples: Inputs) -> dict[str, Any]:
    if isinstance(encoder.features, EndpointModel):
        texts = [*encoder.features.probe_texts]
        of_probe = encoder.encode_features(encoder.features.probe_vectors, texts)
        return {"inputs": texts, "codes": [*map(code_to_hex, of_probe)]}
    farthest = np.argsort(-encoder.least_margins(examples), kind="stable")[:GOLDEN_INPUTS]
    inputs: Sequence[Any] = (
        [examples[i] for i in farthest]
        if encoder.kind == "text"
        else np.asarray(examples, dtype=np.float32)[farthest].astype(float).tolist()
    )
    codes = [code_to_hex(code) for code in encoder.encode(as_inputs(encoder, inputs))]
    return {"inputs": list(inputs), "codes": codes}


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n").encode()


# Encoders on disk: a folder of plain files, checked in full before it is trusted.
#
# ======================  ============================================================
# ``encoder.json``        what the encoder is, and the SHA-256 of every other file
# ``weights.safetensors`` ``layers.I.weight``, ``layers.I.bias``, ``thresholds``, ``idf``,
#                         ``spd.I.weight``, the tensors of a class code and a reconstruction
# ``vocabulary.txt``      one term a line, for encoders of terms, alone or beside a model
# ``model.onnx``          the network of a language model, and
# ``tokenizer.json``      its tokenizer
# ``probe.json``          texts, and the vectors that an endpoint returned for them
# ``golden.json``         inputs, and the codes they must give
# ======================  ============================================================
#
# Further files are listed and hashed like these: ``metrics.json``, ``labelled_ids.json`` with the
# ids of the documents whose labels training used, ``learned_documents.bin`` with a hash of each
# document that training read (:class:`LearnedDocuments`), and ``classifier.safetensors``.
# Searches need none of them. The fingerprint is the SHA-256 of ``encoder.json`` and so covers every
# file. Nothing is unpickled and no code is run. A folder appears whole or not at all.


MAX_FILE_BYTES = 4 << 30
MAX_MANIFEST_BYTES = 16 << 20


def write_artifact(
    folder: Path,
    encoder: Encoder,
    examples: Inputs,
    *,
    extra_files: Mapping[str, str | bytes] | None = None,
    overwrite: bool = False,
) -> Encoder:
    """Write `encoder` to `folder` and return the encoder loaded from there.

    The golden inputs are those of `examples` whose logits are farthest from their thresholds, so
    that another machine's rounding cannot flip a bit. `extra_files` are further files by name.

    Raises:
        ArtifactError: if `folder` cannot be written, or exists and `overwrite` is false.
    """
    check_destination(folder, overwrite=overwrite)
    _replace_folder(folder, _contents_of(encoder, examples, extra_files or {}))
    return load_encoder(folder)


def check_destination(folder: Path, *, overwrite: bool) -> None:
    """Check that an encoder can be written to `folder`. Training calls this before it starts.

    Raises:
        ArtifactError: if `folder` exists and `overwrite` is false, or it is not an encoder.
    """
    if not folder.exists():
        return
    if not (folder / MANIFEST).is_file():
        raise ArtifactError(
            f"{folder} already exists; it is not an encoder, so it is not overwritten"
        )
    if not overwrite:
        hint = "choose another folder, or replace it (--overwrite, in Python overwrite=True)"
        raise ArtifactError(f"{folder} already exists; {hint}")


def load_encoder(folder: Path, *, derived: Path | None = None) -> Encoder:
    """Load the encoder in `folder`, which keeps what it derives in another one, or nowhere.

    Raises:
        ArtifactError: if a file is missing, changed, oversized or malformed, a shape does not fit,
            a weight is not finite, or the golden inputs give other codes.
    """
    manifest, fingerprint = _read_manifest(folder)
    files = {name: _read_verified(folder, name, digest) for name, digest in manifest.files.items()}
    try:
        tensors = load_tensors(files[WEIGHTS])
    except ValueError as error:
        raise ArtifactError(f"{folder / WEIGHTS}: {error}") from error
    contents = _Contents(folder, manifest, files, tensors)
    layers = [contents.layer(i, spec) for i, spec in enumerate(manifest.layers)]
    words = contents.words()
    encoder = Encoder(
        features=contents.features(),
        layers=layers,
        thresholds=contents.tensor("thresholds", (manifest.n_bits,)),
        metadata=manifest.metadata,
        fingerprint=fingerprint,
        class_code=contents.class_code(words.dimension if words else 0),
        hybrid_weight=manifest.hybrid_weight,
        learned=contents.learned(),
        reconstruction=contents.reconstruction(layers),
        words=words,
        derived=derived,
    )
    contents.check_golden(encoder)
    return encoder


def read_labelled_ids(folder: Path, encoder: Encoder) -> list[str]:
    """Return the ids of the documents whose labels trained `encoder`; empty without a record.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from.
    """
    return _parse_ids(_read_listed_file(folder, encoder, LABELLED_IDS), folder)


def _parse_ids(raw: bytes | None, folder: Path) -> list[str]:
    ids = [] if raw is None else _parse_record(raw, folder / LABELLED_IDS)
    if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
        raise ArtifactError(f"{folder / LABELLED_IDS}: must be a list of ids")
    return ids


def read_classifier(folder: Path, encoder: Encoder) -> Classifier | None:
    """Return the classifier that `encoder` is compared with, or None if the artifact has none.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from, or the
            classifier does not fit its features.
    """
    contents = _read_listed_file(folder, encoder, CLASSIFIER)
    if contents is None:
        return None
    try:
        classifier = parse_classifier(contents)
    except ValueError as error:
        raise ArtifactError(f"{folder / CLASSIFIER}: {error}") from error
    if classifier.n_features != encoder.features.dimension:
        found = f"is for {classifier.n_features:,} features"
        raise ArtifactError(
            f"{folder / CLASSIFIER}: {found}; it must be for {encoder.features.dimension:,}"
        )
    return classifier


def read_metrics(folder: Path, encoder: Encoder) -> dict[str, Any]:
    """Return the metrics that training measured of `encoder`; empty without a record.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from.
    """
    raw = _read_listed_file(folder, encoder, METRICS)
    metrics = {} if raw is None else _parse_record(raw, folder / METRICS)
    if not isinstance(metrics, dict):
        raise ArtifactError(f"{folder / METRICS}: must be an object")
    return metrics


def read_fingerprint(folder: Path) -> str | None:
    """Return the hash of the manifest in `folder`, or None if it has none. Checks no other file."""
    try:
        return hashlib.sha256(_read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)).hexdigest()
    except ArtifactError:
        return None


def read_listed_names(folder: Path) -> list[str]:
    """Return the manifest and the files that it lists, by name. The files may still be missing.

    Raises:
        ArtifactError: if the manifest is missing, oversized or malformed.
    """
    return [MANIFEST, *_read_manifest(folder)[0].files]


def install_artifact(source: Path, folder: Path) -> Encoder:
    """Copy the artifact in `source` to `folder`, which must not exist, and load it from there.

    Only files that the manifest lists are copied, each with the content whose hash was checked. The
    folder appears whole or not at all.

    Raises:
        ArtifactError: if `source` is not an intact artifact, or `folder` exists.
    """
    loaded = load_encoder(source).fingerprint
    if folder.exists():
        raise ArtifactError(f"{folder} already exists; choose another name")
    raw_manifest = _read_file(source / MANIFEST, MAX_MANIFEST_BYTES)
    if hashlib.sha256(raw_manifest).hexdigest() != loaded:
        raise ArtifactError(f"{source} changed while it was read")
    digests = _parse_manifest(raw_manifest, source).files
    contents = {name: _read_verified(source, name, digest) for name, digest in digests.items()}
    _replace_folder(folder, {**contents, MANIFEST: raw_manifest})
    return load_encoder(folder)


def _read_manifest(folder: Path) -> tuple[Manifest, str]:
    """Return the manifest in `folder`, and its hash."""
    raw = _read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)
    return _parse_manifest(raw, folder), hashlib.sha256(raw).hexdigest()


def _parse_manifest(raw: bytes, folder: Path) -> Manifest:
    from hummingbit.encoder.manifest import parse_manifest  # noqa: PLC0415 - it imports this module

    try:
        return parse_manifest(raw)
    except ValueError as error:
        raise ArtifactError(f"{folder / MANIFEST}: {error}") from error


def _read_listed_file(folder: Path, encoder: Encoder, name: str) -> bytes | None:
    """Return the contents of a file that the manifest lists, or None if it does not list it."""
    manifest, fingerprint = _read_manifest(folder)
    if fingerprint != encoder.fingerprint:
        raise ArtifactError(f"{folder} has changed since its encoder was loaded")
    digest = manifest.files.get(name)
    return None if digest is None else _read_verified(folder, name, digest)


def _parse_record(contents: bytes, path: Path) -> Any:
    try:
        return json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


def _read_verified(folder: Path, name: str, digest: str) -> bytes:
    # A listed name must be a file of this folder; it must not lead out of it.
    if Path(name).name != name or name in {"", ".", ".."} or "\0" in name:
        raise ArtifactError(f"{folder / MANIFEST}: {name!r} is not a plain file name")
    raw = _read_file(folder / name, MAX_FILE_BYTES)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ArtifactError(f"{folder / name}: has changed since the encoder was written")
    return raw


def _read_file(path: Path, max_bytes: int) -> bytes:
    try:
        return read_regular_file(path, max_bytes)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _replace_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    try:
        replace_folder(folder, contents)
    except OSError as error:
        raise ArtifactError(f"{folder}: cannot be written: {error.strerror or error}") from error
