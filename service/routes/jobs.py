"""Jobs over REST, and those that read a whole collection: evaluations, maps, near-duplicates.

Routes of other modules submit jobs by :class:`Submit`, and respond with :func:`accepted_response`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from anyio import to_thread
from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from hummingbit.evaluation.formats import FORMATS, PlotError
from hummingbit.evaluation.gate import GateError, compare_reports, parse_gate
from hummingbit.evaluation.rankings import measure_rankings
from hummingbit.evaluation.report import Job, Report, default_metrics, parse_report
from hummingbit.evaluation.result import EvaluationError
from hummingbit.foundation.files import replace_file
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.duplicates import DuplicateCriteria
from hummingbit.service.http.bodies import JSONRequest, parse_json
from hummingbit.service.http.keys import READ, WRITE, Role, request_key
from hummingbit.service.http.problems import ProblemError, invalid_field
from hummingbit.service.http.routing import Router, check_role
from hummingbit.service.jobs.kinds import (
    CLUSTERS_FILE,
    FURTHER_FILE,
    REPORT_FILE,
    REQUEST_FILE,
    RUN_FILE,
    parse_evaluation,
    read_clusters,
)
from hummingbit.service.jobs.map import MAP_FILE, POINTS_FILE
from hummingbit.service.jobs.runner import Jobs
from hummingbit.service.jobs.store import Idempotency, JobRecord, KindName, NewJob, State
from hummingbit.service.routes.dependencies import (
    LONG_READ,
    CollectionOf,
    Folder,
    Limits,
    LongReads,
    encoder_name,
    render,
    render_long,
    wants_async,
)
from hummingbit.service.schemas.common import pointing_among, pointing_at
from hummingbit.service.schemas.jobs import (
    ComparedEvaluations,
    CompareEvaluations,
    DeleteDuplicates,
    DrawMap,
    EvaluatedQueries,
    EvaluateRequest,
    EvaluationStatus,
    FindDuplicates,
    LabelledQuery,
)
from hummingbit.service.schemas.responses import (
    Duplicates,
    EvaluateResponse,
    JobInfo,
    JobList,
    JobStatus,
    MapStatus,
)

# Jobs: list, describe, cancel, submit.


Status = Literal["running", "done", "failed"]

router = Router(prefix="/v1", tags=["jobs"])


class OwnJobs:
    """The jobs that a key for some collections submitted, of collections that it reaches.

    Each is of the collection by the name that the key knows, which may be an alias.
    """

    def __init__(self, jobs: Jobs, owner: str, names: Mapping[str, str]) -> None:
        """Show jobs of an owner; `names` are those that the key knows, by those of the jobs."""
        self.files = jobs.files
        self._jobs = jobs
        self._owner = owner
        self._names = names

    def get(self, id_: str) -> JobRecord:
        """See :meth:`hummingbit.service.jobs.runner.Jobs.get`; any other job is unknown."""
        job = self._jobs.get(id_)
        if not self._is_shown(job):
            raise self._jobs.unknown(id_)
        return self._named(job)

    def last(
        self,
        limit: int,
        state: State | None = None,
        kind: str | None = None,
        collection: str | None = None,
        *,
        max_bytes: int = sys.maxsize,
    ) -> list[JobRecord]:
        """See :meth:`hummingbit.service.jobs.runner.Jobs.last`."""
        jobs = self._jobs.last(limit, state, kind, max_bytes=max_bytes, owner=self._owner)
        named = [self._named(job) for job in jobs if self._is_shown(job)]
        return [job for job in named if collection in (None, job.collection)]

    def cancel(self, id_: str) -> JobRecord:
        """See :meth:`hummingbit.service.jobs.runner.Jobs.cancel`."""
        return self._named(self._jobs.cancel(self.get(id_).id))

    def _is_shown(self, job: JobRecord) -> bool:
        return job.owner == self._owner and job.collection in self._names

    def _named(self, job: JobRecord) -> JobRecord:
        return replace(job, collection=self._names[job.collection])


AnyJobs = Jobs | OwnJobs


async def _all_jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


async def _jobs(request: Request, jobs: AllJobs, folder: Folder) -> AnyJobs:
    """Return the jobs that the key of a request may see."""
    known = request.scope["state"]["collections"]
    if known is None:
        return jobs
    aliases = folder.aliases()
    names = {aliases.get(name, name): name for name in known} | {name: name for name in known}
    return OwnJobs(jobs, owner_of(request), names)


AllJobs = Annotated[Jobs, Depends(_all_jobs)]
JobsOf = Annotated[AnyJobs, Depends(_jobs)]
ACCEPTED: dict[str, Any] = {"response_model": JobInfo, "status_code": 202}
"""What a route that responds with :func:`accepted_response` declares."""


def owner_of(request: Request) -> str:
    """Return the owner of the jobs that a request submits: its key's hash, so no key is on disk."""
    # If the service has no keys, a client must not get a quota for each key that it invents.
    is_required = request.app.state.keyring.is_required
    key = request_key(request.scope["state"]["headers"]) if is_required else None
    return "" if key is None else hashlib.sha256(key.encode()).hexdigest()[:16]


