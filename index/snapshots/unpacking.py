"""The files of a snapshot out of its tar file, with nothing in it taken on trust.

A snapshot holds plain files under short names and nothing else, so every header of it stands for
itself. All of them are read before a file is: links, devices and unknown names are refused, a name
that comes twice too, and headers that extend others, which tarfile would read into memory, however
long they say they are.
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

from index.errors import InvalidSnapshot, SnapshotError
from index.snapshots.contents import ENCODER, RECORD, STORE, Contents, parse_contents

MAX_RECORD_BYTES = 1 << 20
MAX_FILES = 32
_ENCODER_FILE = re.compile(r"encoder/[a-z][a-z0-9_]*\.(json|txt|safetensors)")
_CHUNK = 1 << 20


def unpack(tar: Path, store: Path, encoder: Path) -> Contents:
    """Write a snapshot's store to `store` and the files of its encoder into the folder `encoder`.

    The store has its sha256; whether it is whole, and whether the encoder has its fingerprint, the
    caller checks.

    Raises:
        InvalidSnapshot: if `tar` is no snapshot or has changed since it was made.
        SnapshotError: if `tar` cannot be read or its files not be written.
        OSError: if the disk is full.
    """
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
        raise InvalidSnapshot(f"this is no whole snapshot: it holds no {missing}")
    try:
        contents = parse_contents(json.loads(record))
    except (ValueError, RecursionError) as error:
        raise InvalidSnapshot(f"{RECORD} cannot be read: {error}") from error
    if contents.store_sha256 != digest:
        raise InvalidSnapshot(f"{STORE} has changed since the snapshot was made")
    return contents


def _check_headers(tar: Path) -> None:
    names: set[str] = set()
    room = tar.stat().st_size
    with tar.open("rb") as file:
        while any(block := file.read(tarfile.BLOCKSIZE)):
            header = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
            name = header.name
            if name not in {RECORD, STORE} and not _ENCODER_FILE.fullmatch(name):
                raise InvalidSnapshot(f"a snapshot holds no {name[:80]!a}")
            if header.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or header.size < 0:
                raise InvalidSnapshot(f"{name[:80]!a} is not a plain file")
            if header.size > room:
                message = f"unexpected end of data; {name!a} is said to be longer than the file"
                raise InvalidSnapshot(f"the snapshot cannot be read: {message}")
            if name in names:
                raise InvalidSnapshot(f"{name!a} comes twice")
            if len(names) == MAX_FILES:
                raise InvalidSnapshot(f"a snapshot holds no more than {MAX_FILES} files")
            names.add(name)
            blocks = -(-header.size // tarfile.BLOCKSIZE)
            file.seek(blocks * tarfile.BLOCKSIZE, os.SEEK_CUR)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise InvalidSnapshot(f"{member.name[:80]!a} is not a plain file")
    return content


def _copy(content: IO[bytes], path: Path) -> str:
    """Write `content` to `path`, where there is nothing, and return its sha256."""
    digest = hashlib.sha256()
    with path.open("xb") as file:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
