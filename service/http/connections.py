"""Connections: how many there may be, how long they may be idle, and what a head may have.

uvicorn parses whatever arrives, and waits for ever. Here is its protocol with limits
of what a client can send before an application sees it:

- a request line of 8 KiB and headers of 32 KiB, as in nginx (414 and 431), and as many bytes of a
  chunked body without content;
- a number of connections, in all and from one address (503);
- a time to send the head of a request, the first or the next (408);
- one header Host (400), and no trailers, which uvicorn would add to the headers;
- HTTP/1.1: a request to upgrade to another protocol is read as if it asked for none.

A client may close its side of the connection behind a request, and gets the response. The system
disconnects a client that takes nothing of a response (``TCP_USER_TIMEOUT`` in
:func:`hummingbit.service.server.bind_listener`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hummingbit.service.http.problems import problem_message

MAX_REQUEST_LINE = 8 << 10
MAX_HEADERS = 32 << 10
# What is read at a time. uvicorn parses all requests in it before the event loop goes on.
READ_BYTES = 16 << 10
# After a refusal, what arrives is discarded for so long; else a client may lose the response.
LINGER_SECONDS = 2.0
# The time that an idle connection has to send a request after the service is told to stop.
LAST_REQUEST_SECONDS = 1.0
CHECKS_IN_A_TIMEOUT = 10


class Connections:
    """The open connections of a server, and their limits."""

    def __init__(self, max_open: int, max_per_address: int, idle_seconds: float) -> None:
        """Let a client be idle, or send a head, for `idle_seconds`."""
        self.idle_seconds = idle_seconds
        self.refused = 0
        self._max_open, self._max_per_address = max_open, max_per_address
        self._by_address: Counter[str] = Counter()
        self._connected: set[_Connection] = set()
        self._settings: dict[str, Any] | None = None
        self.are_ending = False

    @property
    def open(self) -> int:
        """The number of open connections."""
        return len(self._connected)

    def protocol(self, **settings: Any) -> asyncio.BufferedProtocol:
        """Create the protocol of a connection; `settings` are those of uvicorn's protocols."""
        self._settings = settings
        return _BoundedReads(_Connection(self, **settings))

    async def accept_waiting(self, listeners: Iterable[socket.socket]) -> None:
        """Accept the connections that wait, which the end of the port would reset."""
        self.are_ending = True
        loop = asyncio.get_running_loop()
        for listener in listeners:
            with suppress(BlockingIOError):
                while self._settings is not None and self.open < self._max_open:
                    accepted, _ = listener.accept()
                    factory = partial(self.protocol, **self._settings)
                    await loop.connect_accepted_socket(factory, accepted)

    @property
    def are_far_too_many(self) -> bool:
        """Whether there are too many to send each that is refused a response."""
        return self.open > 2 * self._max_open

    def add(self, connection: _Connection) -> str | None:
        """Count a connection; return the reason to refuse it, or None if it is within the limits.

        A refused connection counts, too, until :meth:`remove`.
        """
        if not self._connected:
            self._check_later()
        self._connected.add(connection)
        self._by_address[connection.address] += 1
        if self.open > self._max_open:
            limit = f"{self._max_open:,} connections"
        elif self._by_address[connection.address] > self._max_per_address:
            limit = f"{self._max_per_address:,} connections from one address"
        else:
            return None
        self.refused += 1
        return f"the limit of {limit} is reached"

    def remove(self, connection: _Connection) -> None:
        """Stop counting a connection."""
        self._connected.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    def _check_later(self) -> None:
        seconds = self.idle_seconds / CHECKS_IN_A_TIMEOUT
        asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        """Close the connections that are idle or slow; check again later if any is left."""
        for connection in [*self._connected]:
            connection.close_if_idle(self.idle_seconds)
        if self._connected:
            self._check_later()


class _BoundedReads(asyncio.BufferedProtocol):
    """Hands what arrives to another protocol, at most :data:`READ_BYTES` at a time.

    The other one cannot read so itself: event loops lend a buffer to a BufferedProtocol only.
    """

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._receive = protocol.data_received
        self._buffer = memoryview(bytearray(READ_BYTES))
        self.connection_made = protocol.connection_made  # type: ignore[method-assign]
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._receive(bytes(self._buffer[:nbytes]))


class _Parser(HttpRequestParser):
    """Hands a request to upgrade back to the connection, with what follows its head."""

    def __init__(self, connection: _Connection) -> None:
        super().__init__(connection)
        self._read_on = connection.read_on
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # uvicorn feeds bytes
        try:
            super().feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._read_on(data[upgrade.args[0] :])


