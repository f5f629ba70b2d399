"""What a request may send and take: the size of its body, its time, its share of the memory.

A client that is still sending when its connection closes may never see the response. So before a
body is refused, the rest of it is read and discarded, within bounds, or the response says
``Connection: close``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import anyio
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hummingbit.foundation.cancellation import cancelled_by
from hummingbit.service.http.monitoring import Metrics
from hummingbit.service.http.problems import ProblemError, problem_response
from hummingbit.service.settings import Settings

UPLOAD_PATH = "/v1/snapshots:upload"
BULK_PATHS = (
    *("/documents", "/documents:bulk", "/documents:file", "/files:survey"),
    *("/evaluate", "/labels/import"),
)
# These respond however busy the service is.
UNQUEUED_PATHS = {"/livez", "/readyz", "/metrics"}

Headers = Mapping[bytes, bytes]
"""The headers of a request, names in lower case; of a header that is sent twice, the first."""

CODING = b"content-encoding"
DISCARDED_BYTES = 64 << 20
DISCARDING_SECONDS = 10.0
# A body this small is read and discarded, so that the connection can be used again.
SMALL_BODY_BYTES = 64 << 10
SMALL_BODY_SECONDS = 1.0
# A longer body of a response is sent in parts, each once the client has read enough before it.
SENT_AT_ONCE = 64 << 10


class Limits:
    """ASGI: refuses what exceeds a limit, and responds at the deadline if nothing else has.

    ``scope["state"]["headers"]`` becomes the request's :data:`Headers`.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._unsent = _UnsentResponses(settings.max_held_bytes)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Of a header that is sent twice, the first counts.
        scope.setdefault("state", {})["headers"] = dict(reversed(scope["headers"]))
        path = scope["path"]
        exchange = _Exchange(scope, receive, send, self._limit(path), self._unsent)
        if self._running >= self._settings.max_requests and path not in UNQUEUED_PATHS:
            self._metrics.refused.inc()
            message = f"{self._running:,} requests are already under way; try again later"
            problem = ProblemError(429, "too_many_requests", message)
            await refuse(scope, exchange.receive, exchange.send, problem)
            return
        if seconds := self._settings.request_timeout:
            exchange.set_timer(seconds, per_chunk=path == UPLOAD_PATH)
        self._running += 1
        try:
            with cancelled_by(exchange.is_late):
                await self._app(scope, exchange.receive, exchange.send)
        except Exception:
            if not exchange.is_late():
                raise
        finally:
            self._running -= 1
            await exchange.end()

    def _limit(self, path: str) -> int:
        """Return the most bytes that a body sent to `path` may have."""
        if path.endswith(BULK_PATHS):
            return self._settings.max_bulk_body_bytes
        is_upload = path == UPLOAD_PATH
        return self._settings.max_snapshot_bytes if is_upload else self._settings.max_body_bytes


class _Exchange:
    """A request and its response.

    At the deadline it responds in place of the application, whose response is then discarded. Work
    of seconds ends there (:mod:`hummingbit.foundation.cancellation`); other work continues, because
    a thread cannot be stopped.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limit: int, unsent: _UnsentResponses
    ) -> None:
        """Begin; the body may have `limit` bytes."""
        self._scope, self._receive, self._send = scope, receive, send
        self._limit, self._unsent = limit, unsent
        self._received = 0
        self._body_is_complete = self._awaits_client = False
        self._start: Message | None = None  # of the response, until its body begins
        self._has_started = self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.Task[None] | None = None
        self._seconds, self._per_chunk = 0.0, False

    def set_timer(self, seconds: float, *, per_chunk: bool) -> None:
        """Respond after so many seconds, from the start or, if `per_chunk`, from the last chunk.

        A large upload may take longer in all.
        """
        self._seconds, self._per_chunk = seconds, per_chunk
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def is_late(self) -> bool:
        """Tell whether the deadline has passed without a response of the application."""
        return self._late is not None

    async def end(self) -> None:
        """End the request; wait until a late response is sent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._late is not None:
            with suppress(asyncio.CancelledError):
                await self._late

    async def receive(self) -> Message:
        """Receive a chunk of the body.

        Raises:
            ProblemError: 413 if the body is larger than the limit, 415 if it is compressed.
        """
        headers, limit = self._scope["state"]["headers"], self._limit
        declared = int(headers.get(b"content-length", b"0"))
        if declared > limit and b"expect" in headers:
            raise _too_large(limit)  # the client waits for 100 Continue: nothing is on its way
        message = await self._receive_chunk()
        self._received += len(message.get("body", b""))
        if declared > limit or self._received > limit:
            if message.get("more_body", False):
                await discard_body(self._receive_chunk, DISCARDED_BYTES, DISCARDING_SECONDS)
            raise _too_large(limit)
        if CODING in headers and message.get("body"):
            _check_not_coded(headers)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the application's response; discard it after another response."""
        if self._is_over or self._late is not None:
            return
        if message["type"] == "http.response.start":
            self._start = message
            return
        body = message.get("body", b"")
        if len(body) <= SENT_AT_ONCE:
            await self._send_part(message)
            return
        client = self._scope.get("client")
        with self._unsent.holding(client[0] if client else "", len(body)) as problem:
            if problem is not None:
                self._is_over = True
                await self._respond(problem)
                return
            for begin in range(0, len(body), SENT_AT_ONCE):
                end = begin + SENT_AT_ONCE
                more = end < len(body) or message.get("more_body", False)
                await self._send_part({**message, "body": body[begin:end], "more_body": more})

    async def _send_part(self, message: Message) -> None:
        self._has_started = True
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)
        await self._send(message)

    async def _receive_chunk(self) -> Message:
        self._awaits_client = True
        message = await self._receive()
        self._awaits_client = False
        is_receiving = not self._body_is_complete and self._late is None
        if self._per_chunk and is_receiving and self._timer is not None:
            self._timer.cancel()
            self.set_timer(self._seconds, per_chunk=True)
        self._body_is_complete = not message.get("more_body", False)
        return message

    def _expire(self) -> None:
        """Begin to respond, unless the application has begun."""
        if not self._has_started and self._late is None:
            self._late = asyncio.get_running_loop().create_task(self._respond_late())

    async def _respond_late(self) -> None:
        """Respond with 408 if the client has not sent its body, otherwise with 503."""
        limit = f"within {self._seconds:g} s"
        self._body_is_complete |= not _has_body(self._scope["state"]["headers"])
        if self._awaits_client and not self._body_is_complete:
            problem = ProblemError(408, "body_too_slow", f"the body was not sent {limit}")
        else:
            if not self._body_is_complete:  # the application does not read on
                await discard_body(self._receive, DISCARDED_BYTES, DISCARDING_SECONDS)
            message = f"there was no response {limit}; a write may still complete"
            problem = ProblemError(503, "timed_out", message)
        problem.headers = {"Connection": "close"}
        await self._respond(problem)

    async def _respond(self, problem: ProblemError) -> None:
        """Respond in place of the application."""
        response = problem_response(Request(self._scope), problem)
        await response(self._scope, self._receive, self._send)


