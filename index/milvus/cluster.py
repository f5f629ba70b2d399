"""The connection to a Milvus cluster, its errors, and the counters of each collection."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc
from pymilvus import DataType, MilvusClient, MilvusException
from pymilvus.client.ts_utils import get_collection_ts

from hummingbit.foundation.processes import Process
from hummingbit.index.errors import OtherWriter, StoreError, StoreUnavailable
from hummingbit.index.milvus.filters import quote

# The connection to a Milvus cluster, and the translation of its errors.
#
# Every request has a deadline. Within it the client repeats requests that did not reach the server,
# but not those that the server refused. Writes are keyed by the id of a document and carry its row,
# so sending one twice has the same effect as sending it once.


CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
PING_SECONDS = 3.0
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
# The error code of the client if there is no server.
NO_CONNECTION = 2

# Every error is raised to the caller; the client would also log it to the console with a traceback.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)


class Cluster:
    """A connection to Milvus, for any number of threads."""

    def __init__(
        self, uri: str, token: str | None = None, *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """Connect to ``http://HOST:PORT`` or ``https://…``, with the `token` of a user if given.

        Raises:
            StoreUnavailable: if there is no Milvus, or it refuses the token.
            StoreError: if the address is invalid.
        """
        # Messages contain the address, which must not include a password.
        parts = urlsplit(uri)
        self.address = parts.netloc.rpartition("@")[2]
        self._process = Process(f"Milvus at {self.address}")
        self._timeout = timeout
        self._moment = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in uri:
            hint = "and the token be given apart from it"
            raise StoreError(f"the address of Milvus must be like http://HOST:19530, {hint}")
        try:
            self._client = MilvusClient(
                uri=uri, token=token or "", timeout=CONNECT_SECONDS, dedicated=True
            )
        except (MilvusException, grpc.RpcError, ValueError) as error:
            raise self._translate(error) from error

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of :class:`pymilvus.MilvusClient`.

        Raises:
            StoreUnavailable: if the server cannot be reached or does not answer in time.
            StoreError: if it refuses.
        """
        self._process.check()  # a channel of grpc does not survive a fork
        options.setdefault("timeout", self._timeout)
        try:
            return getattr(self._client, method)(*args, **options)
        except (MilvusException, grpc.RpcError) as error:
            raise self._translate(error) from error
        except ValueError as error:  # grpc's, once the channel is closed
            raise StoreError(f"Milvus at {self.address}: {error}") from error

    def problem(self) -> str | None:
        """Return why the server cannot be used now, within some seconds; None if it can."""
        try:
            self.call("has_collection", CATALOGUE, timeout=PING_SECONDS)
        except StoreError as error:
            return str(error)
        return None

    def wait_for(self, name: str) -> None:
        """Let later reads include this process' last upsert into a collection.

        Milvus has one clock, so they also include everything that was written before that upsert,
        to any collection and by anyone.
        """
        # There is no public way to get this timestamp. The consistency level Session uses it, too,
        # but misses deletions, because some versions of Milvus do not return their time.
        connection = self._client._get_connection()  # noqa: SLF001
        context = self._client._generate_call_context()  # noqa: SLF001
        moment = get_collection_ts(name, connection.server_address, context.get_db_name())
        self._moment = max(self._moment, moment)

    def wait_for_all(self) -> None:
        """Let later reads include every earlier write, also one that failed in part."""
        self._moment = 0

    def consistency(self) -> dict[str, Any]:
        """Return the consistency options of a read request.

        A process that writes knows the timestamp that Milvus must have reached. Others use the
        level Strong, which waits for the next tick of Milvus' clock, a fifth of a second by
        default.
        """
        if not self._moment:
            return {"consistency_level": "Strong"}
        return {"consistency_level": "Customized", "guarantee_timestamp": self._moment}

    def make_schema(self, description: str = "") -> Any:
        """Return a schema without fields and without dynamic fields."""
        return self._client.create_schema(
            auto_id=False, enable_dynamic_field=False, description=description
        )

    def make_index_parameters(self) -> Any:
        """Return an empty set of index parameters."""
        return self._client.prepare_index_params()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _translate(self, error: Exception) -> StoreError:
        away = isinstance(error, MilvusException) and error.code in (*AWAY, NO_CONNECTION)
        if away or any(_status(cause) in AWAY for cause in _causes(error)):
            return StoreUnavailable(f"Milvus at {self.address} cannot be reached: {_short(error)}")
        return StoreError(f"Milvus at {self.address}: {_short(error)}")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes; some errors of the client are their own cause."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    return causes


def _status(error: BaseException) -> Any:
    code = getattr(error, "code", None)
    return code() if isinstance(error, grpc.RpcError) and callable(code) else None


def _short(error: Exception) -> str:
    message = error.message if isinstance(error, MilvusException) else str(error)
    first = str(message).strip().partition("\n")[0]
    return first if len(first) <= 300 else first[:297] + "..."


# The row and generation counters of each collection, stored on Milvus.
#
# Milvus has neither sequences nor transactions. So the last row is written before a document gets
# it; no row is used twice, and an interruption leaves a gap. The generation is written after the
# documents, so it counts finished writes.


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
            only = "only one may; stop the other, and restart this one to write here"
            message = f"another process writes to collection {self._name!r} on Milvus; {only}"
            raise OtherWriter(message)

    def _write(self, counters: Counters) -> None:
        self._catalogue.write(self._name, counters)
        self._written = counters
