"""Snapshots: one generation of a collection, and its encoder, in one file.

::

    snapshots/RANDOM/snapshot.tar    store.sqlite, encoder/*, and at the end snapshot.json
    snapshots/RANDOM/snapshot.json   the same record, with the size and SHA-256 of the tar file

Another machine needs only the tar file. It is not compressed, so its contents are not larger than
the file. A file from elsewhere is not trusted before it was checked; see
:func:`hummingbit.index.snapshots.check_snapshot`.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from hummingbit.encoder.artifact import ArtifactError, load_encoder, read_listed_names
from hummingbit.encoder.endpoint import ALLOWED, EndpointModel, is_listed
from hummingbit.foundation.errors import InputError, counted
from hummingbit.foundation.files import replacing, sha256_of, write_file
from hummingbit.foundation.slices import begin_stage
from hummingbit.foundation.times import now
from hummingbit.index.catalog import (
    NAME,
    RULE,
    EncoderFolder,
    begin_folder,
    finish_folder,
    finished_folders,
    remove_folder,
    remove_partial_folders,
)
from hummingbit.index.engines.choice import check_index_type
from hummingbit.index.errors import (
    DAMAGE_REMEDY,
    EncoderMismatch,
    InvalidSnapshot,
    SnapshotError,
    StoreError,
    StoreFull,
    UnknownSnapshot,
    store_error,
)
from hummingbit.index.filters import check_indexed_fields
from hummingbit.index.schema import SCHEMA, Description
from hummingbit.index.store.annotations import make_tables
from hummingbit.index.store.expiries import make_expiry_tables
from hummingbit.index.store.fields import (
    make_changes_table,
    make_columns_table,
    make_earlier_tables,
)
from hummingbit.index.store.store import Store, verify_store

# The description of a snapshot's contents, and its JSON.


FORMAT_VERSION = 1
TAR = "snapshot.tar"
RECORD = "snapshot.json"
STORE = "store.sqlite"
ENCODER = "encoder/"

_STRINGS = ("collection", "created", "store_sha256")
_NUMBERS = ("n_bits", "generation", "documents", "format_version")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a snapshot."""

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


def parse_contents(record: Any) -> Contents:
    """Make :class:`Contents` from decoded JSON.

    Raises:
        ValueError: if the record is invalid; the message says why.
    """
    version = record.get("format_version") if isinstance(record, dict) else None
    if version != FORMAT_VERSION:
        message = f"format version {version!r}; this hummingbit reads version {FORMAT_VERSION}"
        raise ValueError(f"it has {message}")
    names = {field.name for field in fields(Contents)}
    if set(record) != names:
        message = f"it must have the fields {', '.join(sorted(names))}"
        raise ValueError(message)
    _check_values(record)
    return Contents(**record)


def to_json(record: dict[str, Any]) -> bytes:
    """Return the JSON of a record, as files hold it."""
    return (json.dumps(record, indent=2) + "\n").encode()


def _check_values(record: dict[str, Any]) -> None:
    encoder = (record["encoder"], record["encoder_fingerprint"])
    strings = [
        *(record[name] for name in _STRINGS),
        *(name for name in encoder if name is not None),
    ]
    if not all(type(value) is str for value in strings) or encoder.count(None) == 1:
        raise ValueError(f"{', '.join(_STRINGS)}, encoder and its fingerprint must be strings")
    if not all(type(record[name]) is int and record[name] >= 0 for name in _NUMBERS):
        raise ValueError(f"{', '.join(_NUMBERS)} must be whole numbers")
    for name in ("collection", "encoder"):
        if record[name] is not None and not NAME.fullmatch(record[name]):
            raise ValueError(f"{name} is {record[name][:80]!r}; it must be {RULE}")
    if not _SHA256.fullmatch(record["store_sha256"]):
        raise ValueError("store_sha256 must be 64 hexadecimal digits")
    datetime.fromisoformat(record["created"])


# Unpacks the files of a snapshot from its tar file, none of which is trusted.
#
# A snapshot holds only plain files with short names, so no header depends on another. All headers
# are checked before any file is read. Links, devices, unknown and repeated names are refused, and
# so are extended headers, which tarfile would read into memory whatever their size.


MAX_RECORD_BYTES = 1 << 20
MAX_FILES = 32
_ENCODER_FILE = re.compile(r"encoder/[a-z][a-z0-9_]*\.(json|txt|safetensors|onnx|bin)")
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


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise InvalidSnapshot(f"{member.name[:80]!r} is not a plain file")
    return content


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


# Restores a collection from a snapshot, none of which is trusted.


# SQLite stores values of any type in any column, so reading a damaged store can raise any of these.
_DAMAGE = (StoreError, sqlite3.Error, TypeError, ValueError, LookupError, AttributeError)


