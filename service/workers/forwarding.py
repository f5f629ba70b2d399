"""What a reader answers itself, and what it passes to the process that writes.

Searches and reads of documents are answered from the reader's own generation. All else is passed
on over a socket of the file system, bodies and answers in pieces, and the writer checks keys, roles
and limits as if the client had asked it. Before a reader passes on the answer of a write it follows
the writer, so a client sees its own writes on the same connection; with the header
``Min-Generation`` it sees on any connection what that generation holds.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foundation.errors import HummingbitError
from index.data_folder import DataFolder
from service.http.min_generation import least_generation
from service.http.monitoring import CONTENT_TYPE
from service.http.problems import ProblemError, problem_response
from service.workers.summed_metrics import summed

LOCAL = re.compile(
    r"POST /v1/collections/(?P<searched>[^/]+)"
    r"/(?:search|search/batch|encode|documents:(?:get|scroll|count))"
    r"|(?:GET|HEAD) /v1/collections/(?P<read>[^/]+)(?:/codes|/documents/[\s\S]+)?"
    r"|POST /v1/(?:encoders/[^/]+/encode|embeddings)"
    r"|(?:GET|HEAD) /(?:|livez|readyz|openapi\.json|(?:console|docs)(?:/[\s\S]*)?)"
)
READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Of a connection, not of a request or an answer; `date` is written again.
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
    | {b"proxy-connection", b"expect", b"date"}
)
CLIENT = b"x-hummingbit-client"
OWN_METRICS = b"x-hummingbit-own-metrics"
SECONDS_TO_FOLLOW = 1.0
SECONDS_BETWEEN_LOOKS = 0.01
IDLE_CONNECTIONS = 512
METRICS_SECONDS = 10.0


class Forwarding:
    """ASGI: a reader's own application where that can answer, and the writer elsewhere."""

    def __init__(
        self, app: FastAPI, own: ASGIApp, folder: DataFolder, writer: Path, readers: Sequence[Path]
    ) -> None:
        """Answer by `own`, the way into `app`; the sockets are those of the other processes."""
        self._app = app
        self._own = own
        self._folder = folder
        self._writer = _client_of(writer)
        self._readers = [_client_of(path) for path in readers]
        self._following = asyncio.Lock()
        self._next_follow: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        method, path = scope["method"], scope["path"]
        # Of a header that comes twice, the first counts.
        headers = dict(reversed(scope["headers"]))
        if path == "/metrics" and method == "GET":
            way = self._own if OWN_METRICS in headers else self._metrics
        else:
            found = LOCAL.fullmatch(f"{method} {path}")
            way = self._own
            name = found and (found["searched"] or found["read"])
            if found is None or (name and not await self._reflects(name, headers)):
                way = self._forward
        await way(scope, receive, send)

    async def _reflects(self, name: str, headers: dict[bytes, bytes]) -> bool:
        """Tell whether the collection is there, as of the generation that is asked for or later."""
        least = least_generation(headers) or 0  # where it is none, who answers says so
        deadline = time.monotonic() + SECONDS_TO_FOLLOW
        while True:
            with suppress(HummingbitError):
                collection = self._folder.collection(name)
                if not least or collection.generation >= least:
                    return True
            if not least or time.monotonic() > deadline:
                return False
            await self._follow()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    async def _follow(self) -> None:
        """Follow the writer up to now at least; all who ask while one does share the next.

        However many wait for a generation, one thread is enough: others are left to searches.
        """
        if self._next_follow is None:
            self._next_follow = asyncio.create_task(self._follow_once())
        await asyncio.shield(self._next_follow)

    async def _follow_once(self) -> None:
        async with self._following:
            self._next_follow = None
            with suppress(HummingbitError):  # the thread that follows says so
                await run_in_threadpool(self._folder.follow, wait=False)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on for as long as its client is there, however long the writer takes."""
        body = _Body(receive)
        answering = asyncio.create_task(self._answer(scope, body, send))
        leaving = asyncio.create_task(body.until_client_leaves())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            answering.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
        if not answering.cancelled():
            answering.result()

    async def _answer(self, scope: Scope, body: _Body, send: Send) -> None:
        request = _request(scope, body)
        try:
            response = await self._writer.send(request, stream=True)
        except httpx.LocalProtocolError as error:
            problem = ProblemError(400, "invalid_http", f"Invalid HTTP request received: {error}")
            await _refuse(scope, send, problem)
            return
        except httpx.TransportError:
            if not body.is_cut:
                await _unavailable(scope, send)
            return
        try:
            if scope["method"] not in READING and response.is_success:
                await self._follow()
            await _send_on(response, send)
        finally:
            await response.aclose()

    async def _metrics(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer with the metrics of all processes; the writer says who may see them."""
        try:
            response = await self._writer.send(_request(scope, None))
        except httpx.TransportError:
            await _unavailable(scope, send)
            return
        texts = [response.text]
        if response.is_success:
            own = await run_in_threadpool(self._app.state.metrics.exposition)
            asked = (_own_metrics(reader, scope) for reader in self._readers)
            texts += [own.decode(), *await asyncio.gather(*asked)]
            content = await run_in_threadpool(summed, [text for text in texts if text])
            response = httpx.Response(200, headers={"content-type": CONTENT_TYPE}, content=content)
        await _send_on(response, send)


