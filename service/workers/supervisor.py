"""Starts the processes of one service and replaces those that end.

::

    supervisor ── opens the folder for reading, follows it, holds the port, answers nothing
      ├── writer    writes and does all else, on a Unix socket
      ├── reader 1  searches, on the port of the service
      └── reader N

Readers are forked from the supervisor, so they share the codes and tables that it has read, and a
replacement is up to date at once. All readers accept from one listening socket, so a waiting
connection survives the death of a reader. Each reader keeps its own copy of later writes. When the
supervisor has compacted an index, it replaces the readers one by one, and they share the result.

No SQLite connection and no thread crosses a fork: the supervisor has a single thread, and closes
its connections first.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from hummingbit.foundation.errors import HummingbitError, counted
from hummingbit.foundation.files import scratch_folder
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder, Follower
from hummingbit.index.errors import DataFolderError
from hummingbit.service.app import create_app
from hummingbit.service.http.admission import Keyring
from hummingbit.service.http.gateway import Service
from hummingbit.service.logs import configure_logs
from hummingbit.service.server import (
    BACKLOG,
    announce,
    bind_listener,
    check_address,
    ending_signals,
    run_server,
    tell_of_missing_kernel,
)
from hummingbit.service.settings import Settings
from hummingbit.service.workers.forwarding import ForwardedClient, Forwarding

# Unix sockets, at which the processes reach each other.


# The smallest limit of any system, in bytes, without the terminating null.
MAX_SOCKET_PATH = 103


def check_socket_path(private: Path) -> None:
    """Raise a DataFolderError if the paths of sockets in the folder would be too long."""
    excess = len(os.fsencode(private / f"{'9' * 5}.sock")) - MAX_SOCKET_PATH
    if excess > 0:
        message = f"is too long a path for sockets, by {counted(excess, 'byte')}"
        raise DataFolderError(f"{private.parent}: {message}; set TMPDIR to a shorter one")


@contextmanager
def listen_at(path: Path) -> Iterator[socket.socket]:
    """Listen at a Unix socket, in a folder that only this user may enter."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener


# Retries: when to try again, and whether the reason is worth a line of the log.


FIRST_SECONDS = 0.25
MAX_SECONDS = 30.0


class Retry:
    """Waits twice as long after each failure, up to :data:`MAX_SECONDS`."""

    def __init__(self) -> None:
        """Be due at once."""
        self._reason = ""
        self._seconds = FIRST_SECONDS
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time to try."""
        return time.monotonic() >= self._next

    def note_failure(self, reason: str) -> bool:
        """Wait before the next try; return whether the failure before had another reason."""
        is_other = reason != self._reason
        self._reason = reason
        self._next = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, MAX_SECONDS)
        return is_other

    def note_success(self) -> None:
        """Be due at once, and forget the reason."""
        self._reason, self._seconds, self._next = "", FIRST_SECONDS, 0.0


# Processes, which report when they are ready and end with their parent.


POLL_SECONDS = 0.25
START_SECONDS = 600.0
READY = b"ready"
# Modules that servers import as they start. Children share the memory of what is imported before.
IMPORTED_BY_CHILDREN = ("anyio._backends._asyncio", "httpcore", "uvicorn.lifespan.on", "uvloop")

Role = Callable[[Callable[[], object]], object]
"""What a process does until SIGTERM. It calls its argument once it is ready."""


def start(role: Role, alive: tuple[int, int], is_stopping: Callable[[], bool]) -> int:
    """Fork a process, wait until it is ready, and return its id.

    `alive` is a pipe, its read end first. This process keeps the write end open while it lives.

    Raises:
        DataFolderError: with the reason that the process reported, if it could not start.
    """
    for name in IMPORTED_BY_CHILDREN:
        with suppress(ImportError):  # uvloop is optional
            importlib.import_module(name)
    # The collector leaves frozen objects alone, so their memory pages stay shared.
    gc.freeze()
    read_end, write_end = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:  # out of memory or of processes, perhaps only for now
        os.close(read_end)
        os.close(write_end)
        raise DataFolderError(f"cannot be forked: {error.strerror}") from None
    if not pid:
        os.close(read_end)
        _run_role(role, alive, write_end)
    os.close(write_end)
    try:
        report = _read_report(read_end, is_stopping)
    finally:
        os.close(read_end)
    if report != READY and not is_stopping():
        send_signal(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise DataFolderError(report.decode() or "the process ended before it was ready")
    return pid


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _run_role(role: Role, alive: tuple[int, int], report: int) -> NoReturn:
    """Do `role` in the child, report on the descriptor `report`, and exit."""
    status = 1
    try:
        for number in ending_signals():
            signal.signal(number, signal.SIG_DFL)
        # A terminal's signals, such as Ctrl-C, go to the parent only.
        os.setpgid(0, 0)
        os.close(alive[1])
        _stop_with_parent(alive[0])
        role(lambda: os.write(report, READY))
        status = 0
    except HummingbitError as error:
        os.write(report, str(error).encode())
    except BaseException:  # noqa: BLE001 - the child must not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def _read_report(read_end: int, is_stopping: Callable[[], bool]) -> bytes:
    """Return READY, the reason why the process could not start, or nothing if it just ended."""
    deadline = time.monotonic() + START_SECONDS
    poller = select.poll()  # takes descriptors of any number, which select.select does not
    poller.register(read_end, select.POLLIN)
    while time.monotonic() < deadline and not is_stopping():
        if poller.poll(POLL_SECONDS * 1000):
            return os.read(read_end, 1 << 16)
    return b""


def _stop_with_parent(alive: int) -> None:
    """Send this process SIGTERM once its parent, which holds the pipe's other end, is gone."""

    def wait() -> None:
        os.read(alive, 1)
        send_signal(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="supervised", daemon=True).start()