def restore(tar: Path, path: Path, name: str, encoders: EncoderFolder) -> None:
    """Write the store of a snapshot to `path`, as the store of a collection `name`.

    The collection uses the encoder of `encoders` with the same fingerprint; if there is none, the
    snapshot's encoder is installed under its own name.

    Raises:
        InvalidSnapshot: if `tar` is not a complete, intact snapshot.
        SnapshotError: if `tar` cannot be read, or its files cannot be written.
        StoreFull, OSError: if the disk is full.
        EncoderMismatch: if another encoder has the same name.
    """
    with TemporaryDirectory(dir=path.parent) as artifact:
        contents, description = check_snapshot(tar, path, Path(artifact))
        encoder = _install_encoder(Path(artifact), contents, encoders)
    description = replace(description, name=name, encoder_name=encoder)
    with closing(Store(path, writable=True)) as store, store.writing() as changes:
        changes.describe(description)


def check_snapshot(tar: Path, store: Path, artifact: Path) -> tuple[Contents, Description]:
    """Unpack a snapshot to `store` and the folder `artifact`, and check all of it.

    Members have fixed names and are written under names of our own. The store must match its
    SHA-256, have exactly the tables of a store, and pass
    :func:`hummingbit.index.store.store.verify_store`. The encoder must be an intact artifact with
    the fingerprint in the snapshot.

    Raises:
        InvalidSnapshot: if `tar` is not a complete, intact snapshot.
        SnapshotError: if `tar` cannot be read, or its files cannot be written.
        StoreFull, OSError: if the disk is full.
    """
    contents = unpack(tar, store, artifact)
    try:
        description = _check_store(store, contents)
    except StoreFull:
        raise
    except _DAMAGE as error:
        if isinstance(error, sqlite3.Error):
            translated = store_error(store, error)
            if isinstance(translated, StoreFull):
                raise translated from error
        reason = _hide_path(store, error)
        raise InvalidSnapshot(f"the snapshot's store is damaged: {reason}") from error
    _check_encoder(artifact, contents)
    return contents, description


def _hide_path(unpacked: Path, error: Exception) -> str:
    """Return the message of an error without the path that a file was unpacked to."""
    reason = str(error).removesuffix(DAMAGE_REMEDY)
    for path in (unpacked.resolve(), unpacked.absolute(), unpacked):
        reason = reason.replace(f"{path}: ", "").replace(f"{path}/", "")
    return reason


def _check_store(path: Path, contents: Contents) -> Description:
    _check_tables(path)
    with closing(Store(path, writable=True)) as store:
        description = store.description
        expected = replace(
            description,
            name=contents.collection,
            n_bits=contents.n_bits,
            encoder_name=contents.encoder,
            encoder_fingerprint=contents.encoder_fingerprint,
        )
        if description != expected:
            message = f"its description {expected} does not match its store, {description}"
            raise InvalidSnapshot(f"the snapshot is inconsistent: {message}")
        with store.read_transaction() as connection:
            verification = verify_store(connection, description.code_column, None)
        generation, documents = store.generation(), verification.documents
        fields = list(store.indexed_fields())
        store.field_types()
    if verification.problems:
        raise InvalidSnapshot(f"the snapshot's store is damaged: {verification.problems[0]}")
    if (generation, documents) != (contents.generation, contents.documents):
        message = f"it holds {counted(documents, 'document')} at generation {generation}"
        recorded = f"{counted(contents.documents, 'document')} at generation {contents.generation}"
        raise InvalidSnapshot(f"the snapshot is inconsistent: {message}, not {recorded}")
    try:
        check_index_type(description.engine, description.n_bits)
        check_indexed_fields(fields)
    except InputError as error:
        raise InvalidSnapshot(f"the snapshot's store is damaged: {error}") from None
    return description


def _check_encoder(artifact: Path, contents: Contents) -> None:
    if contents.encoder_fingerprint is None:
        return
    begin_stage("checking the encoder")
    try:
        fingerprint = load_encoder(artifact).fingerprint
    except ArtifactError as error:
        reason = _hide_path(artifact, error)
        raise InvalidSnapshot(f"the snapshot's encoder: {reason}") from error
    if fingerprint != contents.encoder_fingerprint:
        message = f"has the fingerprint {fingerprint}, not {contents.encoder_fingerprint}"
        raise InvalidSnapshot(f"the snapshot's encoder {message}")


