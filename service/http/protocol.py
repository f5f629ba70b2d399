"""HTTP/1.1 over a socket: uvicorn's protocol, with limits.

Only this module depends on uvicorn's internals. uvicorn parses whatever arrives. Here a client is
limited to

- a request line of 8 KiB and headers of 32 KiB, as in nginx (414 and 431);
- one chunk of a body, until the application asks for the next;
- one request at a time: what follows it stays in the socket until it is answered;
- a number of connections, in all and from one address (503);
- a time to send the head of a request (408), and a time to read some of a response;
- HTTP/1.1: a request to upgrade to another protocol is answered as if it asked for none.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools
import uvicorn
from httptools import HttpRequestParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from hummingbit.service.http.problems import ProblemError, problem_message

# Connections: their number, timeouts, and the last ones on shutdown.


_log = logging.getLogger("hummingbit.service")

READ_BYTES = 32 << 10
# What a client must read of a response within each interval.
MIN_READ_BYTES = 64 << 10


class BoundedReads(asyncio.BufferedProtocol):
    """Reads at most :data:`READ_BYTES` at a time and hands them to another protocol.

    The other one cannot read so itself: event loops lend a buffer to a BufferedProtocol only.
    """

    def __init__(self, protocol: asyncio.Protocol) -> None:
        """Hand everything to `protocol`."""
        self._receive = protocol.data_received
        self._buffer = memoryview(bytearray(READ_BYTES))
        self.connection_made = protocol.connection_made  # type: ignore[method-assign]
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer that the loop reads into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over what the loop has read."""
        self._receive(bytes(self._buffer[:nbytes]))


class Timeouts:
    """Timeouts of one length, at most one for each owner, with one timer of the event loop for all.

    They expire in the order in which they begin. Nearly all end before, and a timer for each would
    be set and cancelled several times in every request.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pending: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, owner: Hashable, expire: Callable[[], object]) -> None:
        """Call `expire` after the length of time; it replaces the timeout that `owner` has."""
        loop = asyncio.get_running_loop()
        self._pending.pop(owner, None)
        self._pending[owner] = (loop.time() + self._seconds, expire)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._check, loop)

    def stop(self, owner: Hashable) -> bool:
        """End the timeout of `owner`; tell whether it had one."""
        return self._pending.pop(owner, None) is not None

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call what has expired, and set the timer for what is next."""
        self._timer = None
        while self._pending and self._timer is None:
            owner, (due, expire) = next(iter(self._pending.items()))
            if due > loop.time():
                self._timer = loop.call_at(due, self._check, loop)
            else:
                del self._pending[owner]
                expire()


@dataclass
class Connections:
    """The open connections of a service, and their limits."""

    max_open: int
    max_per_address: int
    idle_seconds: float
    write_seconds: float
    refused: int = 0
    by_address: Counter[str] = field(default_factory=Counter)
    idle: Timeouts = field(init=False)
    """Closes connections that send no request, or its head too slowly."""

    def __post_init__(self) -> None:
        self.idle = Timeouts(self.idle_seconds)

    @property
    def open(self) -> int:
        """The number of open connections."""
        return self.by_address.total()

    def admit(self, address: str) -> str | None:
        """Count a connection; return the reason to refuse it, or None if it is within the limits.

        A refused connection counts, too, until :meth:`close`.
        """
        self.by_address[address] += 1
        if self.open > self.max_open:
            return f"the limit of {self.max_open:,} connections is reached"
        if self.by_address[address] > self.max_per_address:
            limit = f"{self.max_per_address:,} connections from one address"
            return f"the limit of {limit} is reached"
        return None

    def close(self, address: str) -> None:
        """Stop counting a connection."""
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]


class UnsentResponses:
    """Limits the bytes of long responses that clients have not read yet.

    A client that reads slowly keeps its response in memory. Beyond the limit, only clients to which
    no other long response is being sent get one, so slow ones do not keep it from the others.
    """

    def __init__(self, limit: int) -> None:
        """Let all long responses together have `limit` bytes."""
        self._limit = limit
        self._by_address: Counter[str] = Counter()

    @contextmanager
    def holding(self, address: str, size: int) -> Iterator[None]:
        """Count a response of `size` bytes to the client at `address` while it is being sent.

        Raises:
            ProblemError: 503 if there are too many.
        """
        held = self._by_address
        if held[address] and held.total() + size > self._limit:
            message = "long responses to this client are still being sent; read them first"
            raise ProblemError(503, "too_many_responses", message)
        held[address] += size
        try:
            yield
        finally:
            held[address] -= size
            if not held[address]:
                del held[address]


