"""A job that is killed at any step of it undoes nothing that others wrote, and is completed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hummingbit.index.data_folder import DataFolder
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.jobs.kinds import kinds_of_jobs
from hummingbit.service.settings import Settings
from tests.support.faults.killed_jobs import KINDS
from tests.support.service import ROOT

Record = Callable[[str, object], None]


def kill(kind: str, folder: Path, *flags: str) -> list[int]:
    """Kill a job as :mod:`tests.support.faults.killed_jobs` does; return its kills and writes."""
    command = [sys.executable, "-m", "tests.support.faults.killed_jobs", kind, str(folder), *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, end="")
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


def test_every_kind_of_job_is_killed(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        known = kinds_of_jobs(folder, WriteGate(), Settings())
    assert {kind.partition(" ")[0] for kind in KINDS} == set(known)


@pytest.mark.parametrize(("kind", "every"), [("reindex", "5"), ("bulk that creates only", "9")])
def test_a_job_survives_a_kill_at_some_of_its_steps(kind: str, every: str, tmp_path: Path) -> None:
    kill(kind, tmp_path, "--every", every)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_survives_a_kill_at_every_step(
    kind: str, tmp_path: Path, record_property: Record
) -> None:
    kills, writes = kill(kind, tmp_path)
    record_property("kills of a job at a step", kills)
    record_property("acknowledged writes", writes)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_survives_a_hundred_kills_at_random(
    kind: str, tmp_path: Path, record_property: Record
) -> None:
    kills, writes = kill(kind, tmp_path, "--random", "100")
    record_property("kills of a job at random", kills)
    record_property("acknowledged writes", writes)
