"""The encoders of a data folder, each loaded once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from encoder.artifact import (
    install_artifact,
    load_encoder,
    read_classifier,
    read_fingerprint,
    read_labelled_ids,
    read_metrics,
)
from encoder.classifier import Classifier
from encoder.encoder import Encoder
from index.errors import UnknownEncoder
from index.folder.names import NAME, check_name


class EncoderFolder:
    """Artifacts in folders whose names are the encoders'. All methods are thread-safe.

    A name that is asked for is compared with those of the folders there are, never made a path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loading = threading.Lock()
        self._loaded: dict[str, Encoder] = {}

    def names(self) -> list[str]:
        """Return the names of the encoders, in order."""
        return sorted(self._folders())

    def load(self, name: str) -> Encoder:
        """Return an encoder.

        Raises:
            UnknownEncoder: if there is none of that name.
            ArtifactError: if it is not intact.
        """
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = load_encoder(self.folder(name))
            return self._loaded[name]

    def folder(self, name: str) -> Path:
        """Return where an encoder's artifact lies.

        Raises:
            UnknownEncoder: if there is none of that name.
        """
        folders = self._folders()
        if name not in folders:
            known = ", ".join(sorted(folders)) or "none"
            raise UnknownEncoder(f"there is no encoder {name!a}; there are: {known}")
        return folders[name]

    def with_fingerprint(self, fingerprint: str) -> list[str]:
        """Return the names of the encoders with a fingerprint, in order."""
        found = [
            name for name, path in self._folders().items() if read_fingerprint(path) == fingerprint
        ]
        return sorted(found)

    def install(self, source: Path, name: str) -> Encoder:
        """Copy the artifact in the folder `source` and return the encoder, from now on `name`.

        Raises:
            InputError: if the name cannot be.
            ArtifactError: if `source` is not an intact artifact, or the name is taken.
        """
        check_name(name, "encoder")
        with self._loading:
            self._loaded[name] = install_artifact(source, self.path / name)
            return self._loaded[name]

    def labelled_ids(self, name: str) -> list[str]:
        """Return the ids of the documents whose labels an encoder was shown, as it records them.

        Raises:
            UnknownEncoder: if there is none of that name.
            ArtifactError: if it is not intact, or has changed since it was loaded.
        """
        return read_labelled_ids(self.folder(name), self.load(name))

    def classifier(self, name: str) -> Classifier | None:
        """Return the classifier that an encoder is compared with, None if it has none beside it.

        Raises:
            UnknownEncoder: if there is none of that name.
            ArtifactError: if it is not intact, or has changed since it was loaded.
        """
        return read_classifier(self.folder(name), self.load(name))

    def figures(self, name: str) -> dict[str, Any]:
        """Return what training measured of an encoder, as it records it; nothing if it does not.

        Raises:
            UnknownEncoder: if there is none of that name.
            ArtifactError: if it is not intact, or has changed since it was loaded.
        """
        return read_metrics(self.folder(name), self.load(name))

    def _folders(self) -> dict[str, Path]:
        if not self.path.is_dir():
            return {}
        found = {path.name: path for path in self.path.iterdir() if path.is_dir()}
        return {name: path for name, path in found.items() if NAME.fullmatch(name)}
