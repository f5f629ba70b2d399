"""Serves one data folder by one process."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import math
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

from hummingbit.foundation.errors import HummingbitError
from hummingbit.foundation.slices import begin_stage, stop_printing
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import kernel
from hummingbit.service.app import Beside, create_app
from hummingbit.service.http.admission import Keyring, is_loopback
from hummingbit.service.http.connections import Connections
from hummingbit.service.logs import configure_logs
from hummingbit.service.settings import Settings

try:
    import resource
except ImportError:  # Windows, where sockets are no files
    resource = None  # type: ignore[assignment]

# A thread that computes in Python yields to the event loop after this time. Python's default, 5 ms,
# would delay a short search several times, once each time that it releases the interpreter lock.
SWITCH_SECONDS = 0.0005
# The number of connections that may wait to be accepted.
BACKLOG = 2048
# The time in which clients that are connecting finish after the port takes no others.
HANDSHAKE_SECONDS = 0.1
# Linux's number of an option that Python does not name.
SO_ATTACH_FILTER = 26
# A classic BPF program on a TCP segment: code, jumps if true and if false, operand.
ONLY_CONNECTED = (
    (0x30, 0, 0, 13),  # load the byte of flags
    (0x54, 0, 0, 0x12),  # keep ACK and SYN
    (0x15, 0, 1, 0x02),  # is it SYN without ACK, which asks for a connection?
    (0x06, 0, 0, 0),  # then drop the segment
    (0x06, 0, 0, 0xFFFFFFFF),  # else take all of it
)

_log = logging.getLogger("hummingbit.service")


class AddressError(HummingbitError, RuntimeError):
    """The service cannot listen at the address, or must not without keys."""


def serve(
    settings: Settings, *, folder: DataFolder | None = None, beside: Beside | None = None
) -> None:
    """Serve a data folder until SIGINT, SIGTERM or SIGHUP, then finish the requests under way.

    Once the service accepts requests, it prints its address on standard output. The `folder` is
    that of the settings if it is open, and the caller closes it. `beside` is that of
    :func:`hummingbit.service.app.create_app`.

    Raises:
        DataFolderError: if the folder cannot be opened, or another process is writing to it.
        StoreError: if the collections are on a server that cannot be reached or refuses.
        AddressError: if the service cannot listen at the address, or other machines can reach the
            address and there are no keys.
        KeysError: if the keys file cannot be read.
    """
    check_address(settings)
    begin_stage(f"opening {settings.data_dir}")
    with (
        bind_listener(settings.host, settings.port, settings.write_timeout) as listener,
        nullcontext(folder)
        if folder is not None
        else settings.location.open(
            writable=not settings.read_only, follow=settings.read_only
        ) as opened,
    ):
        stop_printing()
        configure_logs(settings)
        tell_of_missing_kernel()
        listener.listen(BACKLOG)
        app = create_app(opened, settings, beside)
        run_server(app, settings, [listener], announce(settings, listener))


def tell_of_missing_kernel() -> None:
    """Log a warning if there is no compiled kernel."""
    reason = kernel.missing()
    if reason is not None:
        _log.warning(reason)


def announce(settings: Settings, listener: socket.socket) -> Callable[[], None]:
    """Return a function that prints the addresses of the service and its page."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listener.getsockname()[1]}"
    lines = f"Serving {settings.data_dir} on {address}\nIn a browser: {address}"
    return lambda: print(lines, flush=True)


def run_server(
    app: FastAPI,
    settings: Settings,
    listeners: list[socket.socket],
    on_ready: Callable[[], object],
    *,
    trusted_proxies: str | None = None,
    shares_port: bool = False,
) -> None:
    """Serve `app` until SIGINT, SIGTERM or SIGHUP; call `on_ready` once it accepts requests.

    `trusted_proxies` are the addresses whose headers name the client of a request, by default that
    of this machine. With `shares_port`, other processes accept from the same listeners.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    # All objects so far are kept, so the collector need not visit them again and again.
    gc.freeze()
    settings = _within_descriptors(settings)
    connections = limited_connections(settings)
    config = server_config(app, settings, connections, trusted_proxies)
    delay = settings.shutdown_delay
    server = _Server(config, connections, app, delay, on_ready, shares_port=shares_port)
    with _stop_on_signals(server):
        server.run(sockets=listeners)


def limited_connections(settings: Settings) -> Connections:
    """Return no connections yet, with the limits of the settings."""
    return Connections(
        settings.max_connections, settings.max_connections_per_address, settings.idle_timeout
    )


def server_config(
    app: FastAPI,
    settings: Settings,
    connections: Connections,
    trusted_proxies: str | None = None,
) -> uvicorn.Config:
    """Return uvicorn's configuration to serve `app` over `connections`."""
    app.state.metrics.watch_connections(connections)
    return uvicorn.Config(
        app,
        http=connections.protocol,  # type: ignore[arg-type]  # which names uvicorn's own
        # Connections closes those that are idle before.
        timeout_keep_alive=2 * math.ceil(settings.idle_timeout),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=trusted_proxies,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace)),
    )


