"""Evaluations over REST: answered at once, or as jobs, whose reports stay."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from corpus.document import Document
from evaluation.asked import RelevanceSettings
from evaluation.evaluate import evaluate_collection
from evaluation.formats import FORMATS
from evaluation.job import Job, run_job, shown_ids
from evaluation.plots import PlotError
from evaluation.report import parse_report, write_report
from index.data_folder import DataFolder
from service.body import JSONRoute
from service.collections import parse_item
from service.errors import ProblemError, invalid_field
from service.evaluation_schemas import EvaluateRequest, EvaluateResponse, EvaluationStatus
from service.job_routes import JobsOf
from service.job_store import JobRecord
from service.jobs import Jobs, Progress
from service.requests import (
    LONG_READ,
    CollectionOf,
    Limits,
    check_count,
    encoder_name,
    located,
    render,
    wants_async,
)
from service.roles import READ
from service.settings import Settings

router = APIRouter(prefix="/v1", route_class=JSONRoute)

REQUEST_FILE = "request.json"
REPORT_FILE = "report.json"
RUN_FILE = "run.trec"


@router.post(
    "/collections/{name}/evaluate",
    response_model=EvaluateResponse,
    openapi_extra=READ,
    dependencies=LONG_READ,
    responses={202: {"model": EvaluationStatus, "description": "It runs in the background."}},
    summary="Evaluate",
)
def post_evaluate(
    *,
    request: Request,
    collection: CollectionOf,
    body: EvaluateRequest,
    limits: Limits,
    jobs: JobsOf,
) -> Response:
    """Measure how well the collection finds documents with the labels of the queries.

    With the header ``Prefer: respond-async`` it is done in the background, and the answer says
    where the report will be.
    """
    queries, settings = _parse_evaluation(body, limits)
    if wants_async(request):
        draft = jobs.draft()
        (draft / REQUEST_FILE).write_text(body.model_dump_json(), encoding="utf-8")
        id_ = jobs.submit(draft, "evaluation", collection.name, {}).id
        status = EvaluationStatus(id=id_, status="running", error=None, report=None)
        return render(status, 202, {"Location": f"/v1/evaluations/{id_}"})
    began = time.perf_counter()
    with located("queries"):
        found = evaluate_collection(
            collection, queries, body.metrics, body.label_field, **settings.relevance
        )
    return render(
        EvaluateResponse(
            **found.to_dict(),
            n_bits=collection.n_bits,
            encoder=encoder_name(collection),
            took_ms=round((time.perf_counter() - began) * 1000, 3),
        )
    )


@router.get(
    "/evaluations/{id}",
    response_model=EvaluationStatus,
    openapi_extra=READ,
    responses={
        200: {"content": {one.media_type: {} for one in FORMATS.values()}},
    },
    summary="Get an evaluation",
)
def get_evaluation(
    id: str,  # noqa: A002 - as in the path
    request: Request,
    jobs: JobsOf,
    format: str | None = None,  # noqa: A002 - as in the query
) -> Response:
    """Get an evaluation's status and, once it is done, its report.

    The format is that of the query, or else the one that the header ``Accept`` prefers.
    """
    chosen = _check_format(format) if format else _accepted(request.headers.get("accept", "*/*"))
    job = _evaluation(jobs, id)
    if chosen == "json":
        return render(_status(job, jobs))
    if job.finished is None:
        raise ProblemError(409, "evaluation_running", "the evaluation is not finished yet")
    if job.state != "done":
        raise ProblemError(409, "evaluation_failed", _why(job))
    try:
        text = FORMATS[chosen].write(_finished_job(jobs.folder(id)), None)
    except PlotError as missing:
        raise ProblemError(501, "format_unavailable", str(missing)) from None
    if text is None:
        message = "there is no TREC run; the notes of the report say why"
        raise ProblemError(406, "format_unavailable", message)
    return Response(text, media_type=FORMATS[chosen].media_type)


def evaluate(folder: DataFolder, limits: Settings, progress: Progress) -> dict[str, Any]:
    """Evaluate as the request in the job's folder says, and write the report there."""
    raw = (progress.folder / REQUEST_FILE).read_bytes()
    body = EvaluateRequest.model_validate_json(raw)
    queries, settings = _parse_evaluation(body, limits)
    progress.step = "searching"
    progress.advance(total=len(queries))
    collection = folder.collection(progress.job.collection)
    done = run_job(collection, queries, body.metrics, settings, shown_ids(folder, collection))
    if done.run is not None:
        (progress.folder / RUN_FILE).write_text(done.run(), encoding="utf-8")
    (progress.folder / REPORT_FILE).write_text(write_report(done.report), encoding="utf-8")
    progress.advance(len(queries))
    return {"report": f"/v1/evaluations/{progress.job.id}"}


def _evaluation(jobs: Jobs, id_: str) -> JobRecord:
    try:
        job = jobs.get(id_)
    except ProblemError:
        job = None
    if job is None or job.kind != "evaluation":
        raise ProblemError(404, "unknown_evaluation", f"there is no evaluation {id_[:40]!a}")
    return job


def _status(job: JobRecord, jobs: Jobs) -> EvaluationStatus:
    if job.finished is None:
        return EvaluationStatus(id=job.id, status="running", error=None, report=None)
    if job.state != "done":
        return EvaluationStatus(id=job.id, status="failed", error=_why(job), report=None)
    report = _finished_job(jobs.folder(job.id)).report
    return EvaluationStatus(id=job.id, status="done", error=None, report=report)


def _why(job: JobRecord) -> str:
    return "it was cancelled" if job.error is None else str(job.error["detail"])


def _finished_job(folder: Path) -> Job:
    report = parse_report((folder / REPORT_FILE).read_text(encoding="utf-8"))
    run = folder / RUN_FILE
    return Job(report, (lambda: run.read_text(encoding="utf-8")) if run.exists() else None)


def _parse_evaluation(
    body: EvaluateRequest, limits: Settings
) -> tuple[list[Document], RelevanceSettings]:
    check_count(body.queries, limits.max_queries, "queries")
    queries = [
        parse_item(item, limits, "queries", position, id=item.id or str(position))
        for position, item in enumerate(body.queries)
    ]
    for position, query in enumerate(queries):
        if not query.labels and body.qrels is None:
            raise invalid_field("must have a label or labels", "queries", position)
    names = ("label_field", "qrels", "hierarchy", "relevant_from", "exclude_self")
    return queries, RelevanceSettings(**{name: getattr(body, name) for name in names})


def _check_format(name: str) -> str:
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        message = f"format is {name[:40]!a}; it must be one of {known}"
        raise ProblemError(422, "invalid_request", message)
    return name


def _accepted(header: str) -> str:
    """Return the format that the header ``Accept`` prefers; RFC 9110, section 12.5.1."""
    ranges = []
    for part in header.split(","):
        media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        try:
            ranges.append((-float(quality), media_type))
        except ValueError:
            continue
    by_type = {one.media_type: name for name, one in FORMATS.items()}
    by_type |= {"*/*": "json", "application/*": "json", "text/*": "markdown", "text/xml": "junit"}
    # The sort is stable: of two that are equally welcome, the first is meant.
    for rank, media_type in sorted(ranges, key=lambda one: one[0]):
        if rank < 0 and media_type in by_type:
            return by_type[media_type]
    known = ", ".join(one.media_type for one in FORMATS.values())
    raise ProblemError(406, "not_acceptable", f"an evaluation can be had as {known}")
