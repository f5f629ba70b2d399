"""The JSON of jobs, and of what verification and compaction return."""

from __future__ import annotations

from typing import Any, Literal

from service.schemas.common import ResponseModel


class VerificationInfo(ResponseModel):
    """The number of documents checked, and the problems found, one sentence each."""

    documents: int
    problems: list[str]


class CompactionInfo(ResponseModel):
    """The space that a collection took before and takes now; 0 if unknown."""

    bytes_before: int
    bytes_after: int


class JobProgress(ResponseModel):
    """How far a job is; `total` and `percent` are null while unknown.

    `step` is the current step (copying, encoding, catching up, …); null if the job is not running.
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

    `collection` is empty for an uploaded snapshot.
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
    """Jobs, newest first."""

    jobs: list[JobInfo]
