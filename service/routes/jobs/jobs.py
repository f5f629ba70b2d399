"""Jobs over REST: list, describe, cancel; and what routes that submit jobs share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from service.http.keys import request_key
from service.http.roles import READ, Role
from service.http.routing import JSONRoute, check_role
from service.jobs.job_records import Idempotency, JobRecord, NewJob, State
from service.jobs.runner import Jobs
from service.routes.dependencies import Limits, render
from service.schemas.jobs.jobs import JobInfo, JobList

Status = Literal["running", "done", "failed"]

router = APIRouter(prefix="/v1/jobs", route_class=JSONRoute)


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


JobsOf = Annotated[Jobs, Depends(_jobs)]


def owner_of(request: Request) -> str:
    """Return the owner of the jobs that a request submits: its key's hash, so no key is on disk."""
    # If the service has no keys, a client must not get a quota for each key that it invents.
    is_required = request.app.state.keyring.is_required
    key = request_key(request.scope["state"]["headers"]) if is_required else None
    return "" if key is None else hashlib.sha256(key.encode()).hexdigest()[:16]


class Submit:
    """Submits jobs for the key of the request, which has a quota of its own."""

    def __init__(self, request: Request, jobs: JobsOf) -> None:
        self.jobs = jobs
        self._owner = owner_of(request)

    def draft(self) -> Path:
        """Return an empty folder for the job's files."""
        return self.jobs.files.draft()

    def idempotency(self, key: str | None, digest: str) -> Idempotency | None:
        """Return an idempotency key that the client sent, as one of its own; None for None."""
        return None if key is None else Idempotency(key, digest, self._owner)

    def __call__(
        self,
        kind: str,
        collection: str,
        spec: dict[str, Any] | None = None,
        *,
        draft: Path | None = None,
        idempotency: Idempotency | None = None,
    ) -> JobRecord:
        """Submit a job; see :meth:`service.jobs.runner.Jobs.submit`."""
        new = NewJob(kind, collection, spec or {}, self._owner, idempotency)
        return self.jobs.submit(draft or self.jobs.files.draft(), new)


SubmitOf = Annotated[Submit, Depends()]


@router.get("", response_model=JobList, openapi_extra=READ, summary="List the jobs")
def get_jobs(
    *,
    jobs: JobsOf,
    limits: Limits,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: State | None = None,
    kind: str | None = None,
    collection: str | None = None,
) -> Response:
    """List the latest jobs, newest first; all of them, or those of a state, kind or collection.

    The list ends early if the results of the jobs are large.
    """
    latest = jobs.last(limit, state, kind, collection, limits.max_response_bytes // 4)
    return render(JobList(jobs=[job_info(job) for job in latest]))


@router.get("/{id}", response_model=JobInfo, openapi_extra=READ, summary="Describe a job")
def get_job(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Return a job's state, its progress and, once it is done, its result."""
    return render(job_info(jobs.get(id)))


@router.post(
    "/{id}/cancel",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=READ,
    summary="Cancel a job",
)
def post_cancel(
    request: Request,
    id: str,  # noqa: A002 - as in the path
    jobs: JobsOf,
) -> Response:
    """Cancel a waiting or running job. What it has written stays; a reindexing is undone.

    A read key can cancel the jobs that it submitted, a write key all jobs.
    """
    owner = jobs.get(id).owner
    if not owner or owner != owner_of(request):
        check_role(request, Role.WRITE)
    return accepted_response(jobs.cancel(id))


def accepted_response(job: JobRecord) -> Response:
    """Return the response 202, with the job and, in ``Location``, its address."""
    return render(job_info(job), 202, {"Location": f"/v1/jobs/{job.id}"})


def job_info(job: JobRecord) -> JobInfo:
    """Return a job as responses have it."""
    percent = round(100 * job.done / job.total, 1) if job.total else None
    return JobInfo.model_validate(
        {
            "id": job.id,
            "kind": job.kind,
            "collection": job.collection,
            "state": job.state,
            "progress": {
                "step": job.step,
                "done": job.done,
                "total": job.total,
                "percent": percent,
            },
            "attempts": job.attempts,
            "created": job.created,
            "started": job.started,
            "finished": job.finished,
            "result": job.result,
            "error": job.error,
        }
    )


def status_of(job: JobRecord) -> Status:
    """Return the status of a job's result."""
    if job.finished is None:
        return "running"
    return "done" if job.state == "done" else "failed"


def reason_of(job: JobRecord) -> str | None:
    """Return why a job failed or was cancelled; None if it is done or not finished."""
    if job.error is not None:
        return str(job.error["detail"])
    return "it was cancelled" if job.state == "cancelled" else None


@contextmanager
def reading_files(look_up: Callable[[], object]) -> Iterator[None]:
    """Read files of a job; if one is missing, call `look_up`, which raises if the job is gone."""
    try:
        yield
    except FileNotFoundError:
        look_up()
        raise
