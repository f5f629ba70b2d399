"""Jobs on disk: their records in one SQLite file, their files, and the quota of each owner.

A job is acknowledged once its record is committed. Its `spec` says what it has to do; what is too
large for that is in a folder of its own, which is created before the record is written.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hummingbit.foundation.times import now
from hummingbit.index.catalog import (
    begin_folder,
    finish_folder,
    finished_folders,
    make_folder,
    remove_folder,
    remove_partial_folders,
)
from hummingbit.index.errors import StoreError, StoreFull, is_damaged, store_error
from hummingbit.service.http.problems import ProblemError

State = Literal["queued", "running", "done", "failed", "cancelled"]
KindName = Literal[
    "bulk",
    "evaluation",
    "map",
    "duplicates",
    "delete_duplicates",
    "reindex",
    "retrain",
    "train",
    "snapshot",
    "upload",
    "restore",
    "verify",
    "compact",
    "index_fields",
]
FINISHED: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, and its progress then, None if it never started."""

    state: State
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    done: int | None = None
    total: int | None = None
    finished: str = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job. Times are UTC, ISO 8601.

    `attempts` counts how often it was started, `owner` identifies the key that submitted it, and
    `bytes` is the size of its files. `recorded` is what an attempt saved for the next one. Once
    `no_return` is true, the job can only be completed. `step` is the current step; it is not on
    disk, so it is None for a job that is not running.
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
    owner: str
    bytes: int
    recorded: dict[str, Any] | None
    no_return: bool
    step: str | None = None

    def with_outcome(self, outcome: Outcome) -> JobRecord:
        """Return the job as it is after `outcome`."""
        return replace(
            self,
            state=outcome.state,
            finished=outcome.finished,
            result=outcome.result,
            error=outcome.error,
            done=self.done if outcome.done is None else outcome.done,
            total=self.total if outcome.total is None else outcome.total,
        )


@dataclass(frozen=True, slots=True)
class Idempotency:
    """An idempotency key, a digest of the request that came with it, and whose key it is.

    Each owner has keys of its own. Keys of the owner ``""`` are common to all.
    """

    key: str
    digest: str
    owner: str = ""

    @property
    def recorded(self) -> str:
        """The key as records have it. No header can hold a line break, so it is unambiguous."""
        return f"{self.owner}\n{self.key}" if self.owner else self.key


@dataclass(frozen=True, slots=True)
class NewJob:
    """What a job has to do, and for whom."""

    kind: str
    collection: str
    spec: dict[str, Any] = field(default_factory=dict)
    owner: str = ""
    idempotency: Idempotency | None = None


