"""Begins requests, and answers searches at once where that takes no longer than a few short ones.

A request usually runs as a task: it may wait, and has a deadline. A task takes as long as a part of
a short search. So an application may have a method ``answer_now``, which is called first for the
searches that have arrived in the same round of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.connections import Timeouts
from service.http.response_cycle import KnownHeads, ResponseCycle

Arrival = tuple[Scope, bytes]
"""The scope of a request and its whole body."""

AnswerNow = Callable[[Sequence[Arrival | None]], list[bytes | None]]
"""Returns the response to each request, or None for one that must run as a task.

A response has status 200, and begins with its own headers. A layer of the application passes None
on in place of a request that must run as a task."""

Start = tuple[HttpToolsProtocol, ResponseCycle]
"""A request, and the connection that it arrived on."""

SEARCH_PATH = "/search"
SHORT_BODY = 64 << 10
# Many clients send the body in a packet of its own, right behind the head.
BODY_SECONDS = 0.02
FORWARDED = {b"x-forwarded-for", b"x-forwarded-proto"}


def answer_now_of(app: ASGIApp) -> AnswerNow | None:
    """Return the method ``answer_now`` of an application, or None."""
    method: AnswerNow | None = getattr(app, "answer_now", None)
    return method


def start_task(start: Start) -> None:
    """Run a request as a task."""
    http, cycle = start
    http._start_asgi_task(cycle, http.app)  # noqa: SLF001 - uvicorn has no other way


class Starts:
    """Begins requests; searches that arrive in the same round of the event loop begin together."""

    def __init__(self, app: ASGIApp) -> None:
        """Begin requests to `app`."""
        self.trusted_proxies: Sequence[str] | str = ()
        """The addresses whose headers name the client of a request, as uvicorn takes them."""
        self.known_heads = KnownHeads()
        """The heads of requests on all connections."""
        self._answer_now = answer_now_of(app)
        self._arrived: list[Start] = []
        self._bodies = Timeouts(BODY_SECONDS)
        # The search whose whole body was there with its head, and is being parsed.
        self._completing: object = None

    def begin(self, http: HttpToolsProtocol, body_size: int | None, n_waiting: int) -> None:
        """Begin the request whose head `http` has read; `body_size` is that of its body, if known.

        A search begins once its body has arrived, or after :data:`BODY_SECONDS`. `n_waiting` bytes
        have arrived behind the head.
        """
        cycle: Any = http.cycle
        is_short = body_size is not None and 0 < body_size <= SHORT_BODY
        is_search = http.scope["path"].endswith(SEARCH_PATH) and http.scope["method"] == "POST"
        if self._answer_now is None or not (is_short and is_search) or http.expect_100_continue:
            start_task((http, cycle))
        elif body_size is not None and n_waiting >= body_size:
            self._completing = cycle
        else:
            self._bodies.start(cycle, partial(start_task, (http, cycle)))

    def complete(self, http: HttpToolsProtocol, n_waiting: int) -> None:
        """Begin the request of `http`, whose body has arrived, after this round of the loop.

        If there is no other connection and nothing waits on this one, nothing else can arrive in
        this round, so it begins now. `n_waiting` bytes have arrived behind the body.
        """
        cycle: Any = http.cycle
        if cycle is self._completing or self._bodies.stop(cycle):
            self._completing = None
            self._arrived.append((http, cycle))
            if len(http.connections) == 1 and not n_waiting:
                self._begin_all()
            elif len(self._arrived) == 1:
                http.loop.call_soon(self._begin_all)

    def _begin_all(self) -> None:
        arrived, self._arrived = self._arrived, []
        ready = [start for start in arrived if start[1].is_readable()]
        for start, response in zip(ready, self._responses_to(ready), strict=True):
            if response is None:
                start_task(start)
            else:
                start[1].send_whole(response)
        for start in arrived:
            if start not in ready:
                start_task(start)

    def _responses_to(self, ready: Sequence[Start]) -> list[bytes | None]:
        """Return the responses to the searches that can be answered at once."""
        if self._answer_now is None:
            return [None] * len(ready)
        searches: list[Arrival | None] = []
        for _, cycle in ready:
            scope: Any = cycle.scope
            self._name_client(scope)
            searches.append((scope, bytes(cycle.body)))
        return self._answer_now(searches)

    def _name_client(self, scope: Scope) -> None:
        """Set the client of a request that came through a trusted proxy, as uvicorn does."""
        if FORWARDED.isdisjoint(dict(scope["headers"])):
            return
        middleware = ProxyHeadersMiddleware(_end, self.trusted_proxies)  # type: ignore[arg-type]
        with suppress(StopIteration):  # it never waits
            middleware(scope, _never, _never).send(None)  # type: ignore[arg-type]


async def _end(scope: Scope, receive: Receive, send: Send) -> None:
    """End a chain of applications."""


async def _never() -> None: ...
