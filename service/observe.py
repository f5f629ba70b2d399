"""Every request is timed, counted and, if wanted, logged in a line."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.logs import FIELDS
from service.metrics import Metrics

_log = logging.getLogger("hummingbit.access")

UNMATCHED = "unmatched"
MAX_LOGGED_PATH = 1000


class Observe:
    """Tells `metrics`, and the log if `access_log`, of every request once it is answered."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, access_log: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and look at the clock before and after."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def send_seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_seen)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.observe_request(scope["method"], route_of(scope), status, seconds)
            if self._access_log and _log.isEnabledFor(logging.INFO):
                _log_access(scope, status, seconds)


def route_of(scope: Scope) -> str:
    """Return the template of the route that a request found; there are only so many."""
    path: str = getattr(scope.get("route"), "path", UNMATCHED)
    return path


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    client = scope.get("client")
    # As it was sent, percent-encoded: no line of a log ends inside it.
    path = scope["raw_path"].decode("latin-1")[:MAX_LOGGED_PATH]
    fields = {
        "method": scope["method"],
        "path": path,
        "route": route_of(scope),
        "status": status,
        "duration_ms": round(seconds * 1000, 3),
        "client": client[0] if client else None,
        "role": scope["state"]["role"].label if "role" in scope["state"] else None,
    }
    _log.info("%s %s %d", scope["method"], path, status, extra={FIELDS: fields})
