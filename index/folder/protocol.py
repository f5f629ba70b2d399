"""What every data folder offers, wherever its collections lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from index.backend import CollectionBackend
from index.folder.named_encoders import EncoderFolder
from index.schema import AUTO


class Folder(Protocol):
    """Encoders and collections by name. All methods are thread-safe."""

    @property
    def encoders(self) -> EncoderFolder:
        """The encoders, which lie in the folder wherever the collections lie."""

    def collections(self) -> Mapping[str, CollectionBackend]:
        """Return the collections by name, in the order of the names."""

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name."""

    def collection(self, name: str) -> CollectionBackend:
        """Return a collection.

        Raises:
            UnknownCollection: if there is none of that name.
            EncoderMismatch: if its encoder is missing, damaged or another one by now.
            CollectionUnavailable: if it is there but cannot be opened for another reason.
        """

    def create_collection(
        self,
        name: str,
        *,
        encoder: str | None = None,
        n_bits: int | None = None,
        engine: str = AUTO,
        indexed_fields: Sequence[str] | None = None,
    ) -> CollectionBackend:
        """Make a collection with an encoder, or for codes of `n_bits` that documents bring.

        `engine` is one that the folder's collections can be searched by. If there is a collection
        just like it, that one is returned.

        Raises:
            InputError: if the name, `n_bits`, the engine or an indexed field cannot be, or of
                encoder and `n_bits` both or none are given.
            UnknownEncoder: if there is no encoder of that name.
            ArtifactError: if the encoder is not intact.
            CollectionExists: if the name is taken by a collection with other settings.
            StoreError: if it cannot be written.
        """

    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""

    def drop_collection(self, name: str) -> None:
        """Delete a collection and all of its documents.

        Raises:
            UnknownCollection: if there is none of that name.
        """

    def close(self) -> None:
        """Close every collection."""