class Submit:
    """Submits jobs for the key of the request, which has a quota of its own."""

    def __init__(self, request: Request, jobs: AllJobs) -> None:
        self.jobs = jobs
        self._owner = owner_of(request)
        is_limited = request.scope["state"]["collections"] is not None
        folder: DataFolder = request.app.state.folder
        self._aliases = folder.aliases() if is_limited else {}

    def draft(self) -> Path:
        """Return an empty folder for the job's files."""
        return self.jobs.files.draft()

    @asynccontextmanager
    async def drafting(self) -> AsyncIterator[Path]:
        """Yield what :meth:`draft` returns; unless a job has it by then, it is deleted."""
        draft = await run_in_threadpool(self.draft)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

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
        """Submit a job; see :meth:`hummingbit.service.jobs.runner.Jobs.submit`.

        The job of a key for an alias is of the collection that the alias names now, unless it
        writes in bulk, and the key sees it by the alias.
        """
        of = collection if kind == "bulk" else self._aliases.get(collection, collection)
        new = NewJob(kind, of, spec or {}, self._owner, idempotency)
        job = self.jobs.submit(draft or self.jobs.files.draft(), new)
        return replace(job, collection=collection) if self._aliases else job


SubmitOf = Annotated[Submit, Depends()]


@router.get("/jobs", response_model=JobList, **READ, summary="List the jobs")
def list_jobs(
    *,
    jobs: JobsOf,
    limits: Limits,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    state: State | None = None,
    kind: KindName | None = None,
    collection: str | None = None,
) -> Response:
    """List the latest jobs, newest first; all of them, or those of a state, kind or collection.

    The list ends early if the results of the jobs are large. A key for some collections sees the
    jobs that it submitted.
    """
    most = limits.max_response_bytes // 4
    latest = jobs.last(limit, state, kind, collection, max_bytes=most)
    return render(JobList(jobs=[job_info(job) for job in latest]))


@router.get("/jobs/{id}", response_model=JobInfo, **READ, summary="Describe a job")
def get_job(id: str, jobs: JobsOf) -> Response:
    """Return a job's state, its progress and, once it is done, its result."""
    return render(job_info(jobs.get(id)))


@router.post("/jobs/{id}/cancel", **ACCEPTED, **READ, summary="Cancel a job")
def cancel_job(request: Request, id: str, jobs: JobsOf) -> Response:
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
    progress = {"step": job.step, "done": job.done, "total": job.total, "percent": percent}
    names = [name for name in JobInfo.__annotations__ if name != "progress"]
    return cast("JobInfo", {name: getattr(job, name) for name in names} | {"progress": progress})


def status_of(job: JobRecord) -> Status:
    """Return the status of a job's result."""
    if job.finished is None:
        return "running"
    return "done" if job.state == "done" else "failed"


def _result_status(job: JobRecord) -> JobStatus:
    """Return a job by its result."""
    return {"id": job.id, "status": status_of(job), "error": reason_of(job)}


def reason_of(job: JobRecord) -> str | None:
    """Return why a job failed or was cancelled; None if it is done or not finished."""
    if job.error is not None:
        return str(job.error["detail"])
    return "it was cancelled" if job.state == "cancelled" else None


def _job(jobs: AnyJobs, id_: str, kind: str) -> JobRecord:
    job = jobs.get(id_)
    if job.kind != kind:
        message = f"job {id_[:40]!r} is of the kind {job.kind}, not {kind}"
        raise ProblemError(404, "unknown_job", message)
    return job


@contextmanager
def _job_folder(jobs: AnyJobs, job: JobRecord) -> Iterator[Path]:
    """Read files of a job in its folder; if one is missing, say so if the job was deleted."""
    try:
        yield jobs.files.of(job.id)
    except FileNotFoundError:
        if job.kind == "evaluation":
            _evaluation(jobs, job.id)
        jobs.get(job.id)
        raise


