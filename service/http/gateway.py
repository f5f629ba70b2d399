"""What happens to every request before it reaches a route, as plain ASGI.

The request gets a name and a deadline, and its body a limit. Once it is answered it is counted,
timed and logged.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from contextlib import suppress

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.monitoring import UNMATCHED, Metrics, log_access
from service.http.refusals import answer_late, refuse_body
from service.logs import request_name
from service.settings import Settings

UPLOAD_PATH = "/v1/snapshots:upload"
BULK_PATHS = ("/documents", "/documents:bulk", "/evaluate", "/labels/import")

_log = logging.getLogger("hummingbit.access")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Service(FastAPI):
    """An application whose requests go through a gateway, and to its routes from there."""

    gateway: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the gateway."""
        if scope["type"] == "http":
            await self.gateway(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def behind_gateway(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that came through the gateway."""
        await super().__call__(scope, receive, send)


class Gateway:
    """Names, times and bounds every request.

    Its name is the header ``X-Request-ID`` if that will do, or random; it is in
    ``scope["state"]["request_id"]``, in the log and in the header of the answer. Its headers are in
    ``scope["state"]["headers"]``; see :data:`service.http.refusals.Headers`.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._requests = metrics.requests
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and see it answered in time."""
        began = time.perf_counter()
        # Of a header that comes twice, the first counts.
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        name = headers.get(b"x-request-id", b"")
        if not _REQUEST_ID.fullmatch(name):
            name = b"%016x" % random.getrandbits(64)
        state = scope.setdefault("state", {})
        state["headers"], state["request_id"] = headers, name.decode()
        request_name.set(state["request_id"])
        path: str = scope["path"]
        exchange = Exchange(scope, receive, send, name, self._limit(path))
        seconds = self._settings.request_timeout
        if seconds:
            exchange.set_timer(seconds, by_part=path == UPLOAD_PATH)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception:
            if exchange.late is None:
                raise
        finally:
            if exchange.timer is not None:
                exchange.timer.cancel()
            if exchange.late is not None:
                with suppress(asyncio.CancelledError):
                    await exchange.late
            took = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", UNMATCHED)
            self._requests[scope["method"], route, exchange.status].observe(took)
            if self._settings.access_log and _log.isEnabledFor(logging.INFO):
                log_access(scope, exchange.status, took)

    def _limit(self, path: str) -> int:
        """Return how many bytes the body of a request may have."""
        if path.endswith(BULK_PATHS):
            return self._settings.max_bulk_body_bytes
        upload = path == UPLOAD_PATH
        return self._settings.max_snapshot_bytes if upload else self._settings.max_body_bytes


class Exchange:
    """One request and its response.

    At the deadline it answers in place of the application. Work in slices ends with the slice that
    it is at (:mod:`foundation.slices`). Other work goes on and keeps its turn, for a thread cannot
    be stopped; what it would answer is thrown away.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, name: bytes, limit: int) -> None:
        """Begin; the body must not have more than `limit` bytes, of which it never holds more."""
        self.status = 500
        self.timer: asyncio.TimerHandle | None = None
        self.late: asyncio.Task[None] | None = None
        """The answer in place of the application's, if its time is over."""
        self._scope, self._receive, self._send = scope, receive, send
        self._name = name
        self._limit = limit
        self._received = 0
        self._body_is_in = False
        self._started = False
        self._seconds = 0.0
        self._by_part = False

    def set_timer(self, seconds: float, *, by_part: bool) -> None:
        """Begin to answer after so many seconds, counted from each part of the body if `by_part`.

        Such bodies are as long as they are.
        """
        self._seconds, self._by_part = seconds, by_part
        self.timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    async def receive(self) -> Message:
        """Receive a part of the body.

        Raises:
            ProblemError: 413 if it is more than there may be.
        """
        headers, limit = self._scope["state"]["headers"], self._limit
        declared = int(headers.get(b"content-length", b"0"))
        if declared > limit and b"expect" in headers:
            await refuse_body(limit, self._receive, more=False)  # it waits for leave to send
        message = await self._receive_in_time()
        more = message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if declared > limit or self._received > limit:
            await refuse_body(limit, self._receive_in_time, more=more)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the application's response, unless its time is over."""
        if self.late is None:
            self._started = True
            await self._send_named(message)

    async def _receive_in_time(self) -> Message:
        message = await self._receive()
        if self._by_part and not self._body_is_in and self.late is None and self.timer is not None:
            self.timer.cancel()
            self.set_timer(self._seconds, by_part=True)
        self._body_is_in = not message.get("more_body", False)
        return message

    async def _send_named(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message.get("headers", ())
            message = {**message, "headers": [*headers, (b"x-request-id", self._name)]}
        await self._send(message)

    def _expire(self) -> None:
        """Begin to answer, unless the application has."""
        if not self._started and self.late is None:
            self._scope["state"]["expired"] = True
            self.late = asyncio.get_running_loop().create_task(
                answer_late(
                    self._scope,
                    self._receive,
                    self._send_named,
                    self._seconds,
                    body_is_in=self._body_is_in,
                )
            )
