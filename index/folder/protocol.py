"""The interface of a data folder, wherever its collections are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from index.backend import CollectionBackend
from index.folder.named_encoders import EncoderFolder
from index.kept_vectors import FLOAT32
from index.schema import AUTO


class Folder(Protocol):
    """Encoders and collections by name. All methods are thread-safe."""

    @property
    def encoders(self) -> EncoderFolder:
        """The encoders, which are always stored in the folder itself."""

    def collections(self) -> Mapping[str, CollectionBackend]:
        """Return the collections by name, in the order of the names."""

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name."""

    def collection(self, name: str) -> CollectionBackend:
        """Return a collection.

        Raises:
            UnknownCollection: if no collection has that name.
            EncoderMismatch: if its encoder is missing, damaged or was replaced.
            CollectionUnavailable: if it exists but cannot be opened for another reason.
        """

    def create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str = AUTO,
        indexed_fields: Sequence[str] | None = None,
        keep_vectors: str = FLOAT32,
    ) -> CollectionBackend:
        """Create a collection with an encoder, or for documents with codes of `n_bits`.

        `engine` must be an engine of the folder's collections. `keep_vectors` is a form of
        :mod:`index.kept_vectors`. If a collection with the same name and settings exists, it is
        returned.

        Raises:
            InputError: if the name or a setting is invalid or not supported by the folder's
                collections, or not exactly one of encoder and `n_bits` is given.
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if the encoder is damaged.
            CollectionExists: if the name belongs to a collection with other settings.
            StoreError: if it cannot be written.
        """

    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""

    def drop_collection(self, name: str) -> None:
        """Delete a collection and all of its documents.

        Raises:
            UnknownCollection: if no collection has that name.
        """

    def close(self) -> None:
        """Close every collection."""