class _Transport:
    """The transport of a connection, which something else closes."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self.close = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Connection(HttpToolsProtocol):
    """uvicorn's protocol of a connection, with limits."""

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self.parser = _Parser(self)
        self.address = ""
        self._connections = connections
        self._waits_since: float | None = None  # for a request; None while one is under way
        self.url = b""
        self._in_head, self._head_size = False, 0
        self._unproductive = 0  # bytes since the last head, piece of a body, or end of one
        self._refusal = (400, "invalid_http", "")
        self._is_refused = self._has_ended = self._is_read_again = self._is_last = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._waits_since = self.loop.time()
        reason = self._connections.add(self)
        if self._connections.are_far_too_many:
            self.transport.abort()
        elif reason is not None:
            self._refuse(503, "too_many_connections", reason)
        elif self._connections.are_ending:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._unproductive += len(data)
        super().data_received(data)
        if self._unproductive > MAX_HEADERS:
            self._head_size = self._unproductive
            self._check_head()
            self.send_400_response("")

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio knows a result
        """Keep the connection of a client that has sent a whole request, and waits."""
        self._has_ended = True
        return self._is_answering() and not self._is_refused

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # or else it is a trailer
            self._head_size += len(name) + len(value)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unproductive = 0
        if not self._check_head():
            raise ValueError("the parser ends, and uvicorn calls send_400_response")
        self._in_head, self._is_read_again = False, self.parser.should_upgrade()
        if not self._is_read_again:
            self._waits_since = None
            super().on_headers_complete()
            self.cycle.keep_alive = self.cycle.keep_alive and not self._is_last
            self.cycle.transport = _Transport(self.transport, self.end)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._unproductive = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unproductive = 0
        if not self._is_read_again:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if not is_last:  # the next request is under way
            self.cycle.keep_alive = self.cycle.keep_alive and not self._is_last
            return
        self._waits_since = self.loop.time()
        if self._has_ended:
            self.transport.close()
        elif self._is_last:
            self.loop.call_later(LAST_REQUEST_SECONDS, super().shutdown)

    def end(self) -> None:
        """Close the connection, after a while if the rest of a body is on its way."""
        if self.cycle.more_body and not self.transport.is_closing():
            self._is_refused, self._waits_since = True, self.loop.time()
            self.flow.resume_reading()
            self.transport.write_eof()
        else:
            self.transport.close()

    def read_on(self, rest: bytes) -> None:
        """Read a request to upgrade again, as one that asks for nothing, with what follows it.

        httptools takes the body for the other protocol.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = _Parser(self)
        if method == b"CONNECT":  # which asks for nothing else
            self.send_400_response("CONNECT is not supported")
        else:
            self.parser.feed_data(b"\r\n".join([*lines, b"", rest]))

    def send_400_response(self, msg: str) -> None:
        """Respond to invalid HTTP, or to too much of it, with a problem, and disconnect."""
        if self._is_answering():
            # The request before it was valid, and is answered first.
            self.cycle.keep_alive = False
            self._is_refused = True
        else:
            status, code, detail = self._refusal
            self._refuse(status, code, detail or msg)

    def close_if_idle(self, idle_seconds: float) -> None:
        """Close the connection if it has waited for so long; tell the client if it has begun."""
        seconds = 0 if self._waits_since is None else self.loop.time() - self._waits_since
        if self._is_refused and seconds > LINGER_SECONDS:
            self.transport.abort()
        elif seconds > idle_seconds and self._in_head and not self._is_refused:
            message = f"the headers were not sent within {idle_seconds:g} s"
            self._refuse(408, "request_too_slow", message)
        elif seconds > idle_seconds:
            self.transport.close()

    def shutdown(self) -> None:
        """Answer the request under way, or one that is about to arrive, and close.

        A client whose response has begun was told that the connection stays, so it may send another
        request.
        """
        is_waiting = self._waits_since is not None
        if self._is_refused or not (is_waiting or self.cycle.response_started):
            super().shutdown()
            return
        self._is_last = True
        if is_waiting:
            self.loop.call_later(LAST_REQUEST_SECONDS, super().shutdown)

    def _is_answering(self) -> bool:
        """Tell whether a request is complete and its response is not."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _check_head(self) -> bool:
        """Tell whether the head so far is within the limits; set the refusal that says why not."""
        hosts = sum(name == b"host" for name, _ in self.headers or ())
        if len(self.url) > MAX_REQUEST_LINE:
            message = f"the request line has more than {MAX_REQUEST_LINE:,} bytes, the limit"
            self._refusal = (414, "uri_too_long", message)
        elif self._head_size > MAX_HEADERS:
            message = f"the headers have more than {MAX_HEADERS:,} bytes, the limit"
            if not self._in_head:
                message = f"a chunked body has {MAX_HEADERS:,} bytes without content, the limit"
            self._refusal = (431, "headers_too_large", message)
        elif hosts > 1 or (not hosts and self.parser.get_http_version() != "1.0"):
            message = f"the request has {hosts or 'no'} headers Host; it must have one"
            self._refusal = (400, "invalid_http", message)
        else:
            return True
        return False

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Respond with a problem, unless a response has begun, and end the connection."""
        self._is_refused, self._waits_since = True, self.loop.time()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self.transport.write(problem_message(status, code, detail))
        self.transport.write_eof()