class WriteWatch:
    """Closes the connection of a client that hardly reads its response."""

    def __init__(self, seconds: float) -> None:
        """Require a client to read :data:`MIN_READ_BYTES` bytes every `seconds`."""
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Begin to watch, unless it does already."""
        if self._timer is None:
            unsent = transport.get_write_buffer_size()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._check, transport, unsent)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, transport: asyncio.Transport, unsent: int) -> None:
        self._timer = None
        left = transport.get_write_buffer_size()
        if not left:
            return
        if unsent - left < MIN_READ_BYTES:
            _log.warning("closed the connection of a client that read its response too slowly")
            transport.abort()
        else:
            self.start(transport)


async def accept_waiting(server: uvicorn.Server, listeners: Sequence[socket.socket]) -> None:
    """Accept the connections that wait at `listeners`, and close the port to all others.

    When a listening socket closes, the system resets connections that the server has not accepted.
    So a copy of the socket stays open until none waits.
    """
    loop = asyncio.get_running_loop()
    copies = [listener.dup() for listener in listeners]
    for copy in copies:
        copy.setblocking(False)
        copy.listen(0)
    for listener_server in server.servers:
        listener_server.close()
    for copy in copies:
        with copy, suppress(BlockingIOError):
            while True:
                accepted, _ = copy.accept()
                await loop.connect_accepted_socket(lambda: _new_protocol(server), accepted)


def _new_protocol(server: uvicorn.Server) -> asyncio.BaseProtocol:
    """Create a connection's protocol as uvicorn's server does."""
    protocol: asyncio.BaseProtocol = server.config.http_protocol_class(  # type: ignore[call-arg]
        config=server.config,
        server_state=server.server_state,
        app_state=server.lifespan.state,
        _loop=asyncio.get_running_loop(),
    )
    return protocol


# A request and its response, as the application sees them.
#
# The head of a response is sent with the first part of its body, in one packet. uvicorn sends it
# alone, which costs the server another call of the system and wakes the client twice.


# Responses with these have no body, so they declare no length.
BODILESS_STATUSES = (204, 304)
FRAMING = {b"content-length", b"transfer-encoding"}
# They take a few megabytes at most.
KNOWN_HEADS = 1024
MAX_KNOWN_HEAD = 1 << 10


class Head(NamedTuple):
    """What the head of a request says."""

    fields: dict[str, Any]
    """The fields of the ASGI scope that depend on the head."""
    framing: dict[bytes, bytes]
    """The headers that say where the body ends."""
    body_size: int | None
    """The bytes of the body; None if it is chunked."""
    keep_alive: bool
    is_plain: bool
    """Whether it asks for nothing but a response: no other protocol and no 100 Continue."""

    @classmethod
    def of(cls, http: HttpToolsProtocol) -> Head:
        """Return what `http` has parsed."""
        version = http.parser.get_http_version()
        url = httptools.parse_url(http.url)
        path = url.path.decode("ascii")
        framing = {name: value for name, value in http.headers if name in FRAMING}
        is_chunked = b"transfer-encoding" in framing
        return cls(
            {
                "method": http.parser.get_method().decode("ascii"),
                "http_version": version,
                "path": unquote(path) if "%" in path else path,
                "raw_path": url.path,
                "query_string": url.query or b"",
                "headers": http.headers,
            },
            framing,
            None if is_chunked else int(framing.get(b"content-length", b"0")),
            version != "1.0" and http.parser.should_keep_alive(),
            not (http.expect_100_continue or http.parser.should_upgrade()),
        )


class KnownHeads:
    """Heads that were read before: clients send the same ones again and again.

    Looking one up takes less time than parsing it.
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def get(self, raw: bytes) -> Head | None:
        """Return what a head says, which has the bytes `raw`; None if it was not read before."""
        return self._heads.get(raw)

    def add(self, raw: bytes, head: Head) -> None:
        """Keep what a head says, if it is short and plain and its connection goes on."""
        has_end = head.body_size is not None and head.keep_alive
        if 0 < len(raw) <= MAX_KNOWN_HEAD and has_end and head.is_plain:
            if len(self._heads) == KNOWN_HEADS:
                self._heads.clear()
            self._heads[raw] = head


