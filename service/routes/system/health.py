"""Whether the process is alive, whether everything can be opened, and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from index.data_folder import DataFolder
from service.http.monitoring import CONTENT_TYPE, Metrics
from service.http.problems import ProblemError, problem_response, without_path
from service.http.roles import EVERYBODY, READ
from service.http.routing import JSONRoute
from service.routes.dependencies import Folder, render
from service.routes.encoders import summarize_encoders
from service.schemas.collections.collections import Unavailable
from service.schemas.system.health import Ready, Root, Status

router = APIRouter(route_class=JSONRoute)


@router.get("/", response_model=Root, openapi_extra=READ, summary="Where to begin")
async def get_root() -> Root:
    """Return the addresses of the API description, the console and the collections."""
    return Root(
        service="hummingbit",
        openapi="/openapi.json",
        docs="/docs",
        console="/console/",
        collections="/v1/collections",
    )


@router.get(
    "/livez", response_model=Status, openapi_extra=EVERYBODY, summary="Is the process alive?"
)
async def get_livez() -> Status:
    """Respond as long as the process runs."""
    return Status(status="alive")


@router.get(
    "/readyz", response_model=Ready, openapi_extra=READ, summary="Can everything be opened?"
)
async def get_readyz(request: Request, folder: Folder) -> Response:
    """List the collections and encoders, or return 503 with the problems of each.

    `unavailable` lists those that cannot be opened; `unwritable` lists collections that can be
    searched but not written to. All others are served. A service that is stopping is not ready.
    """
    if request.app.state.draining:
        problem = ProblemError(503, "not_ready", "the service is about to stop")
        return problem_response(request, problem)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(request.app.state.health_thread, _readiness, request, folder)


def _readiness(request: Request, folder: DataFolder) -> Response:
    encoders, bad_encoders = summarize_encoders(folder)
    collections = {one.name: one.reason for one in unavailable_collections(folder)}
    unwritable = {
        name: [without_path(problem, folder) for problem in problems]
        for name, problems in folder.problems().items()
    }
    if not collections and not bad_encoders and not unwritable:
        names = [encoder.name for encoder in encoders]
        return render(Ready(status="ready", collections=[*folder.collections()], encoders=names))
    problems = {
        "collections": collections,
        "encoders": {one.name: one.reason for one in bad_encoders},
    }
    counts = {"opened": len(collections) + len(bad_encoders), "written to": len(unwritable)}
    clauses = [f"{count} cannot be {verb}" for verb, count in counts.items() if count]
    message = f"of the collections and encoders, {' and '.join(clauses)}"
    problem = ProblemError(503, "not_ready", message)
    return problem_response(request, problem, {"unavailable": problems, "unwritable": unwritable})


@router.get("/metrics", openapi_extra=READ, response_class=PlainTextResponse, summary="Metrics")
async def get_metrics(request: Request) -> Response:
    """Return the metrics in Prometheus' text format."""
    metrics: Metrics = request.app.state.metrics
    loop = asyncio.get_running_loop()
    text = await loop.run_in_executor(request.app.state.health_thread, metrics.exposition)
    return Response(text, media_type=CONTENT_TYPE)


def unavailable_collections(folder: DataFolder) -> list[Unavailable]:
    """Return the collections that cannot be opened."""
    return [
        Unavailable(name=name, reason=without_path(reason, folder))
        for name, reason in folder.unavailable().items()
    ]
