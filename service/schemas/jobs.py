"""The JSON of jobs, and of what verification and compaction return."""

from __future__ import annotations

from typing import Any, Literal

from service.schemas.common import ResponseModel


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
