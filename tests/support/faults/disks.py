"""Disks of their own for tests: small ones, and such that nothing can be written to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int = 16) -> Iterator[Path]:
    """Lend a disk of so many megabytes; the test is skipped where none can be mounted."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True, capture_output=True)


def make_read_only(disk: Path) -> None:
    """Let nothing more be written to a disk."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)


def fill(ballast: Path, leave: int) -> None:
    """Fill the disk that a file lies on but for about `leave` bytes."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 65536)
    with ballast.open("rb+") as file:
        file.truncate(max(0, ballast.stat().st_size - leave))
