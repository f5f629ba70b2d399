"""The shortest way to a search.

FastAPI matches a route by trying all before it and solves what the function depends on anew for
every request, which takes longer than a search does. The route here stands before FastAPI's, with
the same path, role, body, limits and function; FastAPI's is the one that is described.
"""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.routing import Route

from index.backend import Folder
from service.body import JSONRequest, check_role
from service.roles import needed_role
from service.search_schemas import SearchRequest
from service.searches import post_search


def direct_search_route(described: APIRoute) -> Route:
    """Return a route that answers as `described`, that of :func:`post_search`, does."""
    needed = needed_role(described.openapi_extra)

    async def search(request: Request) -> Response:
        request.scope["route"] = described  # for the metrics and the log
        check_role(request, needed)
        body = await _body(JSONRequest(request.scope, request.receive))
        folder: Folder = request.app.state.folder
        collection = folder.collection(request.path_params["name"])
        return await post_search(request, collection, body, request.app.state.settings)

    return Route(described.path, search, methods=["POST"])


async def _body(request: JSONRequest) -> SearchRequest:
    """Return the body.

    Raises:
        RequestValidationError: as FastAPI raises it, if there is none or it is not as it must be.
        ProblemError: if it is not JSON, or does not say so.
    """
    if not await request.body():
        missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
        raise RequestValidationError([missing])
    value = await request.json()
    try:
        return SearchRequest.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in found]
        ) from None
