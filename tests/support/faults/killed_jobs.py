"""Kills jobs at each of their commits, renames and syncs, or at any moment, and checks the result.

Run as ``python -m tests.support.faults.killed_jobs KIND FOLDER [--random N]``. A process imports
everything once. It forks a process that runs the job and dies, and then one that starts the service
again, waits for the job and checks the data folder. The job is held before a step while others
write; their acknowledged writes must survive. The service itself is unchanged: :func:`count_steps`
wraps Python's functions that rename, sync and commit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from corpus.document import Document
from encoder.artifact import write_artifact
from encoder.codes import Codes
from index.annotations.annotation_records import DocumentLabel
from index.annotations.annotations import Annotations
from index.bulk.code_layout import Method, Places, lay_out
from index.collection import Collection
from index.data_folder import DataFolder
from index.folder.alias_file import AddAlias
from service.jobs import map as map_job
from service.jobs.bulk import BATCH_LINES, INPUT
from service.jobs.evaluation import REQUEST_FILE, RUN_FILE
from service.jobs.job_records import FINISHED, NewJob
from service.jobs.kinds import UPLOAD, explain, kinds_of_jobs
from service.jobs.map import MapOptions
from service.jobs.queue import LANES
from service.jobs.runner import Jobs
from service.jobs.training_process import LOCK_FILE
from service.jobs.work import Progress
from service.settings import Settings
from service.write_gate import WriteGate
from tests.support.encoders import random_texts, text_encoder
from tests.support.trainers import provide_encoder

KINDS = (
    "reindex",
    "reindex without an alias",
    "bulk",
    "bulk that creates only",
    "bulk that skips what is unchanged",
    "snapshot",
    "upload",
    "restore",
    "verify",
    "compact",
    "index_fields",
    "evaluation",
    "map",
    "duplicates",
    "retrain",
)
DOCUMENTS = 40
LINES = 2 * BATCH_LINES + 10
SECONDS = 180.0
# How long others may take to write while a job is held; where it keeps them out, they cannot.
SECONDS_FOR_OTHERS = 0.1
N_BITS = 32
RETRAINING = {
    "source": "books-1",
    "into": "books-2",
    "alias": "books",
    "engine": "auto",
    "auto": True,
    "encoder": "better",
    "label_field": "label",
    "held_out": 0.2,
    "min_gain": -1.0,
    "seed": 0,
    "n_bits": None,
    "epochs": None,
}
KEPT_CODE, OTHER_CODE = "0f0f0f0f", "f0f0f0f0"


class Service:
    """The jobs of a data folder, without HTTP."""

    def __init__(self, path: Path) -> None:
        self.folder = DataFolder(path, writable=True)
        self.gate = WriteGate()
        self.kinds = kinds_of_jobs(self.folder, self.gate, Settings(training="elsewhere"))
        self.jobs = Jobs(path / "jobs", self.kinds, explain)

    def close(self) -> None:
        """Close the jobs and the folder."""
        self.jobs.close()
        self.folder.close()

    def submit(self, kind: str, files: Path) -> str:
        """Submit the job, and return its id."""
        draft = self.jobs.files.draft()
        spec: dict[str, Any] = {}
        name, collection = kind.partition(" ")[0], "books-1"
        if name == "reindex":
            alias = None if kind.endswith("alias") else "books"
            spec = {"source": "books-1", "encoder": "large", "into": "books-2", "alias": alias}
            spec["engine"] = "auto"
        elif name == "bulk":
            collection = "codes"
            spec = {"create_only": "creates" in kind, "skip_unchanged": "skips" in kind}
            shutil.copyfile(files / INPUT, draft / INPUT)
        elif name == "upload":
            shutil.copyfile(files / UPLOAD, draft / UPLOAD)
        elif name == "restore":
            collection, spec = "restored", {"snapshot": (files / "snapshot").read_text()}
        elif name == "evaluation":
            shutil.copyfile(files / REQUEST_FILE, draft / REQUEST_FILE)
        elif name == "map":
            spec = asdict(MapOptions(method="pca"))
        elif name == "duplicates":
            spec = {"radius": 2}
        elif name == "index_fields":
            spec = {"fields": ["label"]}
        elif name == "retrain":
            spec = RETRAINING
        return self.jobs.submit(draft, NewJob(name, collection, spec)).id

    def wait(self) -> list[dict[str, Any]]:
        """Wait until every job is finished."""
        deadline = time.monotonic() + SECONDS
        while not all(job.state in FINISHED for job in self.jobs.last(100)):
            assert time.monotonic() < deadline, f"a job is stuck: {self.jobs.last(100)}"
            time.sleep(0.005)
        return [
            {"state": job.state, "result": job.result, "error": job.error, "id": job.id}
            for job in self.jobs.last(100)
        ]


def make(path: Path, files: Path, kind: str) -> None:
    """Make a data folder with the input of the job."""
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    write_artifact(path / "encoders" / "large", text_encoder(64, seed=1), random_texts(40))
    with DataFolder(path, writable=True) as folder:
        books = folder.create_collection("books-1", encoder="words")
        texts = random_texts(DOCUMENTS, seed=1)
        books.upsert([_book(f"d{at}", text) for at, text in enumerate(texts)])
        books.delete(["d0"])
        folder.change_aliases([AddAlias("books", "books-1")])
        folder.create_collection("codes", n_bits=N_BITS)
        snapshot = folder.create_snapshot("books-1")
        shutil.copyfile(folder.snapshots.file(snapshot.id), files / UPLOAD)
        (files / "snapshot").write_text(snapshot.id)
        if kind != "restore":
            folder.snapshots.delete(snapshot.id)
    lines = (json.dumps({"id": f"b{at}", "code": KEPT_CODE}) + "\n" for at in range(LINES))
    (files / INPUT).write_text("".join(lines))
    queries = [{"text": text, "label": "a"} for text in random_texts(5)]
    (files / REQUEST_FILE).write_text(json.dumps({"queries": queries, "metrics": ["P@10"]}))


def _book(id_: str, text: str) -> Document:
    return Document(id=id_, text=text, payload={"label": "ab"[len(text) % 2]})


class Steps:
    """Counts the steps of jobs, and blocks the chosen one forever."""

    def __init__(self, number: int) -> None:
        self.held = threading.Event()
        self.name = ""
        self._left = number

    def take(self, name: str) -> None:
        """Count a step; only the threads of jobs count."""
        if not threading.current_thread().name.startswith((*LANES, "submit")):
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


def write_beside(service: Service, acknowledged: Path, number: int) -> None:
    """Write like a client, and record the acknowledged writes."""
    with service.gate.writing():
        service.folder.collection("books").upsert([_book(f"new{number}", "jam kernel")])
    _note(acknowledged, {"book": f"new{number}"})
    with service.gate.writing():
        service.folder.collection("books").delete([f"d{1 + number % 5}"])
    _note(acknowledged, {"deleted": f"d{1 + number % 5}"})
    write_label(service, acknowledged, number)
    with service.gate.writing():
        codes = service.folder.collection("codes")
        found = codes.get("b0")
        if found is None:
            return
        codes.upsert([Document(id="b0", code=OTHER_CODE)])
    _note(acknowledged, {"code": "b0"})


def write_label(service: Service, acknowledged: Path, number: int) -> None:
    """Label one document by hand and three by import; record the acknowledged labels."""
    some = [
        DocumentLabel(f"d{6 + (number + at) % 20}", ("a",), f"person {number}") for at in range(4)
    ]
    with service.gate.writing():
        _annotations(service.folder).set_labels(some[:1], [])
    _note(acknowledged, {"labelled": some[0].id, "who": some[0].who})
    with service.gate.writing():
        _annotations(service.folder).import_records(some[1:], [])
    for one in some[1:]:
        _note(acknowledged, {"labelled": one.id, "who": one.who})


def _annotations(folder: DataFolder) -> Annotations:
    books = folder.collection("books")
    assert isinstance(books, Collection)
    return books.annotations


def _note(path: Path, what: dict[str, str]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(what) + "\n")


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def bring_encoders(path: Path) -> None:
    """Start a thread that provides the encoders that jobs wait for."""

    def look() -> None:
        while True:
            provide_encoder(path, text_encoder(64, seed=1))
            time.sleep(0.005)

    threading.Thread(target=look, daemon=True).start()


def _lay_out_here(codes: Codes, method: Method, seed: int, progress: Progress) -> Places:
    return lay_out(codes, method, seed=seed)


def run_to_step(path: Path, files: Path, kind: str, number: int) -> None:
    """Run the job up to a step and die there; return if it has fewer steps."""
    if kind == "retrain":
        bring_encoders(path)
    # The process that computes a map takes no step, and some seconds to start.
    map_job._lay_out_in_process = _lay_out_here
    steps = Steps(number)
    count_steps(steps)
    service = Service(path)

    ended = threading.Event()

    def submit() -> None:
        _note(files / "acknowledged", {"job": service.submit(kind, files)})
        while service.jobs.last(1)[0].state not in FINISHED or _busy(service):
            time.sleep(0.002)
        ended.set()

    threading.Thread(target=submit, name="submit", daemon=True).start()
    deadline = time.monotonic() + SECONDS
    while not steps.held.wait(0.002):
        if ended.is_set():
            return
        assert time.monotonic() < deadline, "the job is stuck"
    other = threading.Thread(
        target=write_beside, args=(service, files / "acknowledged", number), daemon=True
    )
    other.start()
    other.join(SECONDS_FOR_OTHERS)
    _note(files / "steps", {"step": steps.name})
    _die()


def _busy(service: Service) -> bool:
    """Return whether the record or the files of a finished job are still being written."""
    (job,) = service.jobs.last(1)
    names = {path.name for path in service.jobs.files.of(job.id).iterdir()}
    # A trainer may have taken the lock of a folder whose job was finished.
    return bool(names - service.kinds[job.kind].kept_files - {LOCK_FILE})


def run_for(path: Path, files: Path, kind: str, seconds: float) -> None:
    """Run or resume the job beside other writers, and die after `seconds`."""
    if kind == "retrain":
        bring_encoders(path)
    service = Service(path)
    if not service.jobs.last(1):
        _note(files / "acknowledged", {"job": service.submit(kind, files)})

    def write() -> None:
        number = int(time.monotonic() * 1000)
        while True:
            number += 1
            write_beside(service, files / "acknowledged", number)

    threading.Thread(target=write, daemon=True).start()
    time.sleep(seconds)
    _die()


def check(path: Path, files: Path, kind: str) -> None:
    """Start the service again, wait for the job, and fail if anything is wrong."""
    if kind == "retrain":
        bring_encoders(path)
    noted = files / "acknowledged"
    lines = [json.loads(one) for one in noted.read_text().splitlines()] if noted.exists() else []
    with closing(Service(path)) as service:
        jobs = service.wait()
        known = {job["id"] for job in jobs}
        assert {one["job"] for one in lines if "job" in one} <= known, "an accepted job is gone"
        done = [job for job in jobs if not _was_refused(kind, job)]
        assert all(job["state"] == "done" for job in done), jobs
        _check_writes(service.folder, lines)
        for job in done:
            _check_result(service, kind, job)
        for collection in service.folder.collections().values():
            assert collection.verify().problems == []
        assert not service.folder.unavailable()
    with DataFolder(path, writable=True) as folder:
        assert not folder.unavailable()
    assert not [*path.glob("*/*.partial")]


def _was_refused(kind: str, job: dict[str, Any]) -> bool:
    """Return whether an evaluation was refused because the collection kept changing."""
    return kind == "evaluation" and (job["error"] or {}).get("code") == "cannot_evaluate"


def _check_writes(folder: DataFolder, lines: list[dict[str, str]]) -> None:
    books = folder.collection("books")
    for one in lines:
        if "book" in one:
            assert books.get(one["book"]) is not None, f"{one['book']} was acknowledged and is lost"
        if "deleted" in one:
            assert books.get(one["deleted"]) is None, f"{one['deleted']} was deleted and is there"
    labels = {one.key for one in _annotations(folder).labels()}
    for one in lines:
        if "labelled" in one:
            assert (one["labelled"], one["who"]) in labels, f"the label of {one['who']} is lost"
    held = {f"d{at}" for at in range(6, DOCUMENTS)}
    assert {one.id for one in books.documents_after(0, 10**6)} >= held
    if any("code" in one for one in lines):
        found = folder.collection("codes").get("b0")
        assert found is not None
        assert found.code == OTHER_CODE, "a write was undone by a job that was begun again"


def _check_result(service: Service, kind: str, job: dict[str, Any]) -> None:
    folder, result = service.folder, job["result"]
    if kind in {"reindex", "retrain"}:
        assert folder.aliases() == {"books": "books-2"}
        assert folder.collection("books").n_bits == 64
    elif kind == "reindex without an alias":
        assert len(folder.collection("books-2")) >= DOCUMENTS - 7
    elif kind.startswith("bulk"):
        assert (result["received"], result["failed"]) == (LINES, 0), result
        assert result["written"] + result["unchanged"] == LINES, result
        held = folder.collection("codes").documents_after(0, 10**6)
        assert {one.id for one in held} == {f"b{at}" for at in range(LINES)}
        assert {one.code for one in held if one.id != "b0"} == {KEPT_CODE}
        assert folder.collection("codes").read_bookmark(job["id"]) is None
    elif kind in {"snapshot", "upload"}:
        assert [one.id for one in folder.snapshots.all()] == [result["id"]]
    elif kind == "restore":
        assert {*folder.collections()} == {"books-1", "codes", "restored"}
        assert len(folder.collection("restored")) == DOCUMENTS - 1
    elif kind == "verify":
        assert result["problems"] == []
    elif kind in {"evaluation", "map", "duplicates"}:
        kept = service.kinds[kind].kept_files - {REQUEST_FILE, RUN_FILE}
        assert {path.name for path in service.jobs.files.of(job["id"]).iterdir()} >= kept


def call_in_fork(function: Callable[..., None], *args: Any) -> int:
    """Call a function in a forked process; return its exit status, -9 if it was killed."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            function(*args)
            status = 0
        except BaseException:  # noqa: BLE001 - it is the end of this process
            import traceback  # noqa: PLC0415

            traceback.print_exc()
        finally:
            os._exit(status)
    _, code = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--random", type=int, default=0, help="kill so often, at any moment")
    parser.add_argument("--every", type=int, default=1, help="kill at every so many steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    template = args.folder / "template"
    (template / "files").mkdir(parents=True)
    assert call_in_fork(make, template / "data", template / "files", args.kind) == 0
    if args.random:
        done = kill_at_random(args.folder, args.kind, args.random, args.seed)
    else:
        done = kill_at_every_step(args.folder, args.kind, args.every)
    print(f"{args.kind}: {done}, nothing lost, nothing stuck")


def kill_at_every_step(folder: Path, kind: str, every: int) -> str:
    """Kill a job at each of its steps, starting again from the beginning each time."""
    work, noted = folder / "work", 0
    for kills, number in enumerate(range(0, 10_000, every)):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "template", work)
        status = call_in_fork(run_to_step, work / "data", work / "files", kind, number)
        if status == 0:
            return f"killed at {kills} steps, {noted} writes acknowledged meanwhile"
        assert status == -signal.SIGKILL, f"step {number}"
        step = (work / "files" / "steps").read_text()
        if call_in_fork(check, work / "data", work / "files", kind):
            raise SystemExit(f"{kind}: killed at step {number}, {step}")
        acknowledged = work / "files" / "acknowledged"
        if acknowledged.exists():
            noted += sum('"job"' not in line for line in acknowledged.read_text().splitlines())
    raise SystemExit(f"{kind}: has no end of steps")


def kill_at_random(folder: Path, kind: str, times: int, seed: int) -> str:
    """Kill a job at random moments, and sometimes also the process that resumes it."""
    chance = random.Random(seed)  # noqa: S311 - it only picks the moments
    work, kills, noted = folder / "work", 0, 0
    while kills < times:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "template", work)
        for _ in range(chance.choice([1, 1, 2, 3])):
            seconds = chance.expovariate(1 / 0.1)
            status = call_in_fork(run_for, work / "data", work / "files", kind, seconds)
            assert status == -signal.SIGKILL
            kills += 1
        if call_in_fork(check, work / "data", work / "files", kind):
            raise SystemExit(f"{kind}: after {kills} kills, seed {seed}")
        acknowledged = work / "files" / "acknowledged"
        noted += sum('"job"' not in line for line in acknowledged.read_text().splitlines())
    return f"killed {kills} times at random, {noted} writes acknowledged meanwhile"


if __name__ == "__main__":
    main()
