"""The route class of this service: it checks the role, reads the body, and waits for a turn."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from hummingbit.service.http.admission import UNQUEUED_PATHS, Turns
from hummingbit.service.http.bodies import JSONRequest, is_json
from hummingbit.service.http.keys import FILTER_FIELD, Role, required_role
from hummingbit.service.http.problems import ProblemError, unsupported_media_type

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _AnyText(PathConvertor):
    """The rest of a path, line breaks included, at which Starlette's own convertor stops."""

    regex = r"[\s\S]*"


register_url_convertor("any_text", _AnyText())


class JSONRoute(APIRoute):
    """A route that requires a role and passes its function a :class:`JSONRequest`.

    It checks the role before it reads the body, and reads the body before the request takes a turn,
    so a client that sends slowly holds up nobody. A route with a body of another kind, such as JSON
    lines, streams it, and such routes have turns of their own.
    """

    def get_route_handler(self) -> Handler:
        """Return the function that answers requests."""
        handler = super().get_route_handler()
        required = required_role(self.openapi_extra)
        is_filtered = FILTER_FIELD in (self.openapi_extra or {})
        has_effect = bool((self.methods or set()) - {"GET", "HEAD"})
        model: type[BaseModel] | None = None
        if self.body_field is not None:
            model = cast(type[BaseModel], self.body_field.field_info.annotation)
        streams = "requestBody" in (self.openapi_extra or {})

        async def handle(request: Request) -> Response:
            check_role(request, required)
            if not is_filtered and request.scope["state"]["filter"] is not None:
                raise beyond_filter(self.summary or self.path)
            state = request.app.state
            if has_effect and required > Role.READ and state.settings.read_only:
                message = "this service is read-only; send the request to the service that writes"
                raise ProblemError(403, "read_only", message)
            if has_effect and not streams and model is None:
                _check_empty_or_json(request)
            json_request = JSONRequest(request.scope, request.receive, model)
            turns: Turns = state.streaming_turns if streams else state.turns
            try:
                size = 0 if model is None else len(await json_request.body())
                if self.path in UNQUEUED_PATHS:
                    return await handler(json_request)
                turn = await turns.take(size)
                try:
                    request.scope["state"]["give_back_turn"] = turn.pass_on
                    if request.scope["state"].get("expired"):
                        return Response(status_code=503)  # the gateway has responded
                    return await handler(json_request)
                finally:
                    turn.give_back()
            except ClientDisconnect:
                return Response(status_code=400)  # nobody receives it
            finally:
                state.held_bytes.remove(json_request.held_bytes)

        return handle


class HeadAsGet:
    """ASGI: answers HEAD wherever GET is answered. The server sends no body then."""

    def __init__(self, app: ASGIApp) -> None:
        """Answer by `app`, whose routes know only GET."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; HEAD as GET, with ``is_head`` in its state."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        scope["state"]["is_head"] = True
        passed = {**scope, "method": "GET"}
        try:
            await self._app(passed, receive, send)
        finally:
            scope["route"] = passed.get("route")  # for metrics and logs


def check_role(request: Request, required: Role) -> None:
    """Raise a ProblemError, 403, unless the request's key has the role `required` or a higher."""
    role: Role = request.scope["state"]["role"]
    if role < required:
        message = f"the key's role is {role.label}; this request requires {required.label}"
        challenge = 'Bearer realm="hummingbit", error="insufficient_scope"'
        headers = {"WWW-Authenticate": f'{challenge}, scope="{required.label}"'}
        raise ProblemError(403, "forbidden", message, headers=headers)


def beyond_filter(what: str) -> ProblemError:
    """Return the problem, 403, of a request that cannot be limited to the filter of its key."""
    message = f"the key has a filter, which cannot be applied to this request: {what!r}"
    return ProblemError(403, "beyond_filter", message)


def _check_empty_or_json(request: Request) -> None:
    """Raise a ProblemError, 415, for another media type than JSON on a route without a body."""
    media_type = request.headers.get("content-type", "")
    if media_type and not is_json(media_type):
        remedy = "this request takes no body; omit the header, or send application/json"
        raise unsupported_media_type(media_type, remedy)
