"""Calls for many documents at a time; see :mod:`hummingbit.clients.calls`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hummingbit.clients import responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.transport import (
    Call,
    collection_path,
    json_value,
    query_string,
    without_none,
)

NDJSON = "application/x-ndjson"


def scroll(
    name: str, limit: int | None, cursor: str | None, filter_: Mapping[str, Any] | None
) -> Call[responses.DocumentPage]:
    """Get a page of documents."""
    body = without_none(limit=limit, cursor=cursor, filter=filter_)
    return Call("POST", f"{collection_path(name)}/documents:scroll", body)


def get_many(name: str, ids: Sequence[str]) -> Call[responses.FoundDocuments]:
    """Get documents by their ids."""
    return Call("POST", f"{collection_path(name)}/documents:get", {"ids": _as_list(ids)})


def count(name: str, filter_: Mapping[str, Any] | None) -> Call[responses.Count]:
    """Count documents."""
    return Call("POST", f"{collection_path(name)}/documents:count", without_none(filter=filter_))


def delete_many(
    name: str, ids: Sequence[str] | None, filter_: Mapping[str, Any] | None
) -> Call[responses.Deleted]:
    """Delete documents. A retry finds fewer to delete, so its count can be too low."""
    id_list = None if ids is None else _as_list(ids)
    body = without_none(ids=id_list, filter=filter_)
    return Call("POST", f"{collection_path(name)}/documents:delete", body)


def bulk(
    name: str,
    documents: Iterable[Mapping[str, Any]],
    encoder_fingerprint: str | None,
    *,
    create_only: bool,
    skip_unchanged: bool,
) -> Call[responses.BulkAnswer]:
    """Upsert documents as JSON lines."""
    path = _bulk_path(name, encoder_fingerprint, skip_unchanged=skip_unchanged)
    headers = _bulk_headers(create_only=create_only)
    # A repeated creation would be refused, because the documents exist already.
    return Call(
        "POST",
        path,
        content=json_lines(documents),
        headers=headers,
        repeatable=not create_only,
    )


def bulk_job(
    name: str,
    documents: Iterable[Mapping[str, Any]],
    encoder_fingerprint: str | None,
    idempotency_key: str | None,
    *,
    create_only: bool,
    skip_unchanged: bool,
) -> Call[operation_responses.Job]:
    """Start :func:`bulk` in the background; the key keeps a retry from starting a second job."""
    headers = {
        **_bulk_headers(create_only=create_only),
        "Prefer": "respond-async",
        "Idempotency-Key": idempotency_key or secrets.token_hex(16),
    }
    path = _bulk_path(name, encoder_fingerprint, skip_unchanged=skip_unchanged)
    return Call("POST", path, content=json_lines(documents), headers=headers)


def json_lines(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return documents as JSON lines, in UTF-8."""
    lines = (
        json.dumps(
            {field: json_value(value) for field, value in document.items()}, ensure_ascii=False
        )
        for document in documents
    )
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def _as_list(ids: Sequence[str]) -> Sequence[str]:
    """Return `ids` as a list; a string stays a string, which the service refuses."""
    return ids if isinstance(ids, str) else list(ids)


def _bulk_path(name: str, encoder_fingerprint: str | None, *, skip_unchanged: bool) -> str:
    skip = "true" if skip_unchanged else None
    query = query_string(encoder_fingerprint=encoder_fingerprint, skip_unchanged=skip)
    return f"{collection_path(name)}/documents:bulk{query}"


def _bulk_headers(*, create_only: bool) -> dict[str, str]:
    headers = {"Content-Type": NDJSON}
    return {**headers, "If-None-Match": "*"} if create_only else headers
