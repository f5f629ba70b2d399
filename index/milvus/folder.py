"""A data folder whose collections lie on Milvus: encoders, aliases and the lock stay here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from encoder.encoder import Encoder
from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.errors import CollectionUnavailable, InputError, SnapshotError, StoreError
from index.folder.drafts import Draft
from index.folder.names import NAME
from index.milvus.catalogue import CATALOGUE, Catalogue, Counters
from index.milvus.cluster import Cluster
from index.milvus.collection import MilvusCollection
from index.milvus.schema import PREFIX, create_on_milvus, name_on_milvus, read_description
from index.schema import AUTO, Description


class MilvusFolder(DataFolder):
    """A data folder whose collections lie on Milvus.

    The folder's lock keeps a second process that has the same folder from writing. It cannot keep
    one away that has another folder: two must not write to the same Milvus database.
    """

    drafts_survive = True

    def __init__(self, path: Path, uri: str, token: str | None = None, *, writable: bool) -> None:
        """Open the data folder at `path` and the collections at `uri`.

        A collection that cannot be opened does not stand in the way of the others.

        Raises:
            StoreError: if Milvus cannot be reached or refuses.
            DataFolderInUse: if `writable` and another process is writing.
            DataFolderError: if the folder is missing or cannot be made or read.
        """
        self._cluster = Cluster(uri, token)
        self._catalogue = Catalogue(self._cluster)
        try:
            super().__init__(path, writable=writable)
        except BaseException:
            self._cluster.close()
            raise

    def restore_snapshot(
        self,
        tar: Path,
        name: str,
        before_it_counts: Callable[[str], object] = lambda _: None,  # noqa: ARG002 - never made
    ) -> CollectionBackend:
        """Raise SnapshotError: a snapshot is of a collection that lies in a folder."""
        hint = "restore it without Milvus, and move it there by index export and import"
        raise SnapshotError(f"snapshot {tar.name!a} cannot become {name!a} on Milvus: {hint}")

    def check_engine(self, engine: str, n_bits: int) -> None:  # noqa: ARG002 - of every length
        """Raise an InputError unless `engine` is the automatic one."""
        if engine != AUTO:
            message = f"is {engine[:80]!a}; Milvus has its own, so it must be {AUTO}"
            raise InputError("engine", message)

    def close(self) -> None:
        """Close every collection and the connection, and let another process write."""
        super().close()
        self._cluster.close()

    def _open_collections(self) -> None:
        for found in sorted(self._cluster.call("list_collections")):
            if found.startswith(PREFIX) and found != CATALOGUE:
                self._open_found(found)

    def _open_found(self, found: str) -> None:
        name = _name_of(found)
        try:
            description = read_description(self._cluster.call("describe_collection", found))
            encoder = self._encoder_of(description)
            self._collections[name] = self._open(description, encoder)
        except (StoreError, CollectionUnavailable) as error:
            self._unavailable[name] = error

    def _open(self, description: Description, encoder: Encoder | None) -> MilvusCollection:
        return MilvusCollection(
            self._cluster, self._catalogue, description, encoder, writable=self.writable
        )

    def _create(self, description: Description, encoder: Encoder | None) -> CollectionBackend:
        # In this order an interruption leaves counters without a collection, never the reverse.
        self._catalogue.write(description.name, Counters())
        create_on_milvus(self._cluster, description)
        return self._open(description, encoder)

    def _draft(self, description: Description, encoder: Encoder) -> Draft:
        """Begin a collection that this process does not show.

        Milvus has no names that do not count, so others see it there, and so does the next opening.
        """
        name = description.name
        collection = self._create(description, encoder)

        def publish() -> CollectionBackend:
            self._collections[name] = collection
            self._drafts.discard(name)
            return collection

        def discard() -> None:
            collection.close()
            self._delete(name)
            self._drafts.discard(name)

        return Draft(name, collection, publish, discard)

    def published(self, id_: str) -> CollectionBackend | None:
        """Return the collection that was a draft of that id."""
        return self._collections.get(id_)

    def _delete(self, name: str) -> None:
        self._cluster.call("drop_collection", name_on_milvus(name))
        self._catalogue.forget(name)


def _name_of(found: str) -> str:
    """Return the name that :func:`index.milvus.schema.name_on_milvus` made this of."""
    name = found.removeprefix(PREFIX).replace("X", "-")
    return name if NAME.fullmatch(name) else found
