"""Connections: how many there may be, who reads too slowly, and how the last ones are taken in."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import uvicorn

_log = logging.getLogger("hummingbit.service")

# What a client must take of an answer within the time that it has.
LEAST_TAKEN = 64 << 10


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


class WriteWatch:
    """Hangs up on a client that takes next to nothing of an answer, and gives others time again."""

    def __init__(self, seconds: float) -> None:
        """Give a client so long for :data:`LEAST_TAKEN` bytes."""
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Begin to watch, unless it does."""
        if self._timer is None:
            unsent = transport.get_write_buffer_size()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._check, transport, unsent)

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, transport: asyncio.Transport, unsent: int) -> None:
        self._timer = None
        left = transport.get_write_buffer_size()
        if not left:
            return
        if unsent - left < LEAST_TAKEN:
            _log.warning("a client read its response too slowly; its connection is closed")
            transport.abort()
        else:
            self.start(transport)


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