def _read(jobs: AnyJobs, job: JobRecord, file: str) -> bytes:
    with _job_folder(jobs, job) as folder:
        return (folder / file).read_bytes()


# Maps and near-duplicates.


# Maps drawn by earlier versions do not say these.
ABSENT_BEFORE: dict[str, Any] = {
    "given_labels": [],
    "given_label_documents": [],
    "time": None,
    "learned_documents": None,
}


@router.post("/collections/{name}/map", **ACCEPTED, **READ, summary="Draw a map")
def draw_map(collection: CollectionOf, body: DrawMap, submit: SubmitOf) -> Response:
    """Lay out the distinct codes in the plane, as a job: similar codes lie near each other."""
    if body.method == "tsne" and importlib.util.find_spec("openTSNE") is None:
        message = "is 'tsne', for which the service needs openTSNE, its extra map; or send 'pca'"
        raise invalid_field(message, "method")
    return accepted_response(submit("map", collection.name, body.model_dump()))


@router.get("/maps/{id}", response_model=MapStatus, **READ, summary="Get a map")
def get_map(id: str, jobs: JobsOf) -> Response:
    """Get a map's status and, once it is done, its description; its points have another address."""
    job = _job(jobs, id, "map")
    drawn_map = None
    if job.state == "done":
        raw = json.loads(_read(jobs, job, MAP_FILE))
        drawn_map = ABSENT_BEFORE | raw | {"collection": job.collection}
    return render({**_result_status(job), "map": drawn_map})


@router.get(
    "/maps/{id}/points",
    **READ,
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
    summary="Get a map's points",
)
def get_map_points(id: str, jobs: JobsOf) -> Response:
    """Get the points of a finished map: columns of P points each, little-endian.

    x and y, from -1 to 1, and the mean position of the code's documents in the order of insertion,
    from 0 to 1, as float32; the number of documents as uint32; the label as uint16, a position in
    `labels`, 65,534 for one that is not listed, 65,535 for none; its share of the labelled
    documents as uint8, 254 for all, 255 if none is labelled; and the codes, n_bits / 8 bytes each.
    If the map has a `time`, the position on its scale follows, from 0 to 1, as float32, NaN if no
    document has a value. If it has `given_labels`, the label that people gave and its share follow,
    as uint16 and uint8, as above. If it has `learned_documents`, the share of the code's documents
    that the encoder learned from follows, as uint8, 254 for all.
    """
    job = _job(jobs, id, "map")
    if job.state != "done":
        raise ProblemError(409, "not_finished", reason_of(job) or "the map is not finished yet")
    return Response(_read(jobs, job, POINTS_FILE), media_type="application/octet-stream")


@router.post("/collections/{name}/duplicates", **ACCEPTED, **READ, summary="Find near-duplicates")
def find_duplicates(collection: CollectionOf, body: FindDuplicates, submit: SubmitOf) -> Response:
    """Find documents whose codes, and on request texts, hardly differ, as a job.

    Nothing is deleted: the clusters are listed, and documents can be deleted by their ids.
    """
    criteria = body.model_dump()
    with pointing_at():
        DuplicateCriteria(**criteria).check(collection.n_bits)
    return accepted_response(submit("duplicates", collection.name, criteria))


@router.post("/duplicates/{id}/delete", **ACCEPTED, **WRITE, summary="Delete near-duplicates")
def delete_duplicates(
    id: str, jobs: JobsOf, folder: Folder, body: DeleteDuplicates, submit: SubmitOf
) -> Response:
    """Delete all documents but one of each cluster of a finished search, as a job.

    Documents that were written since the search are left, and of each cluster one remains whatever
    was deleted meanwhile. A cancelled job leaves the documents that it did not reach.
    """
    job = _job(jobs, id, "duplicates")
    result = job.result
    if job.state != "done" or result is None:
        raise ProblemError(409, "not_finished", reason_of(job) or "the search is not finished yet")
    if "last_row" not in result:
        message = "an earlier version found these near-duplicates; find them again to delete them"
        raise ProblemError(409, "not_finished", message)
    folder.collection(job.collection)
    documents = result["clusters"] + result["documents_with_an_older_duplicate"]
    spec = {"duplicates": id, "last_row": result["last_row"], "documents": documents}
    draft = submit.draft()
    with _job_folder(jobs, job) as job_folder:
        for file in (CLUSTERS_FILE, FURTHER_FILE):
            # A link, because the search may be deleted before the job ends.
            os.link(job_folder / file, draft / file)
    return accepted_response(
        submit("delete_duplicates", job.collection, {**spec, "keep": body.keep}, draft=draft)
    )


