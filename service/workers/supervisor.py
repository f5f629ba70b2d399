"""Starts the processes of one service and replaces those that end.

::

    supervisor ── holds the port, answers nothing
      ├── writer    writes and does all else, on a Unix socket
      ├── reader 1  a read-only service that searches, on the port of the service
      └── reader N

All readers accept from one listening socket, so a waiting connection survives the death of one.
Each process is started by ``python -m hummingbit.service.workers``. It reads a line of JSON, its
:class:`Role`, from standard input, and ends with the supervisor, which holds the other end of that
pipe. It prints :data:`READY` once it takes requests, or why it cannot.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from prometheus_client.multiprocess import mark_process_dead
from pydantic import SecretStr

from hummingbit.foundation.errors import HummingbitError, counted
from hummingbit.foundation.files import scratch_folder
from hummingbit.index.errors import DataFolderError
from hummingbit.service.app import create_app
from hummingbit.service.http.admission import Keyring
from hummingbit.service.http.monitoring import MULTIPROCESS
from hummingbit.service.logs import configure_logs
from hummingbit.service.server import (
    BACKLOG,
    HANDSHAKE_SECONDS,
    announce,
    bind_listener,
    check_address,
    ending_signals,
    hold_back_clients,
    run_server,
    tell_of_missing_kernel,
)
from hummingbit.service.settings import Settings

# The smallest limit of any system for the path of a socket, without the terminating null.
MAX_SOCKET_PATH = 103
# A process that keeps ending is started again after so many seconds, and twice as many each time.
FIRST_SECONDS, MAX_SECONDS = 0.25, 30.0
# One that has lived for so long was well.
WELL_SECONDS = 10.0
POLL_SECONDS = 0.25
READY = "ready"
# The writer's limit is for the connections of all readers, which limit those of clients.
WRITER_CONNECTIONS = 65_536

_log = logging.getLogger("hummingbit.service")


def serve_by_workers(settings: Settings) -> None:
    """Serve a data folder with several processes until SIGINT, SIGTERM or SIGHUP.

    Raises:
        DataFolderError, AddressError, KeysError: as :func:`hummingbit.service.server.serve`; also
            if the collections are on a server, it is Windows, or the path of temporary files is too
            long.
    """
    if settings.backend != "local":
        message = f"it must be 0 with the backend {settings.backend}; start more services instead"
        raise DataFolderError(f"workers is {settings.workers}; {message}")
    if not hasattr(os, "fork"):
        raise DataFolderError(f"workers is {settings.workers}; it must be 0 on Windows")
    check_address(settings)
    with (
        bind_listener(settings.host, settings.port, settings.write_timeout) as listener,
        scratch_folder("hummingbit-workers-") as private,
    ):
        configure_logs(settings)
        tell_of_missing_kernel()
        writer = private / "writer.sock"
        if (excess := len(os.fsencode(writer)) - MAX_SOCKET_PATH) > 0:
            message = f"is too long a path for sockets, by {counted(excess, 'byte')}"
            raise DataFolderError(f"{private.parent}: {message}; set TMPDIR to a shorter one")
        _Supervisor(settings, listener, writer).run()


@dataclass(frozen=True)
class Role:
    """What a process does: it listens at `listener`, a descriptor, or else at the socket `writer`.

    `keys_required` tells whether the service has ever had a key.
    """

    settings: dict[str, Any]
    writer: str
    listener: int | None
    keys_required: bool


class _Worker:
    """A process of the service, which is started again when it has ended."""

    def __init__(self, name: str, listener: socket.socket | None) -> None:
        self.name = name
        self._listener = None if listener is None else listener.fileno()
        self._seconds, self._due, self._started = FIRST_SECONDS, 0.0, 0.0
        self.process: subprocess.Popen[str] | None = None

    @property
    def is_due(self) -> bool:
        """Whether it does not run, and it is time to start it."""
        return self.process is None and time.monotonic() >= self._due

    def start(self, settings: Settings, writer: Path, *, keys_required: bool) -> None:
        """Start the process."""
        role = Role(_revealed(settings), str(writer), self._listener, keys_required)
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hummingbit.service.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=() if self._listener is None else [self._listener],
            env={**os.environ, MULTIPROCESS: str(writer.parent)},
            process_group=0,  # a terminal's signals, such as Ctrl-C, go to the supervisor only
        )
        assert self.process.stdin is not None  # noqa: S101 - for the type checker
        with suppress(BrokenPipeError):  # it has ended already
            self.process.stdin.write(json.dumps(asdict(role), default=str) + "\n")
            self.process.stdin.flush()

    def wait_until_ready(self, is_stopping: Callable[[], bool]) -> None:
        """Wait until the process takes requests.

        Raises:
            DataFolderError: with the reason that it printed, if it could not start.
        """
        assert self.process is not None  # noqa: S101 - it was started
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        while not select.select([self.process.stdout], [], [], POLL_SECONDS)[0]:
            if is_stopping():
                return
        line = self.process.stdout.readline().strip()
        if line != READY:
            raise DataFolderError(line or "the process ended before it was ready")

    def note_end(self) -> bool:
        """Return whether the process has ended; if so, log it and put the next start off."""
        if self.process is None or self.process.poll() is None:
            return False
        said, _ = self.process.communicate()
        reason = said.strip().removeprefix(READY) or f"status {self.process.returncode}"
        _log.error("%s, process %d, ended: %s", self.name, self.process.pid, reason)
        self.process = None
        if time.monotonic() - self._started > WELL_SECONDS:
            self._seconds = FIRST_SECONDS
        self._due = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, MAX_SECONDS)
        return True

    def terminate(self) -> None:
        """Tell the process to finish its requests and end."""
        if self.process is not None:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)  # somebody may have stopped it

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self.process is not None:
            self.process.communicate()


class _Supervisor:
    """Starts the processes, and replaces those that end."""

    def __init__(self, settings: Settings, listener: socket.socket, writer: Path) -> None:
        self._settings, self._listener, self._path = settings, listener, writer
        self._keyring = Keyring(settings)
        self._stopping = threading.Event()
        self._writer = _Worker("the writer", None)
        numbers = range(1, settings.workers + 1)
        self._readers = [_Worker(f"reader {number}", listener) for number in numbers]

    def run(self) -> None:
        """Serve until a signal arrives, then finish the requests under way."""
        workers = [self._writer, *self._readers]
        with self._handle_signals():
            try:
                for some in ([self._writer], self._readers):
                    self._start(some)
                    for worker in some:
                        worker.wait_until_ready(self._stopping.is_set)
                self._listener.listen(BACKLOG)
                announce(self._settings, self._listener)()
                while not self._stopping.wait(POLL_SECONDS):
                    self._keyring.role_of(None)  # notices the first key
                    for worker in workers:
                        pid = worker.process and worker.process.pid
                        if worker.note_end():
                            mark_process_dead(pid, str(self._path.parent))  # type: ignore[no-untyped-call]
                    self._start([worker for worker in workers if worker.is_due])
            finally:
                self._stopping.set()
                hold_back_clients(self._listener)
                time.sleep(HANDSHAKE_SECONDS)
                self._listener.close()
                for some in (self._readers, [self._writer]):
                    for worker in some:
                        worker.terminate()
                    for worker in some:
                        worker.wait()

    def _start(self, workers: Sequence[_Worker]) -> None:
        for worker in workers:
            required = self._keyring.is_required
            worker.start(self._settings, self._path, keys_required=required)

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Let the ending signals end the loop; a second one ends the readers' shutdown delay."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            if self._stopping.is_set():
                for reader in self._readers:
                    reader.terminate()
            self._stopping.set()

        handlers = {number: signal.signal(number, stop) for number in ending_signals()}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _revealed(settings: Settings) -> dict[str, Any]:
    """Return the settings as JSON, with the secrets in them."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in dict(settings).items()
    }


