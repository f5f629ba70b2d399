"""The route classes of this service: they check the role, read the body, and limit long work."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property
from operator import attrgetter
from typing import Any, cast

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.service.http.bodies import LARGE_BODY, JSONRequest, is_json
from hummingbit.service.http.keys import FILTER_FIELD, Role, required_role
from hummingbit.service.http.problems import (
    ProblemError,
    invalid_field,
    unsupported_media_type,
)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _AnyText(PathConvertor):
    """The rest of a path, line breaks included, at which Starlette's own convertor stops."""

    regex = r"[\s\S]*"


register_url_convertor("any_text", _AnyText())


async def expensive() -> None:
    """Mark a route, as a dependency: its requests wait for the limiter of long ones."""


class JSONRoute(APIRoute):
    """A route that requires a role and passes its function a :class:`JSONRequest`.

    It checks the role before it reads the body, and reads the body before the request waits for the
    limiter of long ones, so a client that sends slowly holds up nobody. A request is long if its
    route is marked as :func:`expensive`, or its body is large. A route with a body of another kind,
    such as JSON lines, streams it.
    """

    def get_route_handler(self) -> Handler:
        """Return the function that answers requests."""
        handler = super().get_route_handler()
        model = self.body_model()
        is_long = any(one.dependency is expensive for one in self.dependencies)

        async def handle(request: Request) -> Response:
            self.admit(request)
            json_request = JSONRequest(request.scope, request.receive, model)
            try:
                size = 0 if model is None else len(await json_request.body())
                if not is_long and size <= LARGE_BODY:
                    return await handler(json_request)
                async with request.app.state.long:
                    check_cancelled()  # it may have waited until its deadline
                    return await handler(json_request)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody receives it
            finally:
                request.app.state.held_bytes.remove(json_request.held_bytes)

        return handle

    def body_model(self) -> type[BaseModel] | None:
        """Return the model of the body, or None without a JSON body."""
        if self.body_field is None:
            return None
        return cast(type[BaseModel], self.body_field.field_info.annotation)

    @cached_property
    def required(self) -> Role:
        """The role that the route requires."""
        return required_role(self.openapi_extra)

    def admit(self, request: Request) -> None:
        """Check what is known of a request before its body is read.

        Raises:
            ProblemError: 403 if its key does not allow it or the service is read-only, 415 if it
                has a body of another media type.
        """
        extra = self.openapi_extra or {}
        check_role(request, self.required)
        if FILTER_FIELD not in extra and request.scope["state"]["filter"] is not None:
            raise beyond_filter(self.summary or self.path)
        if request.method in {"GET", "HEAD"}:
            return
        if self.required > Role.READ and request.app.state.settings.read_only:
            message = "this service is read-only; send the request to the service that writes"
            raise ProblemError(403, "read_only", message)
        if "requestBody" not in extra and self.body_field is None:
            _check_empty_or_json(request)


class PlainRoute(JSONRoute):
    """A route that FastAPI describes, and does not serve.

    Its function gets the request, the ``name`` in the path and the body, and returns JSON.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app = self._serve
        self._model = self.body_model()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = JSONRequest(scope, receive, self._model)
        self.admit(request)
        try:
            if not await request.body():
                raise invalid_field("is missing")
            content = await self.endpoint(
                request, scope["path_params"]["name"], await request.json()
            )
        except ClientDisconnect:
            return  # nobody receives a response
        finally:
            scope["app"].state.held_bytes.remove(request.held_bytes)
        length = (b"content-length", b"%d" % len(content))
        headers = [length, (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class Router(APIRouter):
    """Routes that an application takes as they are, each described under its function's name."""

    def __init__(self, *, route_class: type[JSONRoute] = JSONRoute, **options: Any) -> None:
        """Make its routes of a class; the other options are FastAPI's."""
        name = attrgetter("name")
        super().__init__(route_class=route_class, generate_unique_id_function=name, **options)


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
