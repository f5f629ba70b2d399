"""Disks for tests: small ones, and read-only ones."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int = 16) -> Iterator[Path]:
    """Yield a disk of `megabytes`; skip the test if none can be mounted."""
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
    """Remount a disk read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)


def fill(ballast: Path, leave: int) -> None:
    """Fill the disk of the file `ballast` except for about `leave` bytes."""
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 65536)
    with ballast.open("rb+") as file:
        file.truncate(max(0, ballast.stat().st_size - leave))
