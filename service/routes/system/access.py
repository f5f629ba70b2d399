"""The role of the request's key, so that a client can offer only what the key allows."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.http.roles import READ
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

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/access", response_model=Access, openapi_extra=READ, summary="What the key may do")
async def get_access(request: Request, limits: Limits) -> Response:
    """Return the role of the request's key, whether the service is read-only, and its limits."""
    return render(
        Access(
            role=request.scope["state"]["role"].label,
            read_only=limits.read_only,
            version=request.app.version,
            limits={name: getattr(limits, name) for name in LIMITS},
        )
    )
