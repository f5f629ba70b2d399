"""Runs jobs in the background, and resumes them after a restart.

If the service ends while a job runs, by a signal or a crash, the next start begins the job again.
So every kind of work must allow that: until its point of no return it leaves nothing that others
can see, or nothing that a repetition would spoil. At that point it records what is left to do, and
a later attempt does only that (:meth:`Progress.pass_no_return`).

If a record cannot be written, say because the disk is full, the log says so, the job's state stays
in memory, and the runner retries until the record is written or the service ends. A job that meets
a full disk, and can continue where it stopped, waits and begins again (:class:`Postponed`).
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs.store import (
    FINISHED,
    JobFiles,
    JobRecord,
    JobStore,
    JobStoreError,
    NewJob,
    Outcome,
    Quota,
    State,
    bytes_of,
)
from hummingbit.service.jobs.work import (
    QUEUES,
    Explain,
    JobQueues,
    Kind,
    Postponed,
    Progress,
    QueueName,
    outcome_of,
)

SECONDS_BETWEEN_ATTEMPTS = 2.0

MAX_SECONDS_BETWEEN_ATTEMPTS = 60.0

_log = logging.getLogger("hummingbit.service")


class _Delay(NamedTuple):
    """A job that waits for another attempt. `step` says why, and `due` when, in monotonic time."""

    queue: QueueName
    owner: str
    step: str
    seconds: float
    due: float


class Jobs:
    """The jobs of a data folder. All methods are thread-safe."""

    def __init__(
        self,
        path: Path,
        kinds: Mapping[str, Kind],
        explain: Explain,
        *,
        workers: Mapping[QueueName, int] | None = None,
        quota: Quota | None = None,
    ) -> None:
        """Open the jobs in the folder `path`, and begin unfinished ones again.

        Each queue has as many threads as `workers` says, by default one.

        Raises:
            JobStoreError: if the records cannot be opened.
        """
        self.files = JobFiles(path)
        self._kinds = kinds
        self._explain = explain
        self._quota = quota or Quota()
        self._store = JobStore(path / "jobs.sqlite")
        self._lock = threading.Lock()
        self._recording = threading.Lock()
        self._running: dict[str, Progress] = {}
        self._unrecorded: dict[str, Outcome] = {}
        self._undeleted: set[str] = set()
        self._postponed: dict[str, _Delay] = {}
        self._ending = False
        self._queues = JobQueues()
        self._are_known = False
        with self._lock:
            self._resume()
        self._threads = [
            threading.Thread(target=self._work, args=(queue,), name=f"{queue} jobs", daemon=True)
            for queue, count in (dict.fromkeys(QUEUES, 1) | dict(workers or {})).items()
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, draft: Path, new: NewJob) -> JobRecord:
        """Add a job with the files of a draft; once this returns, the job is on disk.

        An owner's repeated request with the same idempotency key returns the job of the first one,
        unless that failed.
        The draft is used up, whether or not a job is added.

        Raises:
            ProblemError: 422 if the key was used for another request, 429 if the owner's quota of
                jobs or bytes is used up.
            JobStoreError: if it cannot be written.
        """
        try:
            with self._lock:
                self._resume()
                previous = self._previous(new)
                if previous is None:
                    job = self._add(draft, new)
                    self._enqueue(job)
        except OSError as error:
            raise JobStoreError(f"{draft.parent}: {error.strerror or error}") from error
        finally:
            self.files.discard(draft)
        if previous is not None:
            return self.get(previous.id)
        self._forget()
        return job

    def get(self, id_: str) -> JobRecord:
        """Return a job with its current progress.

        Raises:
            ProblemError: 404 if there is no such job, or it was deleted.
        """
        try:
            return self._with_progress(self._store.get(id_))
        except LookupError:
            raise self.unknown(id_) from None

    def unknown(self, id_: str) -> ProblemError:
        """Return the problem, 404, of a request for a job that does not exist."""
        rule = f"of each key, the last {self._quota.finished:,} finished jobs are kept"
        return ProblemError(404, "unknown_job", f"there is no job {id_[:40]!r}; {rule}")

    def with_key(self, key: str) -> JobRecord | None:
        """Return the job that was submitted with an idempotency key common to all, if any."""
        job = self._store.with_key(key)
        return None if job is None else self._with_progress(job)

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
        """Return the last jobs, as :meth:`hummingbit.service.jobs.store.JobStore.last` does."""
        stored = self._store.last(limit, state, kind, collection, max_bytes=max_bytes, owner=owner)
        jobs = [self._with_progress(job) for job in stored]
        return [job for job in jobs if state in (None, job.state)]

    def cancel(self, id_: str) -> JobRecord:
        """Stop a job; what it has written stays. A running job stops a little later.

        Raises:
            ProblemError: 404 if there is no such job, 409 if it is finished or is about to be.
            JobStoreError: if it cannot be written.
        """
        with self._lock:
            job = self.get(id_)
            if job.state in FINISHED:
                raise ProblemError(409, "job_finished", f"job {id_} is already {job.state}")
            running = self._running.get(id_)
            self._postponed.pop(id_, None)
            if job.no_return or (running is not None and running.no_return):
                message = f"job {id_} can no longer be stopped; it is almost done"
                raise ProblemError(409, "job_finished", message)
            if running is not None:
                running.cancelled.set()
            else:
                self._store.finish(id_, Outcome("cancelled"))
                self._delete_files(id_)
        return self.get(id_)

    def close(self) -> None:
        """Stop the running jobs; they begin again when the jobs are next opened."""
        with self._lock:
            self._ending = True
            for running in self._running.values():
                running.ending.set()
        self._queues.close()
        for thread in self._threads:
            thread.join()
        self._record_outstanding()
        self._store.close()

    def _resume(self) -> None:
        """Enqueue the jobs that earlier processes left, unless the disk is too full to read them.

        The caller holds the lock.
        """
        if self._are_known:
            return
        try:
            unfinished = self._store.unfinished()
            self._tidy()
        except JobStoreError:
            return
        self._are_known = True
        for job in unfinished:
            self._enqueue(job)

    def _previous(self, new: NewJob) -> JobRecord | None:
        """Return the job of an earlier, equal request. The caller holds the lock.

        A job that failed loses its key, so that the request can be repeated.
        """
        if new.idempotency is None:
            return None
        previous = self._store.repeated_by(new.idempotency)
        if previous is not None and previous.digest != new.idempotency.digest:
            message = "the Idempotency-Key was already used for another request; send another key"
            raise ProblemError(422, "idempotency_key_reused", message)
        if previous is not None and self._with_progress(previous).state == "failed":
            self._record_outstanding()
            self._store.release_key(previous.id)
            return None
        return previous

    def _add(self, draft: Path, new: NewJob) -> JobRecord:
        """Turn the draft into a job, within the quota. The caller holds the lock."""
        bytes_ = bytes_of(draft) if self._kinds[new.kind].counted else 0
        for deleted in self._quota.make_room(self._store, new.owner, bytes_):
            self.files.remove(deleted)
        id_ = self.files.settle(draft)
        try:
            return self._store.add(new, id_, bytes_)
        except JobStoreError:
            self.files.discard(self.files.of(id_))
            raise

    def _enqueue(self, job: JobRecord) -> None:
        kind = self._kinds.get(job.kind)
        queue: QueueName = "long" if kind is None else kind.queue(job.bytes)
        self._queues.enqueue(queue, job.owner, job.id)

    def _work(self, queue: QueueName) -> None:
        """Do the jobs of a queue, one after another."""
        while not self._ending:
            with self._lock:
                self._resume()
            self._enqueue_due(queue)
            taken = self._queues.take(queue, SECONDS_BETWEEN_ATTEMPTS)
            self._record_outstanding()
            if taken is not None:
                owner, id_ = taken
                try:
                    self._run(queue, owner, id_)
                finally:
                    self._queues.end(queue, id_)

    def _run(self, queue: QueueName, owner: str, id_: str) -> None:
        try:
            progress = self._begin(id_)
        except JobStoreError as error:
            _log.error("job %s cannot be started and stays queued: %s", id_, error)
            with self._lock:
                before = self._postponed.get(id_)
                step = "waiting until the service can record jobs"
                # What the job waits for is likely the reason for this, too.
                self._postpone(queue, owner, id_, step if before is None else before.step)
            return
        if progress is None:
            return
        outcome = postponed = None
        try:
            outcome = outcome_of(progress, self._kinds, self._explain)
        except Postponed as error:
            postponed = error
            _log.warning("job %s waits and continues later: %s", id_, error.__cause__)
        with self._lock:
            if postponed is not None and progress.cancelled.is_set():
                outcome = Outcome("cancelled", None, None, progress.done, progress.total)
                postponed = None
            if outcome is not None:
                self._unrecorded[id_] = outcome
            if postponed is not None:
                self._postpone(queue, owner, id_, postponed.step)
            else:
                self._postponed.pop(id_, None)
            del self._running[id_]
        self._record_outstanding()

    def _postpone(self, queue: QueueName, owner: str, id_: str, step: str) -> None:
        """Enqueue a job again later; each time, twice as long after the last attempt.

        The caller holds the lock.
        """
        before = self._postponed.get(id_)
        seconds = SECONDS_BETWEEN_ATTEMPTS
        if before is not None:
            seconds = min(2 * before.seconds, MAX_SECONDS_BETWEEN_ATTEMPTS)
        due = time.monotonic() + seconds
        self._postponed[id_] = _Delay(queue, owner, step, seconds, due)

    def _enqueue_due(self, queue: QueueName) -> None:
        """Enqueue the postponed jobs of a queue that have waited for long enough."""
        with self._lock:
            for id_, delay in self._postponed.items():
                if delay.queue == queue and delay.due <= time.monotonic():
                    self._postponed[id_] = delay._replace(due=math.inf)
                    self._queues.enqueue(queue, delay.owner, id_)

    def _begin(self, id_: str) -> Progress | None:
        with self._lock:
            if self._ending or not self._store.begin(id_):
                self._postponed.pop(id_, None)
                return None
            progress = Progress(self._store.get(id_), self.files.of(id_), self._store)
            self._running[id_] = progress
            return progress

    def _record_outstanding(self) -> None:
        """Write the outcomes that could not be written yet, and delete files that are left."""
        with self._recording:
            for id_, outcome in self._unrecorded.copy().items():
                try:
                    self._store.finish(id_, outcome)
                except JobStoreError as error:
                    state = outcome.state
                    _log.error("job %s is %s, but this cannot be recorded: %s", id_, state, error)
                    return
                del self._unrecorded[id_]
                self._delete_files(id_)
            for id_ in self._undeleted.copy():
                self._delete_files(id_)

    def _delete_files(self, id_: str) -> None:
        """Delete the files of a finished job that are not kept; if that fails, try again later.

        A trainer elsewhere may still be writing there.
        """
        try:
            job = self._store.get(id_)
            kind = self._kinds.get(job.kind)
            bytes_ = self.files.delete_all_but(
                frozenset() if kind is None else kind.kept_files, id_
            )
            if bytes_ != job.bytes:
                self._store.shrink(id_, bytes_)
        except LookupError:  # its record was deleted meanwhile
            self.files.remove(id_)
        except (OSError, JobStoreError) as error:
            if id_ not in self._undeleted:
                _log.warning("the files of job %s cannot be deleted yet: %s", id_, error)
            self._undeleted.add(id_)
            return
        self._undeleted.discard(id_)

    def _with_progress(self, job: JobRecord) -> JobRecord:
        running = self._running.get(job.id)
        if running is not None:
            step = None if job.state in FINISHED else running.step
            return replace(job, done=running.done, total=running.total, step=step)
        delay = self._postponed.get(job.id)
        if delay is not None and job.state not in FINISHED:
            return replace(job, step=delay.step)
        ended = self._unrecorded.get(job.id)
        if ended is None or job.state in FINISHED:
            return job
        return job.with_outcome(ended)

    def _forget(self) -> None:
        try:
            for id_ in self._store.forget(self._quota.finished):
                self.files.remove(id_)
        except JobStoreError as error:
            _log.warning("old jobs cannot be deleted: %s", error)

    def _tidy(self) -> None:
        """Delete folders without a record, which a crash between the two leaves behind."""
        self._forget()
        known = {job.id: job for job in self._store.last(-1)}
        for id_ in self.files.ids():
            if id_ not in known:
                self.files.remove(id_)
            elif known[id_].state in FINISHED:
                self._delete_files(id_)
