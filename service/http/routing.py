"""A route as this service has them: a role, a body that is in, a turn, and then the function."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from service.http.admission import WITHOUT_WAITING, Turns
from service.http.bodies.body import JSONRequest, is_json
from service.http.problems import ProblemError, unsupported_media_type
from service.http.roles import Role, needed_role

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class JSONRoute(APIRoute):
    """A route for those of a role, whose body, where it takes one, is a :class:`JSONRequest`'s.

    The role is looked at before a body is read, and the body is read before the request takes a
    turn: a client that sends slowly holds up nobody. A route that takes a body of its own, such as
    JSON lines, works on it as it comes, and has turns apart from the others.
    """

    def get_route_handler(self) -> Handler:
        """Return what answers requests."""
        handler = self.handler()
        needed = needed_role(self.openapi_extra)
        changes = bool((self.methods or set()) - {"GET", "HEAD"})
        model: type[BaseModel] | None = None
        if self.body_field is not None:
            model = cast(type[BaseModel], self.body_field.field_info.annotation)
        streams = "requestBody" in (self.openapi_extra or {})

        async def handle(request: Request) -> Response:
            check_role(request, needed)
            state = request.app.state
            if changes and needed > Role.READ and state.settings.read_only:
                message = "this service is read-only; send the request to the one that writes"
                raise ProblemError(403, "read_only", message)
            if changes and not streams and model is None:
                _check_no_other_type(request)
            json_request = JSONRequest(request.scope, request.receive, model)
            turns: Turns = state.streaming_turns if streams else state.turns
            try:
                size = 0 if model is None else len(await json_request.body())
                if self.path in WITHOUT_WAITING:
                    return await handler(json_request)
                turn = await turns.take(size)
                try:
                    request.scope["state"]["give_back_turn"] = turn.pass_on
                    if request.scope["state"].get("expired"):
                        return Response(status_code=503)  # somebody else has answered
                    return await handler(json_request)
                finally:
                    turn.give_back()
            except ClientDisconnect:
                return Response(status_code=400)  # nobody hears it
            finally:
                state.held_bytes.remove(json_request.held)

        return handle

    def handler(self) -> Handler:
        """Return what answers a request when it has its turn: FastAPI's handler."""
        return super().get_route_handler()


def check_role(request: Request, needed: Role) -> None:
    """Raise a ProblemError, 403, unless the request's key is of the role `needed` or a higher."""
    role: Role = request.scope["state"]["role"]
    if role < needed:
        message = f"the key's role is {role.label}; this request requires {needed.label}"
        challenge = 'Bearer realm="hummingbit", error="insufficient_scope"'
        headers = {"WWW-Authenticate": f'{challenge}, scope="{needed.label}"'}
        raise ProblemError(403, "forbidden", message, headers=headers)


def _check_no_other_type(request: Request) -> None:
    """Raise a ProblemError, 415, for a body that is not JSON where none is taken."""
    media_type = request.headers.get("content-type", "")
    if media_type and not is_json(media_type):
        raise unsupported_media_type(media_type, "this takes no body, or application/json")
