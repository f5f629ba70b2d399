"""HTTP/1.1 over a socket: uvicorn's protocol, reading a body only as it is asked for.

Event loops read some hundreds of KiB at once, a body on the heels of its headers with them, and
uvicorn lets another 64 KiB come. Here a request that is refused by its headers costs one piece.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.http.problems import MEDIA_TYPE, TITLES, TYPE_PREFIX

READ_BYTES = 32 << 10


class ReadOnDemand(asyncio.BufferedProtocol):
    """Reads at most :data:`READ_BYTES` at a time, and hands them to uvicorn's protocol.

    It is not derived from that: event loops lend a buffer to protocols of this kind only.
    """

    def __init__(self, **settings: Any) -> None:
        """Make a connection's protocol; `settings` are what uvicorn gives its own."""
        self._inner = _Paused(**settings)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self.connection_lost = self._inner.connection_lost  # type: ignore[method-assign]
        self.pause_writing = self._inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = self._inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._inner.connection_made(transport)  # type: ignore[arg-type]  # uvicorn's is narrower

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's wish
        """Lend the loop the buffer to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self._inner.data_received(bytes(self._buffer[:nbytes]))


class _Paused(HttpToolsProtocol):
    """Reads a piece of a body when the application waits for one, and no more than a piece."""

    def on_body(self, body: bytes) -> None:
        """Keep a piece and read no more until the application asks, which resumes the reading."""
        super().on_body(body)
        if not self.cycle.response_complete:
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP with a problem, too, and hang up."""
        problem = {
            "type": f"{TYPE_PREFIX}invalid_http",
            "title": TITLES["invalid_http"],
            "status": 400,
            "detail": msg,
            "instance": "/",
            "code": "invalid_http",
        }
        body = json.dumps(problem)
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()

    def on_message_complete(self) -> None:
        """Read on, to see the client hang up or send the next request."""
        self.flow.resume_reading()
        super().on_message_complete()
