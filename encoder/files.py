"""Files that appear whole and last through a crash of the process or of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, UTF-8 if it is text; its content is on disk once this returns.

    Raises:
        OSError: if it cannot be written.
    """
    raw = content.encode() if isinstance(content, str) else content
    with path.open("wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: str | bytes) -> None:
    """Put a file in the place of what is at `path`: a crash leaves the one or the other, whole.

    Two writers must not replace the same file at once.

    Raises:
        OSError: if it cannot be written; `path` is as it was then.
    """
    with replacing(path) as partial:
        write_file(partial, content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Lend a path to write to; what is there at the end of the block takes the place of `path`.

    If the block raises, what it wrote is deleted and `path` stays as it was.

    Raises:
        OSError: if the file cannot be synced or renamed.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        _sync(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk.

    Raises:
        OSError: if that fails.
    """
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
