"""A small embeddings endpoint on this machine that speaks OpenAI's protocol.

A text's vector is the sum of the vectors of its words in a table, which `seed` chooses.
"""

from __future__ import annotations

import json
import re
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


@dataclass
class EmbeddingsServer:
    """What the server does now, and what it was asked."""

    dimension: int = 32
    seed: int = 0
    key: str = ""
    seconds: float = 0.0
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """The statuses and headers of the next answers, before it answers as it should."""
    max_texts: int = 32
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def vectors(self, texts: list[str]) -> np.ndarray:
        """Return the vectors of texts, ``float32[N, dimension]``."""
        rows = []
        for text in texts:
            words = re.findall(r"\w+", text.lower()) or [""]
            seeds = [zlib.crc32(f"{self.seed} {word}".encode()) for word in words]
            generators = map(np.random.default_rng, seeds)
            rows.append(sum(generator.normal(size=self.dimension) for generator in generators))
        return np.array(rows, dtype=np.float32)

    def answer(self, path: str, key: str, body: Any) -> tuple[int, Any, dict[str, str]]:
        """Return the status, the body and the headers of an answer."""
        self.requests.append(body)
        time.sleep(self.seconds)
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return status, {"error": {"message": f"told to answer {status}"}}, headers
        if self.key and key != f"Bearer {self.key}":
            return 401, {"error": {"message": "Incorrect API key provided"}}, {}
        if path != "/v1/embeddings" or body["model"] != "table":
            return 404, {"error": {"message": f"model {body['model']!r} not found"}}, {}
        if len(body["input"]) > self.max_texts or "" in body["input"]:
            return 422, {"error": "batch size or an empty input"}, {}
        vectors = self.vectors(body["input"]).tolist()
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return 200, {"object": "list", "data": data[::-1], "model": "table"}, {}


@contextmanager
def running_endpoint(**settings: Any) -> Iterator[EmbeddingsServer]:
    """Run a server at a free port; its URL is that of the block's value."""
    state = EmbeddingsServer(**settings)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            key = self.headers.get("authorization", "")
            status, body, headers = state.answer(self.path, key, json.loads(raw))
            sent = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(sent))}.items():
                self.send_header(name, value)
            with suppress(BrokenPipeError):  # the client no longer waits
                self.end_headers()
                self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
