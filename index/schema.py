"""The schema of a store's file, and the checksum of a row.

``documents`` holds the documents, each with a checksum of the whole row, and a vector in the form
that the description names (:mod:`hummingbit.index.kept_vectors`). Stores whose vectors are not
whole, whose documents have passages (:mod:`hummingbit.index.passages`), or which have no codes,
have a later format version, which versions of hummingbit without these forms refuse.
``codes`` holds the packed codes a second time, in blocks of thousands, so that opening a collection
reads a few large values and no document. ``removed`` lists the rows of those blocks that were
deleted.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from hummingbit.corpus.field_types import NUMBER, STRING, FieldType
from hummingbit.encoder.limits import check_n_bits
from hummingbit.foundation.errors import InputError
from hummingbit.index.errors import StoreError
from hummingbit.index.names import AUTO, FLOAT32, FORMS
from hummingbit.index.passages import CodeColumn, Passages

FORMAT_VERSION = 2
ROUNDED_VECTORS_VERSION = 3
PASSAGES_VERSION = 4
WORDS_VERSION = 5
"""The version of stores without codes."""
APPLICATION_ID = 0x48424954
EARLIER_ENGINES = frozenset({"direct", "distinct", "pruned"})
"""Engines that earlier versions had; a collection that names one gets the automatic choice."""
# The prefix of the keys of ``meta`` under which jobs store their progress.
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


def check_code_length(n_bits: int) -> int:
    """Return `n_bits` if a collection's codes can have this length; 0 is searched by words alone.

    Raises:
        CodeError: unless it is 0 or a multiple of 8 from 8 to 4096.
    """
    return n_bits if n_bits == 0 else check_n_bits(n_bits)


@dataclass(frozen=True, slots=True)
class Description:
    """The settings of a collection, fixed at its creation."""

    name: str
    n_bits: int
    """The length of codes; 0 if there are none, and documents are searched by words alone."""
    encoder_name: str | None = None
    encoder_fingerprint: str | None = None
    engine: str = AUTO
    """The engine that :func:`hummingbit.index.engines.choice.build` uses."""
    keep_vectors: str = FLOAT32
    """The form in which vectors are kept, one of :data:`hummingbit.index.kept_vectors.FORMS`."""
    passages: Passages | None = None
    """How texts are split into passages; None if they are not."""

    @property
    def code_column(self) -> CodeColumn:
        """How the codes of documents are stored."""
        return CodeColumn(self.n_bits // 8, self.passages is not None)

    @property
    def meta(self) -> dict[str, Any]:
        """The entries of ``meta`` that hold the settings."""
        entries = {**asdict(self)}
        del entries["passages"]
        if self.passages is None:
            return entries
        return {**entries, "passages": json.dumps(self.passages.json)}

    @property
    def format_version(self) -> int:
        """The version of the store's format."""
        if self.n_bits == 0:
            return WORDS_VERSION
        if self.passages is not None:
            return PASSAGES_VERSION
        return FORMAT_VERSION if self.keep_vectors == FLOAT32 else ROUNDED_VECTORS_VERSION


def initial_meta(description: Description, ranking: str | None = None) -> dict[str, Any]:
    """Return the entries of ``meta`` in an empty store; `ranking` is the default ranking."""
    default_ranking = {} if ranking is None else {"default_ranking": ranking}
    passages = {} if description.passages is None else {"n_passages": 0}
    return {
        **default_ranking,
        **description.meta,
        **passages,
        "language": AUTO,
        "format_version": description.format_version,
        "n_bits": check_code_length(description.n_bits),
        "incarnation": new_incarnation(),
        "generation": 0,
        "documents": 0,
        "removed": 0,
    }


def read_description(connection: sqlite3.Connection) -> Description:
    """Read the settings of the collection in a store's file.

    Raises:
        StoreError: if the file is not a store, is damaged, or has another format.
    """
    (path,) = [file for _, name, file in connection.execute("PRAGMA database_list") if file]
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise StoreError(f"{path}: is not a hummingbit store")
    return described_by(connection, path)


