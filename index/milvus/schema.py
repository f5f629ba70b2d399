"""The schema of a collection on Milvus.

The description of the schema is JSON that identifies the collection as ours, with its format and
its encoder. Payloads have the form that filters read (:mod:`hummingbit.index.milvus.filters`); if
that differs from the payload of the document, ``original`` has the JSON of that one. The index is
``BIN_FLAT``, which is exact; ``BIN_IVF_FLAT`` is exact only if it visits every cell.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pymilvus import DataType

from hummingbit.corpus.document import MAX_ID_LENGTH, Document
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.limits import check_n_bits
from hummingbit.foundation.errors import InputError
from hummingbit.index.errors import StoreError
from hummingbit.index.milvus.cluster import Cluster
from hummingbit.index.milvus.filters import filterable
from hummingbit.index.names import FLOAT32
from hummingbit.index.passages import Passages
from hummingbit.index.records import StoredDocument
from hummingbit.index.schema import Description, checksum, payload_to_json
from hummingbit.index.store.store import document_checksums

FORMAT_VERSION = 1
PREFIX = "hummingbit_"
MAX_BYTES = 65_535
"""The longest string, and the longest JSON, that Milvus stores."""

CONTENT_FIELDS = ["id", "row", "code", "payload", "original", "content", "checksum"]


def name_on_milvus(name: str) -> str:
    """Return the name of a collection on Milvus, which allows no hyphens; ours have no capitals."""
    return PREFIX + name.replace("-", "X")


SEPARATOR = ";"
"""Stands between a vector in base64 and a text."""


def check_vectors_on_milvus(keep_vectors: str) -> None:
    """Raise an InputError unless collections on Milvus keep vectors in this form."""
    if keep_vectors != FLOAT32:
        message = f"is {keep_vectors!r}; a collection on Milvus keeps vectors as {FLOAT32!r} only"
        raise InputError("keep_vectors", message)


def check_passages_on_milvus(passages: Passages | None) -> None:
    """Raise an InputError if a collection on Milvus is to have passages."""
    if passages is not None:
        raise InputError("passages", "are not supported on Milvus, where a document has one code")


def create_on_milvus(cluster: Cluster, description: Description) -> None:
    """Create an empty collection under a free name.

    Raises:
        StoreError: if Milvus refuses.
    """
    about = {"hummingbit": FORMAT_VERSION, **description.meta}
    schema = cluster.make_schema(json.dumps(about))
    # Milvus counts bytes, of which a character takes up to four.
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=4 * MAX_ID_LENGTH)
    schema.add_field("row", DataType.INT64)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=description.n_bits)
    schema.add_field("payload", DataType.JSON)
    schema.add_field("original", DataType.VARCHAR, max_length=MAX_BYTES)
    schema.add_field("content", DataType.VARCHAR, max_length=MAX_BYTES)
    schema.add_field("checksum", DataType.VARCHAR, max_length=16)
    name = name_on_milvus(description.name)
    cluster.call("create_collection", name, schema=schema, consistency_level="Strong")


def make_ready(cluster: Cluster, name: str) -> None:
    """Index and load a collection if that has not been done, for example after an interruption.

    Raises:
        StoreError: if Milvus refuses.
    """
    if not cluster.call("list_indexes", name):
        indexes = cluster.make_index_parameters()
        indexes.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
        indexes.add_index("row", index_type="STL_SORT")
        cluster.call("create_index", name, indexes)
    cluster.call("load_collection", name)


def read_description(on_milvus: Mapping[str, Any]) -> Description:
    """Read the settings of a collection from Milvus' description of it.

    Raises:
        StoreError: if it is not one of ours, has another format, or is damaged.
    """
    name = on_milvus["collection_name"]
    try:
        settings = json.loads(on_milvus["description"])
        version = settings["hummingbit"]
    except (ValueError, TypeError, KeyError):
        raise StoreError(f"{name} on Milvus is not a collection of hummingbit") from None
    if version != FORMAT_VERSION:
        message = f"has format version {version}; this hummingbit reads version {FORMAT_VERSION}"
        raise StoreError(f"{name} on Milvus {message}")
    fields = {field["name"] for field in on_milvus["fields"]}
    try:
        description = Description(
            name=settings["name"],
            n_bits=check_n_bits(settings["n_bits"]),
            encoder_name=settings["encoder_name"],
            encoder_fingerprint=settings["encoder_fingerprint"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{name} on Milvus is damaged: {error}") from error
    if name_on_milvus(description.name) != name or not set(CONTENT_FIELDS) <= fields:
        raise StoreError(f"{name} on Milvus is damaged: its name or its fields were changed")
    return description


def to_entity(document: Document, code: bytes) -> dict[str, Any]:
    """Return the entity that Milvus stores for a document, without its row.

    Raises:
        InputError: if a part of it is longer than Milvus allows.
    """
    payload = document.payload_with_labels
    readable, original = filterable(payload), payload_to_json(payload)
    content, vector = "", None
    if document.text is not None:
        content = f"t{document.text}"
    if document.vector is not None:
        vector = np.asarray(document.vector, dtype="<f4").tobytes()
        numbers = f"v{b64encode(vector).decode()}"
        content = f"{numbers}{SEPARATOR}{document.text}" if content else numbers
    entity = {
        "id": document.id,
        "code": code,
        "payload": readable,
        "original": "" if payload_to_json(readable) == original else original,
        "content": content,
        "checksum": checksum(document.id, code, original, document.text, vector).hex(),
    }
    part = "vector" if document.text is None else "text"
    for field, size in ((part, len(content.encode())), ("payload", len(original.encode()))):
        if size > MAX_BYTES:
            limit = f"Milvus takes {MAX_BYTES:,}"
            raise InputError(field, f"is {size:,} bytes long; {limit} (document {document.id!r})")
    return entity


def to_payload(entity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the original payload of an entity of :func:`to_entity`."""
    payload: dict[str, Any] = (
        json.loads(entity["original"]) if entity["original"] else entity["payload"]
    )
    return payload


