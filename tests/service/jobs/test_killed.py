"""A job that is killed at any step of it undoes nothing that others wrote, and is completed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.killed_jobs import KINDS
from tests.support.service import ROOT


def kill(kind: str, folder: Path, *flags: str) -> None:
    command = [sys.executable, "-m", "tests.support.killed_jobs", kind, str(folder), *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, end="")


@pytest.mark.parametrize(("kind", "every"), [("reindex", "5"), ("bulk that creates only", "9")])
def test_a_job_survives_a_kill_at_some_of_its_steps(kind: str, every: str, tmp_path: Path) -> None:
    kill(kind, tmp_path, "--every", every)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_survives_a_kill_at_every_step(kind: str, tmp_path: Path) -> None:
    kill(kind, tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_survives_a_hundred_kills_at_random(kind: str, tmp_path: Path) -> None:
    kill(kind, tmp_path, "--random", "100")
