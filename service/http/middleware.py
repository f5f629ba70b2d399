"""What happens to every request before it reaches a route, as plain ASGI.

From the outside in: the request gets a name, is counted and timed, gets a deadline, must show a
key, must not carry too much, and waits for its turn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.problems import ProblemError
from service.logs import request_name

REQUEST_ID_HEADER = "x-request-id"

# A body that is too large is read on and thrown away, within bounds, before the answer is sent:
# a client that is still sending when the connection closes would never see the answer.
DISCARDED_BYTES = 64 << 20
DISCARDING_SECONDS = 10.0

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """Names every request: with its header ``X-Request-ID`` if that will do, or at random.

    The name is in ``scope["state"]["request_id"]``, in the log and in the header of the answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name a request and pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        request_id = given if _REQUEST_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        scope.setdefault("state", {})["request_id"] = request_id
        request_name.set(request_id)

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        await self._app(scope, receive, send_named)


class BodyLimit:
    """Refuses bodies of more than ``limit_of(path)`` bytes, of which it never holds more."""

    def __init__(self, app: ASGIApp, limit_of: Callable[[str], int]) -> None:
        self._app = app
        self._limit_of = limit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with a body that ends in an error at the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit_of(scope["path"])
        headers = Headers(scope=scope)
        declared = int(headers.get("content-length", "0"))
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            if declared > limit and "expect" in headers:
                raise _too_large(limit)  # the client waits for leave to send
            message = await receive()
            received += len(message.get("body", b""))
            if declared > limit or received > limit:
                if message.get("more_body", False):
                    await discard_body(receive, DISCARDED_BYTES, DISCARDING_SECONDS)
                raise _too_large(limit)
            return message

        await self._app(scope, receive_limited, send)


async def discard_body(receive: Receive, most: int, seconds: float) -> bool:
    """Read and throw away the rest of a body, within bounds; tell whether it came to its end."""
    discarded = 0
    with anyio.move_on_after(seconds):
        while discarded < most:
            message = await receive()
            discarded += len(message.get("body", b""))
            if not message.get("more_body", False):
                return True
    return False


def _too_large(limit: int) -> ProblemError:
    return ProblemError(413, "body_too_large", f"the body has more than {limit:,} bytes, the limit")