@router.get("/duplicates/{id}", response_model=Duplicates, **READ, summary="Get near-duplicates")
def get_duplicates(
    id: str,
    jobs: JobsOf,
    offset: Annotated[int, Query(ge=0, description="The number of clusters to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Clusters on the page.")] = 50,
) -> Response:
    """Get the status of a search for near-duplicates and, once it is done, a page of clusters."""
    job = _job(jobs, id, "duplicates")
    page: list[dict[str, Any]] = []
    if job.state == "done":
        with _job_folder(jobs, job) as folder:
            page = [*read_clusters(folder, offset, limit)]
    clusters = (job.result or {}).get("clusters")
    status = {**_result_status(job), "collection": job.collection, "clusters": clusters}
    return render({**status, "page": page})


# Evaluations: in the response, or as jobs with a report that is kept.


NO_QUERY = dict.fromkeys(LabelledQuery.model_fields)


# A page that is sent from this address could otherwise send requests with the reader's key.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


@router.post(
    "/collections/{name}/evaluate",
    response_model=EvaluateResponse,
    **LONG_READ,
    responses={202: {"model": EvaluationStatus, "description": "A job runs in the background."}},
    summary="Evaluate",
)
def evaluate(
    *,
    request: JSONRequest,
    collection: CollectionOf,
    body: EvaluateRequest,
    limits: Limits,
    submit: SubmitOf,
) -> Response:
    """Measure how well the collection finds documents with the labels of the queries.

    With the header ``Prefer: respond-async`` it runs as a job, and the header ``Location`` of the
    response is the address of the report.
    """
    queries, settings = parse_evaluation(body, limits)
    if wants_async(request):
        draft = submit.draft()
        replace_file(draft / REQUEST_FILE, request.received_body)
        id_ = submit("evaluation", collection.name, draft=draft).id
        status = EvaluationStatus(id=id_, status="running", error=None, report=None)
        return render(status, 202, {"Location": f"/v1/evaluations/{id_}"})
    start = time.perf_counter()
    with pointing_among("queries"):
        means = measure_rankings(
            collection,
            queries,
            body.metrics or default_metrics(settings),
            settings,
            rankings=body.rankings,
            oversample=body.oversample,
            codes_weights=body.codes_weights or (),
        )
    answer = {
        **means,
        "n_bits": collection.n_bits,
        "encoder": encoder_name(collection),
        "took_ms": round((time.perf_counter() - start) * 1000, 3),
    }
    return render({name: answer[name] for name in EvaluateResponse.__annotations__})


@router.get(
    "/evaluations/{id}",
    response_model=EvaluationStatus,
    **READ,
    responses={
        200: {"content": {form.media_type: {} for form in FORMATS.values()}},
    },
    summary="Get an evaluation",
)
async def get_evaluation(
    *,
    id: str,
    request: Request,
    jobs: JobsOf,
    long_reads: LongReads,
    format: str | None = None,
) -> Response:
    """Get an evaluation's status and, once it is done, its report.

    The query parameter ``format`` chooses the format; without it, the header ``Accept`` does.
    """
    accept = request.headers.get("accept", "*/*")
    form = _check_format(format) if format else _preferred_format(accept)
    if form == "json":
        return await run_in_threadpool(_status, jobs, id)
    # A page of plots takes long.
    return await to_thread.run_sync(_write_report, jobs, id, form, limiter=long_reads)


def _write_report(jobs: AnyJobs, id_: str, form: str) -> Response:
    job = _evaluated(jobs, id_)
    try:
        with _job_folder(jobs, job) as folder:
            text = FORMATS[form].write(_finished_job(folder, job), None)
    except PlotError as error:
        raise ProblemError(501, "format_unavailable", str(error)) from None
    if text is None:
        message = "there is no TREC run; the notes of the report say why"
        raise ProblemError(406, "format_unavailable", message)
    return Response(text, media_type=FORMATS[form].media_type, headers=HEADERS)


