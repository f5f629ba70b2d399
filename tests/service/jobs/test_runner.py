from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.errors import StoreFull
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.jobs import runner
from hummingbit.service.jobs.runner import Jobs
from hummingbit.service.jobs.store import (
    Idempotency,
    JobRecord,
    JobStore,
    JobStoreError,
    NewJob,
    Quota,
)
from hummingbit.service.jobs.work import JobQueues, Kind, Progress, QueueName
from tests.support.faults.disks import small_disk
from tests.support.service import ROOT

SECONDS = 120.0


def explain(error: Exception) -> ProblemError | None:
    return (
        ProblemError(422, "invalid_request", str(error)) if isinstance(error, ValueError) else None
    )


def count_lines(progress: Progress) -> dict[str, Any]:
    """Counts the lines of its input, slowly enough to be seen at it where the spec says so."""
    progress.step = "counting"
    lines = (progress.folder / "input").read_text().splitlines()
    progress.advance(total=len(lines))
    for line in lines:
        if line == "bad":
            raise ValueError("a line is bad")
        if line == "broken":
            raise RuntimeError("/secret/path is broken")
        time.sleep(progress.job.spec.get("seconds", 0))
        progress.advance(1)
    return {"lines": progress.done}


def opened(path: Path, kept: int = 1000) -> Jobs:
    return Jobs(path, {"count": Kind(count_lines)}, explain, quota=Quota(finished=kept))


def submit(
    jobs: Jobs,
    text: str,
    key: tuple[str, str] | None = None,
    *,
    owner: str = "",
    **spec: float,
) -> JobRecord:
    draft = jobs.files.draft()
    (draft / "input").write_text(text)
    given = None if key is None else Idempotency(*key, owner)
    return jobs.submit(draft, NewJob("count", "words", dict(spec), owner, given))


def wait(jobs: Jobs, id_: str, until: Callable[[JobRecord], bool]) -> JobRecord:
    deadline = time.monotonic() + SECONDS
    while not until(job := jobs.get(id_)):
        assert time.monotonic() < deadline, job
        time.sleep(0.01)
    return job


def finished(job: JobRecord) -> bool:
    return job.finished is not None


def begun(job: JobRecord) -> bool:
    return job.done > 0


