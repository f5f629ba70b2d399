"""Snapshots: a collection and its encoder, as of one moment, in one file.

::

    snapshots/RANDOM/snapshot.tar    store.sqlite, encoder/*, and last snapshot.json
    snapshots/RANDOM/snapshot.json   the same, with the size and the sha256 of the tar file

The tar file is all that another machine needs. It is not compressed, so what it holds is no larger
than it is. Nothing of a file from elsewhere is trusted before it was checked: see
:func:`index.snapshots.restoring.check_snapshot`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from foundation.files import write_file
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
        """Return the snapshots, of one collection or of all, oldest first.

        Those that cannot be read are left out, see :meth:`unavailable`.
        """
        found = [one for one in self._listed().values() if isinstance(one, Snapshot)]
        chosen = [one for one in found if collection in (None, one.contents.collection)]
        return sorted(chosen, key=lambda one: (one.contents.created, one.id))

    def unavailable(self) -> dict[str, str]:
        """Return why snapshots cannot be read, by their id."""
        found = self._listed().items()
        return {id_: str(one) for id_, one in found if isinstance(one, SnapshotError)}

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

    def create(
        self,
        copy_store: Callable[[Path], None],
        encoder: Path | None,
        before_appearing: Callable[[str], object] | None = None,
    ) -> Snapshot:
        """Make a snapshot of what `copy_store` writes to a path, and of the artifact `encoder`.

        `before_appearing` is told its id once all is written, just before the snapshot is listed.

        Raises:
            SnapshotError: if it cannot be written.
            StoreError: as `copy_store` does.
        """
        try:
            partial = begin_folder(self.path)
            try:
                snapshot = _make(partial, copy_store, encoder)
                if before_appearing is not None:
                    before_appearing(snapshot.id)
                finish_folder(partial)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise SnapshotError(f"a snapshot cannot be written: {error.strerror}") from error
        return snapshot

    def add(self, tar: Path, *, link: bool = False) -> Snapshot:
        """Take in a snapshot's file from elsewhere, once all of it was checked.

        It is copied, or linked where that can be done and `link` says so; then nothing may change
        `tar` afterwards. If there is a snapshot with just this file, that one is returned.

        Raises:
            InvalidSnapshot: if it is no whole snapshot.
            SnapshotError: if it cannot be read, or the snapshot not be written.
        """
        try:
            partial = begin_folder(self.path)
            try:
                _place(tar, partial / TAR, link=link)
                digest = _sha256(partial / TAR)
                there = self.with_sha256(digest)
                if there is not None:
                    return there
                with TemporaryDirectory(dir=partial) as scratch:
                    (artifact := Path(scratch) / "artifact").mkdir()
                    contents, _ = check_snapshot(partial / TAR, Path(scratch) / STORE, artifact)
                snapshot = _record(partial, contents, digest)
                finish_folder(partial)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise SnapshotError(f"a snapshot cannot be written: {error.strerror}") from error
        return snapshot

    def with_sha256(self, sha256: str) -> Snapshot | None:
        """Return the oldest snapshot whose file has the sha256, if there is one."""
        return next((one for one in self.all() if one.sha256 == sha256), None)

    def delete(self, id_: str) -> None:
        """Delete a snapshot.

        Raises:
            UnknownSnapshot: if there is none of that id.
        """
        with self._listing:
            remove_folder(self._folder(id_))

    def delete_partial(self) -> None:
        """Delete what a crash left behind."""
        remove_partial_folders(self.path)

    def _folder(self, id_: str) -> Path:
        for folder in finished_folders(self.path):
            if folder.name == id_:
                return folder
        raise UnknownSnapshot(f"there is no snapshot {id_[:40]!a}")

    def _listed(self) -> dict[str, Snapshot | SnapshotError]:
        found: dict[str, Snapshot | SnapshotError] = {}
        with self._listing:
            for folder in finished_folders(self.path):
                try:
                    found[folder.name] = self._read(folder)
                except SnapshotError as error:
                    found[folder.name] = error
        return found

    def _read(self, folder: Path) -> Snapshot:
        try:
            record = json.loads((folder / RECORD).read_bytes())
            contents = parse_contents(record.pop("contents"))
            read = Snapshot(contents=contents, **record)
            if (read.id, type(read.bytes), type(read.sha256)) != (folder.name, int, str):
                raise ValueError("id, bytes or sha256 is not what was written")
            return read
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"snapshot {folder.name} cannot be read: {error}") from error


def _make(partial: Path, copy_store: Callable[[Path], None], encoder: Path | None) -> Snapshot:
    tar = partial / TAR
    with TemporaryDirectory(dir=partial) as scratch:
        store = Path(scratch) / STORE
        copy_store(store)
        contents = _write_tar(tar, store, encoder)
    return _record(partial, contents, _sha256(tar))


def _record(partial: Path, contents: Contents, digest: str) -> Snapshot:
    """Write what is known of a snapshot beside its file."""
    snapshot = Snapshot(partial.stem, contents, (partial / TAR).stat().st_size, digest)
    write_file(partial / RECORD, to_json(asdict(snapshot)))
    return snapshot


def _place(tar: Path, path: Path, *, link: bool) -> None:
    if link:
        with suppress(OSError):  # another file system, or one without links
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
        # GNU's headers hold sizes beyond 8 GiB themselves; PAX would need more headers for those.
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
