"""Maps and near-duplicates over REST: jobs that read a whole collection, and what they found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from index.bulk.duplicates import Likeness
from service.http.problems import ProblemError, invalid_field
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.jobs.duplicates import read_clusters
from service.jobs.map import MAP_FILE, POINTS_FILE
from service.jobs.records import JobRecord
from service.jobs.runner import Jobs
from service.routes.dependencies import CollectionOf, render
from service.routes.jobs import JobsOf, SubmitOf, accepted
from service.schemas.checks import pointing_at
from service.schemas.duplicates import Cluster, Duplicates, FindDuplicates
from service.schemas.jobs import JobInfo
from service.schemas.maps import DrawMap, MapDescription, MapStatus

Status = Literal["running", "done", "failed"]

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.post(
    "/collections/{name}/map",
    response_model=JobInfo,
    status_code=202,
    openapi_extra=READ,
    summary="Draw a map",
)
def post_map(collection: CollectionOf, body: DrawMap, submit: SubmitOf) -> Response:
    """Lay out the distinct codes in the plane, as a job: near codes lie near each other."""
    if body.method == "tsne" and importlib.util.find_spec("openTSNE") is None:
        message = "is 'tsne', which needs openTSNE: pip install 'hummingbit[map]'; or take 'pca'"
        raise invalid_field(message, "method")
    return accepted(submit("map", collection.name, body.model_dump()))


@router.get("/maps/{id}", response_model=MapStatus, openapi_extra=READ, summary="Get a map")
def get_map(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Get a map's status and, once it is done, its description; `points` has the points."""
    job = _job(jobs, id, "map")
    status = _status_of(job)
    described = None
    if status == "done":
        raw = json.loads((jobs.folder(id) / MAP_FILE).read_text(encoding="utf-8"))
        described = MapDescription.model_validate(raw)
    return render(MapStatus(id=job.id, status=status, error=_why(job), map=described))


@router.get(
    "/maps/{id}/points",
    openapi_extra=READ,
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
    summary="Get a map's points",
)
def get_points(id: str, jobs: JobsOf) -> Response:  # noqa: A002 - as in the path
    """Get the points of a finished map: seven columns of P points each, little-endian.

    x and y, from -1 to 1, and the mean place of the code's documents in the order of insertion,
    from 0 to 1, as float32; the number of documents as uint32; the label as uint16, a place in
    `labels`, 65,534 for one that is not listed, 65,535 for none; its share of the labelled
    documents as uint8, 254 for all, 255 where none is labelled; and the codes, n_bits / 8 bytes
    each.
    """
    return Response(
        _finished(jobs, id, POINTS_FILE).read_bytes(), media_type="application/octet-stream"
    )


def _finished(jobs: Jobs, id_: str, file: str) -> Path:
    job = _job(jobs, id_, "map")
    if job.state != "done":
        raise ProblemError(409, "not_finished", _why(job) or "the map is not drawn yet")
    return jobs.folder(id_) / file


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
    likeness = body.model_dump()
    with pointing_at():
        Likeness(**likeness).check(collection.n_bits)
    return accepted(submit("duplicates", collection.name, likeness))


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
    status = _status_of(job)
    found = read_clusters(jobs.folder(id), offset, limit) if status == "done" else iter(())
    return render(
        Duplicates(
            id=job.id,
            status=status,
            error=_why(job),
            collection=job.collection,
            clusters=(job.result or {}).get("clusters"),
            page=[Cluster(**one) for one in found],
        )
    )


def _job(jobs: Jobs, id_: str, kind: str) -> JobRecord:
    job = jobs.get(id_)
    if job.kind != kind:
        raise ProblemError(404, "unknown_job", f"job {id_[:40]!a} is not of the kind {kind}")
    return job


def _status_of(job: JobRecord) -> Status:
    if job.finished is None:
        return "running"
    return "done" if job.state == "done" else "failed"


def _why(job: JobRecord) -> str | None:
    if job.error is not None:
        return str(job.error["detail"])
    return "it was cancelled" if job.state == "cancelled" else None
