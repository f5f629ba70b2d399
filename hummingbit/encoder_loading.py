"""Encoders of files and of data folders, for callers of the library."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from encoder.artifact import load_encoder as load_artifact
from encoder.encoder import Encoder
from index.data_folder import DataFolder

if TYPE_CHECKING:
    from hummingbit.hasher import SemanticHasher


def load_encoder(folder: str | Path) -> Encoder:
    """Load the encoder that training or :meth:`SemanticHasher.save` wrote to `folder`.

    Its files are checked against their hashes, and its codes against known ones. Nothing in them is
    run.

    Raises:
        ArtifactError: if a file is missing, changed or malformed.
    """
    return load_artifact(Path(folder))


def install_encoder(folder: DataFolder, given: SemanticHasher | str | Path, name: str) -> str:
    """Return the name of an encoder in the data folder, where it is copied if it is not there."""
    if isinstance(given, str) and given in folder.encoders.names():
        return given
    encoders = folder.encoders
    with TemporaryDirectory(prefix="hummingbit-") as scratch:
        source = Path(scratch) / name
        if isinstance(given, str | Path):
            source, name = Path(given), Path(given).resolve().name
        else:
            given.save(source)
        fingerprint = load_encoder(source).fingerprint
        known = encoders.with_fingerprint(fingerprint)
        if known:
            return known[0]
        if name in encoders.names():
            name = f"{name}-{fingerprint[:8]}"
        encoders.install(source, name)
    return name