FORMAT_VERSION = 2

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
    digest TEXT,
    owner TEXT NOT NULL DEFAULT '',
    bytes INTEGER NOT NULL DEFAULT 0,
    recorded TEXT,
    no_return INTEGER NOT NULL DEFAULT 0
);
"""
# Columns that version 1 did not have.
ADDED = (
    "owner TEXT NOT NULL DEFAULT ''",
    "bytes INTEGER NOT NULL DEFAULT 0",
    "recorded TEXT",
    "no_return INTEGER NOT NULL DEFAULT 0",
)
COLUMNS = (
    "id, kind, collection, spec, state, done, total, attempts, created, started, finished, result, "
    "error, idempotency_key, digest, owner, bytes, recorded, no_return"
)


IS_FINISHED = "state IN ('done', 'failed', 'cancelled')"


class JobStoreError(StoreError):
    """The records or files of jobs cannot be read or written."""


class JobStore:
    """The records of jobs. All methods are thread-safe, and sync what they write to disk."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, and create it if it is missing.

        If the disk is too full for that, each use tries again.

        Raises:
            JobStoreError: if it cannot be opened, or a later version wrote it.
        """
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = -1
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            if not isinstance(store_error(path, error), StoreFull):
                raise _job_store_error(path, error) from error
            _log.warning("%s: %s; jobs go on once there is space", path, error)

    def _open(self) -> sqlite3.Connection:
        """Open the file, and bring it to this version."""
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > FORMAT_VERSION:
                message = f"has version {version}; version {FORMAT_VERSION} can be read"
                raise JobStoreError(f"{self._path}: {message}")
            # With a write-ahead log, SQLite would take a damaged log for a shorter one, and
            # forget without an error what was acknowledged.
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute("PRAGMA synchronous = FULL")
            if version < FORMAT_VERSION:
                _upgrade(connection, version)
            self._inode = self._path.stat().st_ino
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def add(self, new: NewJob, id_: str, bytes_: int) -> JobRecord:
        """Add a job to the queue; its files have `bytes_` bytes."""
        given = new.idempotency
        key, digest = (None, None) if given is None else (given.recorded, given.digest)
        query = """
            INSERT INTO jobs (id, kind, collection, spec, state, created, idempotency_key, digest,
                owner, bytes)
            VALUES (?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?)
        """
        spec = json.dumps(new.spec)
        values = (id_, new.kind, new.collection, spec, now(), key, digest, new.owner, bytes_)
        self._check_file()
        with self._using() as connection:
            connection.execute(query, values)
        return self.get(id_)

    def get(self, id_: str) -> JobRecord:
        """Return a job by its id.

        Raises:
            LookupError: if there is no such job.
        """
        records = self._select("WHERE id = ?", id_)
        if not records:
            raise LookupError(id_)
        return records[0]

    def with_key(self, key: str) -> JobRecord | None:
        """Return the job with an idempotency key, as records have it, or None."""
        return next(iter(self._select("WHERE idempotency_key = ?", key)), None)

    def repeated_by(self, given: Idempotency) -> JobRecord | None:
        """Return the job that an earlier request with the same key of the same owner started.

        Earlier versions recorded keys without their owners; a job that has none belongs to all.
        """
        record = self.with_key(given.recorded)
        if record is None and given.owner:
            record = self.with_key(given.key)
            if record is not None and record.owner not in {"", given.owner}:
                return None
        return record

    def last(
        self,
        limit: int,
        state: State | None = None,
        kind: str | None = None,
        collection: str | None = None,
        *,
        max_bytes: int = sys.maxsize,
        owner: str | None = None,
    ) -> list[JobRecord]:
        """Return the last jobs, newest first; of one state, kind, collection, owner if given.

        It ends early, but not before the first, where their records have more than `max_bytes`.
        """
        conditions = (
            "(?1 IS NULL OR state = ?1) AND (?2 IS NULL OR kind = ?2)"
            " AND (?3 IS NULL OR collection = ?3) AND (?4 IS NULL OR owner = ?4)"
        )
        values = (state, kind, collection, owner, limit)
        clause = f"WHERE {conditions} ORDER BY number DESC LIMIT ?5"
        jobs: list[JobRecord] = []
        with self._using() as connection:
            for row in connection.execute(_query(clause), values):
                max_bytes -= sum(len(value) for value in row if isinstance(value, str))
                if jobs and max_bytes < 0:
                    break
                jobs.append(_record(row))
        return jobs

    def unfinished(self) -> list[JobRecord]:
        """Return the jobs that wait or were running, oldest first."""
        return self._select("WHERE state IN ('queued', 'running') ORDER BY number")

    def begin(self, id_: str) -> bool:
        """Mark a job as running; return whether it was waiting or running, and not finished."""
        query = """
            UPDATE jobs SET state = 'running', attempts = attempts + 1, done = 0, started = ?
            WHERE id = ? AND state IN ('queued', 'running')
        """
        return self._update(query, now(), id_)

    def progress(self, id_: str, done: int, total: int | None) -> None:
        """Write the progress of a job."""
        self._update("UPDATE jobs SET done = ?, total = ? WHERE id = ?", done, total, id_)

    def record(self, id_: str, recorded: dict[str, Any], *, no_return: bool) -> None:
        """Write what the next attempt at a job needs to know."""
        query = "UPDATE jobs SET recorded = ?, no_return = ? WHERE id = ?"
        self._check_file()
        self._update(query, json.dumps(recorded), no_return, id_)

    def finish(self, id_: str, outcome: Outcome) -> bool:
        """Finish a job; return whether it was waiting or running, and not finished before."""
        query = """
            UPDATE jobs SET state = ?, finished = ?, result = ?, error = ?,
                done = coalesce(?, done), total = coalesce(?, total)
            WHERE id = ? AND state IN ('queued', 'running')
        """
        result, error = (
            None if value is None else json.dumps(value)
            for value in (outcome.result, outcome.error)
        )
        counts = (outcome.done, outcome.total)
        self._check_file()
        return self._update(query, outcome.state, outcome.finished, result, error, *counts, id_)

    def release_key(self, id_: str) -> None:
        """Take the idempotency key from a job, so that another one can have it."""
        self._update("UPDATE jobs SET idempotency_key = NULL WHERE id = ?", id_)

    def shrink(self, id_: str, bytes_: int) -> None:
        """Write the size of a finished job's files."""
        self._update("UPDATE jobs SET bytes = ? WHERE id = ?", bytes_, id_)

    def usage_of(self, owner: str) -> tuple[int, int]:
        """Return the number of an owner's unfinished jobs, and the bytes of all of their files."""
        query = """
            SELECT coalesce(sum(state IN ('queued', 'running')), 0), coalesce(sum(bytes), 0)
            FROM jobs WHERE owner = ?
        """
        with self._using() as connection:
            unfinished, bytes_ = connection.execute(query, (owner,)).fetchone()
        return unfinished, bytes_

    def oldest_with_files(self, owner: str) -> list[tuple[str, int]]:
        """Return an owner's finished jobs that have files, oldest first, with their bytes."""
        query = f"""
            SELECT id, bytes FROM jobs WHERE owner = ? AND bytes > 0 AND {IS_FINISHED}
            ORDER BY number
        """  # noqa: S608 - fixed parts
        with self._using() as connection:
            return connection.execute(query, (owner,)).fetchall()

    def forget(self, keep: int) -> list[str]:
        """Delete all but the last `keep` finished jobs of each owner; return their ids."""
        query = f"""
            SELECT id FROM (
                SELECT id, row_number() OVER (PARTITION BY owner ORDER BY number DESC) AS position
                FROM jobs WHERE {IS_FINISHED}
            ) WHERE position > ?
        """  # noqa: S608 - fixed parts
        with self._using() as connection:
            ids = [id_ for (id_,) in connection.execute(query, (keep,))]
        self.delete(ids)
        return ids

    def delete(self, ids: Sequence[str]) -> None:
        """Delete the records of jobs."""
        with self._using() as connection:
            connection.executemany("DELETE FROM jobs WHERE id = ?", [(id_,) for id_ in ids])

    def _check_file(self) -> None:
        """Raise a JobStoreError if the file was deleted or replaced: writes would be lost.

        SQLite continues to write to a deleted file, and its commits succeed.
        """
        try:
            is_same = os.stat(self._path).st_ino == self._inode
        except OSError as error:
            raise JobStoreError(f"{self._path}: {error.strerror}") from error
        if not is_same:
            raise JobStoreError(f"{self._path}: was replaced by another file; restart the service")

    def _select(self, clause: str, *values: Any) -> list[JobRecord]:
        with self._using() as connection:
            return [_record(row) for row in connection.execute(_query(clause), values)]

    def _update(self, query: str, *values: Any) -> bool:
        with self._using() as connection:
            return connection.execute(query, values).rowcount > 0

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection or self._open()
            except (sqlite3.Error, OSError) as error:
                raise _job_store_error(self._path, error) from error