@router.get(
    "/evaluations/{id}/queries",
    response_model=EvaluatedQueries,
    **LONG_READ,
    summary="Get an evaluation's queries",
)
def get_evaluation_queries(id: str, jobs: JobsOf, limits: Limits) -> Response:
    """Get the queries of an evaluation as they were sent, each with its id."""
    job = _evaluated(jobs, id)
    with _job_folder(jobs, job) as folder:
        path = folder / REQUEST_FILE
        if not path.exists():
            message = "the evaluation is from an earlier version, which did not keep the queries"
            raise ProblemError(404, "unknown_evaluation", message)
        sent = parse_json(path.read_bytes())["queries"]
    queries = [
        {**NO_QUERY, **query, "id": query.get("id") or str(position)}
        for position, query in enumerate(sent)
    ]
    return render_long({"queries": queries}, limits)


@router.post(
    "/evaluations/{id}/compare",
    response_model=ComparedEvaluations,
    **LONG_READ,
    summary="Compare two evaluations",
)
def compare_evaluations(id: str, body: CompareEvaluations, jobs: JobsOf) -> Response:
    """Compare an evaluation with another, query by query, check it against a gate, or do both.

    Differences come with bootstrap intervals and the p-values of paired permutation tests.
    """
    report = _report(jobs, id)
    baseline = None if body.baseline is None else _report(jobs, body.baseline)
    try:
        rules = [] if body.gate is None else parse_gate(body.gate)
        compared = compare_reports(report, rules, baseline, ignore_unmatched_queries=True)
    except GateError as error:
        raise invalid_field(str(error), "gate") from None
    except EvaluationError as error:
        raise invalid_field(str(error), "baseline") from None
    return render(
        ComparedEvaluations(
            warning=report.warning
            or (baseline and baseline.warning and f"the baseline has {baseline.warning}")
            or None,
            changes=compared.changes or [],
            gate=compared.gate or [],
            notes=compared.notes[len(report.notes) :],
            passed=compared.passed,
        )
    )


def _report(jobs: AnyJobs, id_: str) -> Report:
    job = _evaluated(jobs, id_)
    with _job_folder(jobs, job) as folder:
        return _finished_job(folder, job).report


def _evaluated(jobs: AnyJobs, id_: str) -> JobRecord:
    """Return the job of an evaluation, which is done."""
    job = _evaluation(jobs, id_)
    status = status_of(job)
    if status == "running":
        raise ProblemError(409, "evaluation_running", "the evaluation is not finished yet")
    if status == "failed":
        raise ProblemError(409, "evaluation_failed", str(reason_of(job)))
    return job


def _evaluation(jobs: AnyJobs, id_: str) -> JobRecord:
    try:
        job = jobs.get(id_)
    except ProblemError:
        job = None
    if job is None or job.kind != "evaluation":
        raise ProblemError(404, "unknown_evaluation", f"there is no evaluation {id_[:40]!r}")
    return job


def _status(jobs: AnyJobs, id_: str) -> Response:
    job = _evaluation(jobs, id_)
    report = _report(jobs, id_) if job.state == "done" else None
    return render(EvaluationStatus(**_result_status(job), report=report))


def _finished_job(folder: Path, job: JobRecord) -> Job:
    report = parse_report((folder / REPORT_FILE).read_text(encoding="utf-8"))
    subject = report.subject.model_copy(update={"name": job.collection})
    report = report.model_copy(update={"subject": subject})
    run = folder / RUN_FILE
    return Job(report, (lambda: run.read_text(encoding="utf-8")) if run.exists() else None)


def _check_format(name: str) -> str:
    if name not in FORMATS:
        message = f"format is {name[:40]!r}; it must be one of {', '.join(FORMATS)}"
        raise ProblemError(422, "invalid_request", message)
    return name


def _preferred_format(header: str) -> str:
    """Return the format that the header ``Accept`` prefers; RFC 9110, section 12.5.1."""
    ranges = []
    for part in header.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        try:
            ranges.append((-float(quality), media_type))
        except ValueError:
            continue
    by_type = {form.media_type: name for name, form in FORMATS.items()}
    by_type |= {"*/*": "json", "application/*": "json", "text/*": "markdown", "text/xml": "junit"}
    # The sort is stable: of two with equal quality, the first wins.
    for rank, media_type in sorted(ranges, key=lambda ranked: ranked[0]):
        if rank < 0 and media_type in by_type:
            return by_type[media_type]
    media_types = ", ".join(form.media_type for form in FORMATS.values())
    message = f"Accept is {header[:80]!r}; an evaluation is available as {media_types}"
    raise ProblemError(406, "not_acceptable", message)