def _within_descriptors(settings: Settings) -> Settings:
    """Raise the soft limit of open files; return settings with connections that leave some free.

    Connections get a quarter of the files. Refused ones, which stay open for a moment, have another
    quarter. What is left is for the data, so clients cannot make its files fail to open.
    """
    if resource is None:
        return settings
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * settings.max_connections + 4096
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    most = max(1, limit // 4)
    if limit == wanted or most >= settings.max_connections:
        return settings
    message = "accepts %s connections, not %s, because this process may open only %s files"
    counts = (f"{count:,}" for count in (most, settings.max_connections, limit))
    _log.warning(message + "; raise its limit (ulimit -n)", *counts)
    return settings.model_copy(update={"max_connections": most})


def check_address(settings: Settings) -> None:
    """Raise an AddressError if other machines can reach the address and there are no keys."""
    if Keyring(settings).is_required or is_loopback(settings.host):
        return
    message = (
        f"host is {settings.host}, which others can reach, and there are no keys: create one with"
        f" hummingbit keys create, set HUMMINGBIT_ADMIN_KEY, or listen on 127.0.0.1"
    )
    raise AddressError(message)


@contextmanager
def bind_listener(host: str, port: int, write_timeout: float = 30.0) -> Iterator[socket.socket]:
    """Bind a socket to the address; nobody can connect before the caller listens.

    On Linux, the system disconnects clients that take nothing of a response for `write_timeout`
    seconds.

    Raises:
        AddressError: if the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the protocol is explicit. Left on, it would delay
    # the second packet of every response by 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # the sockets of connections inherit it
            milliseconds = round(1000 * write_timeout)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AddressError(f"cannot listen on {host} port {port}: {reason}") from error
        yield listener


def hold_back_clients(listener: socket.socket) -> None:
    """Let the system ignore clients that ask `listener` for a connection; others stay.

    A port that closes resets what nobody has accepted yet. Nothing arrives between the last that is
    accepted and the end of the port if nobody can connect. A client asks again after a second, and
    is refused then. Systems other than Linux cannot do so, and some sandboxes may not.
    """
    if sys.platform != "linux" or listener.family == socket.AF_UNIX:
        return
    program = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *instruction) for instruction in ONLY_CONNECTED)
    )
    given = struct.pack("HL", len(ONLY_CONNECTED), ctypes.addressof(program))
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, given)


def ending_signals() -> list[signal.Signals]:
    """Return the signals on which a service ends in order.

    A terminal that closes sends SIGHUP. ``nohup`` lets a process ignore it, and this stays so.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:
        numbers.append(hang_up)
    return numbers


class _Server(uvicorn.Server):
    """Stops on a signal, after a delay; a second signal ends the delay."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        app: FastAPI,
        delay: float,
        on_ready: Callable[[], object],
        *,
        shares_port: bool,
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._app = app
        self._delay = delay
        self._on_ready = on_ready
        self._shares_port = shares_port

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept requests, and exempt all objects so far from garbage collection."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the port, answer the connections that wait or are open, and end."""
        copies = [listener.dup() for listener in sockets or ()]
        if not self._shares_port:
            for copy in copies:
                hold_back_clients(copy)
            await asyncio.sleep(HANDSHAKE_SECONDS)
        for server in self.servers:
            server.close()
        for copy in copies:
            copy.setblocking(False)
        await self._connections.accept_waiting(copies)
        for copy in copies:
            copy.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Make ``/readyz`` return 503, so that balancers send requests elsewhere, then stop."""
        if self._delay and not self._app.state.draining:
            timer = threading.Timer(self._delay, super().handle_exit, (sig, frame))
            timer.daemon = True
            timer.start()
        else:
            super().handle_exit(sig, frame)
        self._app.state.draining = True


@contextmanager
def _stop_on_signals(server: _Server) -> Iterator[None]:
    """Let the signals that end a service stop `server`, but not the process.

    uvicorn handles the signals while it runs, but raises them again at its end, and the default
    handlers would end the process before the data folder is closed.
    """
    handlers = {number: signal.signal(number, server.handle_exit) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
