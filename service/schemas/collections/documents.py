"""The JSON of documents: upserts, scrolling, counting, deleting, bulk."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from index.backend import MAX_K
from service.schemas.common import (
    Code,
    Cursor,
    Filter,
    Fingerprint,
    RequestModel,
    ResponseModel,
    Strings,
    Text,
    Vector,
)


class NewDocument(RequestModel):
    """A document: its id and one of text, vector and code, or a text and a vector.

    With both, the encoder takes the vector, and the text is found by its words.
    """

    id: str
    text: Text = None
    vector: Vector = None
    code: Code = None
    label: str | None = Field(None, description="Stored in the payload as `label`.")
    labels: Strings | None = Field(None, description="Stored in the payload as `labels`.")
    payload: dict[str, Any] | None = None


class UpsertDocuments(RequestModel):
    """Documents to insert, or to replace those with the same id: all of them or none."""

    documents: list[NewDocument] = Field(min_length=1)
    encoder_fingerprint: Fingerprint = None


class Upserted(ResponseModel):
    """The number of documents written to disk; a repeated id counts once."""

    upserted: int
    generation: int


class StoredDocument(ResponseModel):
    """A document as it is stored."""

    id: str
    code: str
    text: str | None
    vector: list[float] | None
    payload: dict[str, Any]


class ScrollRequest(RequestModel):
    """A page of documents, in the order of insertion."""

    limit: int = Field(100, ge=1, le=MAX_K)
    cursor: Cursor = None
    filter: Filter = None


class DocumentPage(ResponseModel):
    """Documents; `next_cursor` is null on the last page."""

    documents: list[StoredDocument]
    next_cursor: str | None


class GetRequest(RequestModel):
    """Which documents to get."""

    ids: Strings = Field(min_length=1, max_length=1000)


class FoundDocuments(ResponseModel):
    """The documents found, in the order of the request, and the ids that do not exist."""

    documents: list[StoredDocument]
    missing: list[str]


class CountRequest(RequestModel):
    """Which documents to count: all, or those that match a filter."""

    filter: Filter = None


class Count(ResponseModel):
    """The number of documents; if none passes the filter, `warnings` may say why."""

    count: int
    warnings: list[str] = Field(default_factory=list)


class DeleteRequest(RequestModel):
    """Exactly one of `ids` and `filter`."""

    ids: Strings | None = Field(None, max_length=10_000)
    filter: Filter = None


class Deleted(ResponseModel):
    """The number of documents deleted; the deletion is on disk.

    If no document passes the filter, `warnings` may say why.
    """

    deleted: int
    generation: int
    warnings: list[str] = Field(default_factory=list)


class LineError(ResponseModel):
    """A line that was refused; `line` counts from 1.

    `id` is null if the line has none, and cut if it is too long.
    """

    line: int
    id: str | None
    status: int
    code: str
    detail: str
    errors: list[dict[str, str]]


class BulkAnswer(ResponseModel):
    """What was done with the lines; what was written is on disk.

    `unchanged` counts the lines that were skipped, if that was requested. The first thousand errors
    are listed, and `errors_left_out` counts the others.
    """

    received: int
    written: int
    unchanged: int
    failed: int
    generation: int
    errors: list[LineError]
    errors_left_out: int
