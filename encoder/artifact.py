"""Encoders on disk: a folder of plain files, checked in full before it is trusted.

======================  ============================================================
``encoder.json``        :class:`Manifest`: what the encoder is, and the SHA-256 of every other file
``weights.safetensors``  ``layers.I.weight``, ``layers.I.bias``, ``thresholds``, ``idf``,
                        ``spd.I.weight``, and the tensors of a class code
``vocabulary.txt``      one term a line, for encoders of terms
``model.onnx``          the network of a language model, and
``tokenizer.json``      its tokenizer
``golden.json``         inputs, and the codes they must give
======================  ============================================================

Further files are listed and hashed like these: ``metrics.json``, ``labelled_ids.json`` with the ids
of the documents whose labels training used, and ``classifier.safetensors``. Searches need none of
them. The fingerprint is the SHA-256 of ``encoder.json`` and so covers every file. Nothing is
unpickled and no code is run. A folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from encoder.artifact_files.artifact_contents import artifact_contents, as_inputs
from encoder.artifact_files.artifact_tensors import ArtifactError as ArtifactError  # noqa: PLC0414
from encoder.artifact_files.artifact_tensors import read_class_code, read_features, read_tensor
from encoder.artifact_files.manifest import (
    GOLDEN,
    LABELLED_IDS,
    MANIFEST,
    METRICS,
    WEIGHTS,
    Manifest,
    first_error,
    stemmer_mismatch,
)
from encoder.classifier import CLASSIFIER, Classifier, parse_classifier
from encoder.codes import code_to_hex
from encoder.encoder import Encoder, Inputs, Layer
from foundation.files import read_regular_file, replace_folder

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
    _replace_folder(folder, artifact_contents(encoder, examples, extra_files or {}))
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


def load_encoder(folder: Path) -> Encoder:
    """Load the encoder in `folder`.

    Raises:
        ArtifactError: if a file is missing, changed, oversized or malformed, a shape does not fit,
            a weight is not finite, or the golden inputs give other codes.
    """
    try:
        raw_manifest = _read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)
        manifest = Manifest.model_validate_json(raw_manifest)
        files = {
            name: _read_verified(folder, name, digest) for name, digest in manifest.files.items()
        }
        tensors = load_tensors(files[WEIGHTS])
    except ValidationError as error:
        raise ArtifactError(f"{folder / MANIFEST}: {first_error(error)}") from error
    except SafetensorError as error:
        raise ArtifactError(f"{folder / WEIGHTS}: {error}") from error
    tensor = partial(read_tensor, tensors, folder)
    encoder = Encoder(
        features=read_features(manifest, tensors, files, folder),
        layers=[
            Layer(
                weight=tensor(f"layers.{i}.weight", (spec.inputs, spec.outputs)),
                bias=tensor(f"layers.{i}.bias", (spec.outputs,)),
                activation=spec.activation,
            )
            for i, spec in enumerate(manifest.layers)
        ],
        thresholds=tensor("thresholds", (manifest.n_bits,)),
        metadata=manifest.metadata,
        fingerprint=hashlib.sha256(raw_manifest).hexdigest(),
        class_code=read_class_code(manifest, tensors, folder),
        hybrid_weight=manifest.hybrid_weight,
    )
    _check_golden(encoder, files[GOLDEN], folder, stemmer_mismatch(manifest))
    return encoder


def read_labelled_ids(folder: Path, encoder: Encoder) -> list[str]:
    """Return the ids of the documents whose labels trained `encoder`; empty without a record.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from.
    """
    ids = _read_record(folder, encoder, LABELLED_IDS)
    if ids is None:
        return []
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
    except (SafetensorError, ValueError) as error:
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
    metrics = _read_record(folder, encoder, METRICS)
    if metrics is None:
        return {}
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
    try:
        raw_manifest = _read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)
        return [MANIFEST, *Manifest.model_validate_json(raw_manifest).files]
    except ValidationError as error:
        raise ArtifactError(f"{folder / MANIFEST}: {first_error(error)}") from error


def install_artifact(source: Path, folder: Path) -> Encoder:
    """Copy the artifact in `source` to `folder`, which must not exist, and load it from there.

    Only files that the manifest lists are copied, each with the content whose hash was checked. The
    folder appears whole or not at all.

    Raises:
        ArtifactError: if `source` is not an intact artifact, or `folder` exists.
    """
    fingerprint = load_encoder(source).fingerprint
    if folder.exists():
        raise ArtifactError(f"{folder} already exists; choose another name")
    raw_manifest = _read_file(source / MANIFEST, MAX_MANIFEST_BYTES)
    if hashlib.sha256(raw_manifest).hexdigest() != fingerprint:
        raise ArtifactError(f"{source} changed while it was read")
    digests = Manifest.model_validate_json(raw_manifest).files
    contents = {name: _read_verified(source, name, digest) for name, digest in digests.items()}
    _replace_folder(folder, {**contents, MANIFEST: raw_manifest})
    return load_encoder(folder)


def _read_listed_file(folder: Path, encoder: Encoder, name: str) -> bytes | None:
    """Return the contents of a file that the manifest lists, or None if it does not list it."""
    raw_manifest = _read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)
    if hashlib.sha256(raw_manifest).hexdigest() != encoder.fingerprint:
        raise ArtifactError(f"{folder} has changed since its encoder was loaded")
    digest = Manifest.model_validate_json(raw_manifest).files.get(name)
    return None if digest is None else _read_verified(folder, name, digest)


def _read_record(folder: Path, encoder: Encoder, name: str) -> Any:
    """Return the value of a listed JSON file, or None if there is none."""
    contents = _read_listed_file(folder, encoder, name)
    if contents is None:
        return None
    try:
        return json.loads(contents)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{folder / name}: cannot be read: {error}") from error


def _check_golden(encoder: Encoder, raw: bytes, folder: Path, hint: str) -> None:
    try:
        golden = json.loads(raw)
        inputs, expected = golden["inputs"], golden["codes"]
        codes = [code_to_hex(code) for code in encoder.encode(as_inputs(encoder, inputs))]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{folder / GOLDEN}: cannot be read: {error}") from error
    if not codes or codes != expected:
        message = "the encoder does not give the recorded codes of the golden inputs"
        raise ArtifactError(f"{folder / GOLDEN}: {message}{hint}")


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
