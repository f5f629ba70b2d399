"""Load on an HTTP service from one process: several clients, each with one request at a time.

Run as ``python -m benchmarks.harness.load ADDRESS METHOD PATH BODIES CLIENTS SECONDS [RATE]``.
BODIES is a file of JSON lines, which are sent over and over; each client starts at another line.
With GET, the lines are the paths to request, and PATH is ignored. The output is :func:`summarize`
as JSON. A client is only a socket and a few lines of parsing, without an event loop of asyncio, so
that its own time hardly counts.

Without RATE, a client sends its next request as soon as it has a response. With it, RATE requests a
second are due at equal distances, whatever the latency, which counts from when a request was due.
The output then has these times, too: ``due``, in seconds of the system's monotonic clock, and
``latencies``, in seconds.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

RECEIVED_AT_ONCE = 1 << 16


class _Client:
    """Sends the next request when the response to the last one is complete, and it is due."""

    def __init__(self, address: tuple[str, int], requests: list[bytes], start: int) -> None:
        self.due: list[float] = []
        self.latencies: list[float] = []
        self.failures = 0
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests, self._place = requests, start
        # Bytes of the response still to come; None until its head is complete.
        self._remaining: int | None = None
        self._head = b""

    def send(self, due: float | None = None) -> None:
        """Send the next request, which fits into the buffer of the socket; it was `due`, or is."""
        request = self._requests[self._place % len(self._requests)]
        self._place += 1
        self.due.append(time.perf_counter() if due is None else due)
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Receive a part of the response; tell whether it is complete. Its body is discarded.

        Raises:
            ConnectionError: if the service has closed the connection.
        """
        data = self.socket.recv(RECEIVED_AT_ONCE)
        if not data:
            raise ConnectionError(
                "the service closed the connection before its response was complete"
            )
        if self._remaining is None:
            self._head += data
            head, separator, body = self._head.partition(b"\r\n\r\n")
            if not separator:
                return False
            self.failures += not head.startswith(b"HTTP/1.1 200")
            self._head, self._remaining = b"", _content_length(head) - len(body)
        else:
            self._remaining -= len(data)
        if self._remaining > 0:
            return False
        self.latencies.append(time.perf_counter() - self.due[-1])
        self._remaining = None
        return True


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])


def _run(
    address: str, requests: list[bytes], clients: int, seconds: float, rate: float | None = None
) -> dict[str, Any]:
    parts = urlsplit(address)
    where = (parts.hostname or "127.0.0.1", parts.port or 80)
    step = max(1, len(requests) // clients)
    connected = [_Client(where, requests, position * step) for position in range(clients)]
    idle = deque(connected)
    with selectors.DefaultSelector() as selector:
        for client in connected:
            selector.register(client.socket, selectors.EVENT_READ, client)
        began = due = time.perf_counter()
        stop_at = began + seconds
        while True:
            # A request that is due while no client is idle is sent late, and its latency counts.
            while idle and due < stop_at and due <= (now := time.perf_counter()):
                idle.popleft().send(None if rate is None else due)
                due = now if rate is None else due + 1 / rate
            if due >= stop_at and len(idle) == clients:
                break
            wait = None if due >= stop_at else max(0.0, due - time.perf_counter())
            for key, _ in selector.select(wait if idle else None):
                if key.data.receive():
                    idle.append(key.data)
                    due = time.perf_counter() if rate is None else due
        elapsed = time.perf_counter() - began
    for client in connected:
        client.socket.close()
    failures = sum(client.failures for client in connected)
    summary = summarize([client.latencies for client in connected], elapsed, failures)
    if rate is None:
        return summary
    times = {
        "due": [due for client in connected for due in client.due],
        "latencies": [seconds for client in connected for seconds in client.latencies],
    }
    return {**summary, **times}


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
    address, method, path, bodies, clients, seconds, *rate = sys.argv[1:]
    lines = Path(bodies).read_bytes().splitlines()
    host = f"Host: {urlsplit(address).netloc}\r\n"
    if method == "GET":
        requests = [f"GET {line.decode()} HTTP/1.1\r\n{host}\r\n".encode() for line in lines]
    else:
        head = f"{method} {path} HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
        requests = [f"{head}Content-Length: {len(line)}\r\n\r\n".encode() + line for line in lines]
    per_second = float(rate[0]) if rate else None
    print(json.dumps(_run(address, requests, int(clients), float(seconds), per_second)))


if __name__ == "__main__":
    main()
