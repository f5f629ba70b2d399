"""One request and its response, as uvicorn's protocol passes them to the application.

The head of a response is sent with the first part of its body, in one packet. uvicorn sends it
alone, which costs the server another call of the system and wakes the client twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

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
