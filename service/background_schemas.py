"""The JSON of jobs, aliases and snapshots."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from index.engines.choice import ENGINES
from service.schemas import RequestModel, ResponseModel


class AliasToAdd(RequestModel):
    """Let `alias` mean `collection`, whatever it meant before."""

    alias: str
    collection: str


class AliasToRemove(RequestModel):
    """Forget `alias`."""

    alias: str


class AliasAction(RequestModel):
    """Exactly one of the two."""

    add: AliasToAdd | None = None
    remove: AliasToRemove | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> AliasAction:
        if (self.add is None) == (self.remove is None):
            raise ValueError("must have exactly one of add and remove")
        return self


class ChangeAliases(RequestModel):
    """Actions that are taken in their order, all of them or none."""

    actions: list[AliasAction] = Field(
        min_length=1,
        max_length=1000,
        examples=[[{"add": {"alias": "books", "collection": "books-2"}}]],
    )


class Alias(ResponseModel):
    """A second name of a collection."""

    alias: str
    collection: str


class Aliases(ResponseModel):
    """All aliases, in order."""

    aliases: list[Alias]


class Reindex(RequestModel):
    """Where the documents go, encoded by another encoder, and which alias then means it."""

    encoder: str
    into: str = Field(description="The name of the collection to make.", examples=["books-2"])
    alias: str | None = Field(
        None, description="Means the collection from the moment it is complete."
    )
    engine: str | None = Field(
        None,
        description="What the collection is searched by; without one, what the old one was made"
        " with.",
        json_schema_extra={"enum": [*ENGINES, None]},
    )


class SnapshotInfo(ResponseModel):
    """A snapshot; `bytes` and `sha256` are those of the file that can be downloaded."""

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


class SnapshotList(ResponseModel):
    """Snapshots, the oldest first."""

    snapshots: list[SnapshotInfo]


class RestoreSnapshot(RequestModel):
    """The collection to make of a snapshot."""

    collection: str = Field(examples=["books-restored"])


class VerificationInfo(ResponseModel):
    """How many documents were checked and what is wrong with the collection, a sentence each."""

    documents: int
    problems: list[str]


class CompactionInfo(ResponseModel):
    """The room that a collection took before and takes now; 0 where that cannot be known."""

    bytes_before: int
    bytes_after: int


class JobProgress(ResponseModel):
    """How far a job is; `total` and `percent` are null while that is not known.

    `step` is what it is at: copying, encoding, catching up, …; null where it does not run.
    """

    step: str | None
    done: int
    total: int | None
    percent: float | None


class JobError(ResponseModel):
    """Why a job failed."""

    code: str
    detail: str
    errors: list[dict[str, str]]


class JobInfo(ResponseModel):
    """A job; `attempts` is more than 1 if the service ended while it ran. Times are in UTC.

    `collection` is empty where a snapshot was uploaded.
    """

    id: str
    kind: str
    collection: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: JobProgress
    attempts: int
    created: str
    started: str | None
    finished: str | None
    result: dict[str, Any] | None
    error: JobError | None


class JobList(ResponseModel):
    """Jobs, the newest first."""

    jobs: list[JobInfo]
