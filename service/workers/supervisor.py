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

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

from foundation.errors import HummingbitError
from index.collection import Collection
from index.data_folder import DataFolder
from index.errors import DataFolderError
from index.folder.following import Follower
from service.app import create_app
from service.http.gateway import Service
from service.logs import configure_logs
from service.server import BACKLOG, announce, check_address, listening, run_server
from service.settings import Settings
from service.workers.child_process import send_signal, start
from service.workers.forwarding import Forwarding, FromReaders

LOOK_SECONDS = 0.25
# One that ends sooner is replaced only then.
LEAST_SECONDS = 2.0
# Connections of all readers; the clients of the service are counted by the readers.
WRITER_CONNECTIONS = 65_536
# Readers are renewed for a collection that takes much memory, and not all the time.
LEAST_SHARED = 100_000
SECONDS_BETWEEN_RENEWALS = 60.0
WRITER = 0
# Of all systems the least, without the byte that ends it.
MAX_SOCKET_PATH = 103

_log = logging.getLogger("hummingbit.service")


def serve_by_workers(settings: Settings) -> None:
    """Serve a data folder by several processes, until SIGINT or SIGTERM.

    Raises:
        DataFolderError, AddressError, KeysError: as :func:`service.server.serve`; also if the
            collections lie on Milvus, or the path of temporary files is too long for sockets.
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
        _check_length(Path(private))
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

    def _collections(self) -> dict[str, Collection]:
        opened = {} if self._folder is None else self._folder.collections()
        return {name: one for name, one in opened.items() if isinstance(one, Collection)}

    def _compactions(self) -> dict[str, int]:
        """Return how often the index of each large collection was made anew."""
        return {
            name: one.compactions
            for name, one in self._collections().items()
            if one.compactions and len(one) >= LEAST_SHARED
        }

    def _renew_readers(self) -> None:
        """Start readers that share what was made anew, each before another ends."""
        self._shared = self._compactions()
        self._renew_at = time.monotonic() + SECONDS_BETWEEN_RENEWALS
        for pid, process in list(self._processes.items()):
            if process.slot != WRITER and not self._stopping:
                self._start(process.slot)
                send_signal(pid, signal.SIGTERM)
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
        for collection in self._collections().values():
            collection.prepare_fork()
        role = self._write if slot == WRITER else partial(self._read, slot)
        try:
            pid = start(role, self._alive, lambda: self._stopping)
        except HummingbitError as error:
            _log.error("%s could not be started: %s", _name(slot), error)
            raise
        self._processes[pid] = _Process(slot, time.monotonic())

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
            follower = Follower(lambda: folder.follow(wait=False))
            app.gateway = Forwarding(app, app.gateway, folder, self._sockets[WRITER], others)
            run_server(app, self._settings, [self._listener, own], started)
            follower.stop()
            folder.close()

    def _stop(self) -> None:
        """Let readers answer what they have, then the writer, and wait for them."""
        self._stopping = True
        self._listener.close()
        for wanted in (False, True):
            pids = [pid for pid, one in self._processes.items() if (one.slot == WRITER) == wanted]
            for pid in pids:
                send_signal(pid, signal.SIGTERM)
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
                        send_signal(pid, signal.SIGTERM)
            self._stopping = True
            self._woken.set()

        handlers = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _check_length(private: Path) -> None:
    """Raise a DataFolderError if the system cannot name a socket in the folder."""
    most = MAX_SOCKET_PATH - len(os.fsencode(private / f"{'9' * 5}.sock"))
    if most < 0:
        parent = private.parent
        message = f"is too long a path for sockets, by {-most} bytes; set TMPDIR to a shorter one"
        raise DataFolderError(f"{parent}: {message}")


@contextmanager
def _listening_at(path: Path) -> Iterator[socket.socket]:
    """Listen at a socket of the file system, in a folder that is this user's only."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener


def _name(slot: int) -> str:
    return "the writer" if slot == WRITER else f"reader {slot}"
