"""Services in processes of their own, and what processes take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def service_process(
    folder: Path, *options: str, cwd: Path | None = None
) -> Iterator[tuple[int, str]]:
    """Serve a data folder with further `options`; yield the id of the process and its address.

    `cwd` is another checkout, whose service it is to be.
    """
    data = str(folder.resolve())
    serve = ["hummingbit", "serve", "--data-dir", data, "--port", "0", "--no-access-log"]
    with running(*serve, *options, cwd=cwd) as process:
        yield process


@contextmanager
def running(*module: str, cwd: Path | None = None) -> Iterator[tuple[int, str]]:
    """Run a module that prints its address last in its first line; yield its process and that."""
    command = [sys.executable, "-m", *module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            yield process.pid, process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait()


def start_load(
    address: str,
    path: str,
    bodies: Path,
    clients: int,
    seconds: float,
    *,
    method: str = "POST",
    rate: float | None = None,
) -> subprocess.Popen[str]:
    """Start :mod:`benchmarks.harness.load`; :func:`end_load` returns what it measured."""
    command = [sys.executable, "-m", "benchmarks.harness.load", address, method, path, str(bodies)]
    command += [str(clients), str(seconds), *([] if rate is None else [str(rate)])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end_load(load: subprocess.Popen[str], *, may_fail: bool = False) -> dict[str, Any]:
    """Wait for a load and return its figures; exit unless all requests were answered by 200."""
    output, _ = load.communicate()
    if load.returncode:
        raise SystemExit("a client failed; its error is above")
    figures: dict[str, Any] = json.loads(output)
    if figures["failures"] and not may_fail:
        raise SystemExit(f"{figures['failures']:g} requests failed")
    return figures


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return the ids of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def resident_bytes(process: int | str = "self") -> int:
    """Return the bytes of memory that a process holds, by its id; by default, this process."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep so many other processes computing while the block runs."""
    program = "number = 1\nwhile True: number = number * 3 % 1_000_003"
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
