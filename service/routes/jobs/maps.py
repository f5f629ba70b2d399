"""Maps and near-duplicates over REST: jobs that read a whole collection, and their results."""

from __future__ import annotations

import importlib.util
import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from index.bulk.near_duplicates import DuplicateCriteria
from service.http.problems import ProblemError, invalid_field
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.jobs.duplicates import read_clusters
from service.jobs.job_records import JobRecord
from service.jobs.map import MAP_FILE, POINTS_FILE
from service.jobs.runner import Jobs
from service.routes.dependencies import CollectionOf, render
from service.routes.jobs.jobs import (
    JobsOf,
    SubmitOf,
    accepted_response,
    reading_files,
    reason_of,
    status_of,
)
from service.schemas.checks import pointing_at
from service.schemas.jobs.duplicates import Cluster, Duplicates, FindDuplicates
from service.schemas.jobs.jobs import JobInfo
from service.schemas.jobs.maps import DrawMap, MapDescription, MapStatus
from service.schemas.results import LongAnswer

# Maps drawn by earlier versions do not say these.
ABSENT_BEFORE: dict[str, Any] = {"given_labels": [], "given_label_documents": [], "time": None}

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.post(
    "/collections/{name}/map",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=READ,
    summary="Draw a map",
)
def post_map(collection: CollectionOf, body: DrawMap, submit: SubmitOf) -> Response:
    """Lay out the distinct codes in the plane, as a job: similar codes lie near each other."""
    if body.method == "tsne" and importlib.util.find_spec("openTSNE") is None:
        message = "is 'tsne', for which the service needs openTSNE, its extra map; or send 'pca'"
        raise invalid_field(message, "method")
    return accepted_response(submit("map", collection.name, body.model_dump()))


@router.get("/maps/{id}", response_model=MapStatus, openapi_extra=READ, summary="Get a map")
def get_map(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Get a map's status and, once it is done, its description; its points have another address."""
    job = _job(jobs, id, "map")
    status = status_of(job)
    drawn_map = None
    if status == "done":
        raw = json.loads(_read(jobs, job, MAP_FILE))
        drawn_map = MapDescription.model_validate(ABSENT_BEFORE | raw)
    return render(MapStatus(id=job.id, status=status, error=reason_of(job), map=drawn_map))


@router.get(
    "/maps/{id}/points",
    openapi_extra=READ,
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
    summary="Get a map's points",
)
def get_points(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Get the points of a finished map: columns of P points each, little-endian.

    x and y, from -1 to 1, and the mean position of the code's documents in the order of insertion,
    from 0 to 1, as float32; the number of documents as uint32; the label as uint16, a position in
    `labels`, 65,534 for one that is not listed, 65,535 for none; its share of the labelled
    documents as uint8, 254 for all, 255 if none is labelled; and the codes, n_bits / 8 bytes each.
    If the map has a `time`, the position on its scale follows, from 0 to 1, as float32, NaN if no
    document has a value. If it has `given_labels`, the label that people gave and its share follow,
    as uint16 and uint8, as above.
    """
    job = _job(jobs, id, "map")
    if job.state != "done":
        raise ProblemError(409, "not_finished", reason_of(job) or "the map is not finished yet")
    return LongAnswer(_read(jobs, job, POINTS_FILE), media_type="application/octet-stream")


@router.post(
    "/collections/{name}/duplicates",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=READ,
    summary="Find near-duplicates",
)
def post_duplicates(collection: CollectionOf, body: FindDuplicates, submit: SubmitOf) -> Response:
    """Find documents whose codes, and on request texts, hardly differ, as a job.

    Nothing is deleted: the clusters are listed, and documents can be deleted by their ids.
    """
    criteria = body.model_dump()
    with pointing_at():
        DuplicateCriteria(**criteria).check(collection.n_bits)
    return accepted_response(submit("duplicates", collection.name, criteria))


@router.get(
    "/duplicates/{id}",
    response_model=Duplicates,
    openapi_extra=READ,
    summary="Get near-duplicates",
)
def get_duplicates(
    id: str,  # noqa: A002 - as in the path
    jobs: JobsOf,
    offset: Annotated[int, Query(ge=0, description="The number of clusters to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="Clusters on the page.")] = 50,
) -> Response:
    """Get the status of a search for near-duplicates and, once it is done, a page of clusters."""
    job = _job(jobs, id, "duplicates")
    status = status_of(job)
    page: list[Cluster] = []
    if status == "done":
        with reading_files(lambda: jobs.get(job.id)):
            clusters = read_clusters(jobs.files.of(job.id), offset, limit)
            page = [Cluster(**cluster) for cluster in clusters]
    return render(
        Duplicates(
            id=job.id,
            status=status,
            error=reason_of(job),
            collection=job.collection,
            clusters=(job.result or {}).get("clusters"),
            page=page,
        )
    )


def _job(jobs: Jobs, id_: str, kind: str) -> JobRecord:
    job = jobs.get(id_)
    if job.kind != kind:
        message = f"job {id_[:40]!r} is of the kind {job.kind}, not {kind}"
        raise ProblemError(404, "unknown_job", message)
    return job


def _read(jobs: Jobs, job: JobRecord, file: str) -> bytes:
    with reading_files(lambda: jobs.get(job.id)):
        return (jobs.files.of(job.id) / file).read_bytes()