async def _own_metrics(client: httpx.AsyncClient, scope: Scope) -> str:
    """Return the metrics of one process; nothing where it is being replaced."""
    request = _request(scope, None)
    request.headers[OWN_METRICS.decode()] = "1"
    with suppress(httpx.TransportError, TimeoutError):
        response = await asyncio.wait_for(client.send(request), METRICS_SECONDS)
        if response.is_success:
            return response.text
    return ""


class _Body:
    """The body of a request, a piece at a time."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_cut = False
        """Whether the client hung up before the end."""
        self._is_in = asyncio.Event()

    def leave_out(self) -> None:
        """Note that there is none."""
        self._is_in.set()

    async def until_client_leaves(self) -> None:
        """Wait until the client hangs up after the end, or has its answer."""
        await self._is_in.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.is_cut = True
                raise httpx.WriteError("the client hung up")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._is_in.set()
                return


def _client_of(path: Path) -> httpx.AsyncClient:
    # A client that sends or reads slowly holds a connection, and must keep nobody else from one;
    # there are as many as clients have with this reader at most.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS)
    transport = httpx.AsyncHTTPTransport(uds=str(path), limits=limits)
    return httpx.AsyncClient(transport=transport, timeout=None)  # noqa: S113 - the writer has its own


def _request(scope: Scope, body: _Body | None) -> httpx.Request:
    target = quote(scope["raw_path"], safe="!$%&'()*+,/:;=@~[]")
    # An id may be `a/../b`; a URL would come to mean `b`.
    target = target.replace("/.", "/%2E")
    query = quote(scope["query_string"], safe="!$%&'()*+,/:;=?@~[]")
    kept = [(name, value) for name, value in scope["headers"] if name not in HOP_BY_HOP]
    headers = [(name, value) for name, value in kept if name not in {CLIENT, OWN_METRICS}]
    if scope.get("client"):
        headers.append((CLIENT, str(scope["client"][0]).encode()))
    given = {name for name, _ in scope["headers"]} & {b"content-length", b"transfer-encoding"}
    if body and not given:
        body.leave_out()
    url = f"http://writer{target}" + (f"?{query}" if query else "")
    return httpx.Request(
        scope["method"], url, headers=headers, content=body if given and body else None
    )


async def _send_on(response: httpx.Response, send: Send) -> None:
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    ends = (b"connection", b"close") in headers
    headers = [(name, value) for name, value in headers if name not in HOP_BY_HOP]
    if ends:  # what is left of the request is not read
        headers.append((b"connection", b"close"))
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    if response.is_stream_consumed:
        await send({"type": "http.response.body", "body": response.content})
        return
    async for piece in response.aiter_raw():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _unavailable(scope: Scope, send: Send) -> None:
    message = "the process that writes is being replaced; a write may have completed"
    problem = ProblemError(503, "writer_unavailable", message, headers={"Retry-After": "1"})
    await _refuse(scope, send, problem)


async def _refuse(scope: Scope, send: Send, problem: ProblemError) -> None:
    state = scope.setdefault("state", {})
    state.setdefault("request_id", secrets.token_hex(8))
    state.setdefault("headers", dict(scope["headers"]))
    await problem_response(Request(scope), problem)(scope, _nothing, send)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


class FromReaders:
    """ASGI: the writer's application, which is told by readers which client asks."""

    def __init__(self, own: ASGIApp) -> None:
        """Pass requests to `own`."""
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request as one of the client that the reader names."""
        address = dict(scope["headers"]).get(CLIENT)
        if address is not None:
            scope["client"] = (address.decode("latin-1"), 0)
        await self._own(scope, receive, send)
