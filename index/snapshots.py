"""Snapshots: a collection and its encoder, as of one moment, in one file.

::

    snapshots/RANDOM/snapshot.tar    store.sqlite, encoder/*, and last snapshot.json
    snapshots/RANDOM/snapshot.json   the same, with the size and the sha256 of the tar file

The tar file is all that another machine needs. It is not compressed, so what it holds is no larger
than it is. Nothing of it is trusted before it was checked: members are known by fixed names and
written under names of our own; the store must have its sha256, exactly the tables of a store, and
pass :func:`index.verification.verify_store`; the encoder must have its fingerprint.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from index.errors import SnapshotError, UnknownSnapshot
from index.partial import begin, remove, remove_partial, settle, settled
from index.store import Store

FORMAT_VERSION = 1
TAR = "snapshot.tar"
RECORD = "snapshot.json"
STORE = "store.sqlite"
ENCODER = "encoder/"

MAX_RECORD_BYTES = 1 << 20
_ENCODER_FILE = re.compile(r"encoder/[a-z][a-z0-9_]*\.(json|txt|safetensors)")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """What a snapshot holds."""

    collection: str
    n_bits: int
    encoder: str | None
    encoder_fingerprint: str | None
    generation: int
    documents: int
    created: str
    """UTC, ISO 8601."""
    store_sha256: str
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the data folder; `bytes` and `sha256` are those of its tar file."""

    id: str
    contents: Contents
    bytes: int
    sha256: str


class Snapshots:
    """The snapshots of a data folder. All methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listing = threading.Lock()

    def all(self, collection: str | None = None) -> list[Snapshot]:
        """Return the snapshots, of one collection or of all, oldest first."""
        with self._listing:
            found = [self._read(folder) for folder in settled(self.path)]
        chosen = [one for one in found if collection in (None, one.contents.collection)]
        return sorted(chosen, key=lambda one: (one.contents.created, one.id))

    def get(self, id_: str) -> Snapshot:
        """Return a snapshot.

        Raises:
            UnknownSnapshot: if there is none of that id.
            SnapshotError: if it cannot be read.
        """
        with self._listing:
            return self._read(self._folder(id_))

    def file(self, id_: str) -> Path:
        """Return where a snapshot's tar file lies.

        Raises:
            UnknownSnapshot: if there is none of that id.
        """
        return self._folder(id_) / TAR

    def create(self, copy_store: Callable[[Path], None], encoder: Path | None) -> Snapshot:
        """Make a snapshot of what `copy_store` writes to a path, and of the artifact `encoder`.

        Raises:
            SnapshotError: if it cannot be written.
            StoreError: as `copy_store` does.
        """
        try:
            partial = begin(self.path)
            try:
                snapshot = _make(partial, copy_store, encoder)
                settle(partial)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise SnapshotError(f"a snapshot cannot be written: {error.strerror}") from error
        return snapshot

    def delete(self, id_: str) -> None:
        """Delete a snapshot.

        Raises:
            UnknownSnapshot: if there is none of that id.
        """
        with self._listing:
            remove(self._folder(id_))

    def delete_partial(self) -> None:
        """Delete what a crash left behind."""
        remove_partial(self.path)

    def _folder(self, id_: str) -> Path:
        for folder in settled(self.path):
            if folder.name == id_:
                return folder
        raise UnknownSnapshot(f"there is no snapshot {id_[:40]!a}")

    def _read(self, folder: Path) -> Snapshot:
        try:
            record = json.loads((folder / RECORD).read_bytes())
            contents = _contents(record.pop("contents"))
            return Snapshot(contents=contents, **record)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"snapshot {folder.name} cannot be read: {error}") from error


def unpack(tar: Path, store: Path, encoder: Path) -> Contents:
    """Write a snapshot's store to `store` and the files of its encoder into the folder `encoder`.

    The store has its sha256; whether it is whole, and whether the encoder has its fingerprint, the
    caller checks.

    Raises:
        SnapshotError: if `tar` cannot be read, is no snapshot or has changed since it was made.
    """
    digest, record = None, None
    try:
        with tarfile.open(tar, "r:") as archive:
            for member in archive:
                content = _content(archive, member)
                if member.name == RECORD:
                    record = content.read(MAX_RECORD_BYTES)
                elif member.name == STORE and digest is None:
                    digest = _copy(content, store)
                elif _ENCODER_FILE.fullmatch(member.name):
                    _copy(content, encoder / member.name.removeprefix(ENCODER))
                else:
                    raise SnapshotError(f"a snapshot holds no {member.name[:80]!a}")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SnapshotError(f"the snapshot cannot be read: {error}") from error
    if record is None or digest is None:
        missing = STORE if digest is None else RECORD
        raise SnapshotError(f"this is no whole snapshot: it holds no {missing}")
    try:
        contents = _contents(json.loads(record))
    except (ValueError, TypeError, RecursionError) as error:
        raise SnapshotError(f"{RECORD} cannot be read: {error}") from error
    if contents.store_sha256 != digest:
        raise SnapshotError(f"{STORE} has changed since the snapshot was made")
    return contents


def _make(partial: Path, copy_store: Callable[[Path], None], encoder: Path | None) -> Snapshot:
    tar = partial / TAR
    with TemporaryDirectory(dir=partial) as scratch:
        store = Path(scratch) / STORE
        copy_store(store)
        contents = _write_tar(tar, store, encoder)
    with tar.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    snapshot = Snapshot(partial.stem, contents, tar.stat().st_size, digest)
    with (partial / RECORD).open("wb") as file:
        file.write(_to_json(asdict(snapshot)))
        file.flush()
        os.fsync(file.fileno())
    return snapshot


def _write_tar(tar: Path, store: Path, encoder: Path | None) -> Contents:
    with store.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    contents = _describe(store, digest)
    with tar.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, STORE, store)
            for path in sorted(encoder.iterdir()) if encoder is not None else []:
                _add(archive, ENCODER + path.name, path)
            raw = _to_json(asdict(contents))
            archive.addfile(_member(RECORD, len(raw)), io.BytesIO(raw))
        file.flush()
        os.fsync(file.fileno())
    return contents


def _describe(store: Path, digest: str) -> Contents:
    opened = Store(store, writable=False)
    try:
        described = opened.description
        return Contents(
            collection=described.name,
            n_bits=described.n_bits,
            encoder=described.encoder_name,
            encoder_fingerprint=described.encoder_fingerprint,
            generation=opened.generation(),
            documents=opened.count(),
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            store_sha256=digest,
        )
    finally:
        opened.close()


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as file:
        archive.addfile(_member(name, os.fstat(file.fileno()).st_size), file)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if content is None:
        raise SnapshotError(f"{member.name[:80]!a} is not a plain file")
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


def _contents(record: Any) -> Contents:
    version = record.get("format_version") if isinstance(record, dict) else None
    if version != FORMAT_VERSION:
        message = f"it has format version {version!a}; version {FORMAT_VERSION} can be read"
        raise ValueError(message)
    names = {field.name for field in fields(Contents)}
    if set(record) != names:
        message = f"it must have the fields {', '.join(sorted(names))}"
        raise ValueError(message)
    return Contents(**record)


def _to_json(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=2) + "\n").encode()
