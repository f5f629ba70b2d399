"""The role of the request's key, so that a client can offer only what the key allows."""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module

from fastapi import APIRouter, Request, Response

from service.http.roles import READ, Role
from service.http.routing import JSONRoute
from service.routes.dependencies import Limits, render
from service.schemas.system.access import Access

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

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/access", response_model=Access, openapi_extra=READ, summary="What the key may do")
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
        )
    )


@cache
def _import_clustering_soon() -> None:
    """Import :data:`CLUSTERING` in the background, once in a process."""
    importing = threading.Timer(IMPORT_DELAY, import_module, [CLUSTERING])
    importing.daemon = True
    importing.start()
