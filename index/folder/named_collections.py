"""The collections of a data folder by name, wherever their documents are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
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
from index.folder.partial import is_folder_name
from index.kept_vectors import FLOAT32, check_form
from index.schema import Description


class HiddenCollection(NamedTuple):
    """A collection that has no name until `appear` is called; `delete` discards it."""

    id: str
    """The id for :meth:`Collections.published_draft`."""
    appear: Callable[[], None]
    delete: Callable[[], None]


class Collections(ABC):
    """The open collections of a data folder, and why others cannot be opened.

    Reading is thread-safe. Changes need the lock of the data folder.
    """

    def __init__(self, encoders: EncoderFolder) -> None:
        self._encoders = encoders
        self.linger_seconds = 0.0
        """See :attr:`index.data_folder.DataFolder.linger_seconds`."""
        self.opened: dict[str, CollectionBackend] = {}
        """The open collections by name; for reading only."""
        self._unavailable: dict[str, StoreError | CollectionUnavailable] = {}

    def by_name(self) -> Mapping[str, CollectionBackend]:
        """Return the open collections, in the order of their names."""
        return MappingProxyType(dict(sorted(self.opened.copy().items())))

    def unavailable(self) -> Mapping[str, str]:
        """Return why collections cannot be opened, by name, or by folder if the name is unknown."""
        reasons = {name: str(error) for name, error in self._unavailable.copy().items()}
        return MappingProxyType(dict(sorted(reasons.items())))

    def names(self) -> set[str]:
        """Return the names of all collections, including those that cannot be opened."""
        return {*self.opened, *self._unavailable}

    def get(self, name: str) -> CollectionBackend:
        """Return a collection.

        Raises:
            UnknownCollection: if no collection has that name.
            EncoderMismatch: if its encoder is missing, damaged or was replaced.
            CollectionUnavailable: if it exists but cannot be opened for another reason.
        """
        collection = self.opened.get(name)
        if collection is not None:
            return collection
        cause = self._unavailable.get(name)
        if cause is not None:
            kind = type(cause) if isinstance(cause, EncoderMismatch) else CollectionUnavailable
            raise kind(f"collection {name!r} cannot be opened: {cause}") from cause
        message = f"there is no collection {name!r}{self._name_nameless()}"
        raise UnknownCollection(message, name, self.names())

    def _name_nameless(self) -> str:
        """Return which collections may have any name, because they cannot be opened, and why."""
        nameless = [
            f"{name}/{str(error).partition(f'{name}/')[2]}"  # without the path of the data folder
            for name, error in sorted(self._unavailable.copy().items())
            if is_folder_name(name)
        ]
        reason = "; but one cannot be opened, so its name is unknown: "
        return f"{reason}{nameless[0]}" if nameless else ""

    def get_ready(self, name: str) -> CollectionBackend:
        """Return a collection after preparing it for searches, which may take a while."""
        return self.get(name)

    def get_equal(
        self, description: Description, indexed_fields: Sequence[str] | None = None
    ) -> CollectionBackend:
        """Return the collection of that name if it has these settings.

        If `indexed_fields` is None, it may have any indexed fields.

        Raises:
            CollectionExists: if it has other settings.
            UnknownCollection, CollectionUnavailable: as :meth:`get`.
        """
        collection = self.get(description.name)
        actual = Description(
            collection.name,
            collection.n_bits,
            collection.encoder_name,
            collection.encoder_fingerprint,
            collection.engine_setting,
            collection.keep_vectors,
        )
        if actual != description:
            name = collection.encoder_name
            codes = f"encoder {name}" if name else f"{collection.n_bits} bits"
            message = f"collection {description.name!r} already exists, with {codes}"
            settings = f"engine {collection.engine_setting}, keep_vectors {collection.keep_vectors}"
            raise CollectionExists(f"{message}, {settings}")
        if indexed_fields is not None and {*indexed_fields} != {*collection.indexed_fields}:
            fields = ", ".join(collection.indexed_fields) or "none"
            message = f"collection {description.name!r} already exists; its indexed fields are"
            raise CollectionExists(f"{message} {fields}")
        return collection

    def describe(
        self,
        name: str,
        encoder_name: str | None,
        n_bits: int | None,
        engine: str,
        keep_vectors: str = FLOAT32,
    ) -> tuple[Description, Encoder | None]:
        """Return the settings of a collection to create, and its encoder.

        Raises:
            InputError: if the name, `n_bits`, the engine or `keep_vectors` is invalid, or not
                exactly one of encoder and `n_bits` is given.
            UnknownEncoder: if no encoder has that name.
            ArtifactError: if the encoder is damaged.
        """
        check_name(name)
        check_form(keep_vectors)
        if (encoder_name is None) == (n_bits is None):
            raise InputError("encoder", "exactly one of encoder and n_bits must be given")
        if encoder_name is None:
            encoder = None
            description = Description(name, n_bits or 0, engine=engine, keep_vectors=keep_vectors)
            _check_n_bits(description.n_bits)
        else:
            encoder = self._encoders.load(encoder_name)
            _check_has_vectors(encoder, keep_vectors)
            description = Description(
                name, encoder.n_bits, encoder_name, encoder.fingerprint, engine, keep_vectors
            )
        self.check_engine(engine, description.n_bits)
        return description, encoder

    @abstractmethod
    def open_all(self) -> None:
        """Open every collection; one that cannot be opened does not affect the others."""

    @abstractmethod
    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> CollectionBackend:
        """Create an empty collection under a free name and return it.

        Raises:
            InputError: if it cannot index the fields.
            StoreError: if it cannot be written.
        """

    @abstractmethod
    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, CollectionBackend]:
        """Create an empty hidden collection; the second value is for writing to it.

        Raises:
            StoreError: if it cannot be written.
        """

    @abstractmethod
    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Create a hidden collection `name` from a snapshot file.

        Raises:
            SnapshotError: if the file is not a complete, intact snapshot.
            EncoderMismatch: if another encoder has the same name.
        """

    @abstractmethod
    def published_draft(self, id_: str) -> CollectionBackend | None:
        """Return the collection that was hidden under that id; None if it never appeared."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a collection with all its documents, even if it is damaged."""

    @abstractmethod
    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless a collection of `n_bits` can be searched by `engine`."""

    def problems(self) -> Mapping[str, list[str]]:
        """Return why open collections refuse writes, by name."""
        return {}

    def accept_loss(self, name: str) -> None:
        """Accept the loss of acknowledged writes, so that a collection can be written again."""
        raise UnknownCollection(f"there is no collection {name!r}")

    def find_gone(self) -> Mapping[str, CollectionBackend]:
        """Return the open collections that another process has dropped since, by name."""
        return {}

    @abstractmethod
    def follow(self, gone: Mapping[str, CollectionBackend], *, wait: bool) -> set[str]:
        """Show what another process has written since; `wait` for collections that open slowly.

        Those that are `gone` have no name any more, and stay open until :meth:`let_go`. Return the
        names of the collections that show at least what was written before this call, or cannot be
        opened.
        """

    def let_go(self, held: Names[CollectionBackend] = ()) -> None:  # noqa: B027 - none is gone
        """Close the collections that are gone, except those that are still `held`."""

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


def _check_has_vectors(encoder: Encoder, keep_vectors: str) -> None:
    """Raise InputError if vectors are to be kept in a form of their own and there are none."""
    if encoder.kind == "text" and keep_vectors != FLOAT32:
        message = f"is {keep_vectors!r}, but the encoder takes texts; leave it out"
        raise InputError("keep_vectors", message)


def _check_n_bits(n_bits: int) -> None:
    try:
        check_n_bits(n_bits)
    except CodeError as error:
        raise InputError(error.field, error.reason) from None
