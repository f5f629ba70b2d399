"""What happens to every request before it reaches a route, as plain ASGI.

A request gets an id and a deadline, and its body a limit. Once it is answered, it is counted, timed
and logged.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hummingbit.foundation.errors import HummingbitError
from hummingbit.service.http.admission import CODING, check_not_coded, refuse_body, refuse_late
from hummingbit.service.http.monitoring import UNMATCHED, Metrics, log_access
from hummingbit.service.http.protocol import Arrival, answer_now_of
from hummingbit.service.logs import request_id
from hummingbit.service.settings import Settings

UPLOAD_PATH = "/v1/snapshots:upload"
BULK_PATHS = ("/documents", "/documents:bulk", "/evaluate", "/labels/import")

_log = logging.getLogger("hummingbit.access")
_JSON_RESPONSE = (
    b"content-length: %d\r\ncontent-type: application/json\r\nx-request-id: %b\r\n\r\n%b"
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Service(FastAPI):
    """An application whose requests pass through a gateway before they reach its routes."""

    gateway: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the gateway."""
        if scope["type"] == "http":
            await self.gateway(scope, receive, send)
        else:
            await super().__call__(scope, receive, partial(_send_sentence, send))

    def answer_now(self, arrived: Sequence[Arrival | None]) -> list[bytes | None]:
        """Have the gateway answer requests at once, if it can."""
        answer_now = getattr(self.gateway, "answer_now", None)
        return [None] * len(arrived) if answer_now is None else answer_now(arrived)

    async def behind_gateway(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that came through the gateway."""
        await super().__call__(scope, receive, send)


async def _send_sentence(send: Send, message: Message) -> None:
    """Send a message; a start that failed says why in a sentence, with a traceback if a defect."""
    error = sys.exc_info()[1]
    if message["type"] == "lifespan.startup.failed" and isinstance(error, HummingbitError):
        message = {**message, "message": str(error)}
    await send(message)


class Gateway:
    """Identifies, times and limits every request.

    The id is the header ``X-Request-ID`` if that is valid, else random. It is in
    ``scope["state"]["request_id"]``, in the log and in a header of the response. The request's
    headers are in ``scope["state"]["headers"]``; see :data:`Headers`.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._answer_now = answer_now_of(app)
        self._requests = metrics.requests
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer it at its deadline if nothing else has."""
        start = time.perf_counter()
        id_ = _identify(scope)
        path: str = scope["path"]
        context = RequestContext(scope, receive, send, id_, self._limit(path))
        seconds = self._settings.request_timeout
        if seconds:
            context.set_timer(seconds, per_chunk=path == UPLOAD_PATH)
        try:
            await self._app(scope, context.receive, context.send)
        except Exception:
            if context.late_response is None:
                raise
        finally:
            if context.timer is not None:
                context.timer.cancel()
            if context.late_response is not None:
                with suppress(asyncio.CancelledError):
                    await context.late_response
            self._record(scope, context.status, start)

    def answer_now(self, arrived: Sequence[Arrival | None]) -> list[bytes | None]:
        """Answer searches at once, or return None for some; see ``protocol``."""
        responses: list[bytes | None] = [None] * len(arrived)
        if self._answer_now is None:
            return responses
        start = time.perf_counter()
        answers = self._answer_now([request and self._passed_on(*request) for request in arrived])
        for position, (request, answer) in enumerate(zip(arrived, answers, strict=True)):
            if request is not None and answer is not None:
                scope, _ = request
                id_ = scope["state"]["request_id"]
                request_id.set(id_)
                self._record(scope, 200, start)
                responses[position] = _JSON_RESPONSE % (len(answer), id_.encode(), answer)
        return responses

    def _passed_on(self, scope: Scope, body: bytes) -> Arrival | None:
        """Identify a request and return it, or None if its body must be refused."""
        _identify(scope)
        fits = len(body) <= self._settings.max_body_bytes
        return (scope, body) if fits and CODING not in scope["state"]["headers"] else None

    def _record(self, scope: Scope, status: int, start: float) -> None:
        """Count, time and log a request that is answered."""
        elapsed = time.perf_counter() - start
        route = getattr(scope.get("route"), "path", UNMATCHED)
        self._requests[scope["method"], route, status].observe(elapsed)
        if self._settings.access_log and _log.isEnabledFor(logging.INFO):
            log_access(scope, status, elapsed)

    def _limit(self, path: str) -> int:
        """Return the most bytes that a body sent to `path` may have."""
        if path.endswith(BULK_PATHS):
            return self._settings.max_bulk_body_bytes
        is_upload = path == UPLOAD_PATH
        return self._settings.max_snapshot_bytes if is_upload else self._settings.max_body_bytes


def _identify(scope: Scope) -> bytes:
    """Set the headers and the id of a request in the state of its scope; return the id."""
    # Of a header that is sent twice, the first counts.
    headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
    id_ = headers.get(b"x-request-id", b"")
    if not _REQUEST_ID.fullmatch(id_):
        id_ = b"%016x" % random.getrandbits(64)
    state = scope.setdefault("state", {})
    state["headers"], state["request_id"] = headers, id_.decode()
    request_id.set(state["request_id"])
    return id_


class RequestContext:
    """One request and its response.

    At the deadline it responds in place of the application. Work in slices ends after its current
    slice (:mod:`hummingbit.foundation.slices`). Other work continues and keeps its turn, because a
    thread cannot be stopped; its response is discarded.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, id_: bytes, limit: int) -> None:
        """Begin. `id_` is the request's id, and `limit` the most bytes of its body."""
        self.status = 500
        self.timer: asyncio.TimerHandle | None = None
        self.late_response: asyncio.Task[None] | None = None
        """The response that is sent in place of the application's after the deadline."""
        self._scope, self._receive, self._send = scope, receive, send
        self._id = id_
        self._limit = limit
        self._received = 0
        self._body_is_complete = False
        self._started = False
        self._seconds = 0.0
        self._per_chunk = False

    def set_timer(self, seconds: float, *, per_chunk: bool) -> None:
        """Respond after so many seconds, from the start or, if `per_chunk`, from the last chunk.

        A large upload may take longer in all.
        """
        self._seconds, self._per_chunk = seconds, per_chunk
        self.timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    async def receive(self) -> Message:
        """Receive a chunk of the body.

        Raises:
            ProblemError: 413 if the body is larger than the limit, 415 if it is compressed.
        """
        headers, limit = self._scope["state"]["headers"], self._limit
        declared = int(headers.get(b"content-length", b"0"))
        if declared > limit and b"expect" in headers:
            # The client waits for 100 Continue, so there is nothing to discard.
            await refuse_body(limit, self._receive, more=False)
        message = await self._receive_chunk()
        more = message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if declared > limit or self._received > limit:
            await refuse_body(limit, self._receive_chunk, more=more)
        if CODING in headers and message.get("body"):
            check_not_coded(headers)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the application's response, or discard it after the deadline."""
        if self.late_response is None:
            self._started = True
            await self._send(self._with_id(message))

    async def _receive_chunk(self) -> Message:
        message = await self._receive()
        is_receiving = not self._body_is_complete and self.late_response is None
        if self._per_chunk and is_receiving and self.timer is not None:
            self.timer.cancel()
            self.set_timer(self._seconds, per_chunk=True)
        self._body_is_complete = not message.get("more_body", False)
        return message

    async def _send_late(self, message: Message) -> None:
        await self._send(self._with_id(message))

    def _with_id(self, message: Message) -> Message:
        if message["type"] != "http.response.start":
            return message
        self.status = message["status"]
        return {**message, "headers": [*message.get("headers", ()), (b"x-request-id", self._id)]}

    def _expire(self) -> None:
        """Begin to respond, unless the application has begun."""
        if not self._started and self.late_response is None:
            self._scope["state"]["expired"] = True
            self.late_response = asyncio.get_running_loop().create_task(
                refuse_late(
                    self._scope,
                    self._receive,
                    self._send_late,
                    self._seconds,
                    body_is_complete=self._body_is_complete,
                )
            )