def _job_store_error(path: Path, error: sqlite3.Error | OSError) -> JobStoreError:
    """Return the error of the file at `path`, with what helps if it is damaged."""
    remedy = (
        "; the file is damaged: stop the service and move the file away. Collections are not"
        " affected; jobs that waited must be submitted again"
    )
    return JobStoreError(f"{path}: {error}{remedy if is_damaged(error) else ''}")


def _query(clause: str) -> str:
    return f"SELECT {COLUMNS} FROM jobs {clause}"  # noqa: S608 - fixed parts


def _record(row: tuple[Any, ...]) -> JobRecord:
    values = dict(zip(COLUMNS.split(", "), row, strict=True))
    for name in ("spec", "result", "error", "recorded"):
        values[name] = None if values[name] is None else json.loads(values[name])
    return JobRecord(**{**values, "no_return": bool(values["no_return"])})


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Bring an empty file, or one of an earlier version, to this version in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(SCHEMA)
        if version == 1:
            for column in ADDED:
                connection.execute(f"ALTER TABLE jobs ADD COLUMN {column}")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


_log = logging.getLogger("hummingbit.service")


class JobFiles:
    """The folders of jobs below one path, named by the jobs' ids."""

    def __init__(self, path: Path) -> None:
        """Create the folder at `path` if it is missing, and delete drafts that a crash left behind.

        Raises:
            JobStoreError: if it cannot be created.
        """
        self.path = path
        try:
            make_folder(path)
            remove_partial_folders(path)
        except OSError as error:
            raise JobStoreError(f"{path}: {error.strerror or error}") from error

    def draft(self) -> Path:
        """Return an empty folder for a job that has no id yet.

        Raises:
            JobStoreError: if it cannot be created.
        """
        try:
            return begin_folder(self.path)
        except OSError as error:
            raise JobStoreError(f"{self.path}: {error.strerror or error}") from error

    def settle(self, draft: Path) -> str:
        """Make a draft the folder of a job, and return the job's id.

        Raises:
            OSError: if that fails.
        """
        return finish_folder(draft).name

    def of(self, id_: str) -> Path:
        """Return the folder of a job."""
        return self.path / id_

    def ids(self) -> list[str]:
        """Return the ids of the jobs that have a folder."""
        return [folder.name for folder in finished_folders(self.path)]

    def delete_all_but(self, names: Collection[str], id_: str) -> int:
        """Delete the files of a job except `names`; return the bytes of those that remain.

        Raises:
            OSError: if one cannot be deleted.
        """
        folder = self.of(id_)
        for path in folder.iterdir():
            if path.name in names:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        return bytes_of(folder)

    def remove(self, id_: str) -> None:
        """Delete the folder of a job without a record, if it exists; log a failure."""
        try:
            remove_folder(self.of(id_))
        except FileNotFoundError:
            return
        except OSError as error:  # the next start tries again
            _log.warning("the files of job %s cannot be deleted: %s", id_, error)

    def discard(self, draft: Path) -> None:
        """Delete a draft, unless it has become the folder of a job."""
        shutil.rmtree(draft, ignore_errors=True)


