"""The calls about many documents at a time; see :mod:`hummingbit.clients.calls`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hummingbit.clients import responses
from hummingbit.clients.operations import operation_responses
from hummingbit.clients.transport import Call, collection_path, given, plain, query_string

NDJSON = "application/x-ndjson"


def scroll(
    name: str, limit: int | None, cursor: str | None, filter_: Mapping[str, Any] | None
) -> Call[responses.DocumentPage]:
    """Ask for a page of documents."""
    body = given(limit=limit, cursor=cursor, filter=filter_)
    return Call("POST", f"{collection_path(name)}/documents:scroll", body)


def get_many(name: str, ids: Sequence[str]) -> Call[responses.FoundDocuments]:
    """Get documents by their ids."""
    return Call("POST", f"{collection_path(name)}/documents:get", {"ids": _listed(ids)})


def count(name: str, filter_: Mapping[str, Any] | None) -> Call[dict[str, int]]:
    """Count documents."""
    return Call("POST", f"{collection_path(name)}/documents:count", given(filter=filter_))


def delete_many(
    name: str, ids: Sequence[str] | None, filter_: Mapping[str, Any] | None
) -> Call[responses.Deleted]:
    """Delete documents; a second time there are none left to delete, so the count may be off."""
    listed = None if ids is None else _listed(ids)
    body = given(ids=listed, filter=filter_)
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
    # To create a second time is to be told that it is there already.
    return Call(
        "POST",
        path,
        content=lines_of(documents),
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
    """Do as :func:`bulk` in the background; the key sees to it that it is done once."""
    headers = {
        **_bulk_headers(create_only=create_only),
        "Prefer": "respond-async",
        "Idempotency-Key": idempotency_key or secrets.token_hex(16),
    }
    path = _bulk_path(name, encoder_fingerprint, skip_unchanged=skip_unchanged)
    return Call("POST", path, content=lines_of(documents), headers=headers)


def lines_of(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Write documents as JSON lines."""
    lines = (
        json.dumps({field: plain(value) for field, value in document.items()}, ensure_ascii=False)
        for document in documents
    )
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def _listed(ids: Sequence[str]) -> Sequence[str]:
    """Return a list; a string stays one, so that the service refuses it: it is not several ids."""
    return ids if isinstance(ids, str) else list(ids)


def _bulk_path(name: str, encoder_fingerprint: str | None, *, skip_unchanged: bool) -> str:
    skip = "true" if skip_unchanged else None
    query = query_string(encoder_fingerprint=encoder_fingerprint, skip_unchanged=skip)
    return f"{collection_path(name)}/documents:bulk{query}"


def _bulk_headers(*, create_only: bool) -> dict[str, str]:
    headers = {"Content-Type": NDJSON}
    return {**headers, "If-None-Match": "*"} if create_only else headers
