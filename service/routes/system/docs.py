"""The OpenAPI description, and a page that shows it without requests to any other host.

The page's script is Swagger UI, from the package ``fastapi-offline``.
"""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Request, Response

from service.http.problems import ProblemError
from service.http.roles import READ
from service.http.routing import JSONRoute

router = APIRouter(route_class=JSONRoute, include_in_schema=False)

# The page loads nothing from other hosts, and sends nothing to them.
POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
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


@router.get("/openapi.json", openapi_extra=READ)
async def get_openapi(request: Request) -> Response:
    """Describe every request and response."""
    return Response(request.app.state.description(), media_type="application/json")


@router.get("/docs", openapi_extra=READ)
async def get_docs() -> Response:
    """Show the description as a page that can send requests."""
    return Response(PAGE, media_type="text/html", headers=HEADERS)


@router.get("/docs/{file}", openapi_extra=READ)
def get_docs_file(file: str) -> Response:
    """Return a file of the page, from a fixed list."""
    if file in OWN:
        text, media_type = OWN[file]
        return Response(text, media_type=media_type, headers=CACHED)
    if file in BUNDLED:
        raw = files("fastapi_offline").joinpath("static", file).read_bytes()
        return Response(raw, media_type=BUNDLED[file], headers=CACHED)
    raise ProblemError(404, "not_found", f"the documentation has no file {file[:80]!r}")