def bytes_of(folder: Path) -> int:
    """Return how many bytes the files of a folder hold."""
    return sum(path.stat().st_size for path in folder.iterdir())


@dataclass(frozen=True, slots=True)
class Quota:
    """What each owner may have: finished jobs, unfinished jobs, and the bytes of their files."""

    finished: int = 1000
    unfinished: int = 32
    bytes: int = 256 << 20

    def make_room(self, store: JobStore, owner: str, bytes_: int) -> list[str]:
        """Delete the oldest finished jobs of `owner` until another job of `bytes_` bytes fits.

        Returns the ids of the deleted records, whose files the caller deletes.

        Raises:
            ProblemError: 429 if it does not fit even then.
            JobStoreError: if the records cannot be read or written.
        """
        unfinished, held = store.usage_of(owner)
        if unfinished >= self.unfinished:
            message = f"{unfinished} jobs of this key are not finished; wait until one of them is"
            raise ProblemError(429, "too_many_jobs", message)
        deleted = []
        for id_, size in store.oldest_with_files(owner):
            if held + bytes_ <= self.bytes:
                break
            deleted.append(id_)
            held -= size
        if held + bytes_ > self.bytes:
            message = (
                f"the job has {bytes_:,} bytes and unfinished jobs of this key {held:,}; together"
                f" they may have {self.bytes:,}"
            )
            raise ProblemError(429, "too_many_jobs", message)
        store.delete(deleted)
        return deleted
