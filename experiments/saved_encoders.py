"""Encoders that experiments save: trained once, and again if their inputs or code have changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.code_version import code_version
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.encoder import Encoder
from hummingbit.training.data import TrainingData

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def load_or_train(
    folder: Path,
    data: TrainingData,
    recipe: DataclassInstance,
    train: Callable[[], Encoder],
    about: Mapping[str, Any] | None = None,
) -> Encoder:
    """Return the encoder saved in `folder` if it is up to date, else the one `train` saves there.

    It is up to date if the documents, the recipe and the code (:func:`code_version`) are the same,
    and its metadata contains `about`, such as the description of a teacher or of word vectors. The
    version of the code is in a file beside the folder, so that it does not change the encoder's
    fingerprint.
    """
    version = folder.with_name(folder.name + ".code")
    if folder.exists() and version.exists() and version.read_text() == code_version():
        encoder = load_encoder(folder)
        is_described = (about or {}).items() <= encoder.metadata.items()
        if is_described and is_trained_on(encoder, data, asdict(recipe)):
            return encoder
    print(f"training {folder}", file=sys.stderr, flush=True)
    version.unlink(missing_ok=True)
    encoder = train()
    version.write_text(code_version())
    return encoder


def is_trained_on(encoder: Encoder, data: TrainingData, settings: Mapping[str, Any]) -> bool:
    """Return whether `encoder` was trained on `data` with `settings`."""
    about = encoder.metadata
    same_data = about.get("trained_on", {}).get("sha256") == data.sha256
    return bool(same_data and about.get("recipe") == dict(settings))
