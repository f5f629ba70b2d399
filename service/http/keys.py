"""The keys file, which holds the name, the role and the hash of each key.

A key is 32 bytes from the system's source of randomness, so nobody can find it from its SHA-256 by
guessing. The slow, salted hashes that passwords need would only slow down every request. The hashes
are of no use to whoever reads the file. Keys from settings are hashed at the start.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from foundation.errors import HummingbitError
from foundation.files import open_regular_file, sync_folder
from foundation.times import now

PREFIX = "hb"
MAX_FILE_BYTES = 1 << 20

KeyRole = Literal["read", "write", "admin"]


class KeysError(HummingbitError, ValueError):
    """The keys file cannot be read or written, or a key cannot be created or revoked."""


class StoredKey(BaseModel):
    """What the file holds of a key: its name, role and hash, but not the key itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    role: KeyRole
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    created: str


class _KeysFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: list[StoredKey]


def request_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the key of a request: a bearer token, any user's password, or ``X-API-Key``.

    Credentials that cannot be decoded count as an empty key. Without any, return None.
    """
    authorization = headers.get(b"authorization", b"").decode("latin-1")
    scheme, _, credentials = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(credentials.strip(), validate=True).decode()
        except (binascii.Error, ValueError):
            return ""
        return decoded.partition(":")[2]
    key = headers.get(b"x-api-key")
    return None if key is None else key.decode("latin-1")


def read_keys(path: Path) -> list[StoredKey]:
    """Read a keys file; a missing one holds no keys.

    Raises:
        KeysError: if it cannot be read, or users other than its owner may write to it.
    """
    try:
        with open_regular_file(path, follow_links=True) as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise KeysError(f"{path}: is not a file") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        message = "users other than its owner can write to it, and so create keys"
        raise KeysError(f"{path}: {message}; run chmod 600 on it")
    try:
        return _KeysFile.model_validate_json(raw).keys
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise KeysError(f"{path}: is not a keys file: {place}: {first['msg']}") from None


def create_key(path: Path, name: str, role: KeyRole) -> str:
    """Create a key, add its hash to the file, and return the key, which is stored nowhere.

    Raises:
        KeysError: if there is a key of that name, or the file cannot be read or written.
    """
    keys = read_keys(path)
    if any(stored.name == name for stored in keys):
        raise KeysError(f"{path}: there is a key named {name!r}; revoke it, or choose another name")
    key = f"{PREFIX}_{role}_{secrets.token_urlsafe(32)}"
    created = now("seconds")
    try:
        stored = StoredKey(name=name, role=role, sha256=hash_key(key), created=created)
    except ValidationError:
        rule = "1 to 64 letters, digits, dots, dashes and underscores"
        raise KeysError(f"name is {name[:80]!r}; it must be {rule}") from None
    _write(path, [*keys, stored])
    return key


def revoke_key(path: Path, name: str) -> None:
    """Remove a key from the file; running services stop accepting it at once.

    Raises:
        KeysError: if there is no key of that name, or the file cannot be read or written.
    """
    keys = read_keys(path)
    others = [stored for stored in keys if stored.name != name]
    if len(others) == len(keys):
        names = ", ".join(stored.name for stored in keys) or "none"
        raise KeysError(f"{path}: there is no key named {name!r}; there are: {names}")
    _write(path, others)


def hash_key(key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def _write(path: Path, keys: Sequence[StoredKey]) -> None:
    """Replace the whole file; from the first byte on, only its owner can read it."""
    text = _KeysFile(keys=list(keys)).model_dump_json(indent=2) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(prefix=".keys-", dir=path.parent)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
        # Without this, a power cut could bring a revoked key back.
        sync_folder(path.parent)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror or error}") from None
