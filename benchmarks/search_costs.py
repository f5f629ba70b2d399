"""The time of each part of a search that arrives alone, in this process.

Run as ``python -m benchmarks.search_costs``. A connection without a socket passes each search to a
warm service. "loop" searches without a pause. "memory used" rewrites 4 MiB before each search, as
another program would. "slept" sleeps 0.2 ms before each, as a server with one client does. Figures
are medians in µs; taking them adds a few. The rest of the time over HTTP goes to the event loop and
the system; see ``python -m benchmarks.service``.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
import uvloop
from uvicorn.server import ServerState

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from benchmarks.harness.plain_search import NAME, search_body, served
from benchmarks.harness.service_corpus import make_corpus
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.index.collection import SearchableCollection
from hummingbit.index.rankings import HammingRanking
from hummingbit.service.batching import Batcher
from hummingbit.service.http.gateway import Service
from hummingbit.service.http.protocol import BoundedReads, Connections, Starts, connection_protocol

TIMED = (
    (BoundedReads, "buffer_updated"),
    (Starts, "_begin_all"),
    (Service, "answer_now"),
    (Batcher, "_answer_batch"),
    (SearchableCollection, "encode_queries"),
    (Encoder, "_read_few"),
    (TextFeatures, "read_query"),
    (SearchableCollection, "find"),
    (HammingRanking, "rank"),
)
# Each part takes the time of some functions, without that of others that they call.
PARTS = {
    "HTTP: the request and the response": (["buffer_updated", "_begin_all"], ["answer_now"]),
    "admission, JSON of the request, batch": (["answer_now"], ["_answer_batch"]),
    "terms of the text": (["read_query"], []),
    "network": (["_read_few"], ["read_query"]),
    "code of the query": (["encode_queries"], ["_read_few"]),
    "kernel": (["rank"], []),
    "rows, ids and hits": (["find"], ["rank"]),
    "JSON of the response": (["_answer_batch"], ["encode_queries", "find"]),
    "all": (["buffer_updated", "_begin_all"], []),
}
WARM_UP_ROUNDS = 2
SLEEP_SECONDS = 0.0002
OTHER_MEMORY = np.zeros(4 << 20, dtype=np.uint8)
PAUSES: dict[str, Callable[[], object]] = {
    "loop": lambda: None,
    "memory used": lambda: OTHER_MEMORY.__iadd__(1),
    "slept": lambda: time.sleep(SLEEP_SECONDS),
}


class Unconnected(asyncio.Transport):
    """A transport without a socket, which keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        """Keep `data`."""
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        """Return False: it stays open."""
        return False

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing waits to be sent."""
        return 0

    def pause_reading(self) -> None:
        """Do nothing: nothing arrives unasked."""

    def resume_reading(self) -> None:
        """Do nothing: nothing arrives unasked."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=200_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = uvloop.run(measure(Path(folder), arguments.documents))
    print(f"{'µs':<40}" + "".join(f"{name:>14}" for name in PAUSES))
    for part in PARTS:
        print(f"{part:<40}" + "".join(f"{figures[name][part]:>14.0f}" for name in PAUSES))


async def measure(folder: Path, documents: int) -> dict[str, dict[str, float]]:
    """Return the median µs of each part, by the pause before each search."""
    corpus = make_corpus(folder, documents)
    seconds: dict[str, float] = defaultdict(float)
    for owner, name in TIMED:
        setattr(owner, name, timed(getattr(owner, name), name, seconds))
    requests = [request(text) for text in corpus.queries]
    async with served(corpus) as app:
        connection, transport = connect(app)
        for _ in range(WARM_UP_ROUNDS):
            for raw in requests:
                await search(connection, transport, raw)
        figures = {}
        for pause, wait in PAUSES.items():
            runs: dict[str, list[float]] = defaultdict(list)
            for raw in requests:
                seconds.clear()
                wait()
                await search(connection, transport, raw)
                for part, (added, left_out) in PARTS.items():
                    one = sum(seconds[name] for name in added)
                    runs[part].append(one - sum(seconds[name] for name in left_out))
            figures[pause] = {part: statistics.median(runs[part]) * 1e6 for part in PARTS}
    return figures


def timed(function: Callable[..., Any], name: str, seconds: dict[str, float]) -> Callable[..., Any]:
    """Return `function`, with its time added to ``seconds[name]``."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **kwargs)
        seconds[name] += time.perf_counter() - start
        return result

    return call


def connect(app: Service) -> tuple[BoundedReads, Unconnected]:
    """Connect a transport to a service as its server does."""
    connections = Connections(max_open=1, max_per_address=1, idle_seconds=60, write_seconds=60)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False)
    config.load()
    settings = {"config": config, "server_state": ServerState(), "app_state": {}}
    connection = connection_protocol(connections, Starts(app), **settings)
    transport = Unconnected()
    connection.connection_made(transport)
    return connection, transport


def request(text: str) -> bytes:
    """Return a search as a client sends it."""
    body = search_body(text)
    head = f"POST /v1/collections/{NAME}/search HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def search(connection: BoundedReads, transport: Unconnected, raw: bytes) -> None:
    """Send a request and wait for the response."""
    transport.written.clear()
    connection.get_buffer(-1)[: len(raw)] = raw
    connection.buffer_updated(len(raw))
    while not transport.written:
        await asyncio.sleep(0)
    if not transport.written[0].startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"the service answered {transport.written[0]!r}")


if __name__ == "__main__":
    main()
