"""Files that appear whole and survive a crash of the process or of the machine."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

WRITING = ".writing-"
"""The prefix of the folders in which :func:`replace_folder` writes."""


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file and sync it to disk. Text is encoded as UTF-8.

    Raises:
        OSError: if it cannot be written.
    """
    with _naming(path), path.open("wb") as file:
        file.write(_as_bytes(content))
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: str | bytes) -> None:
    """Replace the file at `path`; after a crash it holds the old content or `content`, whole.

    Two writers must not replace the same file at once.

    Raises:
        OSError: if the file cannot be written; `path` is then unchanged.
    """
    with replacing(path) as partial:
        partial.write_bytes(_as_bytes(content))


def open_regular_file(path: Path, *, follow_links: bool) -> BinaryIO:
    """Open a file to read it, without waiting for a pipe.

    Raises:
        OSError: if it cannot be opened, or is a link and `follow_links` is false.
        ValueError: if it is not a regular file.
    """
    names = ["O_NONBLOCK", "O_BINARY"] if follow_links else ["O_NONBLOCK", "O_BINARY", "O_NOFOLLOW"]
    flags = os.O_RDONLY
    for name in names:  # Windows has O_BINARY alone, and other systems have the others
        flags |= getattr(os, name, 0)
    file = open(os.open(path, flags), "rb")  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("is not a regular file")
    return file


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file, without following a link or waiting for a pipe.

    Raises:
        OSError: if it cannot be read, or is a link.
        ValueError: if it is not a regular file, or larger than `max_bytes`.
    """
    with open_regular_file(path, follow_links=False) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise ValueError(f"has {size:,} bytes; at most {max_bytes:,} are read")
        return file.read()


@contextmanager
def replacing(path: Path, *, one_of_several: bool = False) -> Iterator[Path]:
    """Yield a path to write to; the file there replaces `path` at the end of the block.

    With `one_of_several`, others may replace it at the same time; the last one stays. If the block
    raises, the partial file is deleted and `path` is unchanged. A device or a pipe, such as
    ``/dev/stdout``, is not replaced: it is itself the path to write to.

    Raises:
        OSError: if the file cannot be synced or renamed.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        yield path
        return
    suffix = f".{secrets.token_hex(4)}.partial" if one_of_several else ".partial"
    partial = path.with_name(path.name + suffix)
    try:
        with _naming(path):
            yield partial
        _sync(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def replace_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace `folder` by one with the files of `contents`; it appears whole or not at all.

    The previous folder is deleted last, so it is still there after an error. If the process is
    killed, the next call in the same parent, or :func:`remove_leftovers`, puts it back.

    Raises:
        OSError: if the files cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder.parent)
    with scratch_folder(f"{WRITING}{folder.name}-", folder.parent) as scratch:
        written = scratch / "written"
        written.mkdir()
        for name, raw in contents.items():
            write_file(written / name, raw)
        sync_folder(written)
        replaced = scratch / "replaced"
        try:
            if folder.exists():
                folder.rename(replaced)
            written.rename(folder)
        except BaseException:
            if replaced.exists() and not folder.exists():
                replaced.rename(folder)
            raise
        sync_folder(folder.parent)


def remove_leftovers(parent: Path) -> None:
    """Delete what killed processes left of :func:`replace_folder`; put back what they replaced.

    What a process is still writing stays. Windows cannot tell, so everything stays there.
    """
    for leftover in _abandoned(WRITING, parent):
        replaced = leftover / "replaced"
        if replaced.exists() and (leftover / "written").exists():
            name = leftover.name.removeprefix(WRITING).rpartition("-")[0]
            if not name:  # an earlier version wrote it, and nobody knows whose place this was
                continue
            if not (parent / name).exists():
                replaced.rename(parent / name)
                sync_folder(parent)
        shutil.rmtree(leftover)


@contextmanager
def scratch_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield an empty folder of the system's folder for temporary files, or of `parent`.

    Its name begins with `prefix`. It is deleted at the end of the block. In the system's folder,
    those that killed processes left are deleted first, except on Windows.

    Raises:
        OSError: if it cannot be created.
    """
    if parent is None:
        for leftover in _abandoned(prefix, Path(tempfile.gettempdir())):
            shutil.rmtree(leftover, ignore_errors=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = _locked(folder, wait=True)
        if folder.is_dir():
            break
        # Another process took it for abandoned before it was locked.
        _unlock(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        _unlock(lock)


def _abandoned(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield the folders of a prefix whose processes have ended, each locked meanwhile."""
    for path in sorted(parent.glob(f"{prefix}*")):
        lock = _locked(path, wait=False)
        if lock is not None:
            try:
                yield path
            finally:
                _unlock(lock)


def _locked(folder: Path, *, wait: bool) -> int | None:
    """Return a descriptor that locks a folder, or None if it is locked or cannot be."""
    if fcntl is None:
        return None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return descriptor
    return None


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, except on Windows, which cannot.

    Raises:
        OSError: if that fails.
    """
    if hasattr(os, "O_DIRECTORY"):
        _sync(folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name `path` in an OSError that names no file, such as that of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
