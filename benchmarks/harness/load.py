"""Load on an HTTP service from one process: several clients, each with one request at a time.

Run as ``python -m benchmarks.harness.load ADDRESS METHOD PATH BODIES CLIENTS SECONDS``. BODIES is a
file of JSON lines, which are sent over and over; each client starts at another line. With GET, the
lines are the paths to request, and PATH is ignored. The output is :func:`summarize` as JSON. A
client is only a socket and a few lines of parsing, without an event loop of asyncio, so that its
own time hardly counts.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

RECEIVED_AT_ONCE = 1 << 16


class _Client:
    """Sends the next request as soon as the response to the last one is complete."""

    def __init__(self, address: tuple[str, int], requests: list[bytes], start: int) -> None:
        self.latencies: list[float] = []
        self.failures = 0
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests, self._place = requests, start
        # Bytes of the response still to come; None until its head is complete.
        self._remaining: int | None = None
        self._head = b""
        self._sent_at = 0.0

    def send(self) -> None:
        """Send the next request, which fits into the buffer of the socket."""
        request = self._requests[self._place % len(self._requests)]
        self._place += 1
        self._sent_at = time.perf_counter()
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
        self.latencies.append(time.perf_counter() - self._sent_at)
        self._remaining = None
        return True


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])


def _run(address: str, requests: list[bytes], clients: int, seconds: float) -> dict[str, float]:
    parts = urlsplit(address)
    where = (parts.hostname or "127.0.0.1", parts.port or 80)
    step = max(1, len(requests) // clients)
    connected = [_Client(where, requests, position * step) for position in range(clients)]
    with selectors.DefaultSelector() as selector:
        for client in connected:
            selector.register(client.socket, selectors.EVENT_READ, client)
        began = time.perf_counter()
        stop_at = began + seconds
        for client in connected:
            client.send()
        while selector.get_map():
            for key, _ in selector.select():
                client = key.data
                if not client.receive():
                    continue
                if time.perf_counter() < stop_at:
                    client.send()
                else:
                    selector.unregister(client.socket)
                    client.socket.close()
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
    print(json.dumps(_run(address, requests, int(clients), float(seconds))))


if __name__ == "__main__":
    main()
