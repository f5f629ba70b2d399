"""The description of a snapshot's contents, and its JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from index.folder.names import NAME, RULE

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
    strings = [record[name] for name in _STRINGS] + [one for one in encoder if one is not None]
    if not all(type(one) is str for one in strings) or encoder.count(None) == 1:
        raise ValueError(f"{', '.join(_STRINGS)}, encoder and its fingerprint must be strings")
    if not all(type(record[name]) is int and record[name] >= 0 for name in _NUMBERS):
        raise ValueError(f"{', '.join(_NUMBERS)} must be whole numbers")
    for name in ("collection", "encoder"):
        if record[name] is not None and not NAME.fullmatch(record[name]):
            raise ValueError(f"{name} is {record[name][:80]!r}; it must be {RULE}")
    if not _SHA256.fullmatch(record["store_sha256"]):
        raise ValueError("store_sha256 must be 64 hexadecimal digits")
    datetime.fromisoformat(record["created"])
