"""The console's page and files. They need no key, but the requests that the page sends do."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response

from service.console.assets import Asset, assets, gzipped, page, release
from service.http.problems import ProblemError
from service.http.roles import EVERYBODY
from service.http.routing import JSONRoute

router = APIRouter(route_class=JSONRoute, include_in_schema=False)

# Scripts and styles are files of this service. Trusted Types keep even our own scripts from using a
# string as markup.
POLICY = "; ".join(
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
HEADERS = {
    "Content-Security-Policy": POLICY,
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


@router.get("/console", openapi_extra=EVERYBODY)
async def get_console() -> Response:
    """Redirect to the page; the addresses of its files are relative to it."""
    return Response(
        status_code=307, headers={"Location": "console/", "Cache-Control": CHECKED, **HEADERS}
    )


@router.get("/console/", openapi_extra=EVERYBODY)
def get_page(request: Request) -> Response:
    """Return the page."""
    return _send(request, page(), CHECKED)


@router.get("/console/{folder}/{file:any_text}", openapi_extra=EVERYBODY)
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
    headers = {**HEADERS, "ETag": asset.tag, "Cache-Control": caching}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    body = asset.body
    if asset.is_compressible and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = gzipped(asset), "gzip"
    return Response(body, media_type=asset.media_type, headers=headers)