class ResponseCycle(RequestResponseCycle):
    """Sends a response as soon as the application has begun its body, and not before."""

    @classmethod
    def of(cls, http: HttpToolsProtocol, head: Head) -> ResponseCycle:
        """Return the cycle of the request that begins with `head`; completes its scope."""
        scope: Any = http.scope
        scope.update(head.fields, headers=[*head.fields["headers"]])
        return cls(
            scope=scope,
            transport=http.transport,
            flow=http.flow,
            logger=http.logger,
            access_logger=http.access_logger,
            access_log=False,
            default_headers=http.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=http.expect_100_continue,
            keep_alive=head.keep_alive,
            on_response=http.on_response_complete,
        )

    _head = b""
    """The head of the response, until it is sent."""

    async def send(self, message: Message) -> None:  # type: ignore[override]  # a TypedDict there
        """Send a part of the response.

        Raises:
            RuntimeError: if the message is not the next part, or a header is invalid.
        """
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        expected = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != expected or self.response_complete:
            raise RuntimeError(f"the application sent {message['type']}, not {expected}")
        if self.response_started:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            self.response_started, self.waiting_for_100_continue = True, False
            headers = (*self.default_headers, *message.get("headers", ()))
            self._head = self._write_head(message["status"], headers)

    def is_readable(self) -> bool:
        """Tell whether the client is there, and reads what is sent."""
        is_open = not self.disconnected and not self.transport.is_closing()
        return is_open and not self.flow.write_paused

    def send_whole(self, response: bytes) -> None:
        """Send a response with status 200, which begins with its own headers."""
        self.response_started, self.waiting_for_100_continue = True, False
        lines = [STATUS_LINE[200], *[b"%b: %b\r\n" % header for header in self.default_headers]]
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        self.transport.write(b"".join((*lines, response)))
        self._end()

    def _write_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the head of a response, and note how its body is to be sent."""
        lines = [STATUS_LINE[status]]
        for name, value in headers:
            if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
                raise RuntimeError(f"the header {name!r}: {value!r} is invalid")
            lowered = name.lower()
            if lowered == b"content-length" and self.chunked_encoding is None:
                self.expected_content_length, self.chunked_encoding = int(value), False
            elif lowered == b"transfer-encoding" and value.lower() == b"chunked":
                self.expected_content_length, self.chunked_encoding = 0, True
            elif lowered == b"connection" and _says_close(value):
                self.keep_alive = False
                continue
            lines.append(b"%b: %b\r\n" % (lowered, value))
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        has_body = self.scope["method"] != "HEAD" and status not in BODILESS_STATUSES
        if self.chunked_encoding is None and has_body:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _send_body(self, body: bytes, *, more: bool) -> None:
        """Send a part of the body, the first one with the head."""
        head, self._head = self._head, b""
        if self.scope["method"] == "HEAD":
            self.expected_content_length, body = 0, b""
        elif self.chunked_encoding:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body = chunk if more else chunk + b"0\r\n\r\n"
        else:
            self.expected_content_length -= len(body)
        left = self.expected_content_length
        if left < 0 or (left and not more):
            difference = "shorter" if left > 0 else "longer"
            raise RuntimeError(
                f"the body is {abs(left)} bytes {difference} than its declared length"
            )
        if head or body:
            self.transport.write(head + body)
        if not more:
            self._end()

    def _end(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _says_close(connection: bytes) -> bool:
    return b"close" in [token.strip() for token in connection.lower().split(b",")]


# The start of requests, some of which are answered at once.
#
# A request usually runs as a task: it may wait, and has a deadline. A task takes as long as a part
# of a short search. So an application may have a method ``answer_now``, which is called first for
# the searches that have arrived in the same round of the event loop.


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


# The protocol of a connection.


MAX_REQUEST_LINE = 8 << 10
MAX_HEADERS = 32 << 10
HEAD_END = b"\r\n\r\n"
# After a refusal, what arrives is discarded for so long; else a client may lose the response.
LINGER_SECONDS = 2.0
# The time that an idle connection has to send a request after the service is told to stop.
LAST_REQUEST_SECONDS = 0.5


def connection_protocol(connections: Connections, starts: Starts, **settings: Any) -> BoundedReads:
    """Create the protocol of a connection; `settings` are those of uvicorn's protocols."""
    return BoundedReads(HTTP(connections, starts, **settings))


