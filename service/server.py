"""One process that serves one data folder."""

from __future__ import annotations

import gc
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from foundation.errors import HummingbitError
from service.app import create_app
from service.http.admission import Keyring, is_loopback
from service.http.connections import Connections, accept_waiting
from service.http.uvicorn_protocol import Connection
from service.logs import configure_logs
from service.settings import Settings

# A thread that computes in Python hands over to the event loop after so long. Python's default of
# 5 ms would hold a short search up several times, once for each time that it gives the lock away.
SWITCH_SECONDS = 0.0005
# Connections that wait to be accepted.
BACKLOG = 2048


class AddressError(HummingbitError, RuntimeError):
    """The service cannot listen where it was told to, or must not."""


def serve(settings: Settings) -> None:
    """Serve a data folder until SIGINT or SIGTERM; requests under way are then finished.

    The address is printed on standard output once the service takes requests.

    Raises:
        DataFolderError: if the folder cannot be opened, or another process is writing to it.
        StoreError: if the collections are on Milvus, and it cannot be reached or refuses.
        AddressError: if the address cannot be listened on, or is not the machine's own and there
            are no keys.
        KeysError: if the keys file cannot be read.
    """
    check_address(settings)
    with (
        listening(settings.host, settings.port) as listener,
        settings.location.open(
            writable=not settings.read_only, follow=settings.read_only
        ) as folder,
    ):
        configure_logs(settings)
        listener.listen(BACKLOG)
        run_server(create_app(folder, settings), settings, [listener], announce(settings, listener))


def announce(settings: Settings, listener: socket.socket) -> Callable[[], None]:
    """Return what says on standard output where the service is."""
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    port = listener.getsockname()[1]
    line = f"Serving {settings.data_dir} on http://{shown}:{port}"
    return lambda: print(line, flush=True)


def run_server(
    app: FastAPI,
    settings: Settings,
    listeners: list[socket.socket],
    started: Callable[[], object],
) -> None:
    """Serve `app` until SIGINT or SIGTERM; `started` is called once it takes requests."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # What was made so far stays, and need not be looked through again and again.
    gc.freeze()
    _allow_descriptors(settings)
    server = _Server(server_config(app, settings), app, settings.shutdown_delay, started)
    with _stopped_by_signals(server):
        server.run(sockets=listeners)


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return how uvicorn is to serve `app`."""
    connections = Connections(
        settings.max_connections,
        settings.max_connections_per_address,
        settings.idle_timeout,
        settings.write_timeout,
    )
    app.state.metrics.watch_connections(connections)
    return uvicorn.Config(
        app,
        # The loop takes either kind of protocol.
        http=partial(Connection, connections),  # type: ignore[arg-type]
        timeout_keep_alive=settings.idle_timeout,  # type: ignore[arg-type]  # a loop takes floats
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace)),
    )


def _allow_descriptors(settings: Settings) -> None:
    """Raise the soft limit of open files, so that connections do not use up those of the data."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * settings.max_connections + 4096
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_address(settings: Settings) -> None:
    """Raise an AddressError if others could reach the service and no key would stop them."""
    if Keyring(settings).is_required or is_loopback(settings.host):
        return
    message = (
        f"host is {settings.host}, which others can reach, and there are no keys: make one with"
        f" hummingbit keys create, set HUMMINGBIT_ADMIN_KEY, or listen on 127.0.0.1"
    )
    raise AddressError(message)


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


class _Server(uvicorn.Server):
    """Stops on a signal, after a delay; a second signal ends the delay."""

    def __init__(
        self, config: uvicorn.Config, app: FastAPI, delay: float, started: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._app = app
        self._delay = delay
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, once the garbage collector has nothing of before to look at."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        if self.started:
            self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody else connect, answer those who have, and end."""
        await accept_waiting(self, sockets or [])
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Turn ``/readyz``, so that a balancer sends new requests to others, and then stop."""
        if self._delay and not self._app.state.draining:
            timer = threading.Timer(self._delay, super().handle_exit, (sig, frame))
            timer.daemon = True
            timer.start()
        else:
            super().handle_exit(sig, frame)
        self._app.state.draining = True


@contextmanager
def _stopped_by_signals(server: _Server) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop `server`, and nothing else.

    It sees to that itself while it runs, but at its end it raises the signal again, and the
    default handlers would end the process before the data folder is closed.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.signal(number, server.handle_exit) for number in signals}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
