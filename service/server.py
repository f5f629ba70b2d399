"""One process that serves one data folder."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from index.data_folder import DataFolder
from service.app import DEFAULT_SETTINGS, create_app
from service.settings import Settings

GRACE_SECONDS = 10


class AddressError(RuntimeError):
    """The service cannot listen where it was told to."""


def serve(
    data_dir: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: Settings = DEFAULT_SETTINGS,
) -> None:
    """Serve the data folder until SIGINT or SIGTERM; requests under way are then finished.

    The address is printed on standard output once the service takes requests; port 0 stands for
    any that is free.

    Raises:
        DataFolderError: if the folder cannot be opened, or another process is writing to it.
        AddressError: if the address cannot be listened on.
    """
    with listening(host, port) as listener, DataFolder(data_dir, writable=True) as folder:
        config = uvicorn.Config(
            create_app(folder, settings),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = uvicorn.Server(config)
        with _stopped_by_signals(server):
            listener.listen(config.backlog)
            shown = f"[{host}]" if ":" in host else host
            print(f"Serving {data_dir} on http://{shown}:{listener.getsockname()[1]}", flush=True)
            server.run(sockets=[listener])


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Hold the address, but let nobody connect before there is something to answer."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off where the protocol is spelled out, and only there; left
    # on, it holds the second packet of every answer back for 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AddressError(f"cannot listen on {host} port {port}: {reason}") from error
        yield listener


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop `server`, and nothing else.

    It sees to that itself while it runs, but at its end it raises the signal again, and the
    default handlers would end the process before the data folder is closed.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
