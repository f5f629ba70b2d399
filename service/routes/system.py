"""Health and metrics, what a key may do, the pages of the API and of the console."""

from __future__ import annotations

import asyncio
import re
import threading
from functools import cache
from importlib import import_module
from importlib.resources import files

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import kernel
from hummingbit.index.errors import has_no_room
from hummingbit.index.rankings import RANKINGS
from hummingbit.service.console import Asset, assets, gzipped, page, release
from hummingbit.service.http.keys import EVERYBODY, FILTERED_READ, READ, Role
from hummingbit.service.http.monitoring import CONTENT_TYPE, Metrics
from hummingbit.service.http.problems import ProblemError, problem_response, without_path
from hummingbit.service.http.routing import Router
from hummingbit.service.routes.dependencies import (
    Folder,
    Limits,
    render,
)
from hummingbit.service.routes.encoders import summarize_encoders
from hummingbit.service.schemas.responses import Access, Ready, Root, Status, Unavailable

router = Router(tags=["service"])
pages_router = Router(include_in_schema=False)


# Health and metrics.


@router.get("/", response_model=Root, **READ, summary="Where to begin")
async def get_root() -> Root:
    """Return the addresses of the API description, the console and the collections."""
    return {
        "service": "hummingbit",
        "openapi": "/openapi.json",
        "docs": "/docs",
        "console": "/console/",
        "collections": "/v1/collections",
    }


@router.get("/livez", response_model=Status, **EVERYBODY, summary="Is the process alive?")
async def get_livez() -> Status:
    """Respond as long as the process runs."""
    return {"status": "alive"}


FULL_DISK = 1 << 16
"""A disk with fewer bytes left takes not even a small write."""


@router.get("/readyz", response_model=Ready, **READ, summary="Can everything be opened?")
async def get_readyz(request: Request, folder: Folder) -> Response:
    """List the collections and encoders, or return 503 with the problems of each.

    `unavailable` lists those that cannot be opened; `unwritable` lists collections that can be
    searched but not written to. All others are served. A service is not ready while it is stopping,
    its disk is full, or the server that stores its collections cannot be reached.
    """
    if request.app.state.draining:
        problem = ProblemError(503, "not_ready", "the service is about to stop")
        return problem_response(request, problem)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(request.app.state.health_thread, _readiness, request, folder)


def _readiness(request: Request, folder: DataFolder) -> Response:
    encoders, bad_encoders = summarize_encoders(folder)
    collections = {item["name"]: item["reason"] for item in unavailable_collections(folder)}
    unwritable = {
        name: [without_path(problem, folder) for problem in problems]
        for name, problems in folder.problems().items()
    }
    is_full = request.app.state.takes_writes and has_no_room(folder.path, FULL_DISK)
    unreachable = folder.engine_problem()
    are_open = not collections and not bad_encoders and not unwritable
    if are_open and not is_full and unreachable is None:
        names = [encoder["name"] for encoder in encoders]
        path = kernel.path()
        ready = Ready(
            status="ready", collections=[*folder.collections()], encoders=names, kernel=path
        )
        return render(ready)
    problems = {
        "collections": collections,
        "encoders": {item["name"]: item["reason"] for item in bad_encoders},
    }
    counts = {"opened": len(collections) + len(bad_encoders), "written to": len(unwritable)}
    clauses = [f"{count} cannot be {verb}" for verb, count in counts.items() if count]
    reasons = [f"of the collections and encoders, {' and '.join(clauses)}"] if clauses else []
    if is_full:
        reasons.append("the disk is full, so nothing can be written")
    if unreachable is not None:
        reasons.append(unreachable)
    message = "; ".join(reasons)
    problem = ProblemError(503, "not_ready", message)
    return problem_response(request, problem, {"unavailable": problems, "unwritable": unwritable})


@router.get("/metrics", **READ, response_class=PlainTextResponse, summary="Metrics")
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


# The role of the request's key, so that a client can offer only what the key allows.

LIMITS = (
    "max_limit",
    "max_hits",
    "max_documents",
    "max_searches",
    "max_inputs",
    "max_queries",
    "max_text_length",
)

# Suggestions of what to label import it, which takes a second and 140 MB.
CLUSTERING = "sklearn.cluster"
IMPORT_DELAY = 2.0
"""In seconds. By then the page that asked has loaded."""