def described_by(connection: sqlite3.Connection, store: object) -> Description:
    """Return the settings in the table ``meta``; `store` names the store in messages.

    Raises:
        StoreError: if they are damaged, or have another format.
    """
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    version = meta.get("format_version")
    if not isinstance(version, int) or not FORMAT_VERSION <= version <= WORDS_VERSION:
        later = isinstance(version, int) and version > WORDS_VERSION
        hint = "use a later hummingbit" if later else "index the documents again"
        known = f"versions {FORMAT_VERSION} to {WORDS_VERSION}"
        message = f"has format version {version}; this hummingbit reads {known}"
        raise StoreError(f"{store}: {message}; {hint}")
    try:
        description = Description(
            name=meta["name"],
            n_bits=check_code_length(meta["n_bits"]),
            encoder_name=meta["encoder_name"],
            encoder_fingerprint=meta["encoder_fingerprint"],
            # Stores of earlier versions have no engine, and their vectors are whole.
            engine=engine_of(str(meta.get("engine", AUTO))),
            keep_vectors=str(meta.get("keep_vectors", FLOAT32)),
            passages=Passages.of(json.loads(meta.get("passages") or "null")),
        )
        if description.keep_vectors not in FORMS or description.format_version != version:
            raise ValueError(f"keep_vectors is {description.keep_vectors[:40]!r}")
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{store}: is damaged: {error}") from error
    return description


def engine_of(written: str) -> str:
    """Return the engine of a collection that a store or an export describes."""
    return AUTO if written in EARLIER_ENGINES else written


def read_language(connection: sqlite3.Connection) -> tuple[str | None, str | None]:
    """Return the setting of the language, and the language that was found; None if missing."""
    query = "SELECT key, value FROM meta WHERE key IN ('language', 'language_found')"
    stored = dict(connection.execute(query))
    return stored.get("language"), stored.get("language_found")


def read_field_types(connection: sqlite3.Connection) -> dict[str, FieldType]:
    """Return the types of payload fields that the collection remembers; see ``tables``.

    Raises:
        StoreError: if they are damaged.
    """
    query = "SELECT value FROM meta WHERE key = 'field_types'"
    (written,) = connection.execute(query).fetchone() or ("{}",)
    try:
        return parse_field_types(json.loads(written))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the store is damaged: {error}") from error


def parse_field_types(value: object) -> dict[str, FieldType]:
    """Return the types of fields, by name, that a decoded JSON object holds.

    Raises:
        TypeError: if it holds anything else.
    """
    if not isinstance(value, dict) or not {*map(str, value.values())} <= {NUMBER, STRING}:
        raise TypeError(f"field_types must be an object of {NUMBER!r} and {STRING!r}")
    return value


def number_in_meta(connection: sqlite3.Connection, key: str) -> int:
    """Return one of the counts ``generation``, ``documents`` and ``removed``."""
    query = "SELECT value FROM meta WHERE key = ?"
    return int(connection.execute(query, (key,)).fetchone()[0])


def number_of_codes(connection: sqlite3.Connection) -> int:
    """Return the number of codes in the index: that of passages, or else of documents."""
    stored = connection.execute("SELECT value FROM meta WHERE key = 'n_passages'").fetchone()
    return number_in_meta(connection, "documents") if stored is None else int(stored[0])


def new_incarnation() -> str:
    """Return a random id that distinguishes a store from others of the same name.

    Rows are valid within one incarnation only.
    """
    return secrets.token_hex(8)


def read_incarnation(connection: sqlite3.Connection) -> str:
    """Return the incarnation of a store; empty if an earlier version wrote the store."""
    query = "SELECT value FROM meta WHERE key = 'incarnation'"
    return str((connection.execute(query).fetchone() or ("",))[0])


def last_row(connection: sqlite3.Connection) -> int:
    """Return the last row that was ever assigned, or 0."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'documents'"
    return int((connection.execute(query).fetchone() or (0,))[0])


# A copy takes half of the time of a digest made from its parameters.
_EMPTY_DIGEST = blake2b(digest_size=8)
# Python's encoder holds the interpreter lock until it is done.
PAYLOADS_AT_ONCE = 64
# json.dumps would make an encoder for each payload.
_PAYLOAD_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def payload_to_json(payload: Mapping[str, Any]) -> str:
    """Return a payload as the JSON that is stored."""
    return _PAYLOAD_ENCODER.encode(payload)


def payloads_to_json(payloads: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what :func:`payload_to_json` does for each, in half of the time."""
    written: list[str] = []
    for start in range(0, len(payloads), PAYLOADS_AT_ONCE):
        some = payloads[start : start + PAYLOADS_AT_ONCE]
        parts = _PAYLOAD_ENCODER.encode(some)[2:-2].split("}, {")
        # Objects inside a payload, and strings, may contain what separates payloads.
        if len(parts) == len(some):
            written += [f"{{{part}}}" for part in parts]
        else:
            written += map(payload_to_json, some)
    return written


def checksum(id_: str, code: bytes, payload: str, text: str | None, vector: bytes | None) -> bytes:
    """Return the checksum of a stored document, 8 bytes."""
    head = f"{id_}\0{payload}\0{'-' if text is None else f'+{text}'}\0"
    digest = _EMPTY_DIGEST.copy()
    digest.update(head.encode() + code)
    if vector is not None:
        digest.update(vector)
    return digest.digest()
