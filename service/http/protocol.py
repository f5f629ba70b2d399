"""HTTP/1.1 over a socket: uvicorn's protocol, with limits.

This is the one module that reaches into uvicorn. uvicorn parses a request as fast as it comes and
reads on; here a client can make the service hold only so much:

- a request line of 8 KiB and headers of 32 KiB, as in nginx: 414 and 431;
- a piece of a body, until the application asks for more;
- one request at a time: what a client sends behind it stays in the socket until it is answered;
- a number of connections, in all and from one address: 503;
- a time without a whole request head, and one in which it takes nothing of an answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.problems import MEDIA_TYPE, RETRY_AFTER, TITLES, TYPE_PREFIX

_log = logging.getLogger("hummingbit.service")

READ_BYTES = 32 << 10
MAX_REQUEST_LINE = 8 << 10
MAX_HEADERS = 32 << 10
HEAD_END = b"\r\n\r\n"
# What a client must take of an answer within the time that it has.
LEAST_TAKEN = 64 << 10
# After a refusal, what a client still sends is thrown away for so long: if the connection closed at
# once, the client's system would throw the answer away.
LINGER_SECONDS = 2.0
# A connection without a request has so long to send one after the service was told to stop.
LAST_REQUEST_SECONDS = 0.5


@dataclass
class Connections:
    """The open connections of a service, and how many there may be."""

    most: int
    most_per_address: int
    idle_seconds: float
    write_seconds: float
    refused: int = 0
    by_address: Counter[str] = field(default_factory=Counter)

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self.by_address.total()

    def refusal(self, address: str) -> str | None:
        """Count a connection; return why it is one too many, or None."""
        self.by_address[address] += 1
        if self.open > self.most:
            return f"the limit of {self.most:,} connections is reached"
        if self.by_address[address] > self.most_per_address:
            most = f"{self.most_per_address:,} connections from one address"
            return f"the limit of {most} is reached"
        return None

    def close(self, address: str) -> None:
        """Forget a connection."""
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]


class Connection(asyncio.BufferedProtocol):
    """Reads at most :data:`READ_BYTES` at a time and hands them to :class:`HTTP`.

    It is not derived from that: event loops lend a buffer to protocols of this kind only.
    """

    def __init__(self, connections: Connections, **settings: Any) -> None:
        """Make a connection's protocol; `settings` are what uvicorn gives its own."""
        self._http = HTTP(connections, **settings)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self.connection_made = self._http.connection_made  # type: ignore[method-assign]
        self.connection_lost = self._http.connection_lost  # type: ignore[method-assign]
        self.pause_writing = self._http.pause_writing  # type: ignore[method-assign]
        self.resume_writing = self._http.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's wish
        """Lend the loop the buffer to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self._http.data_received(bytes(self._buffer[:nbytes]))


class HTTP(HttpToolsProtocol):
    """Feeds uvicorn's parser one request at a time.

    A head is fed up to its empty line and a body up to its declared length, so the parser never
    sees what follows a request before that is answered. Of a chunked body only the parser knows the
    end; a client that sends another request on its heels is hung up on after the answer.
    """

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self._connections = connections
        self._address = ""
        self._unparsed = b""
        self._in_head = True
        self._head_bytes = 0
        self._head_tail = b""  # the end of what was fed of a head: its empty line may be cut
        self._body_left: int | None = 0  # None: until the last chunk
        self._overhead = 0  # bytes of a chunked body since there was content
        self._refusal: tuple[int, str, str] | None = None
        self._discards = False
        self._stopping = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse a connection that is one too many."""
        super().connection_made(transport)  # type: ignore[arg-type]  # narrower there
        self._address = self.client[0] if self.client else ""
        refusal = self._connections.refusal(self._address)
        if refusal is None:
            self._wait_for_head()
        elif self._connections.open > 2 * self._connections.most:
            self.transport.abort()  # these are too many to tell each of them
        else:
            self._connections.refused += 1
            self._refuse(503, "too_many_connections", refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.close(self._address)
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._unparsed = b""
        self._discards = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what may be parsed now, and keep the rest until the request is answered."""
        if self._discards:
            return
        self._unparsed += data
        self._parse()

    def _parse(self) -> None:
        while self._unparsed and not self._discards and not self._is_answering():
            size = self._piece_size()
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            if self._in_head:
                self._feed_head(piece)
            else:
                self._feed_body(piece)
        if self._unparsed and not self.transport.is_closing():
            self.flow.pause_reading()

    def _is_answering(self) -> bool:
        """Tell whether a request is in whole, and its answer is not out."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _piece_size(self) -> int:
        """Return how much of what was read may be parsed: no more than belongs to one request."""
        if not self._in_head:
            return self._body_left or len(self._unparsed)
        end = (self._head_tail + self._unparsed).find(HEAD_END)
        return len(self._unparsed) if end < 0 else end + len(HEAD_END) - len(self._head_tail)

    def _feed_head(self, piece: bytes) -> None:
        if not self._head_bytes:
            self.url = b""
            self._wait_for_head()
        self._head_bytes += len(piece)
        self._head_tail = (self._head_tail + piece)[-len(HEAD_END) + 1 :]
        super().data_received(piece)
        if piece.endswith(HEAD_END):
            self._head_tail = b""
        if self._in_head and self._head_bytes and not self._discards and self._is_head_too_long():
            self.send_400_response("")

    def _feed_body(self, piece: bytes) -> None:
        if self._body_left is not None:
            self._body_left -= len(piece)
        else:
            self._overhead += len(piece)
        super().data_received(piece)
        if self._overhead > MAX_HEADERS + READ_BYTES and not self._discards:
            self._refusal = (
                431,
                "headers_too_large",
                "the trailer of the chunked body is too long",
            )
            self.send_400_response("")

    def _is_head_too_long(self) -> bool:
        """Tell whether the head is beyond a limit, and note which."""
        if len(self.url) > MAX_REQUEST_LINE:
            message = f"the request line has more than {MAX_REQUEST_LINE:,} bytes, the limit"
            self._refusal = (414, "uri_too_long", message)
        elif self._head_bytes - len(self.url) > MAX_HEADERS:
            message = f"the headers have more than {MAX_HEADERS:,} bytes, the limit"
            self._refusal = (431, "headers_too_large", message)
        return self._refusal is not None

    def on_message_begin(self) -> None:
        """Begin a request, unless another is on its way."""
        if self._is_answering():
            raise ValueError("another request came before the response to this one")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin to answer, if the head is within the limits."""
        if self._is_head_too_long():
            raise ValueError("too long")
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._in_head, self._head_bytes = False, 0
        self._overhead = 0
        given = {name: value for name, value in self.headers if name in _FRAMING}
        chunked = b"transfer-encoding" in given
        self._body_left = None if chunked else int(given.get(b"content-length", b"0"))
        super().on_headers_complete()
        if self._stopping:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Keep a piece and read no more until the application asks, which resumes the reading."""
        self._overhead = 0
        super().on_body(body)
        if not self.cycle.response_complete:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Read on, to see the client hang up or send the next request."""
        self._in_head, self._head_bytes, self._head_tail = True, 0, b""
        self.flow.resume_reading()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, and see that the client takes this answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_writing()
            return
        if not self._in_head:  # what is left of the body is thrown away
            self._set_read_timer(self._connections.idle_seconds, self.transport.abort)
        self._parse()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too much of it, with a problem, and hang up."""
        if self._is_answering():
            # The request before it was right, and is answered first.
            self.cycle.keep_alive = False
            self._unparsed, self._discards = b"", True
            return
        self._refuse(*(self._refusal or (400, "invalid_http", msg)))

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answer with a problem, unless an answer has begun, and end the connection."""
        self._unparsed, self._discards = b"", True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self.transport.write(_problem(status, code, detail))
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._set_read_timer(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def _wait_for_head(self) -> None:
        self._set_read_timer(self._connections.idle_seconds, self._give_up_head)

    def _set_read_timer(self, seconds: float, then: Any) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._read_timer = self.loop.call_later(seconds, then)

    def _give_up_head(self) -> None:
        if self.transport.is_closing():
            return
        if self._head_bytes:
            seconds = f"{self._connections.idle_seconds:g} s"
            self._refuse(408, "request_too_slow", f"the headers were not sent within {seconds}")
        else:
            self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that was idle for long, whether or not it took its last answer."""
        if not self.transport.is_closing():
            self.transport.close()
            self._watch_writing()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent, for so long."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        if self._write_timer is not None and not self.transport.is_closing():
            self._write_timer.cancel()
            self._write_timer = None

    def _watch_writing(self) -> None:
        if self._write_timer is None:
            self._unsent = self.transport.get_write_buffer_size()
            seconds = self._connections.write_seconds
            self._write_timer = self.loop.call_later(seconds, self._check_writing)

    def _check_writing(self) -> None:
        """Hang up on a client that took next to nothing of an answer; give others time again."""
        self._write_timer = None
        left = self.transport.get_write_buffer_size()
        if not left:
            return
        if self._unsent - left < LEAST_TAKEN:
            _log.warning("a client read its response too slowly; its connection is closed")
            self.transport.abort()
        else:
            self._watch_writing()

    def shutdown(self) -> None:
        """Answer the request that is under way or about to come, and end the connection."""
        self._stopping = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif not self._discards:
            self._set_read_timer(LAST_REQUEST_SECONDS, self.transport.close)


async def accept_waiting(server: uvicorn.Server, listeners: Sequence[socket.socket]) -> None:
    """Take in the connections that wait at `listeners`, and close the port to all others.

    The system resets connections that it accepted and the server did not when a listening socket
    closes; so a copy of the socket stays open until none waits.
    """
    loop = asyncio.get_running_loop()
    copies = [listener.dup() for listener in listeners]
    for copy in copies:
        copy.setblocking(False)
        copy.listen(0)
    for listening in server.servers:
        listening.close()
    for copy in copies:
        with copy, suppress(BlockingIOError):
            while True:
                accepted, _ = copy.accept()
                await loop.connect_accepted_socket(lambda: _new_protocol(server), accepted)


def _new_protocol(server: uvicorn.Server) -> asyncio.BaseProtocol:
    """Make a connection's protocol as uvicorn's server does."""
    protocol: asyncio.BaseProtocol = server.config.http_protocol_class(  # type: ignore[call-arg]
        config=server.config,
        server_state=server.server_state,
        app_state=server.lifespan.state,
        _loop=asyncio.get_running_loop(),
    )
    return protocol


_FRAMING = {b"content-length", b"transfer-encoding"}


def _problem(status: int, code: str, detail: str) -> bytes:
    """Write an answer that no application had a part in."""
    problem = {
        "type": f"{TYPE_PREFIX}{code}",
        "title": TITLES[code],
        "status": status,
        "detail": detail,
        "instance": "/",
        "code": code,
    }
    body = json.dumps(problem)
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"content-type: {MEDIA_TYPE}",
        "connection: close",
        f"content-length: {len(body)}",
    ]
    if status in RETRY_AFTER:
        lines.append(f"retry-after: {RETRY_AFTER[status]}")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
