"""The JSON of snapshots."""

from __future__ import annotations

from pydantic import Field

from service.schemas.common import RequestModel, ResponseModel


class SnapshotInfo(ResponseModel):
    """A snapshot; `bytes` and `sha256` describe the file to download."""

    id: str
    collection: str
    n_bits: int
    encoder: str | None
    encoder_fingerprint: str | None
    generation: int
    documents: int
    created: str
    bytes: int
    sha256: str


class UnavailableSnapshot(ResponseModel):
    """A snapshot whose record cannot be read; it can be deleted."""

    id: str
    reason: str


class SnapshotList(ResponseModel):
    """Snapshots, oldest first, and those that cannot be read."""

    snapshots: list[SnapshotInfo]
    unavailable: list[UnavailableSnapshot]


class RestoreSnapshot(RequestModel):
    """The collection to create from a snapshot."""

    collection: str = Field(examples=["books-restored"])
