"""Kills jobs at each of their commits, renames and syncs, or at any moment, and checks the result.

Run as ``python -m tests.support.faults.killed_jobs KIND FOLDER [--random N]``. A process imports
everything once. It forks a process that runs the job and dies, and then one that starts the service
again, waits for the job and checks the data folder. The job is held before a step while others
write; their acknowledged writes must survive. The service itself is unchanged: :func:`count_steps`
wraps Python's functions that rename, sync and commit.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from hummingbit.encoder.codes import Codes
from hummingbit.index.code_layout import Method, Places, lay_out
from hummingbit.service.jobs import map as map_job
from hummingbit.service.jobs.store import FINISHED
from hummingbit.service.jobs.training_process import LOCK_FILE
from hummingbit.service.jobs.work import Progress
from tests.support.encoders import text_encoder
from tests.support.faults.acknowledged_writes import check, note, write_beside
from tests.support.faults.counted_steps import Steps, count_steps
from tests.support.faults.service_without_http import SECONDS, Service, make
from tests.support.trainers import external_trainer

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
    "delete_duplicates",
    "retrain",
    "train",
)
# How long others may take to write while a job is held; where it keeps them out, they cannot.
SECONDS_FOR_OTHERS = 0.1


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
    places = (work / "data", work / "files", kind)
    for kills, number in enumerate(range(0, 10_000, every)):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "template", work)
        status = call_in_fork(beside_trainer, run_to_step, *places, number)
        if status == 0:
            return f"killed at {kills} steps, {noted} writes acknowledged meanwhile"
        assert status == -signal.SIGKILL, f"step {number}"
        step = (work / "files" / "steps").read_text()
        if call_in_fork(beside_trainer, check, *places):
            raise SystemExit(f"{kind}: killed at step {number}, {step}")
        acknowledged = work / "files" / "acknowledged"
        if acknowledged.exists():
            noted += sum('"job"' not in line for line in acknowledged.read_text().splitlines())
    raise SystemExit(f"{kind}: has no end of steps")


def kill_at_random(folder: Path, kind: str, times: int, seed: int) -> str:
    """Kill a job at random moments, and sometimes also the process that resumes it."""
    chance = random.Random(seed)  # noqa: S311 - it only picks the moments
    work, kills, noted = folder / "work", 0, 0
    places = (work / "data", work / "files", kind)
    while kills < times:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(folder / "template", work)
        for _ in range(chance.choice([1, 1, 2, 3])):
            seconds = chance.expovariate(1 / 0.1)
            status = call_in_fork(beside_trainer, run_for, *places, seconds)
            assert status == -signal.SIGKILL
            kills += 1
        if call_in_fork(beside_trainer, check, *places):
            raise SystemExit(f"{kind}: after {kills} kills, seed {seed}")
        acknowledged = work / "files" / "acknowledged"
        noted += sum('"job"' not in line for line in acknowledged.read_text().splitlines())
    return f"killed {kills} times at random, {noted} writes acknowledged meanwhile"


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


def run_to_step(path: Path, files: Path, kind: str, number: int) -> None:
    """Run the job up to a step and die there; return if it has fewer steps."""
    # The process that computes a map takes no step, and some seconds to start.
    map_job._lay_out_in_process = _lay_out_here
    steps = Steps(number)
    count_steps(steps)
    service = Service(path)

    ended = threading.Event()

    def submit() -> None:
        note(files / "acknowledged", {"job": service.submit(kind, files)})
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
    note(files / "steps", {"step": steps.name})
    _die()


def run_for(path: Path, files: Path, kind: str, seconds: float) -> None:
    """Run or resume the job beside other writers, and die after `seconds`."""
    service = Service(path)
    if not service.jobs.last(1):
        note(files / "acknowledged", {"job": service.submit(kind, files)})

    def write() -> None:
        number = int(time.monotonic() * 1000)
        while True:
            number += 1
            write_beside(service, files / "acknowledged", number)

    threading.Thread(target=write, daemon=True).start()
    time.sleep(seconds)
    _die()


def beside_trainer(
    function: Callable[..., None], path: Path, files: Path, kind: str, *args: Any
) -> None:
    """Call a function while the jobs that wait for an encoder get one."""
    trainer = external_trainer(path, text_encoder(64, seed=1))
    with trainer if kind in {"retrain", "train"} else nullcontext():
        function(path, files, kind, *args)


def _lay_out_here(codes: Codes, method: Method, seed: int, progress: Progress) -> Places:
    return lay_out(codes, method, seed=seed)


def _busy(service: Service) -> bool:
    """Return whether the record or the files of a finished job are still being written."""
    (job,) = service.jobs.last(1)
    names = {path.name for path in service.jobs.files.of(job.id).iterdir()}
    # A trainer may have taken the lock of a folder whose job was finished.
    return bool(names - service.kinds[job.kind].kept_files - {LOCK_FILE})


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


if __name__ == "__main__":
    main()