def test_a_job_is_done_and_its_result_stays(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        job = submit(jobs, "a\nb\nc")
        assert (job.state, job.kind, job.collection) == ("queued", "count", "words")
        # Its files go after its end was recorded.
        done = wait(jobs, job.id, lambda job: finished(job) and not job.bytes)
        assert (done.state, done.result, done.error) == ("done", {"lines": 3}, None)
        assert (done.done, done.total, done.attempts, done.step) == (3, 3, 1, None)
        assert done.created <= str(done.started) <= str(done.finished)
    with closing(opened(tmp_path)) as jobs:
        assert jobs.get(job.id) == done
        assert jobs.last(10) == [done] == jobs.last(10, "done")
        assert jobs.last(10, "failed") == []


def test_a_job_that_fails_says_why_unless_it_is_the_services_own_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(opened(tmp_path)) as jobs:
        failed = wait(jobs, submit(jobs, "a\nbad").id, finished)
        assert failed.state == "failed"
        assert failed.error == {
            "code": "invalid_request",
            "detail": "a line is bad",
            "errors": [],
        }
        assert failed.done == 1
        broken = wait(jobs, submit(jobs, "broken").id, finished)
        assert broken.error == {
            "code": "internal_error",
            "detail": "internal error; the log of the service says why",
            "errors": [],
        }
        assert "/secret/path is broken" in caplog.text


def test_a_job_that_was_running_when_the_service_ended_is_done_by_the_next(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        job = submit(jobs, "a\n" * 50, seconds=0.02)
        waiting = submit(jobs, "a\nb")
        wait(jobs, job.id, begun)
    with closing(JobStore(tmp_path / "jobs.sqlite")) as store:
        assert store.get(job.id).state == "running"
        assert store.get(waiting.id).state == "queued"
    with closing(opened(tmp_path)) as jobs:
        done = wait(jobs, job.id, finished)
        assert (done.state, done.result, done.attempts) == ("done", {"lines": 50}, 2)
        assert wait(jobs, waiting.id, finished).attempts == 1


def test_a_list_of_jobs_ends_before_their_records_are_too_large(tmp_path: Path) -> None:
    kinds = {"large": Kind(lambda _: {"text": "x" * 100_000})}
    with closing(Jobs(tmp_path, kinds, explain)) as jobs:
        ids = [jobs.submit(jobs.files.draft(), NewJob("large", "words")).id for _ in range(4)]
        for id_ in ids:
            wait(jobs, id_, finished)
    newest = ids[::-1]
    # All outcomes are on disk once the jobs have been closed.
    with closing(Jobs(tmp_path, kinds, explain)) as jobs:
        assert [job.id for job in jobs.last(10)] == newest
        assert [job.id for job in jobs.last(10, max_bytes=250_000)] == newest[:2]
        assert [job.id for job in jobs.last(10, max_bytes=1)] == newest[:1]


def test_jobs_are_cancelled_while_they_wait_and_while_they_run(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        running = submit(jobs, "a\n" * 1000, seconds=0.02)
        waiting = submit(jobs, "a\n" * 1000)
        assert wait(jobs, running.id, begun).step == "counting"
        assert jobs.get(waiting.id).step is None
        assert jobs.cancel(waiting.id).state == "cancelled"
        jobs.cancel(running.id)
        stopped = wait(jobs, running.id, finished)
        assert stopped.state == "cancelled"
        assert 0 < stopped.done < 1000
        with pytest.raises(ProblemError, match="is already cancelled") as raised:
            jobs.cancel(running.id)
        assert raised.value.status_code == 409
        assert wait(jobs, submit(jobs, "a").id, finished).state == "done"
        assert jobs.get(waiting.id).attempts == 0


def test_a_request_that_comes_again_gets_its_first_job(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        first = submit(jobs, "a", ("key", "digest"))
        assert submit(jobs, "a", ("key", "digest")).id == first.id
        with pytest.raises(ProblemError, match="for another request") as raised:
            submit(jobs, "b", ("key", "other digest"))
        assert (raised.value.status_code, raised.value.code) == (422, "idempotency_key_reused")
        assert submit(jobs, "a").id != first.id
    with closing(opened(tmp_path)) as jobs:
        assert submit(jobs, "a", ("key", "digest")).id == first.id
        assert len(jobs.last(10)) == 2


def test_of_many_requests_with_one_key_at_once_one_job_is_made(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        made: list[str] = []
        threads = [
            threading.Thread(target=lambda: made.append(submit(jobs, "a", ("key", "d")).id))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8
        assert len(set(made)) == 1


def test_the_last_finished_jobs_are_kept_and_folders_without_a_job_are_not(tmp_path: Path) -> None:
    with closing(opened(tmp_path, kept=2)) as jobs:
        made = []
        for _ in range(4):
            made.append(submit(jobs, "a").id)
            wait(jobs, made[-1], finished)
    (tmp_path / "0123456789abcdef").mkdir()
    (tmp_path / "fedcba9876543210.partial").mkdir()
    with closing(opened(tmp_path, kept=2)) as jobs:
        assert [job.id for job in jobs.last(10)] == made[:1:-1]
        with pytest.raises(ProblemError, match="there is no job") as raised:
            jobs.get(made[0])
        assert raised.value.status_code == 404
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == set(made[2:])


def test_records_of_a_later_version_and_files_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(JobStoreError, match="version 9; version 2 can be read"):
        JobStore(path)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(JobStoreError, match="not a database"):
        JobStore(path)


def test_a_damaged_record_says_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    JobStore(path).close()
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8000)
    with pytest.raises(JobStoreError, match="the file is damaged: stop the service and move"):
        JobStore(path)


def test_a_damaged_log_cannot_undo_what_was_acknowledged(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path;"
        "from hummingbit.service.jobs.store import NewJob, Outcome;"
        "from hummingbit.service.jobs.store import JobStore;"
        "store = JobStore(Path(sys.argv[1]) / 'jobs.sqlite');"
        "store.add(NewJob('count', 'c'), 'a' * 16, 0);"
        "store.begin('a' * 16); store.finish('a' * 16, Outcome('done', result={'lines': 3}));"
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    for path in tmp_path.iterdir():
        if path.name != "jobs.sqlite":
            raw = bytearray(path.read_bytes())
            for at in range(0, len(raw), 512):
                raw[at] ^= 1
            path.write_bytes(raw)
    with closing(JobStore(tmp_path / "jobs.sqlite")) as store:
        job = store.get("a" * 16)
    assert (job.state, job.result) == ("done", {"lines": 3})


def test_records_with_a_log_of_earlier_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with closing(JobStore(path)) as store:
        store.add(NewJob("count", "c"), "a" * 16, 0)
    copy = tmp_path / "copy"
    copy.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as earlier:
        earlier.execute("PRAGMA journal_mode = WAL")
        earlier.execute("UPDATE jobs SET collection = 'in the log'")
        for item in tmp_path.glob("jobs.sqlite*"):  # as a killed process leaves them
            (copy / item.name).write_bytes(item.read_bytes())
    assert (copy / "jobs.sqlite-wal").stat().st_size > 0
    with closing(JobStore(copy / "jobs.sqlite")) as store:
        assert store.get("a" * 16).collection == "in the log"
        assert not (copy / "jobs.sqlite-wal").exists()


@contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Have no file of records where it was: nothing can be recorded, whatever memory says."""
    (path / "jobs.sqlite").rename(path / "elsewhere")
    yield
    (path / "elsewhere").rename(path / "jobs.sqlite")


def test_a_job_whose_end_cannot_be_recorded_is_finished_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_ATTEMPTS", 0.05)
    with closing(opened(tmp_path)) as jobs:
        job = submit(jobs, "a\n" * 20, ("key", "digest"), seconds=0.02)
        wait(jobs, job.id, begun)
        with unwritable(tmp_path):
            done = wait(jobs, job.id, finished)
            assert (done.state, done.result) == ("done", {"lines": 20})
            again = submit(jobs, "a", ("key", "digest"))
            assert (again.id, again.state) == (job.id, "done")
            assert jobs.last(10, "running") == []
            with pytest.raises(ProblemError, match="is already done"):
                jobs.cancel(job.id)
        deadline = time.monotonic() + SECONDS
        while JobStore(tmp_path / "jobs.sqlite").get(job.id).state != "done":
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert f"job {job.id} is done, but this cannot be recorded" in caplog.text
    with closing(opened(tmp_path)) as jobs:
        assert jobs.get(job.id).attempts == 1
        assert jobs.get(job.id).result == {"lines": 20}


def test_files_that_cannot_be_deleted_yet_are_deleted_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_ATTEMPTS", 0.02)
    with closing(opened(tmp_path)) as jobs, small_disk(tmp_path, 1) as disk:
        job = submit(jobs, "a\n" * 20, seconds=0.02)
        wait(jobs, job.id, begun)
        # No folder that something is mounted on can be deleted, whoever one is.
        mounted = jobs.files.of(job.id) / "mounted"
        mounted.mkdir()
        command = ["mount", "--bind", str(disk), str(mounted)]
        subprocess.run(command, check=True, capture_output=True)
        try:
            wait(jobs, job.id, finished)
            wait_until(lambda: "cannot be deleted yet" in caplog.text)
        finally:
            # It is busy while an attempt to delete it reads it.
            wait_until(lambda: not subprocess.run(["umount", str(mounted)], check=False).returncode)
        wait_until(lambda: not [*jobs.files.of(job.id).iterdir()])
        assert caplog.text.count("cannot be deleted yet") == 1


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_job_that_cannot_be_recorded_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        with unwritable(tmp_path), pytest.raises(JobStoreError, match="No such file"):
            submit(jobs, "a", ("key", "digest"))
        assert jobs.last(10) == []
        assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
        done = wait(jobs, submit(jobs, "a", ("key", "digest")).id, finished)
        assert done.state == "done"


def test_a_file_of_records_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        (tmp_path / "jobs.sqlite").rename(tmp_path / "old")
        (tmp_path / "jobs.sqlite").touch()
        with pytest.raises(JobStoreError, match="was replaced by another file"):
            submit(jobs, "a")


def test_nobody_has_more_unfinished_jobs_or_bytes_than_the_quota(tmp_path: Path) -> None:
    kinds = {"count": Kind(count_lines, kept_files=frozenset({"input"}))}
    quota = Quota(finished=10, unfinished=2, bytes=100)
    with closing(Jobs(tmp_path, kinds, explain, quota=quota)) as jobs:
        running = submit(jobs, "a\n" * 20, owner="one", seconds=0.05)
        submit(jobs, "a", owner="one")
        with pytest.raises(ProblemError, match="2 jobs of this key are not finished") as raised:
            submit(jobs, "a", owner="one")
        assert (raised.value.status_code, raised.value.code) == (429, "too_many_jobs")
        other = submit(jobs, "b", owner="other")
        wait(jobs, other.id, finished)
        wait(jobs, running.id, finished)
        # The oldest that is finished makes room.
        large = submit(jobs, "a\n" * 45, owner="one")
        wait(jobs, large.id, finished)
        with pytest.raises(ProblemError, match="there is no job"):
            jobs.get(running.id)
        with pytest.raises(ProblemError, match="together they may have 100"):
            submit(jobs, "a" * 101, owner="one")
        assert jobs.get(other.id).state == "done"
    assert not [*tmp_path.glob("*.partial")]


def test_a_job_past_its_point_of_no_return_is_completed_and_cannot_be_stopped(
    tmp_path: Path,
) -> None:
    began, go_on = threading.Event(), threading.Event()

    def work(progress: Progress) -> dict[str, Any]:
        progress.pass_no_return({"left": "one step"})
        began.set()
        go_on.wait(SECONDS)
        progress.advance(1)
        return {"recorded": progress.recorded}

    with closing(Jobs(tmp_path, {"count": Kind(work)}, explain)) as jobs:
        job = submit(jobs, "a")
        assert began.wait(SECONDS)
        with pytest.raises(ProblemError, match="can no longer be stopped"):
            jobs.cancel(job.id)
        with closing(JobStore(tmp_path / "jobs.sqlite")) as store:
            assert store.get(job.id).recorded == {"left": "one step"}
        go_on.set()
        assert wait(jobs, job.id, finished).state == "done"


def test_each_owner_has_idempotency_keys_of_its_own(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        common = submit(jobs, "a", ("key", "digest"))
        with pytest.raises(ProblemError, match="for another request"):
            submit(jobs, "a", ("key", "other digest"), owner="one")
        first = submit(jobs, "a", ("mine", "digest"), owner="one")
        other = submit(jobs, "b", ("mine", "other digest"), owner="other")
        again = [
            submit(jobs, "", ("key", "digest"), owner="one").id,
            submit(jobs, "", ("mine", "digest"), owner="one").id,
            submit(jobs, "", ("mine", "other digest"), owner="other").id,
        ]
        assert again == [common.id, first.id, other.id]
        assert first.id != other.id


def test_a_key_that_an_earlier_version_recorded_is_its_owners(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        old = submit(jobs, "a", owner="one")
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE jobs SET idempotency_key = 'key', digest = 'digest'")
    with closing(opened(tmp_path)) as jobs:
        assert submit(jobs, "a", ("key", "digest"), owner="one").id == old.id
        assert submit(jobs, "a", ("key", "digest"), owner="other").id != old.id
        # Without keys, all clients are one owner.
        assert submit(jobs, "a", ("key", "digest")).id == old.id


def test_records_of_the_version_before_are_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("""
            CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL,
            kind TEXT NOT NULL, collection TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
            done INTEGER NOT NULL DEFAULT 0, total INTEGER, attempts INTEGER NOT NULL DEFAULT 0,
            created TEXT NOT NULL, started TEXT, finished TEXT, result TEXT, error TEXT,
            idempotency_key TEXT UNIQUE, digest TEXT)
        """)
        connection.execute("PRAGMA user_version = 1")
        connection.execute("""
            INSERT INTO jobs (id, kind, collection, spec, state, created)
            VALUES ('0123456789abcdef', 'count', 'words', '{}', 'running', '2026-01-01T00:00:00')
        """)
    (tmp_path / "0123456789abcdef").mkdir()
    (tmp_path / "0123456789abcdef" / "input").write_text("a")
    with closing(opened(tmp_path)) as jobs:
        done = wait(jobs, "0123456789abcdef", finished)
        assert (done.state, done.owner, done.recorded) == ("done", "", None)


def test_a_job_that_can_be_stopped_anywhere_is_stopped(tmp_path: Path) -> None:
    begun = threading.Event()

    def work(_: Progress) -> dict[str, Any]:
        begun.set()
        while True:
            check_cancelled()

    with closing(Jobs(tmp_path, {"count": Kind(work, anywhere=True)}, explain)) as jobs:
        first = submit(jobs, "a")
        assert begun.wait(SECONDS)
        jobs.cancel(first.id)
        assert wait(jobs, first.id, finished).state == "cancelled"
        begun.clear()
        second = submit(jobs, "a")
        assert begun.wait(SECONDS)
    with closing(JobStore(tmp_path / "jobs.sqlite")) as store:
        assert store.get(second.id).state == "running"


def test_a_short_job_that_cannot_be_started_is_not_held_up_by_long_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_ATTEMPTS", 0.01)
    begin, failed = JobStore.begin, threading.Event()

    def begin_later(store: JobStore, id_: str) -> bool:
        if store.get(id_).bytes == 1 and not failed.is_set():
            failed.set()
            raise JobStoreError("the disk is full")
        return begin(store, id_)

    monkeypatch.setattr(JobStore, "begin", begin_later)
    with closing(Jobs(tmp_path, {"count": Kind(count_lines, short_bytes=1)}, explain)) as jobs:
        long = submit(jobs, "a\n" * 1000, seconds=0.1)
        wait(jobs, long.id, begun)
        short = wait(jobs, submit(jobs, "b").id, finished)
        assert failed.is_set()
        assert (short.state, jobs.get(long.id).state) == ("done", "running")


def test_jobs_that_read_hold_up_neither_others_nor_those_of_another_owner(tmp_path: Path) -> None:
    """One of an owner runs at a time; it ends only when it is cancelled."""

    def read(progress: Progress) -> dict[str, Any]:
        while True:
            progress.advance()
            time.sleep(0.001)

    kinds = {"count": Kind(read, own_queue="analysis"), "write": Kind(lambda _: {})}
    workers: dict[QueueName, int] = {"analysis": 2}
    with closing(Jobs(tmp_path, kinds, explain, workers=workers)) as jobs:

        def runs(job: JobRecord) -> bool:
            return job.state == "running"

        first, second = (submit(jobs, "a", owner="one") for _ in range(2))
        wait(jobs, first.id, runs)
        other = submit(jobs, "a", owner="other")
        wait(jobs, other.id, runs)
        written = jobs.submit(jobs.files.draft(), NewJob("write", "words"))
        assert wait(jobs, written.id, finished).state == "done"
        assert jobs.get(second.id).state == "queued"
        jobs.cancel(first.id)
        wait(jobs, second.id, runs)
        for document in (second, other):
            jobs.cancel(document.id)
            wait(jobs, document.id, finished)


def test_a_job_that_failed_can_be_repeated_with_its_key(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as jobs:
        failed = wait(jobs, submit(jobs, "bad", ("key", "digest")).id, finished)
        assert failed.state == "failed"
        again = submit(jobs, "a", ("key", "digest"))
        assert again.id != failed.id
        assert wait(jobs, again.id, finished).state == "done"
        assert submit(jobs, "a", ("key", "digest")).id == again.id
        with pytest.raises(ProblemError, match="already used for another request"):
            submit(jobs, "a", ("key", "other"))
        assert jobs.get(failed.id).state == "failed"
        cancelled = submit(jobs, "a\n" * 1000, ("stopped", "digest"), seconds=0.02)
        jobs.cancel(cancelled.id)
        wait(jobs, cancelled.id, finished)
        assert submit(jobs, "a", ("stopped", "digest")).id == cancelled.id


def test_a_job_that_cannot_be_started_stays_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_ATTEMPTS", 0.01)
    begin, enqueue, enqueued = JobStore.begin, JobQueues.enqueue, list[tuple[str, str]]()
    may_begin = threading.Event()

    def begin_later(store: JobStore, id_: str) -> bool:
        if not may_begin.is_set():
            raise JobStoreError("the disk is full")
        return begin(store, id_)

    def enqueue_noted(queue: JobQueues, name: Any, owner: str, id_: str) -> None:
        enqueued.append((owner, id_))
        enqueue(queue, name, owner, id_)

    monkeypatch.setattr(JobStore, "begin", begin_later)
    monkeypatch.setattr(JobQueues, "enqueue", enqueue_noted)
    with closing(opened(tmp_path)) as jobs:
        owners = {submit(jobs, "a", owner=owner).id: owner for owner in ("one", "two", "one")}
        for id_ in owners:
            waiting = wait(jobs, id_, lambda job: job.step is not None)
            assert waiting.step == "waiting until the service can record jobs"
        may_begin.set()
        for id_ in owners:
            assert wait(jobs, id_, finished).state == "done"
    assert len(enqueued) >= 2 * len(owners)
    assert all(owners.get(id_, owner) == owner for owner, id_ in enqueued)


def test_a_job_that_continues_waits_for_what_will_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_ATTEMPTS", 0.01)
    is_full = threading.Event()
    is_full.set()

    def work(progress: Progress) -> dict[str, Any]:
        if is_full.is_set():
            raise StoreFull("database or disk is full")
        return {"attempts": progress.job.attempts}

    kinds = {"waits": Kind(work, continues=True), "fails": Kind(work)}
    with closing(Jobs(tmp_path, kinds, explain)) as jobs:
        waits, stopped, fails = (
            jobs.submit(jobs.files.draft(), NewJob(kind, "words")).id
            for kind in ("waits", "waits", "fails")
        )
        assert wait(jobs, fails, finished).state == "failed"
        for id_ in (waits, stopped):
            job = wait(jobs, id_, lambda job: job.step is not None and job.attempts > 2)
            assert (job.step, job.finished) == ("waiting: the disk is full", None)
        jobs.cancel(stopped)
        assert wait(jobs, stopped, finished).state == "cancelled"
        is_full.clear()
        done = wait(jobs, waits, finished)
        assert done.state == "done"
        assert done.result == {"attempts": done.attempts}
