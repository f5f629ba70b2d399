"""Services in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def service_process(folder: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Serve a data folder with further `options`; yield the id of the process and its address."""
    serve = ["hummingbit", "serve", "--data-dir", str(folder), "--port", "0", "--no-access-log"]
    with running(*serve, *options) as process:
        yield process


@contextmanager
def running(*module: str) -> Iterator[tuple[int, str]]:
    """Run a module that prints its address last in its first line; yield its process and that."""
    command = [sys.executable, "-m", *module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            yield process.pid, process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait()
