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
    """Artifacts in folders that are named as the encoders. All methods are thread-safe.

    A name from a caller is compared with the names of the folders and never becomes a path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loading = threading.Lock()
        self._loaded: dict[str, Encoder] = {}

    def names(self) -> list[str]:
        """Return the names of the encoders, sorted."""
        return sorted(self._folders())

    def load(self, name: str) -> Encoder:
        """Return an encoder.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged.
        """
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = load_encoder(self.folder(name))
            return self._loaded[name]

    def folder(self, name: str) -> Path:
        """Return the folder of an encoder's artifact.

        Raises:
            UnknownEncoder: if no encoder has that name.
        """
        folders = self._folders()
        if name not in folders:
            raise UnknownEncoder(name, folders)
        return folders[name]

    def with_fingerprint(self, fingerprint: str) -> list[str]:
        """Return the names of the encoders with a fingerprint, sorted."""
        names = [
            name for name, path in self._folders().items() if read_fingerprint(path) == fingerprint
        ]
        return sorted(names)

    def install(self, source: Path, name: str) -> Encoder:
        """Copy the artifact in the folder `source` under `name` and return the encoder.

        Raises:
            InputError: if the name is invalid.
            ArtifactError: if `source` is not an intact artifact, or the name is taken.
        """
        check_name(name, "encoder")
        with self._loading:
            self._loaded[name] = install_artifact(source, self.path / name)
            return self._loaded[name]

    def labelled_ids(self, name: str) -> list[str]:
        """Return the recorded ids of the documents whose labels trained an encoder.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged, or has changed since it was loaded.
        """
        return read_labelled_ids(self.folder(name), self.load(name))

    def classifier(self, name: str) -> Classifier | None:
        """Return the classifier baseline in an encoder's artifact, or None.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged, or has changed since it was loaded.
        """
        return read_classifier(self.folder(name), self.load(name))

    def figures(self, name: str) -> dict[str, Any]:
        """Return the figures of an encoder that training recorded; empty if there are none.

        Raises:
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if it is damaged, or has changed since it was loaded.
        """
        return read_metrics(self.folder(name), self.load(name))

    def _folders(self) -> dict[str, Path]:
        if not self.path.is_dir():
            return {}
        folders = {path.name: path for path in self.path.iterdir() if path.is_dir()}
        return {name: path for name, path in folders.items() if NAME.fullmatch(name)}
