"""A collection out of a snapshot, with nothing in it taken on trust."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from encoder.artifact import ArtifactError, load_encoder
from index.encoder_folder import EncoderFolder
from index.engine_setting import check_engine
from index.errors import EncoderMismatch, InputError, SnapshotError, StoreError
from index.schema import SCHEMA, Description
from index.snapshots import Contents, unpack
from index.store import Store
from index.verification import verify_store


def restore(tar: Path, path: Path, name: str, encoders: EncoderFolder) -> None:
    """Write the store of a snapshot to `path`, as that of a collection `name`.

    The encoder is the one of `encoders` with the same fingerprint; if there is none, that of the
    snapshot is installed under the name it had.

    Raises:
        SnapshotError: if `tar` cannot be read, is no snapshot or has changed since it was made.
        EncoderMismatch: if another encoder of that name is there already.
    """
    with TemporaryDirectory(dir=path.parent) as artifact:
        contents = unpack(tar, path, Path(artifact))
        try:
            found = _check_store(path, contents)
        except (StoreError, sqlite3.Error) as error:
            raise SnapshotError(f"the snapshot's store is damaged: {error}") from error
        encoder = _encoder(Path(artifact), contents, encoders)
    description = replace(found, name=name, encoder_name=encoder)
    with closing(Store(path, writable=True)) as store, store.writing() as changes:
        changes.describe(description)


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
            raise SnapshotError(f"the snapshot says that it holds {expected}; it holds {found}")
        with store.moment() as connection:
            problems = verify_store(connection, found.n_bits // 8, None).problems
    if problems:
        raise SnapshotError(f"the snapshot's store is damaged: {problems[0]}")
    _check_engine(found)
    return found


def _check_engine(description: Description) -> None:
    try:
        check_engine(description.engine, description.n_bits)
    except InputError as error:
        raise SnapshotError(f"the snapshot's store is damaged: {error}") from None


def _check_tables(path: Path) -> None:
    """Refuse a file with tables, views or triggers that a store has not."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        found = _tables(connection)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        expected = _tables(connection)
    if found != expected:
        raise SnapshotError("the snapshot's store has other tables than a store of this version")


def _tables(connection: sqlite3.Connection) -> set[tuple[str | None, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _encoder(artifact: Path, contents: Contents, encoders: EncoderFolder) -> str | None:
    """Return the name of the collection's encoder, which is there once this returns."""
    name, fingerprint = contents.encoder, contents.encoder_fingerprint
    if name is None or fingerprint is None:
        return None
    there = encoders.with_fingerprint(fingerprint)
    if there:
        return name if name in there else there[0]
    try:
        found = load_encoder(artifact).fingerprint
        if found != fingerprint:
            message = f"the snapshot's encoder has the fingerprint {found}, not {fingerprint}"
            raise SnapshotError(message)
        if name in encoders.names():
            message = f"there is another encoder {name!a} than the snapshot's, {fingerprint}"
            raise EncoderMismatch(message)
        encoders.install(artifact, name)
    except ArtifactError as error:
        raise SnapshotError(f"the snapshot's encoder: {error}") from error
    return name
