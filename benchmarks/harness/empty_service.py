"""The least that a service can do on this machine: it reads a request and answers ``{}``.

Run as ``python -m benchmarks.harness.empty_service``. uvicorn serves the application on a free
port, with uvloop and httptools, as it serves hummingbit; the address is printed.
"""

from __future__ import annotations

import socket

import uvicorn
from starlette.types import Receive, Scope, Send

HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer any request with an empty object."""
    if scope["type"] != "http":
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(
            answer, loop="uvloop", http="httptools", log_level="critical", lifespan="off"
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