@router.get("/v1/access", response_model=Access, **FILTERED_READ, summary="What the key may do")
async def get_access(request: Request, limits: Limits) -> Response:
    """Return the role of the request's key, whether the service is read-only, and its limits.

    The console asks for this first. A key that may label soon finds imported what suggestions need.
    """
    role = request.scope["state"]["role"]
    if role >= Role.WRITE:
        _import_clustering_soon()
    return render(
        Access(
            role=role.label,
            read_only=limits.read_only,
            version=request.app.version,
            limits={name: getattr(limits, name) for name in LIMITS},
            rankings=[*RANKINGS],
        )
    )


@cache
def _import_clustering_soon() -> None:
    """Import :data:`CLUSTERING` in the background, once in a process."""
    importing = threading.Timer(IMPORT_DELAY, import_module, [CLUSTERING])
    importing.daemon = True
    importing.start()


# The OpenAPI description, and a page that shows it without requests to any other host.
#
# The page's script is Swagger UI, from the package ``fastapi-offline``.

# The page loads nothing from other hosts, and sends nothing to them.
DOCS_POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DOCS_HEADERS = {"Content-Security-Policy": DOCS_POLICY, "X-Content-Type-Options": "nosniff"}
CACHED = {"Cache-Control": "max-age=86400", "X-Content-Type-Options": "nosniff"}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>hummingbit</title>
<link rel="icon" href="/docs/favicon.svg">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#page",
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
"""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<path d="M1 13 9 6l6-4-5 6-4 6z" fill="#127a5b"/></svg>'
)
OWN = {"start.js": (START, "text/javascript"), "favicon.svg": (ICON, "image/svg+xml")}
BUNDLED = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}


@pages_router.get("/openapi.json", **READ)
async def get_openapi(request: Request) -> Response:
    """Describe every request and response."""
    return Response(request.app.state.description(), media_type="application/json")


@pages_router.get("/docs", **READ)
async def get_docs() -> Response:
    """Show the description as a page that can send requests."""
    return Response(PAGE, media_type="text/html", headers=DOCS_HEADERS)


@pages_router.get("/docs/{file}", **READ)
def get_docs_file(file: str) -> Response:
    """Return a file of the page, from a fixed list."""
    if file in OWN:
        text, media_type = OWN[file]
        return Response(text, media_type=media_type, headers=CACHED)
    if file in BUNDLED:
        raw = files("fastapi_offline").joinpath("static", file).read_bytes()
        return Response(raw, media_type=BUNDLED[file], headers=CACHED)
    raise ProblemError(404, "not_found", f"the documentation has no file {file[:80]!r}")


# The console's page and files. They need no key, but the requests that the page sends do.

# Scripts and styles are files of this service. Trusted Types keep even our own scripts from using a
# string as markup.
CONSOLE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
CONSOLE_HEADERS = {
    "Content-Security-Policy": CONSOLE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
# A browser must check whether its copy is still current.
CHECKED = "no-cache"
# The address of a file changes with its content, so a copy stays current.
KEPT = "public, max-age=31536000, immutable"

RELEASE = re.compile(r"[0-9a-f]{16}")


@pages_router.get("/console", **EVERYBODY)
async def get_console() -> Response:
    """Redirect to the page; the addresses of its files are relative to it."""
    return Response(
        status_code=307,
        headers={"Location": "console/", "Cache-Control": CHECKED, **CONSOLE_HEADERS},
    )


@pages_router.get("/console/", **EVERYBODY)
def get_page(request: Request) -> Response:
    """Return the page."""
    return _send(request, page(), CHECKED)


@pages_router.get("/console/{folder}/{file:any_text}", **EVERYBODY)
def get_file(request: Request, folder: str, file: str) -> Response:
    """Return a file of the page, from a fixed list.

    The `folder` is :func:`release`. A page that was opened before an upgrade names an earlier one,
    and gets the files of this release.
    """
    asset = assets().get(file)
    if asset is None or not RELEASE.fullmatch(folder):
        raise ProblemError(404, "not_found", f"the console has no file {file[:80]!r}")
    return _send(request, asset, KEPT if folder == release() else CHECKED)


def _send(request: Request, asset: Asset, caching: str) -> Response:
    headers = {**CONSOLE_HEADERS, "ETag": asset.tag, "Cache-Control": caching}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    body = asset.body
    if asset.is_compressible and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = gzipped(asset), "gzip"
    return Response(body, media_type=asset.media_type, headers=headers)
