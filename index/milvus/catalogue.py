"""The row and generation counters of each collection, stored on Milvus.

Milvus has neither sequences nor transactions. So the last row is written before a document gets it;
no row is used twice, and an interruption leaves a gap. The generation is written after the
documents, so it counts finished writes.
"""

from __future__ import annotations

from typing import NamedTuple

from pymilvus import DataType

from index.errors import StoreError
from index.milvus.cluster import Cluster
from index.milvus.filters import quote

# No collection has this name, because names begin with a letter or a digit.
CATALOGUE = "hummingbit__catalogue"
# Milvus stores no entity without a vector.
NO_VECTOR = b"\0"
# Rows are reserved in ranges, so that not every write has to reserve some.
ROWS_AT_ONCE = 10_000


class Counters(NamedTuple):
    """The counters of one collection."""

    last_row: int = 0
    """No document has a higher row."""
    generation: int = 0


class Catalogue:
    """The counters of every collection."""

    def __init__(self, cluster: Cluster) -> None:
        """Open the catalogue of a cluster; a missing one is created.

        Raises:
            StoreError: if Milvus cannot be reached or refuses.
        """
        self._cluster = cluster
        if not cluster.call("has_collection", CATALOGUE):
            schema = cluster.make_schema()
            schema.add_field("name", DataType.VARCHAR, is_primary=True, max_length=64)
            schema.add_field("last_row", DataType.INT64)
            schema.add_field("generation", DataType.INT64)
            schema.add_field("no_vector", DataType.BINARY_VECTOR, dim=8)
            cluster.call("create_collection", CATALOGUE, schema=schema, consistency_level="Strong")
        if not cluster.call("list_indexes", CATALOGUE):
            indexes = cluster.make_index_parameters()
            indexes.add_index("no_vector", index_type="BIN_FLAT", metric_type="HAMMING")
            cluster.call("create_index", CATALOGUE, indexes)
        cluster.call("load_collection", CATALOGUE)

    def read(self, name: str) -> Counters:
        """Return the counters of a collection.

        Raises:
            StoreError: if there are none.
        """
        entities = self._cluster.call(
            "query",
            CATALOGUE,
            filter=f"name == {quote(name)}",
            output_fields=["last_row", "generation"],
            **self._cluster.consistency(),
        )
        if not entities:
            raise StoreError(f"the catalogue on Milvus does not know the collection {name!r}")
        return Counters(entities[0]["last_row"], entities[0]["generation"])

    def write(self, name: str, counters: Counters) -> None:
        """Set the counters of a collection; later reads see them."""
        entry = {"name": name, "no_vector": NO_VECTOR, **counters._asdict()}
        self._cluster.call("upsert", CATALOGUE, [entry])
        self._cluster.wait_for(CATALOGUE)

    def forget(self, name: str) -> None:
        """Delete the counters of a collection."""
        self._cluster.call("delete", CATALOGUE, filter=f"name in [{quote(name)}]")


class Progress:
    """The counters of one collection, in a process that writes to it or reads it."""

    def __init__(self, catalogue: Catalogue, name: str, *, writable: bool) -> None:
        """Read the counters from the catalogue.

        Raises:
            StoreError: if it does not know the collection.
        """
        self._catalogue = catalogue
        self._name = name
        self._writable = writable
        self._written = catalogue.read(name)
        self._last_row = self._written.last_row
        if writable:
            # Reads see everything up to this write, so also earlier writes of other processes.
            self._write(self._written)

    def now(self) -> Counters:
        """Return the last assigned row and the generation."""
        if not self._writable:
            return self._catalogue.read(self._name)
        return Counters(self._last_row, self._written.generation)

    def take_rows(self, n: int) -> range:
        """Return `n` new rows.

        Raises:
            StoreError: if the collection is read-only, or another process writes to it.
        """
        self.check_alone()
        first = self._last_row + 1
        if first + n - 1 > self._written.last_row:
            self._write(Counters(first + n - 1 + ROWS_AT_ONCE, self._written.generation))
        self._last_row += n
        return range(first, first + n)

    def finish(self, *, changed: bool) -> int:
        """End a write and return its generation, which is a new one if something `changed`."""
        if changed:
            self._write(self._written._replace(generation=self._written.generation + 1))
        return self._written.generation

    def check_alone(self) -> None:
        """Raise StoreError if the collection is read-only, or another process writes to it."""
        if not self._writable:
            raise StoreError(f"collection {self._name!r} on Milvus is open for reading only")
        if self._catalogue.read(self._name) != self._written:
            message = f"another process writes to collection {self._name!r} on Milvus; only one may"
            raise StoreError(message)

    def _write(self, counters: Counters) -> None:
        self._catalogue.write(self._name, counters)
        self._written = counters
