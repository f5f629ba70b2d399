"""The service in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def service_process(folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Serve a data folder with further `options`; yield the id of the process and its address."""
    command = [sys.executable, "-m", "hummingbit", "serve", "--data-dir", str(folder)]
    command += ["--port", "0", "--no-access-log", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            yield process.pid, process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait()
