"""Work that outlasts a request: done in the background, resumed after a restart.

Every kind of work can be done again from its beginning without harm, and passes over what it did
before; so a job that was running when the service ended, by a signal or by a crash, is simply begun
again by the next start.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from index.partial import begin, remove, remove_partial, settle, settled
from service.http.problems import ProblemError
from service.jobs.job_store import FINISHED, JobRecord, JobStore, State

SECONDS_BETWEEN_RECORDS = 1.0

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
        self._store = store
        self._recorded = 0.0

    def advance(self, by: int = 0, *, total: int | None = None) -> None:
        """Say that so much more is done; between two calls a job cannot be stopped."""
        self.done += by
        self.total = self.total if total is None else total
        if self.cancelled.is_set() or self.ending.is_set():
            raise _Stopped
        if time.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS:
            self._store.progress(self.job.id, self.done, self.total)
            self._recorded = time.monotonic()


Work = Callable[[Progress], dict[str, Any]]
"""Does a job and returns its result, as JSON; it calls :meth:`Progress.advance` now and then."""

Explain = Callable[[Exception], ProblemError | None]
"""Says what was wrong with what was asked; None of an error that is the service's own."""


class Jobs:
    """The jobs of a data folder. All methods are thread-safe."""

    def __init__(
        self,
        path: Path,
        kinds: Mapping[str, Work],
        explain: Explain,
        *,
        workers: int = 1,
        kept: int = 1000,
        keep_files: Container[str] = (),
    ) -> None:
        """Open the jobs in the folder `path`; those that were not finished are begun again.

        The last `kept` finished jobs are remembered, and of the kinds `keep_files` their files.

        Raises:
            JobStoreError: if the records cannot be opened.
        """
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._kinds = kinds
        self._explain = explain
        self._kept = kept
        self._keep_files = keep_files
        self._store = JobStore(path / "jobs.sqlite")
        self._lock = threading.Lock()
        self._running: dict[str, Progress] = {}
        self._ending = False
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="job")
        self._tidy()
        for job in self._store.unfinished():
            self._workers.submit(self._run, job.id)

    def draft(self) -> Path:
        """Return an empty folder for what a job needs, which :meth:`submit` makes the job's."""
        return begin(self._path)

    def submit(
        self,
        draft: Path,
        kind: str,
        collection: str,
        spec: dict[str, Any],
        idempotency: tuple[str, str] | None = None,
    ) -> JobRecord:
        """Have a job done; once this returns, it will be, whatever happens to the service.

        `idempotency` is the key that a client gave and a digest of the request it was given for; a
        request that comes again gets the job that it made the first time.

        Raises:
            ProblemError: 422 if the key was given for another request.
            JobStoreError: if it cannot be written.
        """
        with self._lock:
            before = None if idempotency is None else self._store.with_key(idempotency[0])
            if before is not None:
                shutil.rmtree(draft)
                if idempotency is not None and before.digest != idempotency[1]:
                    message = "the Idempotency-Key was given before, for another request"
                    raise ProblemError(422, "idempotency_key_reused", message)
                return self.get(before.id)
            id_ = settle(draft).name
            job = self._store.add(id_, kind, collection, spec, idempotency)
            self._workers.submit(self._run, id_)
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
            message = f"there is no job {id_[:40]!a}; the last {self._kept:,} finished are kept"
            raise ProblemError(404, "unknown_job", message) from None

    def last(self, limit: int, state: State | None = None) -> list[JobRecord]:
        """Return the last jobs, of all states or of one, the newest first."""
        return [self._at_this_moment(job) for job in self._store.last(limit, state)]

    def folder(self, id_: str) -> Path:
        """Return the folder of a job that :meth:`get` returns."""
        return self._path / self.get(id_).id

    def cancel(self, id_: str) -> JobRecord:
        """Stop a job; what it has written stays. One that runs may do a little more first.

        Raises:
            ProblemError: 404 if there is none of that id, 409 if it is finished.
        """
        job = self.get(id_)
        if job.state in FINISHED:
            raise ProblemError(409, "job_finished", f"job {id_} is {job.state} already")
        with self._lock:
            running = self._running.get(id_)
            if running is not None:
                running.cancelled.set()
            else:
                self._store.finish(id_, "cancelled")
                self._delete_files(id_)
        return self.get(id_)

    def close(self) -> None:
        """Stop what runs; it is begun again when the jobs are next opened."""
        with self._lock:
            self._ending = True
            for running in self._running.values():
                running.ending.set()
        self._workers.shutdown(cancel_futures=True)
        self._store.close()

    def _run(self, id_: str) -> None:
        with self._lock:
            if self._ending or not self._store.begin(id_):
                return
            job = self._store.get(id_)
            progress = self._running[id_] = Progress(job, self._path / id_, self._store)
        try:
            result = self._kinds[job.kind](progress)
            self._store.progress(id_, progress.done, progress.total)
            self._store.finish(id_, "done", result=result)
        except _Stopped:
            self._store.progress(id_, progress.done, progress.total)
            if progress.cancelled.is_set():
                self._store.finish(id_, "cancelled")
        except Exception as error:  # noqa: BLE001 - whatever it is, the job has to end with it
            self._store.progress(id_, progress.done, progress.total)
            self._store.finish(id_, "failed", error=self._problem(error, id_))
        finally:
            del self._running[id_]
        self._delete_files(id_)

    def _delete_files(self, id_: str) -> None:
        """Delete what a job needed, once it is finished."""
        with suppress(LookupError, FileNotFoundError):  # it may be forgotten by now
            job = self._store.get(id_)
            if job.state in FINISHED and job.kind not in self._keep_files:
                for path in (self._path / id_).iterdir():
                    path.unlink()

    def _problem(self, error: Exception, id_: str) -> dict[str, Any]:
        problem = error if isinstance(error, ProblemError) else self._explain(error)
        if problem is None:
            # Paths may be in it, so it is for the log only.
            _log.error("job %s failed", id_, exc_info=error)
            problem = ProblemError(500, "internal_error", "the service failed; its log says why")
        return {"code": problem.code, "detail": problem.detail, "errors": list(problem.errors)}

    def _at_this_moment(self, job: JobRecord) -> JobRecord:
        running = self._running.get(job.id)
        if running is None:
            return job
        step = None if job.state in FINISHED else running.step
        return replace(job, done=running.done, total=running.total, step=step)

    def _forget(self) -> None:
        for id_ in self._store.forget(self._kept):
            remove(self._path / id_)

    def _tidy(self) -> None:
        """Delete folders that no job has: a crash came between the folder and the record."""
        remove_partial(self._path)
        self._forget()
        known = {job.id for job in self._store.last(-1)}
        for folder in settled(self._path):
            if folder.name not in known:
                remove(folder)