class _UnsentResponses:
    """Limits the bytes of long responses that clients have not read yet.

    A client that reads slowly keeps its response in memory. Beyond the limit, only clients to which
    no other long response is being sent get one, so slow ones do not keep it from the others.
    """

    def __init__(self, limit: int) -> None:
        """Let all long responses together have `limit` bytes."""
        self._limit = limit
        self._by_address: Counter[str] = Counter()

    @contextmanager
    def holding(self, address: str, size: int) -> Iterator[ProblemError | None]:
        """Count a response of `size` bytes to the client at `address` while it is being sent.

        Yields the problem, 503, to respond with instead if there are too many.
        """
        held = self._by_address
        if held[address] and held.total() + size > self._limit:
            message = "long responses to this client are still being sent; read them first"
            yield ProblemError(503, "too_many_responses", message)
            return
        held[address] += size
        try:
            yield None
        finally:
            held[address] -= size
            if not held[address]:
                del held[address]


# Refusals.


async def refuse(scope: Scope, receive: Receive, send: Send, problem: ProblemError) -> None:
    """Respond with `problem`, without reading more than 64 KiB of the body."""
    if not await _discard_small_body(scope["state"]["headers"], receive):
        # The rest of the body is never read, so the connection ends with the response.
        problem.headers = {**(problem.headers or {}), "Connection": "close"}
    await problem_response(Request(scope), problem)(scope, receive, send)


async def discard_body(receive: Receive, max_bytes: int, seconds: float) -> bool:
    """Read and discard the rest of a body, within bounds; tell whether it ended."""
    discarded = 0
    with anyio.move_on_after(seconds):
        while discarded < max_bytes:
            message = await receive()
            discarded += len(message.get("body", b""))
            if not message.get("more_body", False):
                return True
    return False


async def _discard_small_body(headers: Headers, receive: Receive) -> bool:
    """Read and discard a small body; tell whether nothing of the body is left."""
    if not _has_body(headers):
        return True
    declared = int(headers.get(b"content-length", b"0"))
    if b"transfer-encoding" in headers or b"expect" in headers or declared > SMALL_BODY_BYTES:
        return False
    with suppress(ProblemError):  # the limit of bodies at this address may be smaller
        return await discard_body(receive, declared, SMALL_BODY_SECONDS)
    return False


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _too_large(limit: int) -> ProblemError:
    message = f"the body has more than {limit:,} bytes, the limit"
    return ProblemError(413, "body_too_large", message)


def _check_not_coded(headers: Headers) -> None:
    """Raise a ProblemError, 415, if a body is compressed or coded in another way."""
    coding = headers[CODING].decode("latin-1").strip()
    if coding.lower() not in {"", "identity"}:
        message = f"Content-Encoding is {coding[:80]!r}; send the body uncompressed"
        accepted = {"Accept-Encoding": "identity"}
        raise ProblemError(415, "unsupported_media_type", message, headers=accepted)
