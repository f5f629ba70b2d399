"""Load on an HTTP service from one process: several clients, each with one request at a time.

Run as ``python -m benchmarks.harness.load ADDRESS METHOD PATH BODIES CLIENTS SECONDS``. BODIES is a
file of JSON lines, which are sent over and over; each client starts at another line. With GET, the
lines are the paths to request, and PATH is ignored. The output is :func:`summarize` as JSON. A
client is only a socket and a few lines of parsing, so that its own time hardly counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np


class _Client(asyncio.Protocol):
    """Sends the next request as soon as the response to the last one is complete."""

    def __init__(self, requests: list[bytes], start: int, stop_at: float) -> None:
        self.latencies: list[float] = []
        self.failures = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests, self._place, self._stop_at = requests, start, stop_at
        self._head = b""
        # Bytes of the body still to come; None until the head is complete. Bodies are discarded.
        self._remaining: int | None = None
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._requests[self._place % len(self._requests)])
        self._place += 1

    def data_received(self, data: bytes) -> None:
        if self._remaining is None:
            self._head += data
            head, separator, body = self._head.partition(b"\r\n\r\n")
            if not separator:
                return
            self.failures += not head.startswith(b"HTTP/1.1 200")
            self._remaining = _content_length(head) - len(body)
        else:
            self._remaining -= len(data)
        if self._remaining > 0:
            return
        now = time.perf_counter()
        self.latencies.append(now - self._sent_at)
        self._head, self._remaining = b"", None
        if now < self._stop_at:
            self._send()
        else:
            self.done.set_result(None)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(
                exc
                or ConnectionError(
                    "the service closed the connection before its response was complete"
                )
            )


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])


async def _run(
    address: str, requests: list[bytes], clients: int, seconds: float
) -> dict[str, float]:
    loop, parts = asyncio.get_running_loop(), urlsplit(address)
    began = time.perf_counter()
    stop_at = began + seconds
    step = max(1, len(requests) // clients)
    connected = [
        (
            await loop.create_connection(
                lambda start=place * step: _Client(requests, start, stop_at),  # type: ignore[misc]
                parts.hostname or "127.0.0.1",
                parts.port or 80,
            )
        )[1]
        for place in range(clients)
    ]
    await asyncio.gather(*(client.done for client in connected))
    elapsed = time.perf_counter() - began
    failures = sum(client.failures for client in connected)
    return summarize([client.latencies for client in connected], elapsed, failures)


def summarize(latencies: list[list[float]], seconds: float, failures: int) -> dict[str, float]:
    """Return the rate of requests, and percentiles of their latency.

    Args:
        latencies: the seconds of each request, by client.
        seconds: how long the load ran.
        failures: the number of responses other than 200.
    """
    milliseconds = np.concatenate([np.array(times) for times in latencies]) * 1000
    return {
        "requests": len(milliseconds),
        "failures": failures,
        "per_second": len(milliseconds) / seconds,
        "p50_ms": float(np.percentile(milliseconds, 50)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
    }


def main() -> None:
    address, method, path, bodies, clients, seconds = sys.argv[1:]
    lines = Path(bodies).read_bytes().splitlines()
    host = f"Host: {urlsplit(address).netloc}\r\n"
    if method == "GET":
        requests = [f"GET {line.decode()} HTTP/1.1\r\n{host}\r\n".encode() for line in lines]
    else:
        head = f"{method} {path} HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
        requests = [f"{head}Content-Length: {len(line)}\r\n\r\n".encode() + line for line in lines]
    print(json.dumps(asyncio.run(_run(address, requests, int(clients), float(seconds)))))


if __name__ == "__main__":
    main()
