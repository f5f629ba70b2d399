"""Encoders on disk: a folder of plain files, checked in full before it is trusted.

======================  ============================================================
``encoder.json``        :class:`Manifest`: what the encoder is, and the sha256 of every other file
``weights.safetensors``  ``layers.I.weight``, ``layers.I.bias``, ``thresholds``, ``idf``,
                        ``spd.I.weight``, and what a class code has
``vocabulary.txt``      one term a line, for text encoders
``golden.json``         inputs, and the codes they must give
======================  ============================================================

Further files are listed and hashed like these: ``metrics.json``, ``labelled_ids.json`` with the ids
of the documents whose labels training was shown, and ``classifier.safetensors``, which searches do
not need. The fingerprint is the sha256 of ``encoder.json`` and so of everything. Nothing is
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
    other_stemmer,
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
    """Write `encoder` to `folder` and return it as it is loaded from there.

    Golden inputs are those of `examples` whose bits are surest, so that another machine's rounding
    cannot flip them. `extra_files` are further files by name.

    Raises:
        ArtifactError: if it cannot be written, or exists and `overwrite` is false.
    """
    check_place(folder, overwrite=overwrite)
    _replace_folder(folder, artifact_contents(encoder, examples, extra_files or {}))
    return load_encoder(folder)


def check_place(folder: Path, *, overwrite: bool) -> None:
    """Check that an encoder can be written to `folder`; worth doing before one is trained.

    Raises:
        ArtifactError: if `folder` exists and `overwrite` is false, or it holds something else.
    """
    if folder.exists() and not (overwrite and (folder / MANIFEST).is_file()):
        hint = "it is not an encoder" if overwrite else "choose another place, or overwrite it"
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
            name: _read_checked(folder, name, digest) for name, digest in manifest.files.items()
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
    )
    _check_golden(encoder, files[GOLDEN], folder, other_stemmer(manifest))
    return encoder


def read_labelled_ids(folder: Path, encoder: Encoder) -> list[str]:
    """Return the ids of the documents whose labels `encoder` was shown, none if it has no record.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from.
    """
    ids = _read_record(folder, encoder, LABELLED_IDS)
    if ids is None:
        return []
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise ArtifactError(f"{folder / LABELLED_IDS}: must be a list of ids")
    return ids


def read_classifier(folder: Path, encoder: Encoder) -> Classifier | None:
    """Return the classifier that `encoder` is compared with, None if it has none beside it.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from, or the
            classifier does not fit its features.
    """
    contents = _read_listed(folder, encoder, CLASSIFIER)
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


def read_figures(folder: Path, encoder: Encoder) -> dict[str, Any]:
    """Return what training measured of `encoder`, nothing if it has no record.

    Raises:
        ArtifactError: if the artifact in `folder` is not the one `encoder` was loaded from.
    """
    figures = _read_record(folder, encoder, METRICS)
    if figures is None:
        return {}
    if not isinstance(figures, dict):
        raise ArtifactError(f"{folder / METRICS}: must be an object")
    return figures


def read_fingerprint(folder: Path) -> str | None:
    """Return the fingerprint that the artifact in a folder claims; None if it has no manifest."""
    try:
        return hashlib.sha256(_read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)).hexdigest()
    except ArtifactError:
        return None


def read_listed_names(folder: Path) -> list[str]:
    """Return the names of the files of the artifact in `folder`, which need not be there yet.

    Raises:
        ArtifactError: if the manifest is missing, oversized or malformed.
    """
    try:
        raw_manifest = _read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)
        return [MANIFEST, *Manifest.model_validate_json(raw_manifest).files]
    except ValidationError as error:
        raise ArtifactError(f"{folder / MANIFEST}: {first_error(error)}") from error


def install_artifact(source: Path, folder: Path) -> Encoder:
    """Copy the artifact in `source` to `folder`, which is not there yet, and load it from there.

    Only files that the manifest lists are copied, each as it was when its hash was checked; the
    folder appears whole or not at all.

    Raises:
        ArtifactError: if `source` is not an intact artifact, or `folder` exists.
    """
    check_place(folder, overwrite=False)
    fingerprint = load_encoder(source).fingerprint
    raw_manifest = _read_file(source / MANIFEST, MAX_MANIFEST_BYTES)
    if hashlib.sha256(raw_manifest).hexdigest() != fingerprint:
        raise ArtifactError(f"{source} has changed while it was read")
    listed = Manifest.model_validate_json(raw_manifest).files
    contents = {name: _read_checked(source, name, digest) for name, digest in listed.items()}
    _replace_folder(folder, {**contents, MANIFEST: raw_manifest})
    return load_encoder(folder)


def _read_listed(folder: Path, encoder: Encoder, name: str) -> bytes | None:
    """Return the contents of a listed file, or None if the artifact has none of that name."""
    raw_manifest = _read_file(folder / MANIFEST, MAX_MANIFEST_BYTES)
    if hashlib.sha256(raw_manifest).hexdigest() != encoder.fingerprint:
        raise ArtifactError(f"{folder} has changed since its encoder was loaded")
    digest = Manifest.model_validate_json(raw_manifest).files.get(name)
    return None if digest is None else _read_checked(folder, name, digest)


def _read_record(folder: Path, encoder: Encoder, name: str) -> Any:
    """Return what a listed JSON file holds, or None if there is none."""
    contents = _read_listed(folder, encoder, name)
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
        found = [code_to_hex(code) for code in encoder.encode(as_inputs(encoder, inputs))]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{folder / GOLDEN}: cannot be read: {error}") from error
    if not found or found != expected:
        message = "the golden inputs give other codes than the encoder was written with"
        raise ArtifactError(f"{folder / GOLDEN}: {message}{hint}")


def _read_checked(folder: Path, name: str, digest: str) -> bytes:
    # A listed name is a plain file of this folder: it never leads out of it.
    if Path(name).name != name or name in {"", ".", ".."} or "\0" in name:
        raise ArtifactError(f"{folder / MANIFEST}: {name!a} is not a plain file name")
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