def _check_tables(path: Path) -> None:
    """Raise InvalidSnapshot if a file has other tables, views or triggers than a store."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        actual = _tables(connection)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        possible = [_tables(connection)]
        for make in (
            make_tables,
            make_columns_table,
            make_earlier_tables,
            make_changes_table,
            make_expiry_tables,
        ):
            before = _tables(connection)
            make(connection)
            added = _tables(connection) - before
            # A store may or may not have each group of optional tables.
            possible += [tables | added for tables in possible]
    if actual not in possible:
        message = "does not have the tables of a store of this version"
        raise InvalidSnapshot(f"the snapshot's store {message}")


def _tables(connection: sqlite3.Connection) -> set[tuple[str | None, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _install_encoder(artifact: Path, contents: Contents, encoders: EncoderFolder) -> str | None:
    """Install the checked `artifact` unless its encoder is installed; return the encoder's name."""
    name, fingerprint = contents.encoder, contents.encoder_fingerprint
    if name is None or fingerprint is None:
        return None
    installed = encoders.with_fingerprint(fingerprint)
    if installed:
        return name if name in installed else installed[0]
    if name in encoders.names():
        message = f"there is another encoder {name!r}; the snapshot's has fingerprint {fingerprint}"
        raise EncoderMismatch(message)
    features = load_encoder(artifact).features
    if isinstance(features, EndpointModel) and not is_listed(features.url):
        # A snapshot may come from anybody, and texts go where its encoder says.
        message = f"sends texts to {features.url}; install it, or list the URL in {ALLOWED}"
        raise SnapshotError(f"the snapshot's encoder {message}")
    try:
        encoders.install(artifact, name)
    except ArtifactError as error:
        raise SnapshotError(f"the snapshot's encoder cannot be installed: {error}") from error
    return name


# The snapshots of a data folder.


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
        matching = [
            snapshot
            for snapshot in self._read_all().values()
            if isinstance(snapshot, Snapshot) and collection in (None, snapshot.contents.collection)
        ]
        return sorted(matching, key=lambda snapshot: (snapshot.contents.created, snapshot.id))

    def unavailable(self) -> dict[str, str]:
        """Return why snapshots cannot be read, by id."""
        results = self._read_all().items()
        return {
            id_: str(snapshot) for id_, snapshot in results if isinstance(snapshot, SnapshotError)
        }

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
        with self._new_folder() as partial:
            with TemporaryDirectory(dir=partial) as scratch:
                store = Path(scratch) / STORE
                begin_stage("copying the store")
                copy_store(store)
                begin_stage("writing the snapshot")
                contents = _write_tar(partial / TAR, store, encoder)
            begin_stage("computing the checksum of the snapshot")
            snapshot = _record(partial, contents, sha256_of(partial / TAR))
            if before_appearing is not None:
                before_appearing(snapshot.id)
            finish_folder(partial)
        return snapshot

    def add(self, tar: Path, *, link: bool = False) -> Snapshot:
        """Check a snapshot file from elsewhere and add it to the data folder.

        The file is copied, or with `link` linked if the file system allows it; then nothing may
        change `tar` afterwards. If a snapshot has the same file, that snapshot is returned.

        Raises:
            InvalidSnapshot: if it is not a complete, intact snapshot.
            SnapshotError: if it cannot be read, or the snapshot cannot be written.
        """
        with self._new_folder() as partial:
            _copy_or_link(tar, partial / TAR, link=link)
            digest = sha256_of(partial / TAR)
            existing = self.with_sha256(digest)
            if existing is not None:
                return existing
            with TemporaryDirectory(dir=partial) as scratch:
                (artifact := Path(scratch) / "artifact").mkdir()
                contents, _ = check_snapshot(partial / TAR, Path(scratch) / STORE, artifact)
            snapshot = _record(partial, contents, digest)
            finish_folder(partial)
        return snapshot

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        """Yield a partial folder, which is deleted unless it was finished."""
        try:
            partial = begin_folder(self.path)
            try:
                yield partial
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            raise SnapshotError(f"the snapshot cannot be written: {error.strerror}") from error

    def with_sha256(self, sha256: str) -> Snapshot | None:
        """Return the oldest snapshot whose file has the SHA-256, or None."""
        return next((snapshot for snapshot in self.all() if snapshot.sha256 == sha256), None)

    def copy(self, id_: str, out: Path) -> None:
        """Write the file of a snapshot to `out`, which appears once it is complete.

        Raises:
            UnknownSnapshot: if no snapshot has that id.
            OSError: if it cannot be written.
        """
        with replacing(out) as partial:
            shutil.copyfile(self.file(id_), partial)

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


def _write_tar(tar: Path, store: Path, encoder: Path | None) -> Contents:
    contents = _describe(store, sha256_of(store))
    with tar.open("wb") as file:
        # GNU headers can hold sizes above 8 GiB; PAX would need additional headers.
        with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
            _add(archive, STORE, store)
            if encoder is not None:
                for name in sorted(read_listed_names(encoder)):
                    _add(archive, ENCODER + name, encoder / name)
            raw = to_json(asdict(contents))
            archive.addfile(_member(RECORD, len(raw)), io.BytesIO(raw))
        file.flush()
        os.fsync(file.fileno())
    return contents


def _describe(store: Path, digest: str) -> Contents:
    with closing(Store(store, writable=False)) as opened:
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


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as file:
        archive.addfile(_member(name, os.fstat(file.fileno()).st_size), file)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member
