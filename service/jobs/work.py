"""What a job does: its kind, its progress and outcome; and the queues in which jobs wait.

Jobs that only read, which a read key may submit, have queues of their own: however long they take,
no write, snapshot or compaction waits for them. There an owner has at most one running job, so one
key cannot hold all threads.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from hummingbit.foundation.cancellation import Cancelled, cancelled_by
from hummingbit.index.errors import StoreFull, StoreUnavailable
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs.store import JobRecord, JobStore, JobStoreError, Outcome

QueueName = Literal["short", "long", "analysis", "evaluation", "training"]
QUEUES: tuple[QueueName, ...] = get_args(QueueName)
READING: frozenset[QueueName] = frozenset({"analysis", "evaluation"})
"""The queues of jobs that only read."""


class JobQueues:
    """The ids of waiting jobs, by queue and owner; owners take turns. All methods are thread-safe.

    In each queue the owner served least recently is served next, so that an owner with a hundred
    jobs does not hold up another's single one. In the queues of :data:`READING`, an owner whose job
    is running is passed over until :meth:`end`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[QueueName, dict[str, deque[str]]] = {queue: {} for queue in QUEUES}
        self._running: dict[QueueName, dict[str, str]] = {queue: {} for queue in READING}
        self._closed = False

    def enqueue(self, queue: QueueName, owner: str, id_: str) -> None:
        """Add a job behind the others of its owner."""
        with self._changed:
            self._waiting[queue].setdefault(owner, deque()).append(id_)
            self._changed.notify_all()

    def take(self, queue: QueueName, seconds: float) -> tuple[str, str] | None:
        """Return the owner and the id of the next job of a queue.

        Wait for one at most `seconds`, then return None.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._next_owner(queue) is not None, seconds
            )
            owner = self._next_owner(queue)
            if self._closed or owner is None:
                return None
            waiting = self._waiting[queue]
            jobs = waiting.pop(owner)
            id_ = jobs.popleft()
            if jobs:
                waiting[owner] = jobs
            if queue in READING:
                self._running[queue][owner] = id_
            return owner, id_

    def end(self, queue: QueueName, id_: str) -> None:
        """Note that a job no longer runs, so that its owner's next one may."""
        with self._changed:
            running = self._running.get(queue, {})
            for owner in [owner for owner, running_id in running.items() if running_id == id_]:
                del running[owner]
            self._changed.notify_all()

    def _next_owner(self, queue: QueueName) -> str | None:
        running = self._running.get(queue, {})
        return next((owner for owner in self._waiting[queue] if owner not in running), None)

    def close(self) -> None:
        """Hand out no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


SECONDS_BETWEEN_RECORDS = 1.0

_log = logging.getLogger("hummingbit.service")


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """The job was cancelled, or the service is stopping."""


class Progress:
    """A running job, as its work sees it."""

    def __init__(self, job: JobRecord, folder: Path, store: JobStore) -> None:
        self.job = job
        self.folder = folder
        self.done = 0
        self.total = job.total
        self.step: str | None = None
        self.cancelled = threading.Event()
        self.ending = threading.Event()
        self.no_return = job.no_return
        self._store = store
        self._written_at = 0.0

    @property
    def recorded(self) -> dict[str, Any] | None:
        """What an earlier attempt recorded; None in the first attempt."""
        return self.job.recorded

    def advance(self, by: int = 0, *, total: int | None = None) -> None:
        """Report `by` more units of work; a job can be stopped only here.

        Raises:
            Stopped: if the job was cancelled or the service is stopping.
        """
        self.done += by
        self.total = self.total if total is None else total
        if not self.no_return and self.is_stopped():
            raise Stopped
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_RECORDS:
            self._written_at = time.monotonic()
            try:
                self._store.progress(self.job.id, self.done, self.total)
            except JobStoreError as error:  # nothing depends on it, and the next may succeed
                _log.warning("the progress of job %s cannot be recorded: %s", self.job.id, error)

    def show_percent(self, step: str, done: int, total: int) -> None:
        """Report that `done` of `total` units of a step are done; all steps begin at 0 percent.

        Raises:
            Stopped: as :meth:`advance`.
        """
        self.step = step
        self.done = 100 * done // max(total, 1)
        self.advance(total=100)

    def is_stopped(self) -> bool:
        """Tell whether the job was cancelled or the service is stopping."""
        return self.cancelled.is_set() or self.ending.is_set()

    def record(self, recorded: dict[str, Any]) -> None:
        """Save `recorded` for the next attempt; it is on disk once this returns.

        Raises:
            JobStoreError: if it cannot be written.
        """
        self._store.record(self.job.id, recorded, no_return=self.no_return)

    def pass_no_return(self, recorded: dict[str, Any]) -> None:
        """Record what is left to do; from here on the job cannot be stopped, only completed.

        Raises:
            JobStoreError: if it cannot be written; the job can then still be stopped.
        """
        self._store.record(self.job.id, recorded, no_return=True)
        self.no_return = True


class Postponed(Exception):  # noqa: N818 - the job goes on
    """The job met what will pass, such as a full disk, and begins again later; `step` says why."""

    def __init__(self, step: str) -> None:
        super().__init__(step)
        self.step = step


Work = Callable[[Progress], dict[str, Any]]
"""Does a job and returns its result as JSON; it calls :meth:`Progress.advance` regularly."""

Explain = Callable[[Exception], ProblemError | None]
"""Returns the problem with the request that an error reveals, or None for an internal error."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job.

    A job is short if its files have at most `short_bytes` bytes. Kinds that only read have an
    `own_queue`, and so has training, which may take days or wait for a trainer elsewhere.
    `kept_files` stay after the job has finished. Files of a kind that is not `counted` do not count
    towards the owner's quota. A job that only reads can be stopped `anywhere`. One that `continues`
    where an earlier attempt stopped waits while the disk is full, as does any job that is past its
    point of no return.
    """

    work: Work
    short_bytes: int = -1
    kept_files: frozenset[str] = frozenset()
    counted: bool = True
    anywhere: bool = False
    own_queue: QueueName | None = None
    continues: bool = False

    def run(self, progress: Progress) -> dict[str, Any]:
        """Do a job and return its result."""
        if not self.anywhere:
            return self.work(progress)
        with cancelled_by(progress.is_stopped):
            return self.work(progress)

    def queue(self, bytes_: int) -> QueueName:
        """Return the queue of a job whose files have `bytes_` bytes."""
        if self.own_queue is not None:
            return self.own_queue
        return "short" if bytes_ <= self.short_bytes else "long"


def outcome_of(progress: Progress, kinds: Mapping[str, Kind], explain: Explain) -> Outcome | None:
    """Do a job and return its outcome, or None if the next start must begin it again.

    Raises:
        Postponed: if it must begin again later.
    """
    id_, kind = progress.job.id, progress.job.kind
    try:
        if kind not in kinds:
            raise RuntimeError(f"job {id_} is of the unknown kind {kind!r}")
        result = kinds[kind].run(progress)
    except (Stopped, Cancelled):
        if not progress.cancelled.is_set():
            return None
        return Outcome("cancelled", None, None, progress.done, progress.total)
    except Exception as error:
        reason = _passing_reason(error)
        may_wait = progress.no_return or (kind in kinds and kinds[kind].continues)
        if reason is not None and may_wait:
            raise Postponed(reason) from error
        problem = _problem_of(error, id_, explain)
        return Outcome("failed", None, problem, progress.done, progress.total)
    return Outcome("done", result, None, progress.done, progress.total)


def _passing_reason(error: Exception) -> str | None:
    """Return what a job waits for after an error that will pass; None for any other error."""
    is_full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    if is_full or isinstance(error, StoreFull):
        return "waiting: the disk is full"
    if isinstance(error, JobStoreError):
        return "waiting until the service can record jobs"
    # SQLite reports some full disks so, and they may have space again by now.
    code = getattr(error.__cause__, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code == sqlite3.SQLITE_IOERR or isinstance(error, StoreUnavailable):
        return "waiting until the collection can be written"
    return None


def _problem_of(error: Exception, id_: str, explain: Explain) -> dict[str, Any]:
    """Return an error as the record of a failed job has it; log an internal one."""
    problem = error if isinstance(error, ProblemError) else explain(error)
    if problem is None:
        # It may contain paths, so only the log has it.
        _log.error("job %s failed", id_, exc_info=error)
        message = "internal error; the log of the service says why"
        problem = ProblemError(500, "internal_error", message)
    return {"code": problem.code, "detail": problem.detail, "errors": list(problem.errors)}
