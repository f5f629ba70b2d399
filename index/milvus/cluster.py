"""The connection to a Milvus cluster, and its errors as ours.

Every request has a deadline. Within it the client repeats what did not reach the server; the
server's refusals are not repeated. What is written is keyed by the document's id and carries its
row, so that a request that is sent twice leaves what it leaves when sent once.
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
# What the client says where there is no server.
NO_CONNECTION = 2

# Every error is raised to the caller; the client would also write it to the console, with a stack.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)


class Cluster:
    """A connection to Milvus, for any number of threads."""

    def __init__(
        self, uri: str, token: str | None = None, *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """Connect to ``http://HOST:PORT`` or ``https://…``, as the user of `token` if there is one.

        Raises:
            StoreUnavailable: if there is no Milvus, or it refuses the token.
            StoreError: if the address is none.
        """
        # Messages are shown and logged, and an address could hold a password.
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
            raise self._translated(error) from error

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
            raise self._translated(error) from error
        except ValueError as error:  # grpc's, once the channel is closed
            raise StoreError(f"Milvus at {self.address}: {error}") from error

    def wait_for(self, name: str) -> None:
        """Let what is read from now on include this process' last upsert into a collection.

        Milvus has one clock, so it includes all that was written before that upsert, to whatever
        collection and by whomever.
        """
        # Not shown elsewhere; and the level Session, which is made of it, misses deletions, for
        # some versions of Milvus do not say when they took place.
        connection = self._client._get_connection()  # noqa: SLF001
        context = self._client._generate_call_context()  # noqa: SLF001
        moment = get_collection_ts(name, connection.server_address, context.get_db_name())
        self._moment = max(self._moment, moment)

    def wait_for_all(self) -> None:
        """Let what is read from now on include whatever was written, as by a write that failed."""
        self._moment = 0

    def consistency(self) -> dict[str, Any]:
        """Return the options of a request that reads.

        A process that writes knows how far Milvus must have come. Others ask it to have caught up
        with everything: the level Strong, which waits for the next tick of Milvus' clock, a fifth
        of a second by default.
        """
        if not self._moment:
            return {"consistency_level": "Strong"}
        return {"consistency_level": "Customized", "guarantee_timestamp": self._moment}

    def make_schema(self, description: str = "") -> Any:
        """Return a schema without fields, to which only those that are added belong."""
        return self._client.create_schema(
            auto_id=False, enable_dynamic_field=False, description=description
        )

    def make_index_parameters(self) -> Any:
        """Return parameters of indexes, to which they are added."""
        return self._client.prepare_index_params()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _translated(self, error: Exception) -> StoreError:
        away = isinstance(error, MilvusException) and error.code in (*AWAY, NO_CONNECTION)
        if away or any(_status(cause) in AWAY for cause in _causes(error)):
            return StoreUnavailable(f"Milvus at {self.address} cannot be reached: {_short(error)}")
        return StoreError(f"Milvus at {self.address}: {_short(error)}")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and what caused it; the client has some cause themselves."""
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
