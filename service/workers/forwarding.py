"""What a reader answers itself, and what it forwards to the writer.

A reader answers searches and reads of documents from its own generation. It forwards all else over
a Unix socket, streaming bodies and responses, and the writer checks keys, roles and limits as if
the client had connected to it. Before a reader relays the response to a write, it follows the
writer, so a client sees its own writes on the same connection. With the header ``Min-Generation``
it sees at least that generation on any connection.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import ssl
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

from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.http.admission import (
    DISCARDED_BYTES,
    DISCARDING_SECONDS,
    MIN_GENERATION,
    discard_body,
    dot_segment,
    min_generation,
)
from hummingbit.service.http.gateway import UPLOAD_PATH
from hummingbit.service.http.keys import Role, request_key
from hummingbit.service.http.monitoring import CONTENT_TYPE, merge_metrics
from hummingbit.service.http.problems import ProblemError, problem_response
from hummingbit.service.http.protocol import Arrival, answer_now_of

# A writer that hangs: like a stopped process, it accepts requests and answers none.


URL = "http://localhost/livez"
# The path needs only the writer's event loop, which no request holds up for as long.
SECONDS_BETWEEN_PROBES = 2.0
PROBE_SECONDS = 10.0


class WriterProbe:
    """Asks the writer whether it is alive, while requests wait for it."""

    def __init__(self, writer: httpx.AsyncClient) -> None:
        self._writer = writer
        self._probe: asyncio.Task[bool] | None = None

    async def wait_until_it_hangs(self) -> None:
        """Wait until the writer answers nothing; all who wait share one probe at a time."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_PROBES)
            if self._probe is None or self._probe.done():
                self._probe = asyncio.create_task(self._hangs())
            if await asyncio.shield(self._probe):
                return

    async def _hangs(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._writer.get(URL)
        except TimeoutError:
            return True
        except httpx.TransportError:  # it has ended, and what waited for it has failed
            return False
        return False


# The body of a forwarded request, and how long the request may take.


CLOSE = {"Connection": "close"}


class ForwardedBody:
    """The body of a request, in chunks, read as fast as the writer takes it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_cut = False
        """Whether the client disconnected before the end."""
        self._complete = asyncio.Event()
        self._awaits_client = False
        self._last_chunk = asyncio.get_running_loop().time()

    def mark_empty(self) -> None:
        """Note that the request has no body."""
        self._complete.set()

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects after the end of the body, or has its response."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def wait_for_deadline(self, seconds: float, *, per_chunk: bool) -> None:
        """Wait `seconds`; with `per_chunk`, until no chunk has arrived for as long."""
        loop = asyncio.get_running_loop()
        began = self._last_chunk
        while (left := began + seconds - loop.time()) > 0:
            await asyncio.sleep(left)
            if per_chunk:
                began = self._last_chunk

    async def timeout_problem(self, seconds: float) -> ProblemError:
        """Return the problem of a request that took too long: 408 if its client did, or else 503.

        What the client still sends is discarded first: otherwise it would not read the response.
        """
        if self._awaits_client:
            message = f"the body was not sent within {seconds:g} s"
            return ProblemError(408, "body_too_slow", message, headers=CLOSE)
        await self._discard_rest()
        message = f"the writer process did not respond within {seconds:g} s"
        message += "; a write may still complete"
        return ProblemError(503, "timed_out", message, headers=CLOSE)

    async def hang_problem(self) -> ProblemError:
        """Return the problem of a request to a writer that hangs; discard the rest of the body."""
        await self._discard_rest()
        message = "the writer process does not respond; a write may still complete"
        return ProblemError(503, "writer_unavailable", message, headers=CLOSE)

    async def _discard_rest(self) -> None:
        if not self._complete.is_set():
            await discard_body(self._receive, DISCARDED_BYTES, DISCARDING_SECONDS)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self._awaits_client = True
            message = await self._receive()
            self._awaits_client = False
            self._last_chunk = asyncio.get_running_loop().time()
            if message["type"] == "http.disconnect":
                self.is_cut = True
                raise httpx.WriteError("the client disconnected")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._complete.set()
                return


# Forwarding.


LOCAL = re.compile(
    r"POST /v1/collections/(?P<searched>[^/]+)"
    r"/(?:search|search/batch|encode|documents:(?:get|scroll|count))"
    r"|(?:GET|HEAD) /v1/collections/(?P<read>[^/]+)(?:/codes|/documents/[\s\S]+)?"
    r"|POST /v1/(?:encoders/[^/]+/encode|embeddings)"
    r"|(?:GET|HEAD) /(?:|livez|readyz|openapi\.json|(?:console|docs)(?:/[\s\S]*)?)"
)
READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Headers of a connection, not of a request or a response; `date` is written again.
HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
    | {b"proxy-connection", b"expect", b"date"}
)
FRAMING = frozenset({b"content-length", b"transfer-encoding"})
CLIENT = b"x-hummingbit-client"
OWN_METRICS = b"x-hummingbit-own-metrics"
SECONDS_TO_FOLLOW = 1.0
SECONDS_BETWEEN_CHECKS = 0.01
IDLE_CONNECTIONS = 512
METRICS_SECONDS = 10.0
# The writer has its own deadline, which began later, and is to respond first.
GRACE_SECONDS = 1.0


class Forwarding:
    """ASGI: answers by a reader's own application where that can, and by the writer elsewhere."""

    def __init__(
        self, app: FastAPI, own: ASGIApp, folder: DataFolder, writer: Path, readers: Sequence[Path]
    ) -> None:
        """Answer by `own`, the gateway of `app`; the paths are the other processes' sockets."""
        self._app = app
        self._own = own
        self._answer_now = answer_now_of(own)
        self._folder = folder
        self._writer = _client_of(writer)
        self._readers = [_client_of(path) for path in readers]
        self._following = asyncio.Lock()
        self._seconds = app.state.settings.request_timeout
        self._next_follow: asyncio.Task[None] | None = None
        self._probe = WriterProbe(self._writer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or forward it."""
        method, path = scope["method"], scope["path"]
        # Of a header that is sent twice, the first counts.
        headers = dict(reversed(scope["headers"]))
        if path == "/metrics" and method == "GET":
            answer = self._own if OWN_METRICS in headers else self._metrics
        else:
            local = LOCAL.fullmatch(f"{method} {path}")
            answer = self._own
            name = local and (local["searched"] or local["read"])
            is_elsewhere = local is None or (name and not await self._has_generation(name, headers))
            # httpx would resolve the segments that this process refuses.
            if is_elsewhere and dot_segment(scope["raw_path"]) is None:
                answer = self._forward
        await answer(scope, receive, send)

    def answer_now(self, arrived: Sequence[Arrival | None]) -> list[bytes | None]:
        """Answer requests at once by the reader's own application, if that can."""
        if self._answer_now is None or self._folder.moved_aliases:
            return [None] * len(arrived)
        return self._answer_now(
            [request if request and _waits_for_nothing(request[0]) else None for request in arrived]
        )

    async def _has_generation(self, name: str, headers: dict[bytes, bytes]) -> bool:
        """Tell whether the collection exists here, at the generation that the headers require.

        An alias that moved to a collection which is not open here yet is left to the writer.
        """
        required = min_generation(headers) or 0  # whoever answers refuses an invalid one
        if required and self._app.state.keyring.role_of(request_key(headers)) is Role.NOBODY:
            return True  # this process refuses the request without waiting
        deadline = time.monotonic() + SECONDS_TO_FOLLOW
        while True:
            with suppress(HummingbitError):
                collection = self._folder.collection(name)
                is_followed = not required or collection.generation >= required
                if is_followed and name not in self._folder.moved_aliases:
                    return True
            if not required or time.monotonic() > deadline:
                return False
            await self._follow()
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)

    async def _follow(self) -> None:
        """Follow the writer up to now at least.

        Requests that come while a follow runs share the next one. So one thread is enough for all
        that wait for a generation, and the others are left to searches.
        """
        if self._next_follow is None:
            self._next_follow = asyncio.create_task(self._follow_once())
        await asyncio.shield(self._next_follow)

    async def _follow_once(self) -> None:
        async with self._following:
            self._next_follow = None
            with suppress(HummingbitError):  # the background follower logs it
                await run_in_threadpool(self._folder.follow, wait=False)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request until it is answered, its client disconnects, or it takes too long."""
        body = ForwardedBody(receive)
        started = asyncio.Event()

        async def send_started(message: Message) -> None:
            started.set()
            await send(message)

        answer = asyncio.create_task(self._forward_to_writer(scope, body, send_started))
        disconnect = asyncio.create_task(body.wait_for_disconnect())
        deadline = asyncio.create_task(self._wait_for_deadline(scope, body))
        hang = asyncio.create_task(self._probe.wait_until_it_hangs())
        tasks = (answer, disconnect, deadline, hang)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if started.is_set():  # a client may read a long response for longer
                await asyncio.wait((answer, disconnect), return_when=asyncio.FIRST_COMPLETED)
            is_late = not (answer.done() or disconnect.done())
            is_hung = is_late and hang.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not answer.cancelled():
            answer.result()
        elif is_hung:
            await _send_problem(scope, send, await body.hang_problem())
        elif is_late:
            await _send_problem(scope, send, await body.timeout_problem(self._seconds))

    async def _wait_for_deadline(self, scope: Scope, body: ForwardedBody) -> None:
        if not self._seconds:
            await asyncio.Event().wait()  # until it is cancelled
        per_chunk = scope["path"] == UPLOAD_PATH
        await body.wait_for_deadline(self._seconds + GRACE_SECONDS, per_chunk=per_chunk)

    async def _forward_to_writer(self, scope: Scope, body: ForwardedBody, send: Send) -> None:
        request = _request(scope, body)
        try:
            response = await self._writer.send(request, stream=True)
        except httpx.LocalProtocolError as error:
            problem = ProblemError(400, "invalid_http", f"Invalid HTTP request received: {error}")
            await _send_problem(scope, send, problem)
            return
        except httpx.TransportError:
            if not body.is_cut:
                await _send_unavailable(scope, send)
            return
        try:
            if scope["method"] not in READING and response.is_success:
                await self._follow()
            await _relay(response, send)
        finally:
            await response.aclose()

    async def _metrics(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer with the metrics of all processes; the writer checks who may see them."""
        try:
            async with asyncio.timeout(METRICS_SECONDS):
                response = await self._writer.send(_request(scope, None))
        except (httpx.TransportError, TimeoutError):
            await _send_unavailable(scope, send)
            return
        texts = [response.text]
        if response.is_success:
            own = await run_in_threadpool(self._app.state.metrics.exposition)
            others = (_own_metrics(reader, scope) for reader in self._readers)
            texts += [own.decode(), *await asyncio.gather(*others)]
            content = await run_in_threadpool(merge_metrics, [text for text in texts if text])
            response = httpx.Response(200, headers={"content-type": CONTENT_TYPE}, content=content)
        await _relay(response, send)


async def _own_metrics(client: httpx.AsyncClient, scope: Scope) -> str:
    """Return the metrics of one process, or nothing while it is being replaced."""
    request = _request(scope, None)
    request.headers[OWN_METRICS.decode()] = "1"
    with suppress(httpx.TransportError, TimeoutError):
        response = await asyncio.wait_for(client.send(request), METRICS_SECONDS)
        if response.is_success:
            return response.text
    return ""


def _waits_for_nothing(scope: Scope) -> bool:
    """Tell whether a request takes an answer of any generation."""
    return all(name != MIN_GENERATION for name, _ in scope["headers"])


def _client_of(path: Path) -> httpx.AsyncClient:
    # No limit: a client that sends or reads slowly holds a connection, and must not keep others
    # from one. There are never more than clients have to this reader.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS)
    # A Unix socket needs no certificates, and each reader would hold megabytes of them.
    no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = httpx.AsyncHTTPTransport(no_certificates, uds=str(path), limits=limits)
    return httpx.AsyncClient(transport=transport, timeout=None)  # noqa: S113 - the writer has its own


def _request(scope: Scope, body: ForwardedBody | None) -> httpx.Request:
    target = quote(scope["raw_path"], safe="!$%&'()*+,/:;=@~[]")
    query = quote(scope["query_string"], safe="!$%&'()*+,/:;=?@~[]")
    framing = {name for name, _ in scope["headers"]} & FRAMING
    content = body if framing else None
    dropped = HOP_BY_HOP | {CLIENT, OWN_METRICS} | (FRAMING if content is None else set())
    headers = [(name, value) for name, value in scope["headers"] if name not in dropped]
    if scope.get("client"):
        headers.append((CLIENT, str(scope["client"][0]).encode()))
    if body and not framing:
        body.mark_empty()
    url = f"http://writer{target}" + (f"?{query}" if query else "")
    return httpx.Request(scope["method"], url, headers=headers, content=content)


async def _relay(response: httpx.Response, send: Send) -> None:
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    closes = (b"connection", b"close") in headers
    headers = [(name, value) for name, value in headers if name not in HOP_BY_HOP]
    if closes:  # the rest of the request's body is not read
        headers.append((b"connection", b"close"))
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    await send(start)
    if response.is_stream_consumed:
        await send({"type": "http.response.body", "body": response.content})
        return
    async for chunk in response.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _send_unavailable(scope: Scope, send: Send) -> None:
    message = "the writer process is being replaced; a write may have completed"
    problem = ProblemError(503, "writer_unavailable", message, headers={"Retry-After": "1"})
    await _send_problem(scope, send, problem)


async def _send_problem(scope: Scope, send: Send, problem: ProblemError) -> None:
    state = scope.setdefault("state", {})
    state.setdefault("request_id", secrets.token_hex(8))
    state.setdefault("headers", dict(scope["headers"]))
    await problem_response(Request(scope), problem)(scope, _receive_disconnect, send)


async def _receive_disconnect() -> Message:
    return {"type": "http.disconnect"}


class ForwardedClient:
    """ASGI: the writer's application, which sees the address of the client, not of a reader."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with the client's address that the reader sent."""
        address = dict(scope["headers"]).get(CLIENT)
        if address is not None:
            scope["client"] = (address.decode("latin-1"), 0)
        await self._app(scope, receive, send)
