"""Begins requests, and answers one at once where that takes no longer than a short search.

A request usually runs as a task: it may wait, has a deadline, and can join a batch. All of this
takes longer than a short search. So an application may have a method ``answer_now``, which is
called first for a search, if no other has arrived in the same round of the event loop.
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
from service.http.response_cycle import ResponseCycle

AnswerNow = Callable[[Scope, bytes], bytes | None]
"""Returns the response to a request with that scope and body, or None if it must run as a task.

The response has status 200, and begins with its own headers."""

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
        self._answer_now = answer_now_of(app)
        self._arrived: list[Start] = []
        self._bodies = Timeouts(BODY_SECONDS)

    def begin(self, http: HttpToolsProtocol, body_size: int | None) -> None:
        """Begin the request whose head `http` has read; `body_size` is that of its body, if known.

        A search begins once its body has arrived, or after :data:`BODY_SECONDS`.
        """
        cycle: Any = http.cycle
        is_short = body_size is not None and 0 < body_size <= SHORT_BODY
        is_search = http.scope["path"].endswith(SEARCH_PATH) and http.scope["method"] == "POST"
        if self._answer_now is None or not (is_short and is_search) or http.expect_100_continue:
            start_task((http, cycle))
        else:
            self._bodies.start(cycle, partial(start_task, (http, cycle)))

    def complete(self, http: HttpToolsProtocol) -> None:
        """Begin the request of `http`, whose body has arrived, after this round of the loop."""
        cycle: Any = http.cycle
        if self._bodies.stop(cycle):
            self._arrived.append((http, cycle))
            if len(self._arrived) == 1:
                http.loop.call_soon(self._begin_all)

    def _begin_all(self) -> None:
        arrived, self._arrived = self._arrived, []
        for http, cycle in arrived:
            response = None
            if len(arrived) == 1 and self._answer_now is not None and cycle.is_readable():
                scope: Any = cycle.scope
                self._name_client(scope)
                response = self._answer_now(scope, bytes(cycle.body))
            if response is None:
                start_task((http, cycle))
            else:
                cycle.send_whole(response)

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
