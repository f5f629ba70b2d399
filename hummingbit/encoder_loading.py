"""Loads encoders from files, and installs them in data folders, for users of the library."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hummingbit.encoder.artifact import load_encoder as load_artifact
from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.catalog import is_sign_encoder
from hummingbit.index.data_folder import DataFolder

if TYPE_CHECKING:
    from hummingbit.hasher import SemanticHasher


def load_encoder(folder: str | Path) -> Encoder:
    """Load the encoder that training or :meth:`SemanticHasher.save` wrote to `folder`.

    Its files are checked against their hashes, and its codes against recorded ones. No code in the
    files is run.

    Raises:
        ArtifactError: if a file is missing, changed or malformed.
    """
    return load_artifact(Path(folder))


def install_encoder(folder: DataFolder, encoder: SemanticHasher | str | Path, name: str) -> str:
    """Copy an encoder into a data folder if it is not there yet, and return its name there.

    `encoder` is a name in the data folder, the path of an encoder, or a fitted hasher, which gets
    the name `name`.

    Raises:
        InputError: if it is none of these.
        ArtifactError: if it is not intact.
    """
    if isinstance(encoder, str) and (
        encoder in folder.encoders.names() or is_sign_encoder(encoder)
    ):
        return encoder
    encoders = folder.encoders
    with TemporaryDirectory(prefix="hummingbit-") as scratch:
        source = Path(scratch) / name
        if isinstance(encoder, str | Path):
            source, name = Path(encoder), Path(encoder).resolve().name
            if not source.is_dir():
                known = ", ".join(encoders.names()) or "none"
                rule = f"it must be one of the data folder ({known}), or the folder of one"
                raise InputError("encoder", f"is {str(encoder)!r}; {rule}")
        elif hasattr(encoder, "save"):
            encoder.save(source)
        else:
            problem = f"is an object of the type {type(encoder).__name__}"
            given = "a fitted SemanticHasher, the folder of an encoder, or its name"
            raise InputError("encoder", f"{problem}; give {given}")
        fingerprint = load_encoder(source).fingerprint
        installed = encoders.with_fingerprint(fingerprint)
        if installed:
            return installed[0]
        if name in encoders.names():
            name = f"{name}-{fingerprint[:8]}"
        encoders.install(source, name)
    return name