def to_code(entity: Mapping[str, Any]) -> bytes:
    """Return the packed code of an entity of :func:`to_entity`."""
    return bytes(entity["code"][0])


def to_codes(entities: Sequence[Mapping[str, Any]], n_bits: int) -> Codes:
    """Return the packed codes of documents, ``uint8[N, n_bits / 8]``."""
    packed = b"".join(map(to_code, entities))
    return np.frombuffer(packed, dtype=np.uint8).reshape(len(entities), n_bits // 8)


def to_document(entity: Mapping[str, Any]) -> StoredDocument:
    """Return the document of an entity of :func:`to_entity`, with its row."""
    content = entity["content"]
    numbers = content[1:].partition(SEPARATOR)[0]
    vector = np.frombuffer(b64decode(numbers), dtype="<f4") if content[:1] == "v" else None
    return StoredDocument(
        id=entity["id"],
        row=entity["row"],
        code=to_code(entity).hex(),
        text=to_text(entity),
        vector=vector,
        payload=to_payload(entity),
    )


def to_text(entity: Mapping[str, Any]) -> str | None:
    """Return the text of an entity of :func:`to_entity`, or None."""
    content: str = entity["content"]
    if content[:1] == "v":
        _, is_separated, text = content.partition(SEPARATOR)
        return text if is_separated else None
    return content[1:] if content[:1] == "t" else None


def is_stored(document: Document, entity: Mapping[str, Any] | None) -> bool:
    """Tell whether an entity holds a document in exactly this form; the encoder never changes."""
    if entity is None:
        return False
    code = to_code(entity)
    if document.code is not None and document.code.lower() != code.hex():
        return False
    (checksum_of_document,) = document_checksums([document], [code])
    return checksum_of_document.hex() == str(entity["checksum"])


def is_intact(entity: Mapping[str, Any]) -> bool:
    """Tell whether a document matches its checksum."""
    document = to_document(entity)
    vector = None if document.vector is None else document.vector.tobytes()
    payload = payload_to_json(document.payload)
    actual = checksum(document.id, to_code(entity), payload, document.text, vector)
    return actual.hex() == str(entity["checksum"])