# The supervisor.


# A process that ends sooner is not replaced before this time is over.
MIN_LIFETIME_SECONDS = 2.0
# The writer's limit is for the connections of all readers, which limit those of clients.
WRITER_CONNECTIONS = 65_536
# Only collections that take much memory are worth new readers, and only from time to time.
MIN_SHARED_DOCUMENTS = 100_000
SECONDS_BETWEEN_RENEWALS = 60.0
WRITER = 0

_log = logging.getLogger("hummingbit.service")


def serve_by_workers(settings: Settings) -> None:
    """Serve a data folder with several processes until SIGINT, SIGTERM or SIGHUP.

    Raises:
        DataFolderError, AddressError, KeysError: as :func:`hummingbit.service.server.serve`; also
        if the
            collections are on Milvus, it is Windows, or the path of temporary files is too long.
    """
    if settings.backend != "local":
        message = "it must be 0 with the backend milvus; start more services instead"
        raise DataFolderError(f"workers is {settings.workers}; {message}")
    if not hasattr(os, "fork"):
        raise DataFolderError(f"workers is {settings.workers}; it must be 0 on Windows")
    check_address(settings)
    with (
        bind_listener(settings.host, settings.port) as listener,
        scratch_folder("hummingbit-workers-") as private,
    ):
        configure_logs(settings)
        tell_of_missing_kernel()
        check_socket_path(private)
        _Supervisor(settings, listener, private).run()


class _Process(NamedTuple):
    slot: int
    """0 for the writer, from 1 for readers."""
    started: float
    """When, as :func:`time.monotonic` has it."""


