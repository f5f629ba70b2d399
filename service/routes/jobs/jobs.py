"""Jobs over REST: list, show, cancel; and what every route that starts one needs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from service.http.admission import request_key
from service.http.roles import READ, WRITE
from service.http.routing import JSONRoute
from service.jobs.job_records import JobRecord, NewJob, State
from service.jobs.runner import Jobs
from service.routes.dependencies import render
from service.schemas.jobs.jobs import JobInfo, JobList

Status = Literal["running", "done", "failed"]

router = APIRouter(prefix="/v1/jobs", route_class=JSONRoute)


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


JobsOf = Annotated[Jobs, Depends(_jobs)]


class Submit:
    """Takes jobs for whoever makes the request; quotas are for each key."""

    def __init__(self, request: Request, jobs: JobsOf) -> None:
        # Where no key is asked for, what a client makes up has no quota of its own.
        is_required = request.app.state.keyring.is_required
        key = request_key(request.scope["state"]["headers"]) if is_required else None
        self.jobs = jobs
        # The key itself is nowhere on disk.
        self._owner = "" if key is None else hashlib.sha256(key.encode()).hexdigest()[:16]

    def draft(self) -> Path:
        """Return an empty folder for what the job needs."""
        return self.jobs.files.draft()

    def __call__(
        self,
        kind: str,
        collection: str,
        spec: dict[str, Any] | None = None,
        *,
        draft: Path | None = None,
        idempotency: tuple[str, str] | None = None,
    ) -> JobRecord:
        """Take a job, see :meth:`service.jobs.runner.Jobs.submit`."""
        new = NewJob(kind, collection, spec or {}, self._owner, idempotency)
        return self.jobs.submit(draft or self.jobs.files.draft(), new)


SubmitOf = Annotated[Submit, Depends()]


@router.get("", response_model=JobList, openapi_extra=READ, summary="List the jobs")
def get_jobs(
    jobs: JobsOf,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: State | None = None,
    kind: str | None = None,
    collection: str | None = None,
) -> Response:
    """List the latest jobs, newest first; of one state, kind or collection where it is given."""
    found = jobs.last(limit, state, kind, collection)
    return render(JobList(jobs=[job_info(job) for job in found]))


@router.get("/{id}", response_model=JobInfo, openapi_extra=READ, summary="Describe a job")
def get_job(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Return a job's state, its progress and, once it is done, its result."""
    return render(job_info(jobs.get(id)))


@router.post(
    "/{id}/cancel",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=WRITE,
    summary="Cancel a job",
)
def post_cancel(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Cancel a waiting or running job. What it has written stays; a reindexing is undone."""
    return accepted(jobs.cancel(id))


def accepted(job: JobRecord) -> Response:
    """Answer that a job was taken, and where it can be asked for."""
    return render(job_info(job), 202, {"Location": f"/v1/jobs/{job.id}"})


def job_info(job: JobRecord) -> JobInfo:
    """Return what is told of a job."""
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
    """Return what is told of a job where its result is asked for."""
    if job.finished is None:
        return "running"
    return "done" if job.state == "done" else "failed"


def reason_of(job: JobRecord) -> str | None:
    """Say why there is no result of a job, and will be none; None of one that runs or is done."""
    if job.error is not None:
        return str(job.error["detail"])
    return "it was cancelled" if job.state == "cancelled" else None


@contextmanager
def reading_files(look_up: Callable[[], object]) -> Iterator[None]:
    """Read the files of a job: where one is gone, so may the job be, and `look_up` says so."""
    try:
        yield
    except FileNotFoundError:
        look_up()
        raise
