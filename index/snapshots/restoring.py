"""A collection out of a snapshot, with nothing in it taken on trust."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from encoder.artifact import ArtifactError, load_encoder
from foundation.errors import InputError
from index.engines.setting import check_engine
from index.errors import EncoderMismatch, InvalidSnapshot, SnapshotError, StoreError, StoreFull
from index.filter_parser import check_indexed_fields
from index.folder.named_encoders import EncoderFolder
from index.schema import SCHEMA, Description
from index.snapshots.contents import Contents
from index.snapshots.unpacking import unpack
from index.sqlite.annotation_tables import make_tables
from index.sqlite.connection_pool import store_error
from index.sqlite.field_indexes import make_field_tables
from index.sqlite.store import Store
from index.sqlite.verification import verify_store

# SQLite holds values of any type in any column, so whatever reads them may stumble.
_DAMAGE = (StoreError, sqlite3.Error, TypeError, ValueError, LookupError, AttributeError)


def restore(tar: Path, path: Path, name: str, encoders: EncoderFolder) -> None:
    """Write the store of a snapshot to `path`, as that of a collection `name`.

    The encoder is the one of `encoders` with the same fingerprint; if there is none, that of the
    snapshot is installed under the name it had.

    Raises:
        InvalidSnapshot: if `tar` is no whole snapshot.
        SnapshotError: if `tar` cannot be read, or its files not be written.
        StoreFull, OSError: if the disk is full.
        EncoderMismatch: if another encoder of that name is there already.
    """
    with TemporaryDirectory(dir=path.parent) as artifact:
        contents, found = check_snapshot(tar, path, Path(artifact))
        encoder = _encoder(Path(artifact), contents, encoders)
    description = replace(found, name=name, encoder_name=encoder)
    with closing(Store(path, writable=True)) as store, store.writing() as changes:
        changes.describe(description)


def check_snapshot(tar: Path, store: Path, artifact: Path) -> tuple[Contents, Description]:
    """Unpack a snapshot to `store` and the folder `artifact`, and check all of it.

    Members are known by fixed names and written under names of our own; the store must have its
    sha256, exactly the tables of a store, and pass
    :func:`index.sqlite.verification.verify_store`; the encoder must be an intact artifact and have
    its fingerprint.

    Raises:
        InvalidSnapshot: if `tar` is no whole snapshot.
        SnapshotError: if `tar` cannot be read, or its files not be written.
        StoreFull, OSError: if the disk is full.
    """
    contents = unpack(tar, store, artifact)
    try:
        found = _check_store(store, contents)
    except StoreFull:
        raise
    except _DAMAGE as error:
        if isinstance(error, sqlite3.Error):
            failed = store_error(store, error)
            if isinstance(failed, StoreFull):
                raise failed from error
        reason = _without(store, error)
        raise InvalidSnapshot(f"the snapshot's store is damaged: {reason}") from error
    _check_encoder(artifact, contents)
    return contents, found


def _without(place: Path, error: Exception) -> str:
    """Say what is wrong without telling where it was unpacked."""
    reason = str(error)
    for path in (place.resolve(), place.absolute(), place):
        reason = reason.replace(f"{path}: ", "").replace(f"{path}/", "")
    return reason


def _check_store(path: Path, contents: Contents) -> Description:
    _check_tables(path)
    with closing(Store(path, writable=True)) as store:
        found = store.description
        expected = replace(
            found,
            name=contents.collection,
            n_bits=contents.n_bits,
            encoder_name=contents.encoder,
            encoder_fingerprint=contents.encoder_fingerprint,
        )
        if found != expected:
            raise InvalidSnapshot(f"the snapshot says that it holds {expected}; it holds {found}")
        with store.read_transaction() as connection:
            verified = verify_store(connection, found.n_bits // 8, None)
        held = (store.generation(), verified.documents)
        fields = list(store.indexed_fields())
    if verified.problems:
        raise InvalidSnapshot(f"the snapshot's store is damaged: {verified.problems[0]}")
    if held != (contents.generation, contents.documents):
        raise InvalidSnapshot(f"the snapshot holds {held[1]} documents, generation {held[0]}")
    _check_settings(found, fields)
    return found


def _check_encoder(artifact: Path, contents: Contents) -> None:
    if contents.encoder_fingerprint is None:
        return
    try:
        found = load_encoder(artifact).fingerprint
    except ArtifactError as error:
        reason = _without(artifact, error)
        raise InvalidSnapshot(f"the snapshot's encoder: {reason}") from error
    if found != contents.encoder_fingerprint:
        message = f"has the fingerprint {found}, not {contents.encoder_fingerprint}"
        raise InvalidSnapshot(f"the snapshot's encoder {message}")


def _check_settings(description: Description, fields: list[str]) -> None:
    try:
        check_engine(description.engine, description.n_bits)
        check_indexed_fields(fields)
    except InputError as error:
        raise InvalidSnapshot(f"the snapshot's store is damaged: {error}") from None


def _check_tables(path: Path) -> None:
    """Refuse a file with tables, views or triggers that a store has not."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        found = _tables(connection)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        known = [_tables(connection)]
        for make in (make_tables, make_field_tables):
            before = _tables(connection)
            make(connection)
            added = _tables(connection) - before
            # A store has each group of tables once something is in it.
            known += [tables | added for tables in known]
    if found not in known:
        raise InvalidSnapshot("the snapshot's store has other tables than a store of this version")


def _tables(connection: sqlite3.Connection) -> set[tuple[str | None, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _encoder(artifact: Path, contents: Contents, encoders: EncoderFolder) -> str | None:
    """Return the name of the collection's encoder, which is there once this returns.

    That of the snapshot, in the folder `artifact`, was checked.
    """
    name, fingerprint = contents.encoder, contents.encoder_fingerprint
    if name is None or fingerprint is None:
        return None
    there = encoders.with_fingerprint(fingerprint)
    if there:
        return name if name in there else there[0]
    if name in encoders.names():
        message = f"there is another encoder {name!a} than the snapshot's, {fingerprint}"
        raise EncoderMismatch(message)
    try:
        encoders.install(artifact, name)
    except ArtifactError as error:
        raise SnapshotError(f"the snapshot's encoder cannot be installed: {error}") from error
    return name
