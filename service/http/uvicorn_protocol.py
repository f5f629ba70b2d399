"""HTTP/1.1 over a socket: uvicorn's protocol, with limits.

Only this module, ``response_cycle``, ``starts`` and ``connections`` depend on uvicorn's internals.
uvicorn parses whatever arrives. Here a client is limited to

- a request line of 8 KiB and headers of 32 KiB, as in nginx (414 and 431);
- one chunk of a body, until the application asks for the next;
- one request at a time: what follows it stays in the socket until it is answered;
- a number of connections, in all and from one address (503);
- a time to send the head of a request (408), and a time to read some of a response;
- HTTP/1.1: a request to upgrade to another protocol is answered as if it asked for none.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.connections import READ_BYTES, BoundedReads, Connections, WriteWatch
from service.http.problems import problem_message
from service.http.response_cycle import Head, ResponseCycle
from service.http.starts import Starts

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
