"""Restores a collection from a snapshot, none of which is trusted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from encoder.artifact import ArtifactError, load_encoder
from foundation.errors import InputError, counted
from foundation.stages import begin_stage
from index.engines.choice import check_engine
from index.errors import (
    DAMAGE_REMEDY,
    EncoderMismatch,
    InvalidSnapshot,
    SnapshotError,
    StoreError,
    StoreFull,
    store_error,
)
from index.filter_parser import check_indexed_fields
from index.folder.named_encoders import EncoderFolder
from index.schema import SCHEMA, Description
from index.snapshots.contents import Contents
from index.snapshots.unpacking import unpack
from index.sqlite.annotation_tables import make_tables
from index.sqlite.field_indexes import make_field_tables
from index.sqlite.store import Store
from index.sqlite.verification import verify_store

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
    :func:`index.sqlite.verification.verify_store`. The encoder must be an intact artifact with the
    fingerprint in the snapshot.

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
            verification = verify_store(connection, description.n_bits // 8, None)
        generation, documents = store.generation(), verification.documents
        fields = list(store.indexed_fields())
        store.field_types()
    if verification.problems:
        raise InvalidSnapshot(f"the snapshot's store is damaged: {verification.problems[0]}")
    if (generation, documents) != (contents.generation, contents.documents):
        expected_counts = (
            f"{counted(contents.documents, 'document')} at generation {contents.generation}"
        )
        message = f"it holds {counted(documents, 'document')} at generation {generation}"
        raise InvalidSnapshot(f"the snapshot is inconsistent: {message}, not {expected_counts}")
    _check_settings(description, fields)
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


def _check_settings(description: Description, fields: list[str]) -> None:
    try:
        check_engine(description.engine, description.n_bits)
        check_indexed_fields(fields)
    except InputError as error:
        raise InvalidSnapshot(f"the snapshot's store is damaged: {error}") from None


def _check_tables(path: Path) -> None:
    """Raise InvalidSnapshot if a file has other tables, views or triggers than a store."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        actual = _tables(connection)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        possible = [_tables(connection)]
        for make in (make_tables, make_field_tables):
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
    try:
        encoders.install(artifact, name)
    except ArtifactError as error:
        raise SnapshotError(f"the snapshot's encoder cannot be installed: {error}") from error
    return name
