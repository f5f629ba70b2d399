"""What is known of jobs, on disk: one SQLite file, so that a restart forgets none.

A job is acknowledged once its record is committed. What a job is to do lies in its `spec`, and
whatever is too large for that in a folder of its own.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

State = Literal["queued", "running", "done", "failed", "cancelled"]
FINISHED: tuple[State, ...] = ("done", "failed", "cancelled")
FORMAT_VERSION = 1

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    kind TEXT NOT NULL,
    collection TEXT NOT NULL,
    spec TEXT NOT NULL,
    state TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    total INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    created TEXT NOT NULL,
    started TEXT,
    finished TEXT,
    result TEXT,
    error TEXT,
    idempotency_key TEXT UNIQUE,
    digest TEXT
);
"""
COLUMNS = (
    "id, kind, collection, spec, state, done, total, attempts, created, started, finished, result, "
    "error, idempotency_key, digest"
)


class JobStoreError(RuntimeError):
    """The file of jobs cannot be read or written."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job; times are UTC, ISO 8601. `attempts` counts how often it was begun.

    `step` is what it is at; it is not on disk, so it is None of a job that does not run.
    """

    id: str
    kind: str
    collection: str
    spec: dict[str, Any]
    state: State
    done: int
    total: int | None
    attempts: int
    created: str
    started: str | None
    finished: str | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    idempotency_key: str | None
    digest: str | None
    step: str | None = None


class JobStore:
    """The records of jobs. All methods are thread-safe, and what they write is on disk after."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, which is made if it is missing.

        Raises:
            JobStoreError: if it cannot be opened, or is one of a later version.
        """
        self._path = path
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            with self._using() as connection:
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version > FORMAT_VERSION:
                    message = f"has version {version}; version {FORMAT_VERSION} can be read"
                    raise JobStoreError(f"{path}: {message}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.executescript(SCHEMA)
                connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        except sqlite3.Error as error:
            raise JobStoreError(f"{path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def add(
        self,
        id_: str,
        kind: str,
        collection: str,
        spec: dict[str, Any],
        idempotency: tuple[str, str] | None = None,
    ) -> JobRecord:
        """Write a job that waits. `idempotency` is a key, given once, and what it was given for."""
        key, digest = idempotency or (None, None)
        query = """
            INSERT INTO jobs (id, kind, collection, spec, state, created, idempotency_key, digest)
            VALUES (?, ?, ?, ?, 'queued', ?, ?, ?)
        """
        values = (id_, kind, collection, json.dumps(spec), _now(), key, digest)
        with self._using() as connection:
            connection.execute(query, values)
        return self.get(id_)

    def get(self, id_: str) -> JobRecord:
        """Return a job.

        Raises:
            LookupError: if there is none of that id.
        """
        found = self._select("WHERE id = ?", id_)
        if not found:
            raise LookupError(id_)
        return found[0]

    def with_key(self, key: str) -> JobRecord | None:
        """Return the job with an idempotency key, or None."""
        return next(iter(self._select("WHERE idempotency_key = ?", key)), None)

    def last(self, limit: int, state: State | None = None) -> list[JobRecord]:
        """Return the last jobs, of all states or of one, the newest first."""
        if state is None:
            return self._select("ORDER BY number DESC LIMIT ?", limit)
        return self._select("WHERE state = ? ORDER BY number DESC LIMIT ?", state, limit)

    def unfinished(self) -> list[JobRecord]:
        """Return the jobs that wait or were running, the oldest first."""
        return self._select("WHERE state IN ('queued', 'running') ORDER BY number")

    def begin(self, id_: str) -> bool:
        """Make a job that waits, or was running when the service ended, a running one."""
        query = """
            UPDATE jobs SET state = 'running', attempts = attempts + 1, done = 0, started = ?
            WHERE id = ? AND state IN ('queued', 'running')
        """
        return self._update(query, _now(), id_)

    def progress(self, id_: str, done: int, total: int | None) -> None:
        """Write how far a job is."""
        self._update("UPDATE jobs SET done = ?, total = ? WHERE id = ?", done, total, id_)

    def finish(
        self,
        id_: str,
        state: State,
        *,
        result: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> bool:
        """End a job that waits or runs, and return whether it did."""
        query = """
            UPDATE jobs SET state = ?, finished = ?, result = ?, error = ?
            WHERE id = ? AND state IN ('queued', 'running')
        """
        written = [None if one is None else json.dumps(one) for one in (result, error)]
        return self._update(query, state, _now(), *written, id_)

    def forget(self, keep: int) -> list[str]:
        """Delete all finished jobs but the last `keep`, and return the ids of those deleted."""
        chosen = """
            SELECT id FROM jobs WHERE state IN ('done', 'failed', 'cancelled')
            ORDER BY number DESC LIMIT -1 OFFSET ?
        """
        with self._using() as connection:
            ids = [id_ for (id_,) in connection.execute(chosen, (keep,))]
            connection.executemany("DELETE FROM jobs WHERE id = ?", [(id_,) for id_ in ids])
        return ids

    def _select(self, clause: str, *values: Any) -> list[JobRecord]:
        query = f"SELECT {COLUMNS} FROM jobs {clause}"  # noqa: S608 - fixed parts
        with self._using() as connection:
            return [_record(row) for row in connection.execute(query, values)]

    def _update(self, query: str, *values: Any) -> bool:
        with self._using() as connection:
            return connection.execute(query, values).rowcount > 0

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise JobStoreError(f"{self._path}: {error}") from error


def _record(row: tuple[Any, ...]) -> JobRecord:
    values = dict(zip(COLUMNS.split(", "), row, strict=True))
    for name in ("spec", "result", "error"):
        values[name] = None if values[name] is None else json.loads(values[name])
    return JobRecord(**values)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
