"""What a reader answers itself, and what it passes on to the writer over a Unix socket.

A reader answers searches and reads of documents from its own generation. The writer answers all
else, and checks keys, roles and limits as if the client had connected to it. Before a reader relays
the response to a write, it follows the writer, so a client sees its own writes on the same
connection. With the header ``Min-Generation`` it sees at least that generation on any connection.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.http.admission import min_generation
from hummingbit.service.http.monitoring import BY_WRITER
from hummingbit.service.http.problems import ProblemError, problem_response
from hummingbit.service.http.request_ids import request_id

LOCAL = re.compile(
    r"POST /v1/collections/(?P<searched>[^/]+)"
    r"/(?:search|search/batch|encode|documents:(?:get|scroll|count))"
    r"|(?:GET|HEAD) /v1/collections/(?P<read>[^/]+)(?:/codes|/documents/[\s\S]+)?"
    r"|POST /v1/(?:encoders/[^/]+/encode|embeddings)"
    r"|(?:GET|HEAD) /(?:|livez|readyz|metrics|openapi\.json|(?:console|docs)(?:/[\s\S]*)?)"
)
# Headers of a connection, not of a request or a response; others take the place of the rest.
DROPPED = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"}
    | {b"proxy-connection", b"expect", b"date", b"x-request-id", b"x-forwarded-for"}
)
READING = frozenset({"GET", "HEAD", "OPTIONS"})
SECONDS_TO_FOLLOW = 1.0
SECONDS_BETWEEN_CHECKS = 0.01
IDLE_CONNECTIONS = 512


class Forwarding:
    """ASGI: answers by a reader's own application where that can, and by the writer elsewhere."""

    def __init__(self, app: ASGIApp, folder: DataFolder, writer: Path, seconds: float) -> None:
        """Pass requests on to the Unix socket `writer`, and wait so long for it, 0 for ever."""
        self._app = app
        self._folder = folder
        # No limit: a client that sends or reads slowly holds a connection, and must not keep others
        # from one. Nor does it need certificates, of which each reader would hold megabytes.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS)
        no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        transport = httpx.AsyncHTTPTransport(no_certificates, uds=str(writer), limits=limits)
        # A request has been answered by then, and nobody waits.
        timeout = httpx.Timeout(None, read=2 * seconds or None)
        self._writer = httpx.AsyncClient(transport=transport, timeout=timeout)
        self._following = asyncio.Lock()
        self._next_follow: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        local = scope["type"] != "http" or LOCAL.fullmatch(f"{scope['method']} {scope['path']}")
        name = local and local is not True and (local["searched"] or local["read"])
        if local and (not name or await self._has_generation(scope, name)):
            await self._app(scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _has_generation(self, scope: Scope, name: str) -> bool:
        """Tell whether the collection exists here, at the generation that the request requires.

        An alias that moved to a collection which is not open here yet is left to the writer.
        """
        required = min_generation(scope["state"]["headers"]) or 0
        deadline = time.monotonic() + SECONDS_TO_FOLLOW
        while True:
            with suppress(HummingbitError):
                is_followed = not required or self._folder.collection(name).generation >= required
                if is_followed and name not in self._folder.moved_aliases:
                    self._folder.collection(name)
                    return True
            if not required or time.monotonic() > deadline:
                return False
            await self._follow()
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)

    async def _follow(self) -> None:
        """Follow the writer up to now at least; all that come while a follow runs share the next.

        So one thread is enough for all that wait for a generation.
        """
        if self._next_follow is None:
            self._next_follow = asyncio.create_task(self._follow_once())
        await asyncio.shield(self._next_follow)

    async def _follow_once(self) -> None:
        async with self._following:
            self._next_follow = None
            with suppress(HummingbitError):  # the background follower logs it
                await run_in_threadpool(self._folder.follow, wait=False)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._writer.send(_request(scope, receive), stream=True)
        except ProblemError as error:  # of the body
            await problem_response(Request(scope), error)(scope, receive, send)
            return
        except httpx.TransportError:
            message = "the writer process is being replaced; a write may have completed"
            problem = ProblemError(503, "writer_unavailable", message, headers={"Retry-After": "1"})
            await problem_response(Request(scope), problem)(scope, receive, send)
            return
        scope["state"][BY_WRITER] = True
        try:
            if scope["method"] not in READING and response.is_success:
                await self._follow()
            headers = [(name.lower(), value) for name, value in response.headers.raw]
            kept = [header for header in headers if header[0] not in DROPPED]
            if (b"connection", b"close") in headers:  # the rest of the request's body is not read
                kept.append((b"connection", b"close"))
            status = response.status_code
            await send({"type": "http.response.start", "status": status, "headers": kept})
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()


def _request(scope: Scope, receive: Receive) -> httpx.Request:
    """Return a request as the writer gets it."""
    target = quote(scope["raw_path"], safe="!$%&'()*+,/:;=@~[]")
    query = quote(scope["query_string"], safe="!$%&'()*+,/:;=?@~[]")
    headers = [header for header in scope["headers"] if header[0] not in DROPPED]
    headers.append((b"x-request-id", request_id.get().encode()))
    if scope.get("client"):
        headers.append((b"x-forwarded-for", str(scope["client"][0]).encode()))
    framing = {b"content-length", b"transfer-encoding"}
    has_body = scope["method"] not in READING and framing & {name for name, _ in headers}
    if not has_body:  # that of a request to read is of no use
        headers = [header for header in headers if header[0] not in framing]
    url = f"http://writer{target}" + (f"?{query}" if query else "")
    content = _body(receive) if has_body else None
    return httpx.Request(scope["method"], url, headers=headers, content=content)


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise httpx.WriteError("the client disconnected")
        yield message["body"]
        more = message.get("more_body", False)
