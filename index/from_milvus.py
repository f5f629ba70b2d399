"""Reads a collection that an earlier hummingbit kept on a Milvus server, to import it elsewhere.

The collection NAME is the collection ``hummingbit_NAME`` there, each hyphen as ``X``. The
description of its schema is JSON: ``hummingbit``, which is 1, and the settings ``name``,
``n_bits``, ``encoder_name`` and ``encoder_fingerprint``. Its fields are

- ``id``; ``row``, which orders documents; ``code``, a binary vector of `n_bits`;
- ``payload``, as filters of Milvus read it, and ``original``, the payload as JSON if it differs;
- ``content``: ``t`` and the text; ``v`` and a vector, float32 in base64, with ``;`` and the text
  behind it if there is one; or nothing;
- ``checksum``, in hexadecimal, of id, code, payload, text and vector.

The field ``last_row`` of the entity NAME of ``hummingbit__catalogue`` is at least every row.
Rankings, languages, indexed fields and judgements were never kept there.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.encoder.limits import check_n_bits
from hummingbit.index.catalog import check_name
from hummingbit.index.errors import StoreError, StoreUnavailable
from hummingbit.index.names import AUTO
from hummingbit.index.schema import checksum, payload_to_json
from hummingbit.index.store.annotations import DocumentLabel, Judgement
from hummingbit.index.transfer import Header

FORMAT_VERSION = 1
CATALOGUE = "hummingbit__catalogue"
FIELDS = ["id", "row", "code", "payload", "original", "content", "checksum"]
CONNECT_SECONDS = 10.0
REQUEST_SECONDS = 60.0
DOCUMENTS_AT_ONCE = 4000
# So few whole documents have at most 20 MB; an answer may have 100 MB.
MIN_AT_ONCE = 100


class MilvusExport:
    """A collection on Milvus with what an :class:`hummingbit.index.transfer.Export` has."""

    labels: Sequence[DocumentLabel] = ()
    judgements: Sequence[Judgement] = ()

    def __init__(self, address: str, name: str, token: str | None = None) -> None:
        """Connect to ``http://HOST:PORT`` with the `token` of a user, ``USER:PASSWORD``, if given.

        `address` may end with ``/NAME``, the name there; otherwise it is `name`.

        Raises:
            StoreUnavailable: if there is no Milvus, or it refuses the token.
            StoreError: if the package pymilvus or the collection is missing, or is none of ours.
        """
        parts = urlsplit(address)
        self._address = parts.netloc
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in address:
            example = "http://HOST:19530 or http://HOST:19530/NAME"
            hint = "HUMMINGBIT_MILVUS_TOKEN holds the token"
            raise StoreError(f"the address of Milvus must be like {example}; {hint}")
        if find_spec("pymilvus") is None:
            hint = "run pip install pymilvus"
            raise StoreError(f"reading from Milvus needs the package pymilvus; {hint}")
        from pymilvus import MilvusClient  # noqa: PLC0415 - takes a second, and may be missing

        # The client would also log every error to the console.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        self._name = parts.path.strip("/") or name
        check_name(self._name)
        self._on_milvus = "hummingbit_" + self._name.replace("-", "X")
        uri = f"{parts.scheme}://{parts.netloc}"
        self._client: Any = None
        with self._translating():
            self._client = MilvusClient(
                uri=uri, token=token or "", timeout=CONNECT_SECONDS, dedicated=True
            )
        try:
            self._last_row = self._read_last_row()
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    def documents(self) -> Iterator[Document]:
        """Yield each document with its code, in the order of rows.

        Raises:
            StoreError: if Milvus fails, or a document does not match its checksum.
        """
        first, width = 1, DOCUMENTS_AT_ONCE
        while first <= self._last_row:
            rows = f"row >= {first} and row < {first + width}"
            try:
                entities = self._query(self._on_milvus, rows, FIELDS, limit=width)
            except StoreUnavailable:
                raise
            except StoreError:
                # The answer may have been too large.
                if width <= MIN_AT_ONCE:
                    raise
                width = max(MIN_AT_ONCE, width // 4)
                continue
            yield from map(self._document, sorted(entities, key=lambda entity: int(entity["row"])))
            first += width

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_last_row(self) -> int:
        if not self._call("has_collection", self._on_milvus):
            message = f"has no collection {self._name!r} of hummingbit; add its name, /NAME"
            raise StoreError(f"Milvus at {self._address} {message}")
        for collection in (CATALOGUE, self._on_milvus):
            self._call("load_collection", collection)
        named = f"name == {json.dumps(self._name)}"
        counters = self._query(CATALOGUE, named, ["last_row"])
        if not counters:
            raise self._damaged("its catalogue does not know it")
        return int(counters[0]["last_row"])

    def _read_header(self) -> Header:
        described = self._call("describe_collection", self._on_milvus)
        try:
            settings = json.loads(described["description"])
            if settings["hummingbit"] != FORMAT_VERSION:
                raise self._damaged(f"has the format version {settings['hummingbit']!r}, not 1")
            n_bits = check_n_bits(settings["n_bits"])
            encoder, fingerprint = settings["encoder_name"], settings["encoder_fingerprint"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged(f"its description is {error}") from error
        (counted,) = self._query(self._on_milvus, "", ["count(*)"])
        return Header(
            name=self._name,
            n_bits=n_bits,
            encoder=encoder,
            encoder_fingerprint=fingerprint,
            engine=AUTO,
            documents=int(counted["count(*)"]),
            ranking=None,
        )

    def _document(self, entity: Mapping[str, Any]) -> Document:
        original: str = entity["original"]
        payload = json.loads(original) if original else entity["payload"]
        content, code = str(entity["content"]), bytes(entity["code"][0])
        text, vector = content[1:] if content[:1] == "t" else None, None
        if content[:1] == "v":
            numbers, has_text, behind = content[1:].partition(";")
            vector = np.frombuffer(b64decode(numbers), dtype="<f4")
            text = behind if has_text else None
        numbers_stored = None if vector is None else vector.tobytes()
        stored = checksum(entity["id"], code, payload_to_json(payload), text, numbers_stored)
        if stored.hex() != entity["checksum"]:
            raise self._damaged(f"document {entity['id']!r} does not match its checksum")
        return Document(id=entity["id"], text=text, vector=vector, code=code.hex(), payload=payload)

    def _query(self, collection: str, condition: str, fields: list[str], **options: Any) -> Any:
        return self._call(
            "query",
            collection,
            filter=condition,
            output_fields=fields,
            consistency_level="Strong",
            **options,
        )

    def _call(self, method: str, *args: Any, **options: Any) -> Any:
        with self._translating():
            return getattr(self._client, method)(*args, timeout=REQUEST_SECONDS, **options)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """Raise the errors of the client as ours, without their traces."""
        import grpc  # noqa: PLC0415 - comes with pymilvus
        from pymilvus import MilvusException  # noqa: PLC0415

        away = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        try:
            yield
        except (MilvusException, grpc.RpcError) as error:
            code = error.code() if callable(error.code) else error.code
            message = str(error.message if isinstance(error, MilvusException) else error)
            reason = message.strip().partition("\n")[0][:300]
            if self._client is None or code in away:
                what = f"Milvus at {self._address} cannot be reached: {reason}"
                raise StoreUnavailable(what) from error
            raise StoreError(f"Milvus at {self._address}: {reason}") from error

    def _damaged(self, reason: str) -> StoreError:
        return StoreError(f"collection {self._name!r} on Milvus at {self._address}: {reason}")
