"""Limits connections, closes idle and slow ones, and accepts the last ones on shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import uvicorn

from service.http.problems import ProblemError

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
