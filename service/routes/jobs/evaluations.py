"""Evaluations over REST: in the response, or as jobs with a report that is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from evaluation.reports.collection_report import Job
from evaluation.reports.compare import compare_reports
from evaluation.reports.formats import FORMATS
from evaluation.reports.gate import GateError, parse_gate
from evaluation.reports.plots import PlotError
from evaluation.reports.report import Report, parse_report
from evaluation.result import EvaluationError
from evaluation.retrieval import evaluate_collection
from foundation.files import replace_file
from service.http.bodies.body import JSONRequest
from service.http.bodies.json_parser import parse_json
from service.http.problems import ProblemError, invalid_field
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.jobs.evaluation import REPORT_FILE, REQUEST_FILE, RUN_FILE, parse_evaluation
from service.jobs.job_records import JobRecord
from service.jobs.runner import Jobs
from service.routes.dependencies import (
    LONG_READ,
    CollectionOf,
    Limits,
    LongReads,
    encoder_name,
    render,
    wants_async,
)
from service.routes.jobs.jobs import JobsOf, SubmitOf, reading_files, reason_of, status_of
from service.schemas.checks import pointing_among
from service.schemas.jobs.evaluations import (
    ComparedEvaluations,
    CompareEvaluations,
    EvaluatedQueries,
    EvaluateRequest,
    EvaluateResponse,
    EvaluationStatus,
    LabelledQuery,
)
from service.schemas.results import JSONAnswer, LongAnswer, answer_to_json

NO_QUERY = dict.fromkeys(LabelledQuery.model_fields)

router = APIRouter(prefix="/v1", route_class=JSONRoute)


# A page that is sent from this address could otherwise send requests with the reader's key.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


@router.post(
    "/collections/{name}/evaluate",
    response_model=EvaluateResponse,
    openapi_extra=READ,
    dependencies=LONG_READ,
    responses={202: {"model": EvaluationStatus, "description": "A job runs in the background."}},
    summary="Evaluate",
)
def post_evaluate(
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
        result = evaluate_collection(
            collection, queries, body.metrics, body.label_field, **settings.relevance
        )
    return render(
        EvaluateResponse(
            **result.to_dict(),
            n_bits=collection.n_bits,
            encoder=encoder_name(collection),
            took_ms=round((time.perf_counter() - start) * 1000, 3),
        )
    )


@router.get(
    "/evaluations/{id}",
    response_model=EvaluationStatus,
    openapi_extra=READ,
    responses={
        200: {"content": {form.media_type: {} for form in FORMATS.values()}},
    },
    summary="Get an evaluation",
)
async def get_evaluation(
    *,
    id: str,  # noqa: A002 - as in the path
    request: Request,
    jobs: JobsOf,
    long_reads: LongReads,
    format: str | None = None,  # noqa: A002 - as in the query
) -> Response:
    """Get an evaluation's status and, once it is done, its report.

    The query parameter ``format`` chooses the format; without it, the header ``Accept`` does.
    """
    accept = request.headers.get("accept", "*/*")
    form = _check_format(format) if format else _preferred_format(accept)
    if form == "json":
        return await run_in_threadpool(_write_status, jobs, id)
    # A page of plots takes long.
    async with long_reads.place(request.scope["state"]):
        return await run_in_threadpool(_write_report, jobs, id, form)


def _write_status(jobs: Jobs, id_: str) -> Response:
    return render(_status(_evaluation(jobs, id_), jobs))


def _write_report(jobs: Jobs, id_: str, form: str) -> Response:
    job = _evaluation(jobs, id_)
    _check_done(job)
    try:
        with _job_folder(jobs, job) as folder:
            text = FORMATS[form].write(_finished_job(folder), None)
    except PlotError as error:
        raise ProblemError(501, "format_unavailable", str(error)) from None
    if text is None:
        message = "there is no TREC run; the notes of the report say why"
        raise ProblemError(406, "format_unavailable", message)
    return LongAnswer(text, media_type=FORMATS[form].media_type, headers=HEADERS)


@router.get(
    "/evaluations/{id}/queries",
    response_model=EvaluatedQueries,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Get an evaluation's queries",
)
def get_queries(id: str, jobs: JobsOf, limits: Limits) -> Response:  # noqa: A002 - as in the path
    """Get the queries of an evaluation as they were sent, each with its id."""
    job = _evaluation(jobs, id)
    _check_done(job)
    with _job_folder(jobs, job) as folder:
        path = folder / REQUEST_FILE
        if not path.exists():
            message = "the evaluation is from an earlier version, which did not keep the queries"
            raise ProblemError(404, "unknown_evaluation", message)
        sent = parse_json(path.read_bytes(), limits.max_json_depth)["queries"]
    queries = [
        {**NO_QUERY, **query, "id": query.get("id") or str(place)}
        for place, query in enumerate(sent)
    ]
    return JSONAnswer(answer_to_json({"queries": queries}, limits.max_response_bytes))


@router.post(
    "/evaluations/{id}/compare",
    response_model=ComparedEvaluations,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Compare two evaluations",
)
def post_compare(id: str, body: CompareEvaluations, jobs: JobsOf) -> Response:  # noqa: A002
    """Compare an evaluation with another, query by query, and check it against a gate.

    Differences come with bootstrap intervals and the p-values of paired permutation tests.
    """
    report, baseline = _report(jobs, id), _report(jobs, body.baseline)
    try:
        rules = [] if body.gate is None else parse_gate(body.gate)
        compared = compare_reports(report, rules, baseline, ignore_unmatched_queries=True)
    except GateError as error:
        raise invalid_field(str(error), "gate") from None
    except EvaluationError as error:
        raise invalid_field(str(error), "baseline") from None
    return render(
        ComparedEvaluations(
            changes=compared.changes or [],
            gate=compared.gate or [],
            notes=compared.notes[len(report.notes) :],
            passed=compared.passed,
        )
    )


def _report(jobs: Jobs, id_: str) -> Report:
    job = _evaluation(jobs, id_)
    _check_done(job)
    with _job_folder(jobs, job) as folder:
        return _finished_job(folder).report


def _check_done(job: JobRecord) -> None:
    status = status_of(job)
    if status == "running":
        raise ProblemError(409, "evaluation_running", "the evaluation is not finished yet")
    if status == "failed":
        raise ProblemError(409, "evaluation_failed", str(reason_of(job)))


@contextmanager
def _job_folder(jobs: Jobs, job: JobRecord) -> Iterator[Path]:
    with reading_files(lambda: _evaluation(jobs, job.id)):
        yield jobs.files.of(job.id)


def _evaluation(jobs: Jobs, id_: str) -> JobRecord:
    try:
        job = jobs.get(id_)
    except ProblemError:
        job = None
    if job is None or job.kind != "evaluation":
        raise ProblemError(404, "unknown_evaluation", f"there is no evaluation {id_[:40]!r}")
    return job


def _status(job: JobRecord, jobs: Jobs) -> EvaluationStatus:
    status = status_of(job)
    report = None
    if status == "done":
        with _job_folder(jobs, job) as folder:
            report = _finished_job(folder).report
    return EvaluationStatus(id=job.id, status=status, error=reason_of(job), report=report)


def _finished_job(folder: Path) -> Job:
    report = parse_report((folder / REPORT_FILE).read_text(encoding="utf-8"))
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
