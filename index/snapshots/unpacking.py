"""Unpacks the files of a snapshot from its tar file, none of which is trusted.

A snapshot holds only plain files with short names, so no header depends on another. All headers are
checked before any file is read. Links, devices, unknown and repeated names are refused, and so are
extended headers, which tarfile would read into memory whatever their size.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tarfile
from pathlib import Path
from typing import IO

from foundation.stages import begin_stage
from index.errors import InvalidSnapshot, SnapshotError
from index.snapshots.contents import ENCODER, RECORD, STORE, Contents, parse_contents

MAX_RECORD_BYTES = 1 << 20
MAX_FILES = 32
_ENCODER_FILE = re.compile(r"encoder/[a-z][a-z0-9_]*\.(json|txt|safetensors)")
_CHUNK = 1 << 20


def unpack(tar: Path, store: Path, encoder: Path) -> Contents:
    """Write a snapshot's store to `store` and the files of its encoder into the folder `encoder`.

    The SHA-256 of the store is checked. The caller checks whether the store is intact and the
    encoder has the right fingerprint.

    Raises:
        InvalidSnapshot: if `tar` is not a snapshot or is damaged.
        SnapshotError: if `tar` cannot be read or its files cannot be written.
        OSError: if the disk is full.
    """
    begin_stage("unpacking the snapshot")
    digest, record = None, None
    try:
        _check_headers(tar)
        with tarfile.open(tar, "r:") as archive:
            for member in archive:
                content = _content(archive, member)
                if member.name == RECORD:
                    record = content.read(MAX_RECORD_BYTES)
                elif member.name == STORE:
                    digest = _copy(content, store)
                else:
                    _copy(content, encoder / member.name.removeprefix(ENCODER))
    except (tarfile.TarError, EOFError) as error:
        raise InvalidSnapshot(f"the snapshot cannot be read: {error}") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise SnapshotError(f"the snapshot cannot be read: {error.strerror or error}") from error
    if record is None or digest is None:
        missing = STORE if digest is None else RECORD
        raise InvalidSnapshot(f"the snapshot is incomplete: it holds no {missing}")
    try:
        contents = parse_contents(json.loads(record))
    except (ValueError, RecursionError) as error:
        raise InvalidSnapshot(f"{RECORD} cannot be read: {error}") from error
    if contents.store_sha256 != digest:
        raise InvalidSnapshot(f"the snapshot is damaged: {STORE} does not match its SHA-256")
    return contents


def _check_headers(tar: Path) -> None:
    names: set[str] = set()
    tar_size = tar.stat().st_size
    with tar.open("rb") as file:
        while any(block := file.read(tarfile.BLOCKSIZE)):
            header = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
            name = header.name
            if name not in {RECORD, STORE} and not _ENCODER_FILE.fullmatch(name):
                raise InvalidSnapshot(f"{name[:80]!r} does not belong in a snapshot")
            if header.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or header.size < 0:
                raise InvalidSnapshot(f"{name[:80]!r} is not a plain file")
            if header.size > tar_size:
                message = f"unexpected end of data; the size of {name!r} exceeds that of the file"
                raise InvalidSnapshot(f"the snapshot cannot be read: {message}")
            if name in names:
                raise InvalidSnapshot(f"the snapshot holds {name!r} twice")
            if len(names) == MAX_FILES:
                message = f"it must hold no more than {MAX_FILES}"
                raise InvalidSnapshot(f"the snapshot holds too many files; {message}")
            names.add(name)
            blocks = -(-header.size // tarfile.BLOCKSIZE)
            file.seek(blocks * tarfile.BLOCKSIZE, os.SEEK_CUR)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise InvalidSnapshot(f"{member.name[:80]!r} is not a plain file")
    return content


def _copy(content: IO[bytes], path: Path) -> str:
    """Write `content` to the new file `path` and return its SHA-256."""
    digest = hashlib.sha256()
    with path.open("xb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
