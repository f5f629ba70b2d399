"""Responses about aliases, snapshots and jobs; see :mod:`hummingbit.clients.responses`."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Alias(TypedDict):
    """A second name of a collection."""

    alias: str
    collection: str


class Aliases(TypedDict):
    """All aliases, in order."""

    aliases: list[Alias]


class Snapshot(TypedDict):
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


class UnavailableSnapshot(TypedDict):
    """A snapshot whose record cannot be read, and why."""

    id: str
    reason: str


class Snapshots(TypedDict):
    """Snapshots, the oldest first, and those that cannot be read."""

    snapshots: list[Snapshot]
    unavailable: list[UnavailableSnapshot]


class Verification(TypedDict):
    """How many documents were checked, and the problems, one sentence each."""

    documents: int
    problems: list[str]


class Compaction(TypedDict):
    """The size of a collection on disk before and after compaction."""

    bytes_before: int
    bytes_after: int


class IndexedFields(TypedDict):
    """The fields of payloads that are indexed."""

    indexed_fields: list[str]
    warnings: NotRequired[list[str]]
    """Which of them no document has."""


JobState = Literal["queued", "running", "done", "failed", "cancelled"]


class JobProgress(TypedDict):
    """The progress of a job; `total` and `percent` are None while they are unknown.

    `step` names the current step; it is None unless the job is running.
    """

    step: str | None
    done: int
    total: int | None
    percent: float | None


class JobError(TypedDict):
    """Why a job failed."""

    code: str
    detail: str
    errors: list[dict[str, str]]


class Job(TypedDict):
    """A job in the background; `result` depends on its kind. Times are in UTC."""

    id: str
    kind: str
    collection: str
    state: JobState
    progress: JobProgress
    attempts: int
    created: str
    started: str | None
    finished: str | None
    result: dict[str, Any] | None
    error: JobError | None


class Jobs(TypedDict):
    """Jobs, the newest first."""

    jobs: list[Job]
