"""The collections of a data folder by name, wherever their documents lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from encoder.artifact import ArtifactError
from encoder.codes import CodeError, check_n_bits
from encoder.encoder import Encoder
from foundation.errors import InputError
from index.backend import CollectionBackend
from index.errors import (
    CollectionExists,
    CollectionUnavailable,
    EncoderMismatch,
    StoreError,
    UnknownCollection,
    UnknownEncoder,
)
from index.folder.named_encoders import EncoderFolder
from index.folder.names import check_name
from index.schema import Description


class HiddenCollection(NamedTuple):
    """A collection that nobody finds by its name until it is to `appear`; `delete` gives it up."""

    id: str
    """What :meth:`Collections.published` knows it by once it appeared."""
    appear: Callable[[], None]
    delete: Callable[[], None]


class Collections(ABC):
    """The open collections of a data folder, and why others cannot be opened.

    Reading is thread-safe. The data folder lets one thread at a time change anything.
    """

    def __init__(self, encoders: EncoderFolder) -> None:
        self._encoders = encoders
        self.opened: dict[str, CollectionBackend] = {}
        """The collections that are open, by name; for reading."""
        self._unavailable: dict[str, StoreError | CollectionUnavailable] = {}

    def by_name(self) -> Mapping[str, CollectionBackend]:
        """Return the collections that are open, in the order of their names."""
        return MappingProxyType(dict(sorted(self.opened.copy().items())))

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name, or by folder if that is not known."""
        reasons = {name: str(error) for name, error in self._unavailable.copy().items()}
        return MappingProxyType(dict(sorted(reasons.items())))

    def names(self) -> set[str]:
        """Return the names of all collections, of those that cannot be opened as well."""
        return {*self.opened, *self._unavailable}

    def get(self, name: str) -> CollectionBackend:
        """Return a collection.

        Raises:
            UnknownCollection: if there is none of that name.
            EncoderMismatch: if its encoder is missing, damaged or another one by now.
            CollectionUnavailable: if it is there but cannot be opened for another reason.
        """
        collection = self.opened.get(name)
        if collection is not None:
            return collection
        reason = self._unavailable.get(name)
        if reason is not None:
            kind = type(reason) if isinstance(reason, EncoderMismatch) else CollectionUnavailable
            raise kind(f"collection {name!a} cannot be opened: {reason}") from reason
        raise UnknownCollection(f"there is no collection {name!a}")

    def get_ready(self, name: str) -> CollectionBackend:
        """Return a collection once it can be searched without delay, which may take a while."""
        return self.get(name)

    def get_like(
        self, description: Description, indexed_fields: Sequence[str] | None = None
    ) -> CollectionBackend:
        """Return the collection of that name if it was made with these settings.

        Its indexed fields may be any where none are given.

        Raises:
            CollectionExists: if it was made with others.
            UnknownCollection, CollectionUnavailable: as :meth:`get`.
        """
        collection = self.get(description.name)
        found = Description(
            collection.name,
            collection.n_bits,
            collection.encoder_name,
            collection.encoder_fingerprint,
            collection.engine_setting,
        )
        if found != description:
            made_with = collection.encoder_name or f"{collection.n_bits} bits"
            message = f"collection {description.name!a} exists already, with {made_with}"
            raise CollectionExists(f"{message} and the engine {collection.engine_setting}")
        if indexed_fields is not None and {*indexed_fields} != {*collection.indexed_fields}:
            indexed = ", ".join(collection.indexed_fields) or "none"
            message = f"collection {description.name!a} exists already; its indexed fields are"
            raise CollectionExists(f"{message} {indexed}")
        return collection

    def describe(
        self, name: str, encoder_name: str | None, n_bits: int | None, engine: str
    ) -> tuple[Description, Encoder | None]:
        """Return the settings of a collection that is to be made, and its encoder.

        Raises:
            InputError: if the name, `n_bits` or the engine cannot be, or of encoder and `n_bits`
                both or none are given.
            UnknownEncoder: if there is no encoder of that name.
            ArtifactError: if the encoder is not intact.
        """
        check_name(name)
        if (encoder_name is None) == (n_bits is None):
            raise InputError("encoder", "exactly one of encoder and n_bits must be given")
        if encoder_name is None:
            encoder = None
            description = Description(name, n_bits or 0, engine=engine)
            _check_n_bits(description.n_bits)
        else:
            encoder = self._encoders.load(encoder_name)
            made_with = encoder_name, encoder.fingerprint
            description = Description(name, encoder.n_bits, *made_with, engine)
        self.check_engine(engine, description.n_bits)
        return description, encoder

    @abstractmethod
    def open_all(self) -> None:
        """Open every collection there is.

        A collection that cannot be opened does not stand in the way of the others.
        """

    @abstractmethod
    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> CollectionBackend:
        """Make an empty collection under a name that is free, and return it.

        Raises:
            InputError: if fields cannot be indexed in it.
            StoreError: if it cannot be written.
        """

    @abstractmethod
    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, CollectionBackend]:
        """Make an empty collection that is hidden, and return it to be written to.

        Raises:
            StoreError: if it cannot be written.
        """

    @abstractmethod
    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Make a hidden collection `name` of a snapshot's file.

        Raises:
            SnapshotError: if the file is not a whole snapshot.
            EncoderMismatch: if there is another encoder of the same name.
        """

    @abstractmethod
    def published(self, id_: str) -> CollectionBackend | None:
        """Return the collection that was hidden under that id; None if it never appeared."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a collection with all of its documents, also one that is damaged."""

    @abstractmethod
    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""

    def problems(self) -> Mapping[str, list[str]]:
        """Return why nothing can be written to collections that are open, by name."""
        return {}

    def accept_loss(self, name: str) -> None:
        """Let a collection that lost acknowledged writes go on from what it holds."""
        raise UnknownCollection(f"there is no collection {name!a}")

    @abstractmethod
    def follow(self, *, wait: bool) -> None:
        """Show what another process has written since; without `wait`, what takes long later."""

    @property
    def are_opening(self) -> bool:
        """Whether some that are there will only be found in a while."""
        return False

    def close(self) -> None:
        """Close every collection."""
        for collection in self.opened.values():
            collection.close()
        self.opened.clear()

    def _encoder_of(self, description: Description) -> Encoder | None:
        if description.encoder_name is None:
            return None
        try:
            return self._encoders.load(description.encoder_name)
        except (UnknownEncoder, ArtifactError) as error:
            raise EncoderMismatch(str(error)) from error


def _check_n_bits(n_bits: int) -> None:
    try:
        check_n_bits(n_bits)
    except CodeError as error:
        raise InputError(error.field, error.reason) from None