class HTTP(HttpToolsProtocol):
    """Feeds uvicorn's parser one request at a time.

    It feeds a head up to its empty line and a body up to its declared length, so the parser never
    sees what follows a request before that is answered. Only the parser knows where a chunked body
    ends; if another request follows right behind it, the connection closes after the response. The
    parser does not see requests whose heads were read before.
    """

    def __init__(self, connections: Connections, starts: Starts, **settings: Any) -> None:
        super().__init__(**settings)
        self._connections, self._idle, self._starts = connections, connections.idle, starts
        self._address = ""
        self._unparsed = b""
        self._in_head, self._head_bytes = True, 0
        self._head_tail = b""  # the last bytes fed, because a piece may end within the empty line
        self._whole_head, self._is_known = b"", False  # a head in one piece; a head read before
        self._body_left: int | None = 0  # bytes; None for a chunked body
        self._overhead = 0  # bytes of a chunked body since its last content
        self._head_parser: Any = None  # while another one reads a body
        self._refusal: tuple[int, str, str] | None = None
        self._discards = False
        self._stopping = False
        self._reading_timer: asyncio.TimerHandle | None = None
        self._writing = WriteWatch(connections.write_seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection, or refuse one too many."""
        super().connection_made(transport)  # type: ignore[arg-type]  # narrower there
        self._address = self.client[0] if self.client else ""
        refusal = self._connections.admit(self._address)
        if refusal is None:
            self._idle.start(self, self._give_up_head)
        elif self._connections.open > 2 * self._connections.max_open:
            self.transport.abort()  # too many to send each of them a response
        else:
            self._connections.refused += 1
            self._refuse(503, "too_many_connections", refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection and its timers."""
        self._connections.close(self._address)
        self._writing.stop()
        self._stop_reading_timer()
        self._unparsed, self._discards = b"", True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what belongs to the current request; keep the rest until that is answered."""
        if self._discards:
            return
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        while self._unparsed and not self._discards and not self._is_answering():
            size = self._piece_size()
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            feed = self._feed_head if self._in_head else self._feed_body
            feed(piece)
        if self._unparsed and not self.transport.is_closing():
            self.flow.pause_reading()

    def _is_answering(self) -> bool:
        """Tell whether a request is complete and its response is not."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _piece_size(self) -> int:
        """Return how many of the unparsed bytes belong to the current request."""
        if not self._in_head:
            return self._body_left or len(self._unparsed)
        end = (self._head_tail + self._unparsed).find(HEAD_END)
        return len(self._unparsed) if end < 0 else end + len(HEAD_END) - len(self._head_tail)

    def _feed_head(self, piece: bytes) -> None:
        is_first = not self._head_bytes
        if is_first:
            self.url = b""
            if known := self._starts.known_heads.get(piece):
                self._begin_known(known)
                return
        self._head_bytes += len(piece)
        is_end = piece.endswith(HEAD_END)
        self._head_tail = b"" if is_end else (self._head_tail + piece)[-len(HEAD_END) + 1 :]
        self._whole_head = piece if is_first and is_end else b""
        super().data_received(piece)
        is_incomplete = self._in_head and self._head_bytes and not self._discards
        if is_incomplete and self._is_head_too_long():
            self.send_400_response("")
        elif is_incomplete and is_first:
            self._idle.start(self, self._give_up_head)

    def _feed_body(self, piece: bytes) -> None:
        if self._body_left is not None:
            self._body_left -= len(piece)
        else:
            self._overhead += len(piece)
        if not self._is_known:
            super().data_received(piece)
        else:
            self.on_body(piece)
            if not self._body_left:
                self.on_message_complete()
        if self._overhead > MAX_HEADERS + READ_BYTES and not self._discards:
            message = "the trailer of the chunked body is too long"
            self._refusal = (431, "headers_too_large", message)
            self.send_400_response("")

    def _is_head_too_long(self) -> bool:
        """Tell whether the head exceeds a limit, and set the refusal that says which."""
        if len(self.url) > MAX_REQUEST_LINE:
            message = f"the request line has more than {MAX_REQUEST_LINE:,} bytes, the limit"
            self._refusal = (414, "uri_too_long", message)
        elif self._head_bytes - len(self.url) > MAX_HEADERS:
            message = f"the headers have more than {MAX_HEADERS:,} bytes, the limit"
            self._refusal = (431, "headers_too_large", message)
        return self._refusal is not None

    def on_message_begin(self) -> None:
        """Begin a request, unless another one is being answered."""
        if self._is_answering():
            raise ValueError("another request arrived before the response to this one")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the application, if the head is within the limits."""
        if self._is_head_too_long():
            raise ValueError("too long")
        head = Head.of(self)
        self._is_known = False
        self._starts.known_heads.add(self._whole_head, head)
        self._begin(head)
        if self.parser.should_upgrade() and self._body_left != 0:
            self._parse_body_apart(head.framing)

    def _begin(self, head: Head) -> None:
        """Begin the request that `head` begins."""
        self._stop_reading_timer()
        self._in_head, self._head_bytes, self._overhead = False, 0, 0
        self._body_left = head.body_size
        self.cycle = ResponseCycle.of(self, head)
        self.cycle.keep_alive = head.keep_alive and not self._stopping
        self._starts.begin(self, head.body_size, len(self._unparsed))

    def _begin_known(self, head: Head) -> None:
        """Begin a request whose head was read before."""
        self._is_known = True
        super().on_message_begin()
        self._begin(head)
        if not head.body_size:
            self.on_message_complete()

    def _parse_body_apart(self, framing: dict[bytes, bytes]) -> None:
        """Have another parser read the body, which httptools takes for the other protocol."""
        callbacks = SimpleNamespace(on_body=self.on_body, on_message_complete=self._end_body)
        self._head_parser, self.parser = self.parser, HttpRequestParser(callbacks)
        headers = b"".join(b"%b: %b\r\n" % header for header in framing.items())
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + headers + b"\r\n")

    def _end_body(self) -> None:
        self.parser, self._head_parser = self._head_parser, None
        self.on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a chunk to the application; pause reading until it asks for the next, if any."""
        self._overhead = 0
        super().on_body(body)
        if not self.cycle.response_complete and self._body_left != 0:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Resume reading, to see the client disconnect or send the next request."""
        if self._head_parser is not None:
            return  # the other parser has yet to read the body
        self._in_head, self._head_bytes, self._head_tail = True, 0, b""
        self.flow.resume_reading()
        super().on_message_complete()
        self._starts.complete(self, len(self._unparsed))

    def on_response_complete(self) -> None:
        """Continue with the next request, and watch that the client reads this response."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._writing.start(self.transport)
            return
        self.flow.resume_reading()
        # It waits for the next request, or for the rest of the body, which is discarded.
        self._idle.start(self, self._give_up_head if self._in_head else self.transport.abort)
        self._parse()

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP, or to too much of it, with a problem, and disconnect."""
        if self._is_answering():
            # The request before it was valid, and is answered first.
            self.cycle.keep_alive = False
            self._unparsed, self._discards = b"", True
            return
        self._refuse(*(self._refusal or (400, "invalid_http", msg)))

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Respond with a problem, unless a response has begun, and end the connection."""
        self._unparsed, self._discards = b"", True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self.transport.write(problem_message(status, code, detail))
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._set_reading_timer(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a server may ignore the header Upgrade (RFC 9110, section 7.8)."""

    def _set_reading_timer(self, seconds: float, then: Any) -> None:
        self._stop_reading_timer()
        self._reading_timer = self.loop.call_later(seconds, then)

    def _stop_reading_timer(self) -> None:
        self._idle.stop(self)
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _give_up_head(self) -> None:
        if self.transport.is_closing():
            return
        if self._head_bytes:
            seconds = f"{self._connections.idle_seconds:g} s"
            self._refuse(408, "request_too_slow", f"the headers were not sent within {seconds}")
        else:
            self.transport.close()
            self._writing.start(self.transport)  # it may not have read its last response

    def pause_writing(self) -> None:
        """Stop sending until the client has read what was sent, and watch that it does."""
        super().pause_writing()
        self._writing.start(self.transport)

    def resume_writing(self) -> None:
        """Continue sending."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._writing.stop()

    def shutdown(self) -> None:
        """Answer the request under way, or one that is about to arrive, and close."""
        self._stopping = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif not self._discards:
            self._set_reading_timer(LAST_REQUEST_SECONDS, self.transport.close)
