from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hummingbit.foundation import companion

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sessions are those of POSIX")
SECONDS = 120.0
PROGRAM = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(child.pid, *sys.argv[1:], flush=True)
time.sleep(3600)
"""


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "wanted").touch()
    command = [sys.executable, "-m", companion.__name__, str(folder / "wanted"), "program"]
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ends(pid: int) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
@pytest.mark.parametrize("what", ["caller", "file"])
def test_a_module_and_what_it_started_end_with_its_caller_or_its_file(
    tmp_path: Path, what: str
) -> None:
    with running(tmp_path, "one", "--two") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        child, *arguments = process.stdout.readline().split()
        assert arguments == ["one", "--two"]
        if what == "caller":
            process.stdin.close()
            process.stdin = None
        else:
            (tmp_path / "wanted").unlink()
        assert process.wait(SECONDS) == -signal.SIGKILL
        assert ends(int(child))


def test_the_status_is_that_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "wanted").touch()
    (tmp_path / "program.py").write_text("raise SystemExit(7)")
    command = [sys.executable, "-m", companion.__name__, str(tmp_path / "wanted"), "program"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, start_new_session=True, env=environment
    )
    assert process.wait(SECONDS) == 7
    process.communicate()
