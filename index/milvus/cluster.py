"""The connection to a Milvus cluster, and the translation of its errors.

Every request has a deadline. Within it the client repeats requests that did not reach the server,
but not those that the server refused. Writes are keyed by the id of a document and carry its row,
so sending one twice has the same effect as sending it once.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urlsplit

import grpc
from pymilvus import MilvusClient, MilvusException
from pymilvus.client.ts_utils import get_collection_ts

from index.errors import StoreError, StoreUnavailable

CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
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
        options.setdefault("timeout", self._timeout)
        try:
            return getattr(self._client, method)(*args, **options)
        except (MilvusException, grpc.RpcError) as error:
            raise self._translate(error) from error
        except ValueError as error:  # grpc's, once the channel is closed
            raise StoreError(f"Milvus at {self.address}: {error}") from error

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