class _Supervisor:
    """Starts the processes, and replaces those that end."""

    def __init__(self, settings: Settings, listener: socket.socket, private: Path) -> None:
        self._settings = settings
        self._listener = listener
        self._keyring = Keyring(settings)
        self._sockets = [private / f"{slot}.sock" for slot in range(settings.workers + 1)]
        self._processes: dict[int, _Process] = {}
        self._leaving: set[int] = set()
        self._shared_compactions: dict[str, int] = {}
        self._renew_at = 0.0
        self._starts = [Retry() for _ in self._sockets]
        self._follows = Retry()
        self._folder: DataFolder | None = None
        self._app: Service | None = None
        self._stopping = False
        self._wake_up = threading.Event()
        # Its end of file tells the other processes that the supervisor is gone.
        self._alive = os.pipe()

    def run(self) -> None:
        """Serve until a signal arrives, then finish the requests under way."""
        with self._handle_signals():
            try:
                self._start(WRITER)
                self._open_folder()
                self._listener.listen(BACKLOG)
                for slot in range(1, len(self._sockets)):
                    self._start(slot)
                announce(self._settings, self._listener)()
                while not self._stopping:
                    self._check_processes()
                    self._wake_up.wait(POLL_SECONDS)
            finally:
                self._stop()

    def _open_folder(self) -> None:
        """Open the data folder and create the application; all readers share both."""
        self._folder = self._settings.location.open(writable=False)
        self._app = create_app(self._folder, self._settings)

    def _check_processes(self) -> None:
        """Replace processes that ended, and follow the writer."""
        self._keyring.role_of(None)  # notices the first key, which processes to come must know of
        # A reader that shut down has set the backlog of the shared socket to 0.
        self._listener.listen(BACKLOG)
        for pid, process in self._reap():
            _log.error("process %d ended: %s", pid, _process_name(process.slot))
            soonest = process.started + MIN_LIFETIME_SECONDS
            while not self._stopping and (left := soonest - time.monotonic()) > 0:
                self._wake_up.wait(left)
        running = {process.slot for process in self._processes.values()}
        missing = set(range(len(self._sockets))) - running
        for slot in sorted(missing):
            if self._starts[slot].is_due and not self._stopping:
                with suppress(HummingbitError):  # logged; a later check tries again
                    self._start(slot)
        if self._folder is not None and self._follows.is_due:
            self._follow(self._folder)

    def _follow(self, folder: DataFolder) -> None:
        """Follow the writer, and renew the readers if indexes were compacted."""
        try:
            folder.follow()
            compactions = self._compactions()
        except HummingbitError as error:
            if self._follows.note_failure(str(error)):
                _log.warning("the data folder cannot be followed: %s", error)
            return
        self._follows.note_success()
        if compactions != self._shared_compactions and time.monotonic() > self._renew_at:
            with suppress(HummingbitError):  # logged; the next renewal tries again
                self._renew_readers()

    def _collections(self) -> Mapping[str, CollectionBackend]:
        return {} if self._folder is None else self._folder.collections()

    def _compactions(self) -> dict[str, int]:
        """Return how often the index of each large collection was compacted."""
        return {
            name: collection.compactions
            for name, collection in self._collections().items()
            if collection.compactions and len(collection) >= MIN_SHARED_DOCUMENTS
        }

    def _renew_readers(self) -> None:
        """Replace the readers, so that they share the compacted indexes; each starts first."""
        compactions = self._compactions()
        self._renew_at = time.monotonic() + SECONDS_BETWEEN_RENEWALS
        for pid, process in list(self._processes.items()):
            if process.slot != WRITER and not self._stopping:
                self._start(process.slot)
                send_signal(pid, signal.SIGTERM)
                self._processes.pop(pid, None)
                self._leaving.add(pid)
        self._shared_compactions = compactions

    def _reap(self) -> Iterator[tuple[int, _Process]]:
        """Yield the processes that ended unasked, by id."""
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
        """Start the process of a slot, and wait until it takes requests.

        Raises:
            HummingbitError: with the reason that the process reported, if it could not start.
        """
        if self._folder is not None:
            self._folder.prepare_fork()
        role = self._write if slot == WRITER else partial(self._read, slot)
        try:
            pid = start(role, self._alive, lambda: self._stopping)
        except HummingbitError as error:
            if self._starts[slot].note_failure(str(error)):
                _log.error("%s could not be started: %s", _process_name(slot), error)
            raise
        self._starts[slot].note_success()
        self._processes[pid] = _Process(slot, time.monotonic())

    def _write(self, on_ready: Callable[[], object]) -> None:
        settings = self._settings
        limits = {
            "max_connections": WRITER_CONNECTIONS,
            "max_connections_per_address": WRITER_CONNECTIONS,
        }
        with (
            listen_at(self._sockets[WRITER]) as listener,
            # Readers search, so the writer needs no index until somebody evaluates.
            settings.location.open(
                writable=not settings.read_only, indexed=False, follow=settings.read_only
            ) as folder,
        ):
            self._listener.close()
            app = create_app(folder, settings)
            app.state.keyring.is_required |= self._keyring.is_required
            app.gateway = ForwardedClient(app.gateway)
            run_server(app, settings.model_copy(update=limits), [listener], on_ready)

    def _read(self, slot: int, on_ready: Callable[[], object]) -> None:
        folder, app = self._folder, self._app
        assert folder is not None  # noqa: S101 - for the type checker
        assert app is not None  # noqa: S101 - for the type checker
        others = [path for path in self._sockets[1:] if path != self._sockets[slot]]
        with listen_at(self._sockets[slot]) as own:
            # This opens a connection of each store: once a store is dropped, none can be opened.
            folder.follow(wait=False)
            follower = Follower(lambda: folder.follow(wait=False))
            app.state.keyring.is_required |= self._keyring.is_required
            app.gateway = Forwarding(app, app.gateway, folder, self._sockets[WRITER], others)
            run_server(app, self._settings, [self._listener, own], on_ready)
            follower.stop()
            folder.close()

    def _stop(self) -> None:
        """Stop the readers, which finish their requests, then the writer, and wait for them."""
        self._stopping = True
        self._listener.close()
        for is_writer in (False, True):
            processes = self._processes.items()
            pids = [pid for pid, process in processes if (process.slot == WRITER) == is_writer]
            for pid in pids:
                send_signal(pid, signal.SIGTERM)
            for pid in [*pids, *self._leaving]:
                send_signal(pid, signal.SIGCONT)  # somebody may have stopped it
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)
                self._processes.pop(pid, None)
        if self._folder is not None:
            self._folder.close()

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Let the ending signals end the loop; a second one ends the readers' shutdown delay."""

        def stop_all(_number: int, _frame: FrameType | None) -> None:
            if self._stopping:
                for pid, process in self._processes.items():
                    if process.slot != WRITER:
                        send_signal(pid, signal.SIGTERM)
            self._stopping = True
            self._wake_up.set()

        handlers = {number: signal.signal(number, stop_all) for number in ending_signals()}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _process_name(slot: int) -> str:
    return "the writer" if slot == WRITER else f"reader {slot}"
