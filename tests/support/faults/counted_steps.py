"""The steps of jobs: renames, links, syncs and commits, one of which can be held."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hummingbit.service.jobs.work import QUEUES


class Steps:
    """Counts the steps of jobs, and blocks the chosen one forever."""

    def __init__(self, number: int) -> None:
        self.held = threading.Event()
        self.name = ""
        self._left = number

    def take(self, name: str) -> None:
        """Count a step; only the threads of jobs count."""
        if not threading.current_thread().name.startswith((*QUEUES, "submit")):
            return
        self._left -= 1
        if self._left < 0 and not self.held.is_set():
            self.name = name
            self.held.set()
            threading.Event().wait()

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Count the moments before and after a call."""
        self.take(f"before {name}")
        yield
        self.take(f"after {name}")


def count_steps(steps: Steps) -> None:
    """Count the renames, links, syncs and commits of this process as steps."""
    for name in ("rename", "replace", "link", "unlink", "fsync"):
        setattr(os, name, _counted(steps, name, getattr(os, name)))

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if not _commits(self, sql):
                return super().execute(sql, *values)
            with steps.around(sql.split(maxsplit=1)[0]):
                return super().execute(sql, *values)

        def backup(self, *args: Any, **kwargs: Any) -> None:
            with steps.around("backup"):
                super().backup(*args, **kwargs)

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, factory=Connection, **kwargs)  # type: ignore[assignment]


def _counted(steps: Steps, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        with steps.around(name):
            return function(*args, **kwargs)

    return counted


def _commits(connection: sqlite3.Connection, sql: str) -> bool:
    word = sql.split(maxsplit=1)[0].upper()
    alone = word in {"INSERT", "UPDATE", "DELETE", "CREATE", "ALTER"}
    return word in {"COMMIT", "VACUUM"} or (alone and not connection.in_transaction)
