"""The id of a request, which its response and every line of the log about it have."""

from __future__ import annotations

import random
import re
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
_PATTERN = re.compile(rb"[A-Za-z0-9._-]{1,64}")

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request under way; empty outside of one."""


class RequestIds:
    """ASGI: gives each request an id, that of its ``X-Request-ID`` if this is valid."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw = next((value for name, value in scope["headers"] if name == HEADER), b"")
        if _PATTERN.fullmatch(raw) is None:
            raw = b"%016x" % random.getrandbits(64)
        token = request_id.set(raw.decode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER, raw)]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(token)
