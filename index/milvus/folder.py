"""A data folder with its collections on Milvus, and its encoders, aliases and lock on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hummingbit.encoder.encoder import Encoder
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import NAME, Collections, EncoderFolder, HiddenCollection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import CollectionUnavailable, SnapshotError, StoreError
from hummingbit.index.milvus.cluster import CATALOGUE, Catalogue, Cluster, Counters
from hummingbit.index.milvus.collection import MilvusCollection
from hummingbit.index.milvus.filters import check_fields_on_milvus
from hummingbit.index.milvus.schema import (
    PREFIX,
    check_passages_on_milvus,
    check_vectors_on_milvus,
    create_on_milvus,
    name_on_milvus,
    read_description,
)
from hummingbit.index.names import AUTO
from hummingbit.index.schema import Description


class MilvusFolder(DataFolder):
    """A data folder whose collections are on Milvus.

    The folder's lock prevents writes by a second process with the same folder, but not by one with
    another folder. Two folders must not write to the same Milvus database.
    """

    drafts_survive = True

    def __init__(self, path: Path, uri: str, token: str | None = None, *, writable: bool) -> None:
        """Open the data folder at `path` and the collections at `uri`.

        A collection that cannot be opened does not affect the others.

        Raises:
            StoreError: if Milvus cannot be reached or refuses.
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if the folder is missing, or cannot be created or read.
        """
        self._cluster = Cluster(uri, token)
        try:
            super().__init__(path, writable=writable)
        except BaseException:
            self._cluster.close()
            raise

    def engine_problem(self) -> str | None:
        """See :meth:`hummingbit.index.data_folder.DataFolder.engine_problem`."""
        return self._cluster.problem()

    def close(self) -> None:
        """Close every collection and the connection, and release the lock."""
        super().close()
        self._cluster.close()

    def _make_collections(
        self,
        engine: str,  # noqa: ARG002 - Milvus has its own
        *,
        indexed: bool,  # noqa: ARG002 - Milvus has its own index
    ) -> Collections[CollectionBackend]:
        return MilvusCollections(self._cluster, self.encoders, writable=self.writable)


class MilvusCollections(Collections[MilvusCollection]):
    """The collections on a Milvus cluster."""

    def __init__(self, cluster: Cluster, encoders: EncoderFolder, *, writable: bool) -> None:
        super().__init__(encoders)
        self._cluster = cluster
        self._catalogue = Catalogue(cluster)
        self._writable = writable

    def open_all(self) -> None:
        """Open every collection."""
        for milvus_name in sorted(self._cluster.call("list_collections")):
            if milvus_name.startswith(PREFIX) and milvus_name != CATALOGUE:
                self._open_existing(milvus_name)

    def create(
        self,
        description: Description,
        encoder: Encoder | None,
        indexed_fields: Sequence[str] = (),
    ) -> MilvusCollection:
        """Create an empty collection under a free name and return it."""
        check_fields_on_milvus(indexed_fields)
        check_vectors_on_milvus(description.keep_vectors)
        check_passages_on_milvus(description.passages)
        self.opened[description.name] = collection = self._create(description, encoder)
        return collection

    def create_hidden(
        self, description: Description, encoder: Encoder | None
    ) -> tuple[HiddenCollection, MilvusCollection]:
        """Create a collection that this process does not show.

        Milvus has no hidden collections, so other processes and the next opening see it.
        """
        name = description.name
        check_vectors_on_milvus(description.keep_vectors)
        check_passages_on_milvus(description.passages)
        collection = self._create(description, encoder)

        def appear() -> None:
            self.opened[name] = collection

        def delete() -> None:
            collection.close()
            self._drop(name)

        return HiddenCollection(name, appear, delete), collection

    def restore_hidden(self, tar: Path, name: str) -> HiddenCollection:
        """Raise SnapshotError, because snapshots are of collections in a data folder."""
        hint = "restore it without Milvus and move it there with index export and import"
        message = f"snapshot {tar.name!r} cannot be restored as {name!r} on Milvus"
        raise SnapshotError(f"{message}; {hint}")

    def published_draft(self, id_: str) -> MilvusCollection | None:
        """Return the collection that was hidden under that id."""
        return self.opened.get(id_)

    def delete(self, name: str) -> None:
        """Delete a collection with all its documents, even if it is damaged."""
        self._unavailable.pop(name, None)
        collection = self.opened.pop(name, None)
        if collection is not None:
            collection.close()
        self._drop(name)

    def check_engine(self, engine: str, n_bits: int) -> None:
        """Raise an InputError unless `engine` is the automatic one, and there are codes."""
        if n_bits == 0:
            message = (
                "is missing; Milvus has no word index, so a collection there needs codes: name"
            )
            raise InputError("encoder", f"{message} an encoder, or n_bits for documents with codes")
        if engine != AUTO:
            message = f"is {engine[:80]!r}; Milvus has its own, so it must be {AUTO}"
            raise InputError("engine", message)

    def follow(
        self,
        gone: Mapping[str, CollectionBackend],  # noqa: ARG002 - none is
        *,
        wait: bool,  # noqa: ARG002 - nothing is opened
    ) -> set[str]:
        """Do nothing: every search reads from Milvus."""
        return self.names()

    def _open_existing(self, milvus_name: str) -> None:
        name = _name_of(milvus_name)
        try:
            description = read_description(self._cluster.call("describe_collection", milvus_name))
            self.opened[name] = self._collection(description, self._encoder_of(description))
        except (StoreError, CollectionUnavailable) as error:
            self._unavailable[name] = error

    def _create(self, description: Description, encoder: Encoder | None) -> MilvusCollection:
        # In this order, an interruption can leave counters without a collection, never the reverse.
        self._catalogue.write(description.name, Counters())
        create_on_milvus(self._cluster, description)
        return self._collection(description, encoder)

    def _collection(self, description: Description, encoder: Encoder | None) -> MilvusCollection:
        return MilvusCollection(
            self._cluster, self._catalogue, description, encoder, writable=self._writable
        )

    def _drop(self, name: str) -> None:
        self._cluster.call("drop_collection", name_on_milvus(name))
        self._catalogue.forget(name)


def _name_of(milvus_name: str) -> str:
    """Return the name of a collection, as the inverse of :func:`name_on_milvus`."""
    name = milvus_name.removeprefix(PREFIX).replace("X", "-")
    return name if NAME.fullmatch(name) else milvus_name
