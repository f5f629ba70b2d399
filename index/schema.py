"""What a store's file looks like, and what makes a row of it whole.

``documents`` holds what was given, each row with a checksum of all of it. ``codes`` holds the
packed codes a second time, in blocks of thousands, so that opening a collection reads a few large
values and no document; ``removed`` lists the rows in those blocks that are no longer there.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from encoder.codes import check_n_bits
from index.errors import StoreError

FORMAT_VERSION = 2
APPLICATION_ID = 0x48424954
AUTO = "auto"
# Begins the keys of ``meta`` under which jobs note how far they have come.
BOOKMARK = "bookmark:"

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    code BLOB NOT NULL,
    checksum BLOB NOT NULL,
    payload TEXT NOT NULL,
    text TEXT,
    vector BLOB
);
CREATE TABLE codes (
    first_row INTEGER PRIMARY KEY,
    rows BLOB NOT NULL,
    codes BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE removed (row INTEGER PRIMARY KEY);
"""


@dataclass(frozen=True, slots=True)
class Description:
    """What a collection is, from its creation on."""

    name: str
    n_bits: int
    encoder_name: str | None = None
    encoder_fingerprint: str | None = None
    engine: str = AUTO
    """What :func:`index.engines.choice.build` is told, whoever opens the collection."""


def first_meta(description: Description, ranking: str | None = None) -> dict[str, Any]:
    """Return the entries of ``meta`` of an empty store, with a default ranking if one is given."""
    chosen = {} if ranking is None else {"default_ranking": ranking}
    return {
        **chosen,
        "format_version": FORMAT_VERSION,
        "name": description.name,
        "n_bits": check_n_bits(description.n_bits),
        "encoder_name": description.encoder_name,
        "encoder_fingerprint": description.encoder_fingerprint,
        "engine": description.engine,
        "incarnation": new_incarnation(),
        "generation": 0,
        "documents": 0,
        "removed": 0,
    }


def read_description(connection: sqlite3.Connection) -> Description:
    """Read what a store is.

    Raises:
        StoreError: if it is no store, is damaged, or has another format.
    """
    (path,) = [file for _, name, file in connection.execute("PRAGMA database_list") if file]
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise StoreError(f"{path}: is not a hummingbit store")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    version = meta.get("format_version")
    if version != FORMAT_VERSION:
        later = isinstance(version, int) and version > FORMAT_VERSION
        hint = "use a later one" if later else "index the documents again"
        message = f"has format version {version}; this hummingbit reads version {FORMAT_VERSION}"
        raise StoreError(f"{path}: {message}; {hint}")
    try:
        return Description(
            name=meta["name"],
            n_bits=check_n_bits(meta["n_bits"]),
            encoder_name=meta["encoder_name"],
            encoder_fingerprint=meta["encoder_fingerprint"],
            # Stores had none before collections could ask for one.
            engine=str(meta.get("engine", AUTO)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: is damaged: {error}") from error


def number_in_meta(connection: sqlite3.Connection, key: str) -> int:
    """Return ``generation``, the commits that changed anything, ``documents`` or ``removed``."""
    query = "SELECT value FROM meta WHERE key = ?"
    return int(connection.execute(query, (key,)).fetchone()[0])


def new_incarnation() -> str:
    """Return what tells a store from another that had or will have the same name.

    Rows mean something within one incarnation only.
    """
    return secrets.token_hex(8)


def incarnation(connection: sqlite3.Connection) -> str:
    """Return a store's; the empty string of a store that was made before there were any."""
    query = "SELECT value FROM meta WHERE key = 'incarnation'"
    return str((connection.execute(query).fetchone() or ("",))[0])


def last_row(connection: sqlite3.Connection) -> int:
    """Return the last row that was ever given; 0 where there was none."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'documents'"
    return int((connection.execute(query).fetchone() or (0,))[0])


# json.dumps would make one for each payload.
_PAYLOADS = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def payload_to_json(payload: Mapping[str, Any]) -> str:
    """Write a payload as it is stored."""
    return _PAYLOADS.encode(payload)


def checksum(id_: str, code: bytes, payload: str, text: str | None, vector: bytes | None) -> bytes:
    """Return what is stored beside a document to tell whether all of it is as it was: 8 bytes."""
    head = f"{id_}\0{payload}\0{'-' if text is None else f'+{text}'}\0"
    digest = blake2b(head.encode(), digest_size=8)
    digest.update(code)
    digest.update(vector or b"")
    return digest.digest()
