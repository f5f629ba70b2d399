"""Who comes in, how many at a time and for how long, as plain ASGI.

Nothing here reads a body: a request without a key, or one too many, costs next to nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import AsyncIterator, Callable, Container, Mapping

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.keyring import Keyring
from service.http.middleware import discard_body
from service.http.monitoring import Metrics
from service.http.problems import ProblemError, problem_response
from service.http.roles import Role

# What must answer whoever asks, and what must answer however much there is to do.
WITHOUT_KEY = {"/livez"}
# A browser asks for the console's page before anybody could give it a key. Its files are the same
# for everybody and tell nothing.
PAGE_WITHOUT_KEY = "/console"
WITHOUT_WAITING = {"/livez", "/readyz", "/metrics"}

CHALLENGE = 'Bearer realm="hummingbit", Basic realm="hummingbit", charset="UTF-8"'
# A body this small is read and thrown away, so that the connection can be used again.
UNREAD_BYTES = 64 << 10
UNREAD_SECONDS = 1.0
LARGE_BODY = 1 << 20


class Authenticate:
    """Lets nobody in without a key, where there are keys; says in the scope who came.

    ``scope["state"]["role"]`` is the role of the key; the route looks whether it suffices.
    """

    def __init__(self, app: ASGIApp, keyring: Keyring) -> None:
        self._app = app
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401 without reading more than 64 KiB of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        key = given_key(headers)
        role = self._keyring.role_of(key)
        scope.setdefault("state", {})["role"] = role
        if role is not Role.NOBODY or _needs_no_key(scope["path"]):
            await self._app(scope, receive, send)
            return
        await refuse(scope, receive, send, _unauthorized(key))


def _needs_no_key(path: str) -> bool:
    return (
        path in WITHOUT_KEY or path == PAGE_WITHOUT_KEY or path.startswith(f"{PAGE_WITHOUT_KEY}/")
    )


def given_key(headers: Headers) -> str | None:
    """Return the key of a request: a bearer's, a password of any user, or ``X-API-Key``."""
    scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(credentials.strip(), validate=True).decode()
        except (binascii.Error, ValueError):
            return ""
        return decoded.partition(":")[2]
    return headers.get("x-api-key")


def _unauthorized(key: str | None) -> ProblemError:
    message = "the key is unknown or was revoked"
    if key is None:
        message = "a key is required: send Authorization: Bearer KEY, or X-API-Key: KEY"
    return ProblemError(401, "unauthorized", message, headers={"WWW-Authenticate": CHALLENGE})


async def refuse(scope: Scope, receive: Receive, send: Send, problem: ProblemError) -> None:
    """Answer with `problem`, without reading more than 64 KiB of the body."""
    if not await _is_read(Headers(scope=scope), receive):
        # What is left of the body is never read: the connection ends with the answer.
        problem.headers = {**(problem.headers or {}), "Connection": "close"}
    await problem_response(Request(scope), problem)(scope, receive, send)


async def _is_read(headers: Mapping[str, str], receive: Receive) -> bool:
    """Tell whether there is no body, or a small one, which is then read."""
    if "transfer-encoding" in headers or "expect" in headers:
        return False
    declared = int(headers.get("content-length", "0"))
    if declared == 0:
        return True
    return declared <= UNREAD_BYTES and await discard_body(receive, declared, UNREAD_SECONDS)


class Turns:
    """Lets so many requests be worked on at a time and so many wait; the next is answered 429.

    Of those with a large body, which takes a multiple of its size in memory, fewer are worked on.
    """

    def __init__(self, running: int, waiting: int, large: int, metrics: Metrics) -> None:
        self._turns = asyncio.Semaphore(running)
        self._large = asyncio.Semaphore(large)
        self._most = waiting
        self._metrics = metrics

    @contextlib.asynccontextmanager
    async def turn(self, size: int = 0) -> AsyncIterator[Callable[[], None]]:
        """Wait for a turn and hold it; `size` is that of the request's body.

        What is lent gives the turn back early: an expensive request waits elsewhere, and holds up
        no cheap one meanwhile.

        Raises:
            ProblemError: 429 if too many wait already.
        """
        metrics = self._metrics
        is_large = size > LARGE_BODY
        must_wait = self._turns.locked() or (is_large and self._large.locked())
        if must_wait and metrics.waiting >= self._most:
            metrics.refused.inc()
            message = f"{metrics.waiting} requests are already waiting; try again later"
            raise ProblemError(429, "too_many_requests", message)
        metrics.waiting += 1
        held = contextlib.AsyncExitStack()
        try:
            if is_large:
                await held.enter_async_context(self._large)
            await self._turns.acquire()
        except BaseException:
            await held.aclose()
            raise
        finally:
            metrics.waiting -= 1
        turn = _Turn(self._turns)
        async with held:
            try:
                yield turn.give_back
            finally:
                turn.give_back()


class _Turn:
    """A turn that was taken; it can be given back once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns

    def give_back(self) -> None:
        if self._turns is not None:
            self._turns.release()
            self._turns = None


class Deadline:
    """Answers for a request that takes too long: 408 if its body is not in yet, or else 503.

    Work in slices ends with the slice that it is at (:mod:`index.slices`). Other work goes on and
    keeps its turn, for a thread cannot be stopped; what it would answer is thrown away. Bodies for
    the paths `by_part` are as long as they are, so there every part of them has its own time.
    """

    def __init__(self, app: ASGIApp, seconds: float, by_part: Container[str] = ()) -> None:
        self._app = app
        self._seconds = seconds
        self._by_part = by_part

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer in its place at the deadline."""
        if scope["type"] != "http" or not self._seconds:
            await self._app(scope, receive, send)
            return
        by_part = scope["path"] in self._by_part
        request = _Timed(scope, receive, send, self._seconds, by_part=by_part)
        try:
            await self._app(scope, request.receive, request.send)
        except Exception:
            if not request.expired:
                raise
        finally:
            await request.finish()


class _Timed:
    """One request with a deadline."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, seconds: float, *, by_part: bool
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._seconds = seconds
        self._by_part = by_part
        self._body_is_in = False
        self._started = False
        self._answer: asyncio.Task[None] | None = None
        self._timer = self._new_timer()

    @property
    def expired(self) -> bool:
        return self._answer is not None

    async def receive(self) -> Message:
        message = await self._receive()
        if self._by_part and not self._body_is_in and not self.expired:
            self._timer.cancel()
            self._timer = self._new_timer()
        self._body_is_in = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.expired:
            return
        self._started = True
        await self._send(message)

    def expire(self) -> None:
        """Begin to answer, unless the application has."""
        if not self._started and not self.expired:
            self._scope["state"]["expired"] = True
            self._answer = asyncio.get_running_loop().create_task(self._answer_late())

    async def finish(self) -> None:
        """Wait until what was begun here is done."""
        self._timer.cancel()
        if self._answer is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._answer

    def _new_timer(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self.expire)

    async def _answer_late(self) -> None:
        limit = f"within {self._seconds:g} s"
        if self._body_is_in or self._has_no_body():
            message = f"there was no response {limit}; a write may still complete"
            problem = ProblemError(503, "timed_out", message)
        else:
            problem = ProblemError(408, "body_too_slow", f"the body was not sent {limit}")
        problem.headers = {"Connection": "close", **(problem.headers or {})}
        response = problem_response(Request(self._scope), problem)
        await response(self._scope, self._receive, self._send)

    def _has_no_body(self) -> bool:
        headers = Headers(scope=self._scope)
        return "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"
