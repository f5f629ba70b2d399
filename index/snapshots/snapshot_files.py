"""Snapshots: one generation of a collection, and its encoder, in one file.

::

    snapshots/RANDOM/snapshot.tar    store.sqlite, encoder/*, and at the end snapshot.json
    snapshots/RANDOM/snapshot.json   the same record, with the size and SHA-256 of the tar file

Another machine needs only the tar file. It is not compressed, so its contents are not larger than
the file. A file from elsewhere is not trusted before it was checked; see
:func:`index.snapshots.restoring.check_snapshot`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from foundation.files import write_file
from foundation.stages import begin_stage
from foundation.times import now
from index.errors import SnapshotError, UnknownSnapshot
from index.folder.partial import (
    begin_folder,
    finish_folder,
    finished_folders,
    remove_folder,
    remove_partial_folders,
)
from index.snapshots.contents import (
    ENCODER,
    RECORD,
    STORE,
    TAR,
    Contents,
    parse_contents,
    to_json,
)
from index.snapshots.restoring import check_snapshot
from index.sqlite.store import Store


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the data folder; `bytes` and `sha256` describe its tar file."""

    id: str
    contents: Contents
    bytes: int
    sha256: str


class Snapshots:
    """The snapshots of a data folder. All methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def all(self, collection: str | None = None) -> list[Snapshot]:
        """Return the snapshots, of one collection or of all, oldest first.

        Snapshots that cannot be read are left out; see :meth:`unavailable`.
        """
        readable = [one for one in self._read_all().values() if isinstance(one, Snapshot)]
        matching = [one for one in readable if collection in (None, one.contents.collection)]
        return sorted(matching, key=lambda one: (one.contents.created, one.id))

    def unavailable(self) -> dict[str, str]:
        """Return why snapshots cannot be read, by id."""
        results = self._read_all().items()
        return {id_: str(one) for id_, one in results if isinstance(one, SnapshotError)}

    def get(self, id_: str) -> Snapshot:
        """Return a snapshot.

        Raises:
            UnknownSnapshot: if no snapshot has that id.
            SnapshotError: if it cannot be read.
        """
        with self._lock:
            return self._read(self._folder(id_))

    def file(self, id_: str) -> Path:
        """Return the path of a snapshot's tar file.

        Raises:
            UnknownSnapshot: if no snapshot has that id.
            SnapshotError: if it cannot be read.
        """
        self.get(id_)
        return self._folder(id_) / TAR

    def create(
        self,
        copy_store: Callable[[Path], None],
        encoder: Path | None,
        before_appearing: Callable[[str], object] | None = None,
    ) -> Snapshot:
        """Make a snapshot of the store that `copy_store` writes to a path, and of an `encoder`.

        `before_appearing` is called with the id just before the complete snapshot is listed.

        Raises:
            SnapshotError: if it cannot be written.
            StoreError: if `copy_store` raises it.
        """
        try:
            partial = begin_folder(self.path)
            try:
                snapshot = _write_snapshot(partial, copy_store, encoder)
                if before_appearing is not None:
                    before_appearing(snapshot.id)
                finish_folder(partial)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise SnapshotError(f"the snapshot cannot be written: {error.strerror}") from error
        return snapshot

    def add(self, tar: Path, *, link: bool = False) -> Snapshot:
        """Check a snapshot file from elsewhere and add it to the data folder.

        The file is copied, or with `link` linked if the file system allows it; then nothing may
        change `tar` afterwards. If a snapshot has the same file, that snapshot is returned.

        Raises:
            InvalidSnapshot: if it is not a complete, intact snapshot.
            SnapshotError: if it cannot be read, or the snapshot cannot be written.
        """
        try:
            partial = begin_folder(self.path)
            try:
                _copy_or_link(tar, partial / TAR, link=link)
                digest = _sha256(partial / TAR)
                existing = self.with_sha256(digest)
                if existing is not None:
                    return existing
                with TemporaryDirectory(dir=partial) as scratch:
                    (artifact := Path(scratch) / "artifact").mkdir()
                    contents, _ = check_snapshot(partial / TAR, Path(scratch) / STORE, artifact)
                snapshot = _record(partial, contents, digest)
                finish_folder(partial)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise SnapshotError(f"the snapshot cannot be written: {error.strerror}") from error
        return snapshot

    def with_sha256(self, sha256: str) -> Snapshot | None:
        """Return the oldest snapshot whose file has the SHA-256, or None."""
        return next((one for one in self.all() if one.sha256 == sha256), None)

    def delete(self, id_: str) -> None:
        """Delete a snapshot.

        Raises:
            UnknownSnapshot: if no snapshot has that id.
        """
        with self._lock:
            remove_folder(self._folder(id_))

    def delete_partial(self) -> None:
        """Delete the remains of a crash."""
        remove_partial_folders(self.path)

    def _folder(self, id_: str) -> Path:
        for folder in finished_folders(self.path):
            if folder.name == id_:
                return folder
        raise UnknownSnapshot(f"there is no snapshot {id_[:40]!r}")

    def _read_all(self) -> dict[str, Snapshot | SnapshotError]:
        results: dict[str, Snapshot | SnapshotError] = {}
        with self._lock:
            for folder in finished_folders(self.path):
                try:
                    results[folder.name] = self._read(folder)
                except SnapshotError as error:
                    results[folder.name] = error
        return results

    def _read(self, folder: Path) -> Snapshot:
        try:
            record = json.loads((folder / RECORD).read_bytes())
            contents = parse_contents(record.pop("contents"))
            snapshot = Snapshot(contents=contents, **record)
            types = (type(snapshot.bytes), type(snapshot.sha256))
            if (snapshot.id, *types) != (folder.name, int, str):
                raise ValueError("its id, bytes or sha256 is damaged")
            _check_tar(folder / TAR, snapshot.bytes)
            return snapshot
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"snapshot {folder.name} cannot be read: {error}") from error


def _check_tar(tar: Path, size: int) -> None:
    """Raise ValueError unless `tar` is a regular file of `size` bytes, not a link to one.

    A link that somebody put there would let clients download whatever it names.
    """
    status = tar.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"its {TAR} is not a regular file")
    if status.st_size != size:
        raise ValueError(f"its {TAR} has {status.st_size:,} bytes, not {size:,}")


def _write_snapshot(
    partial: Path, copy_store: Callable[[Path], None], encoder: Path | None
) -> Snapshot:
    tar = partial / TAR
    with TemporaryDirectory(dir=partial) as scratch:
        store = Path(scratch) / STORE
        begin_stage("copying the store")
        copy_store(store)
        begin_stage("writing the snapshot")
        contents = _write_tar(tar, store, encoder)
    begin_stage("computing the checksum of the snapshot")
    return _record(partial, contents, _sha256(tar))


def _record(partial: Path, contents: Contents, digest: str) -> Snapshot:
    """Write the record of a snapshot beside its tar file."""
    snapshot = Snapshot(partial.stem, contents, (partial / TAR).stat().st_size, digest)
    write_file(partial / RECORD, to_json(asdict(snapshot)))
    return snapshot


def _copy_or_link(tar: Path, path: Path, *, link: bool) -> None:
    if link:
        with suppress(OSError):  # another file system, or one without hard links
            os.link(tar, path)
    if not path.exists():
        shutil.copyfile(tar, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_tar(tar: Path, store: Path, encoder: Path | None) -> Contents:
    contents = _describe(store, _sha256(store))
    with tar.open("wb") as file:
        # GNU headers can hold sizes above 8 GiB; PAX would need additional headers.
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
            _add(archive, STORE, store)
            for path in sorted(encoder.iterdir()) if encoder is not None else []:
                _add(archive, ENCODER + path.name, path)
            raw = to_json(asdict(contents))
            archive.addfile(_member(RECORD, len(raw)), io.BytesIO(raw))
        file.flush()
        os.fsync(file.fileno())
    return contents


def _describe(store: Path, digest: str) -> Contents:
    opened = Store(store, writable=False)
    try:
        description = opened.description
        return Contents(
            collection=description.name,
            n_bits=description.n_bits,
            encoder=description.encoder_name,
            encoder_fingerprint=description.encoder_fingerprint,
            generation=opened.generation(),
            documents=opened.count(),
            created=now(),
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
