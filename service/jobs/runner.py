"""Work that outlasts a request: done in the background, resumed after a restart.

A job that was running when the service ended, by a signal or by a crash, is begun again by the next
start. So every kind of work must bear that: until its point of no return it leaves nothing that
others can see, or nothing that is worse for being done twice; at that point it records what is left
to do, and a later attempt does only that (:meth:`Progress.pass_no_return`).

Where a record cannot be written, because the disk is full, a job keeps the state that it has in
memory, the log says so, and the record is tried again until it is written or the service ends.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from encoder.artifact import sync_folder
from index.folder.partial import begin, make_folder, remove, remove_partial, settle, settled
from index.slices import Cancelled, ComputeTurns, Slices, in_slices
from service.http.problems import ProblemError
from service.jobs.job_store import (
    FINISHED,
    JobRecord,
    JobStore,
    JobStoreError,
    NewJob,
    Outcome,
    State,
)
from service.jobs.queue import JobQueue, Lane

SECONDS_BETWEEN_RECORDS = 1.0
SECONDS_BETWEEN_ATTEMPTS = 2.0

_log = logging.getLogger("hummingbit.service")


class _Stopped(Exception):  # noqa: N818 - nothing is wrong
    """The job was cancelled, or the service ends."""


class Progress:
    """A job that runs, as its work sees it."""

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
        """What an earlier attempt recorded; None in the first."""
        return self.job.recorded

    def advance(self, by: int = 0, *, total: int | None = None) -> None:
        """Say that so much more is done; between two calls a job cannot be stopped."""
        self.done += by
        self.total = self.total if total is None else total
        if not self.no_return and self.is_stopped():
            raise _Stopped
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_RECORDS:
            self._written_at = time.monotonic()
            try:
                self._store.progress(self.job.id, self.done, self.total)
            except JobStoreError as error:  # the next one may succeed; nothing depends on it
                _log.warning("the progress of job %s cannot be recorded: %s", self.job.id, error)

    def is_stopped(self) -> bool:
        """Tell whether the job was cancelled, or the service ends."""
        return self.cancelled.is_set() or self.ending.is_set()

    def record(self, recorded: dict[str, Any]) -> None:
        """Have the next attempt find this; it is on disk once this returns.

        Raises:
            JobStoreError: if it cannot be written.
        """
        self._store.record(self.job.id, recorded, no_return=self.no_return)

    def pass_no_return(self, recorded: dict[str, Any]) -> None:
        """Record what is left to do; from here on the job is completed, and cannot be stopped.

        Raises:
            JobStoreError: if it cannot be written; the job is not past the point then.
        """
        self._store.record(self.job.id, recorded, no_return=True)
        self.no_return = True


Work = Callable[[Progress], dict[str, Any]]
"""Does a job and returns its result, as JSON; it calls :meth:`Progress.advance` now and then."""

Explain = Callable[[Exception], ProblemError | None]
"""Says what was wrong with what was asked; None of an error that is the service's own."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job.

    It is a short one if its files take no more than `short_bytes`; of its files `kept` stay once it
    is finished. Those of a kind that is not `counted` do not count for the bytes of its owner. One
    that only reads may be done `in_slices`, in turn with expensive requests; it can be stopped at
    each.
    """

    work: Work
    short_bytes: int = -1
    kept: frozenset[str] = frozenset()
    counted: bool = True
    in_slices: bool = False

    def lane(self, bytes_: int) -> Lane:
        """Return which of the two queues a job waits in."""
        return "short" if bytes_ <= self.short_bytes else "long"


@dataclass(frozen=True, slots=True)
class Quota:
    """What is kept at most: finished jobs of each owner, their unfinished ones, their bytes."""

    finished: int = 1000
    unfinished: int = 32
    bytes: int = 256 << 20


class Jobs:
    """The jobs of a data folder. All methods are thread-safe."""

    def __init__(
        self,
        path: Path,
        kinds: Mapping[str, Kind],
        explain: Explain,
        *,
        workers: Mapping[Lane, int] | None = None,
        quota: Quota | None = None,
        turns: ComputeTurns | None = None,
    ) -> None:
        """Open the jobs in the folder `path`; those that were not finished are begun again.

        So many `workers` do the jobs of each lane, one each where that is not said. Those in slices
        take `turns`.

        Raises:
            JobStoreError: if the records cannot be opened.
        """
        try:
            make_folder(path)
        except OSError as error:
            raise JobStoreError(f"{path}: {error.strerror or error}") from error
        self._path = path
        self._kinds = kinds
        self._explain = explain
        self._quota = quota or Quota()
        self._turns = turns or ComputeTurns(1)
        self._store = JobStore(path / "jobs.sqlite")
        self._lock = threading.Lock()
        self._recording = threading.Lock()
        self._running: dict[str, Progress] = {}
        self._unrecorded: dict[str, Outcome] = {}
        self._ending = False
        self._queue = JobQueue()
        self._tidy()
        for job in self._store.unfinished():
            self._put(job)
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=f"{lane} jobs", daemon=True)
            for lane, count in (workers or {"short": 1, "long": 1}).items()
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def draft(self) -> Path:
        """Return an empty folder for what a job needs, which :meth:`submit` makes the job's.

        Raises:
            JobStoreError: if it cannot be made.
        """
        try:
            return begin(self._path)
        except OSError as error:
            raise JobStoreError(f"{self._path}: {error.strerror or error}") from error

    def submit(self, draft: Path, new: NewJob) -> JobRecord:
        """Have a job done; once this returns, it will be, whatever happens to the service.

        A request that comes again with its idempotency key gets the job that it made the first
        time. The draft is used up, whether or not the job is taken.

        Raises:
            ProblemError: 422 if the key was given for another request, 429 if the owner has as many
                jobs, or as many bytes in jobs, as anybody may.
            JobStoreError: if it cannot be written.
        """
        try:
            with self._lock:
                before = self._before(new)
                if before is None:
                    job = self._add(draft, new)
                    self._put(job)
        except OSError as error:
            raise JobStoreError(f"{self._path}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        if before is not None:
            return self.get(before.id)
        self._forget()
        return job

    def get(self, id_: str) -> JobRecord:
        """Return a job as it is at this moment.

        Raises:
            ProblemError: 404 if there is none of that id, or it was forgotten.
        """
        try:
            return self._at_this_moment(self._store.get(id_))
        except LookupError:
            kept = f"the last {self._quota.finished:,} finished of each key are kept"
            message = f"there is no job {id_[:40]!a}; {kept}"
            raise ProblemError(404, "unknown_job", message) from None

    def last(self, limit: int, state: State | None = None) -> list[JobRecord]:
        """Return the last jobs, of all states or of one, the newest first."""
        found = [self._at_this_moment(job) for job in self._store.last(limit, state)]
        return [job for job in found if state in (None, job.state)]

    def folder(self, id_: str) -> Path:
        """Return the folder of a job that :meth:`get` returns."""
        return self._path / self.get(id_).id

    def cancel(self, id_: str) -> JobRecord:
        """Stop a job; what it has written stays. One that runs may do a little more first.

        Raises:
            ProblemError: 404 if there is none of that id, 409 if it is finished or is about to be.
            JobStoreError: if it cannot be written.
        """
        with self._lock:
            job = self.get(id_)
            if job.state in FINISHED:
                raise ProblemError(409, "job_finished", f"job {id_} is already {job.state}")
            running = self._running.get(id_)
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
        """Stop what runs; it is begun again when the jobs are next opened."""
        with self._lock:
            self._ending = True
            for running in self._running.values():
                running.ending.set()
        self._queue.close()
        for thread in self._threads:
            thread.join()
        self._record_outstanding()
        self._store.close()

    def _before(self, new: NewJob) -> JobRecord | None:
        """Return the job that the same request made before; called with the lock held."""
        if new.idempotency is None:
            return None
        key, digest = new.idempotency
        before = self._store.with_key(key)
        if before is not None and before.digest != digest:
            message = "the Idempotency-Key was already used for another request"
            raise ProblemError(422, "idempotency_key_reused", message)
        return before

    def _add(self, draft: Path, new: NewJob) -> JobRecord:
        """Make the draft a job's, within the quota; called with the lock held."""
        bytes_ = _bytes_of(draft) if self._kinds[new.kind].counted else 0
        self._make_room(new.owner, bytes_)
        folder = settle(draft)
        try:
            return self._store.add(new, folder.name, bytes_)
        except JobStoreError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _make_room(self, owner: str, bytes_: int) -> None:
        """Forget what is finished until so many bytes fit; refuse what does not fit even then."""
        unfinished, held = self._store.held_by(owner)
        if unfinished >= self._quota.unfinished:
            message = f"{unfinished} jobs of this key are not finished; wait for one of them"
            raise ProblemError(429, "too_many_jobs", message)
        leaving = []
        for id_, freed in self._store.oldest_with_files(owner):
            if held + bytes_ <= self._quota.bytes:
                break
            leaving.append(id_)
            held -= freed
        if held + bytes_ > self._quota.bytes:
            message = f"jobs of this key hold {held:,} bytes; {self._quota.bytes:,} is the limit"
            raise ProblemError(429, "too_many_jobs", message)
        self._store.delete(leaving)
        for id_ in leaving:
            self._remove(id_)

    def _put(self, job: JobRecord) -> None:
        kind = self._kinds.get(job.kind)
        lane: Lane = "long" if kind is None else kind.lane(job.bytes)
        self._queue.put(lane, job.owner, job.id)

    def _work(self, lane: Lane) -> None:
        """Do the jobs of a lane, one after the other."""
        while not self._ending:
            id_ = self._queue.take(lane, SECONDS_BETWEEN_ATTEMPTS)
            self._record_outstanding()
            if id_ is not None:
                self._run(id_, lane)

    def _run(self, id_: str, lane: Lane) -> None:
        try:
            progress = self._begin(id_)
        except JobStoreError as error:
            _log.error("job %s cannot be started and stays queued: %s", id_, error)
            time.sleep(SECONDS_BETWEEN_ATTEMPTS)
            self._queue.put(lane, "", id_)
            return
        if progress is None:
            return
        outcome = self._outcome(progress)
        with self._lock:
            if outcome is not None:
                self._unrecorded[id_] = outcome
            del self._running[id_]
        self._record_outstanding()

    def _begin(self, id_: str) -> Progress | None:
        with self._lock:
            if self._ending or not self._store.begin(id_):
                return None
            progress = Progress(self._store.get(id_), self._path / id_, self._store)
            self._running[id_] = progress
            return progress

    def _outcome(self, progress: Progress) -> Outcome | None:
        """Do a job and return how it ended; None if it is to be begun again by the next start."""
        id_, kind = progress.job.id, progress.job.kind
        try:
            if kind not in self._kinds:
                raise RuntimeError(f"job {id_} is of the unknown kind {kind!a}")
            result = self._do(self._kinds[kind], progress)
        except (_Stopped, Cancelled):
            if not progress.cancelled.is_set():
                return None
            return Outcome("cancelled", None, None, progress.done, progress.total)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job has to end with it
            problem = self._problem(error, id_)
            return Outcome("failed", None, problem, progress.done, progress.total)
        return Outcome("done", result, None, progress.done, progress.total)

    def _do(self, kind: Kind, progress: Progress) -> dict[str, Any]:
        if not kind.in_slices:
            return kind.work(progress)
        with in_slices(Slices(self._turns, progress.is_stopped)):
            return kind.work(progress)

    def _record_outstanding(self) -> None:
        """Write how jobs ended, as far as that can be done now."""
        with self._recording:
            for id_, outcome in self._unrecorded.copy().items():
                try:
                    self._store.finish(id_, outcome)
                except JobStoreError as error:
                    message = "job %s is %s, which cannot be recorded: %s"
                    _log.error(message, id_, outcome.state, error)
                    return
                del self._unrecorded[id_]
                self._delete_files(id_)

    def _delete_files(self, id_: str) -> None:
        """Delete what a job needed, once it is recorded as finished."""
        try:
            job = self._store.get(id_)
            kind = self._kinds.get(job.kind)
            kept = frozenset[str]() if kind is None else kind.kept
            folder = self._path / id_
            for path in folder.iterdir():
                if path.name not in kept:
                    path.unlink()
            if (bytes_ := _bytes_of(folder)) != job.bytes:
                self._store.shrink(id_, bytes_)
        except LookupError:  # it was forgotten meanwhile
            self._remove(id_)
        except (OSError, JobStoreError) as error:
            _log.warning("the files of job %s cannot be deleted: %s", id_, error)

    def _problem(self, error: Exception, id_: str) -> dict[str, Any]:
        problem = error if isinstance(error, ProblemError) else self._explain(error)
        if problem is None:
            # Paths may be in it, so it is for the log only.
            _log.error("job %s failed", id_, exc_info=error)
            problem = ProblemError(
                500, "internal_error", "internal error; the log of the service says why"
            )
        return {"code": problem.code, "detail": problem.detail, "errors": list(problem.errors)}

    def _at_this_moment(self, job: JobRecord) -> JobRecord:
        running = self._running.get(job.id)
        if running is not None:
            step = None if job.state in FINISHED else running.step
            return replace(job, done=running.done, total=running.total, step=step)
        ended = self._unrecorded.get(job.id)
        if ended is None or job.state in FINISHED:
            return job
        return replace(
            job,
            state=ended.state,
            finished=ended.finished,
            result=ended.result,
            error=ended.error,
            done=ended.done if ended.done is not None else job.done,
            total=ended.total if ended.total is not None else job.total,
        )

    def _forget(self) -> None:
        try:
            for id_ in self._store.forget(self._quota.finished):
                self._remove(id_)
        except JobStoreError as error:
            _log.warning("old jobs cannot be deleted: %s", error)

    def _remove(self, id_: str) -> None:
        """Delete the folder of a job that has no record any more."""
        try:
            remove(self._path / id_)
        except FileNotFoundError:
            return
        except OSError as error:  # the next start tries again
            _log.warning("the files of job %s cannot be deleted: %s", id_, error)

    def _tidy(self) -> None:
        """Delete folders that no job has: a crash came between the folder and the record."""
        remove_partial(self._path)
        self._forget()
        known = {job.id: job for job in self._store.last(-1)}
        for folder in settled(self._path):
            if folder.name not in known:
                remove(folder)
            elif known[folder.name].state in FINISHED:
                self._delete_files(folder.name)


def write_synced(path: Path, text: str) -> None:
    """Write a file of a job; it is whole and on disk once this returns, or not there.

    Raises:
        OSError: if it cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
