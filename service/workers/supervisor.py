"""The processes of one service, started and replaced.

::

    supervisor ── opens the folder for reading, follows it, holds the port, answers nothing
      ├── writer    writes and does all else, on a socket of the file system
      ├── reader 1  searches, on the port of the service
      └── reader N

Readers are forked from the supervisor, so the codes and tables that it has read lie in memory once
for all of them, and one that takes the place of another is up to date at once. All of them accept
from the one listening socket: a connection that waits there is not lost when a reader dies. What a
writer adds from then on each reader holds itself. Where the supervisor has made its base anew, the
readers are replaced, one after another, and share that one.

No SQLite connection and no thread crosses a fork: the supervisor has one thread, and closes its
connections before.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple, NoReturn

from foundation.errors import HummingbitError
from index.collection import Collection
from index.data_folder import DataFolder
from index.errors import DataFolderError
from service.app import create_app
from service.http.gateway import Service
from service.logs import configure_logs
from service.server import BACKLOG, announce, check_address, listening, run_server
from service.settings import Settings
from service.workers.forwarding import Forwarding, FromReaders

LOOK_SECONDS = 0.25
START_SECONDS = 600.0
# One that ends sooner is replaced only then.
LEAST_SECONDS = 2.0
# Connections of all readers; the clients of the service are counted by the readers.
WRITER_CONNECTIONS = 65_536
# Readers are renewed for a collection that takes much memory, and not all the time.
LEAST_SHARED = 100_000
SECONDS_BETWEEN_RENEWALS = 60.0
WRITER = 0
READY = b"ready"

_log = logging.getLogger("hummingbit.service")


def serve_by_workers(settings: Settings) -> None:
    """Serve a data folder by several processes, until SIGINT or SIGTERM.

    Raises:
        DataFolderError, AddressError, KeysError: as :func:`service.server.serve`; also if the
            collections lie on Milvus.
    """
    if settings.engine != "local":
        message = "serves a data folder only; for Milvus, start more services"
        raise DataFolderError(f"workers is {settings.workers}: it {message}")
    check_address(settings)
    with (
        listening(settings.host, settings.port) as listener,
        TemporaryDirectory(prefix="hummingbit-") as private,
    ):
        configure_logs(settings)
        _Supervisor(settings, listener, Path(private)).run()


class _Process(NamedTuple):
    slot: int
    """0 is the writer's, others are readers'."""
    started: float


class _Supervisor:
    """Starts processes, and others in the place of those that end."""

    def __init__(self, settings: Settings, listener: socket.socket, private: Path) -> None:
        self._settings = settings
        self._listener = listener
        self._sockets = [private / f"{slot}.sock" for slot in range(settings.workers + 1)]
        self._processes: dict[int, _Process] = {}
        self._leaving: set[int] = set()
        self._shared: dict[str, int] = {}
        self._renew_at = 0.0
        self._folder: DataFolder | None = None
        self._app: Service | None = None
        self._stopping = False
        self._woken = threading.Event()
        # The end of it tells the others that the supervisor is gone.
        self._alive = os.pipe()

    def run(self) -> None:
        """Serve until a signal comes, and let all requests be answered then."""
        with self._signals():
            try:
                self._start(WRITER)
                self._open_folder()
                self._listener.listen(BACKLOG)
                for slot in range(1, len(self._sockets)):
                    self._start(slot)
                announce(self._settings, self._listener)()
                while not self._stopping:
                    self._look()
                    self._woken.wait(LOOK_SECONDS)
            finally:
                self._stop()

    def _open_folder(self) -> None:
        """Make what all readers share."""
        self._folder = self._settings.location.open(writable=False)
        self._app = create_app(self._folder, self._settings)

    def _look(self) -> None:
        """Replace what has ended, and follow the writer."""
        # A reader that ends lets nobody else wait at the port.
        self._listener.listen(BACKLOG)
        for pid, process in self._ended():
            _log.error("process %d ended: %s", pid, _name(process.slot))
            soonest = process.started + LEAST_SECONDS
            while not self._stopping and (left := soonest - time.monotonic()) > 0:
                self._woken.wait(left)
            if not self._stopping:
                with suppress(HummingbitError):  # it is logged; the next look tries again
                    self._start(process.slot)
        missing = set(range(len(self._sockets))) - {one.slot for one in self._processes.values()}
        for slot in sorted(missing):
            with suppress(HummingbitError):
                self._start(slot)
        if self._folder is not None:
            try:
                self._folder.follow()
                if self._compactions() != self._shared and time.monotonic() > self._renew_at:
                    self._renew_readers()
            except HummingbitError as error:
                _log.warning("the data folder cannot be followed: %s", error)

    def _compactions(self) -> dict[str, int]:
        """Return how often the index of each large collection was made anew."""
        assert self._folder is not None  # noqa: S101 - for the type checker
        return {
            name: one.compactions
            for name, one in self._folder.collections().items()
            if isinstance(one, Collection) and one.compactions and len(one) >= LEAST_SHARED
        }

    def _renew_readers(self) -> None:
        """Start readers that share what was made anew, each before another ends."""
        self._shared = self._compactions()
        self._renew_at = time.monotonic() + SECONDS_BETWEEN_RENEWALS
        for pid, process in list(self._processes.items()):
            if process.slot != WRITER and not self._stopping:
                self._start(process.slot)
                _send(pid, signal.SIGTERM)
                self._processes.pop(pid, None)
                self._leaving.add(pid)

    def _ended(self) -> Iterator[tuple[int, _Process]]:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._leaving.discard(pid)
            process = self._processes.pop(pid, None)
            if process is not None:
                yield pid, process

    def _start(self, slot: int) -> None:
        """Start the process of a slot, and wait until it answers.

        Raises:
            HummingbitError: with what it said where it could not be started.
        """
        if self._folder is not None:
            self._folder.prepare_fork()
        gc.freeze()
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            self._become(slot, writing)
        os.close(writing)
        self._processes[pid] = _Process(slot, time.monotonic())
        try:
            said = _said(reading, START_SECONDS, lambda: self._stopping)
        finally:
            os.close(reading)
        if said != READY and not self._stopping:
            _send(pid, signal.SIGKILL)
            del self._processes[pid]
            os.waitpid(pid, 0)
            message = said.decode() or f"{_name(slot)} could not be started"
            _log.error("%s", message)
            raise DataFolderError(message)

    def _become(self, slot: int, ready: int) -> NoReturn:
        """Be the process of a slot."""
        status = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            # The signals of a terminal are the supervisor's.
            os.setpgid(0, 0)
            os.close(self._alive[1])
            _end_with(self._alive[0])
            if slot == WRITER:
                self._write(lambda: os.write(ready, READY))
            else:
                self._read(slot, lambda: os.write(ready, READY))
            status = 0
        except HummingbitError as error:
            os.write(ready, str(error).encode())
        except BaseException:  # noqa: BLE001 - this process must not become a second supervisor
            traceback.print_exc()
        finally:
            os._exit(status)

    def _write(self, started: Callable[[], object]) -> None:
        settings = self._settings
        most = {
            "max_connections": WRITER_CONNECTIONS,
            "max_connections_per_address": WRITER_CONNECTIONS,
        }
        with (
            _listening_at(self._sockets[WRITER]) as listener,
            # Readers search, so this one needs no index before somebody evaluates.
            settings.location.open(
                writable=not settings.read_only, indexed=False, follow=settings.read_only
            ) as folder,
        ):
            self._listener.close()
            app = create_app(folder, settings)
            app.gateway = FromReaders(app.gateway)
            run_server(app, settings.model_copy(update=most), [listener], started)

    def _read(self, slot: int, started: Callable[[], object]) -> None:
        folder, app = self._folder, self._app
        assert folder is not None  # noqa: S101 - for the type checker
        assert app is not None  # noqa: S101 - for the type checker
        others = [path for path in self._sockets[1:] if path != self._sockets[slot]]
        with _listening_at(self._sockets[slot]) as own:
            folder.begin_following()
            app.gateway = Forwarding(app, app.gateway, folder, self._sockets[WRITER], others)
            run_server(app, self._settings, [self._listener, own], started)
            folder.close()

    def _stop(self) -> None:
        """Let readers answer what they have, then the writer, and wait for them."""
        self._stopping = True
        self._listener.close()
        for wanted in (False, True):
            pids = [pid for pid, one in self._processes.items() if (one.slot == WRITER) == wanted]
            for pid in pids:
                _send(pid, signal.SIGTERM)
            for pid in [*pids, *self._leaving]:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)
                self._processes.pop(pid, None)
        if self._folder is not None:
            self._folder.close()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM end the loop; a second one is for the delay of the readers."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            if self._stopping:
                for pid, process in self._processes.items():
                    if process.slot != WRITER:
                        _send(pid, signal.SIGTERM)
            self._stopping = True
            self._woken.set()

        handlers = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _said(reading: int, seconds: float, is_stopping: Callable[[], bool]) -> bytes:
    """Return what a process says once it answers, or why it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not is_stopping():
        if select.select([reading], [], [], LOOK_SECONDS)[0]:
            return os.read(reading, 1 << 16)
    return b""


def _end_with(alive: int) -> None:
    """Stop this process once the supervisor is gone, however that ended."""

    def wait() -> None:
        os.read(alive, 1)
        _send(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="supervised", daemon=True).start()


@contextmanager
def _listening_at(path: Path) -> Iterator[socket.socket]:
    """Listen at a socket of the file system, in a folder that is this user's only."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _name(slot: int) -> str:
    return "the writer" if slot == WRITER else f"reader {slot}"