# What the processes do.


def work() -> None:
    """Do what standard input says, and print on standard output when requests are taken."""
    role = Role(**json.loads(sys.stdin.readline()))
    settings = Settings(**{**role.settings, "data_dir": Path(role.settings["data_dir"])})
    configure_logs(settings)
    threading.Thread(target=_end_with_supervisor, name="supervised", daemon=True).start()
    try:
        if role.listener is None:
            _write(settings, role)
        else:
            with socket.socket(fileno=role.listener) as listener:
                _read(settings, role, listener)
    except HummingbitError as error:
        print(error, flush=True)
        raise SystemExit(1) from None


def _end_with_supervisor() -> None:
    sys.stdin.read()  # until the supervisor is gone
    os.kill(os.getpid(), signal.SIGTERM)


def _write(settings: Settings, role: Role) -> None:
    limits = dict.fromkeys(("max_connections", "max_connections_per_address"), WRITER_CONNECTIONS)
    path = Path(role.writer)
    path.unlink(missing_ok=True)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        # Readers search, so the writer needs no index until somebody evaluates.
        settings.location.open(
            writable=not settings.read_only, indexed=False, follow=settings.read_only
        ) as folder,
    ):
        listener.bind(role.writer)
        listener.listen(BACKLOG)
        app = create_app(folder, settings)
        app.state.keyring.is_required |= role.keys_required
        # A reader says which client sent a request; nobody else reaches the socket.
        limited = settings.model_copy(update=limits)
        run_server(app, limited, [listener], _print_ready, trusted_proxies="*")


def _read(settings: Settings, role: Role, listener: socket.socket) -> None:
    with settings.location.open(writable=False, follow=True) as folder:
        app = create_app(folder, settings, writer=Path(role.writer))
        app.state.keyring.is_required |= role.keys_required
        run_server(app, settings, [listener], _print_ready, shares_port=True)


def _print_ready() -> None:
    print(READY, flush=True)
