"""The keys file: who holds a key may read, write or do anything.

A key is 32 bytes from the system's source of randomness, so its plain SHA-256 cannot be turned back
by guessing; the slow hashes with salt that passwords need would only make every request slow. The
file holds hashes only, and who can read it can do nothing with them. Keys that the environment
brings are hashed at the start and held to the same length.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from foundation.errors import HummingbitError
from foundation.files import sync_folder
from foundation.times import now

PREFIX = "hb"
MAX_FILE_BYTES = 1 << 20

KeyRole = Literal["read", "write", "admin"]


class KeysError(HummingbitError, ValueError):
    """The keys file cannot be read or written, or a key cannot be made or revoked."""


class StoredKey(BaseModel):
    """What is kept of a key: its name and its hash, not the key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    role: KeyRole
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    created: str


class _KeysFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: list[StoredKey]


def read_keys(path: Path) -> list[StoredKey]:
    """Read a keys file; one that is not there holds none.

    Raises:
        KeysError: if it cannot be read, or others than its owner could have written it.
    """
    try:
        # What is no file, such as a FIFO, must not keep anybody waiting.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise KeysError(f"{path}: is not a file")
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror or error}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        message = "users other than its owner can write it, and so create keys; run chmod 600 on it"
        raise KeysError(f"{path}: {message}")
    try:
        return _KeysFile.model_validate_json(raw).keys
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise KeysError(f"{path}: is not a keys file: {place}: {first['msg']}") from None


def create_key(path: Path, name: str, role: KeyRole) -> str:
    """Make a key, add its hash to the file and return it: it cannot be had a second time.

    Raises:
        KeysError: if there is a key of that name, or the file cannot be read or written.
    """
    keys = read_keys(path)
    if any(one.name == name for one in keys):
        raise KeysError(f"{path}: there is a key named {name!a}; revoke it, or choose another name")
    key = f"{PREFIX}_{role}_{secrets.token_urlsafe(32)}"
    created = now("seconds")
    try:
        stored = StoredKey(name=name, role=role, sha256=hash_of(key), created=created)
    except ValidationError:
        rule = "1 to 64 letters, digits, dots, dashes and underscores"
        raise KeysError(f"name is {name[:80]!a}; it must be {rule}") from None
    _write(path, [*keys, stored])
    return key


def revoke_key(path: Path, name: str) -> None:
    """Take a key from the file; a service that is running stops taking it at once.

    Raises:
        KeysError: if there is none of that name, or the file cannot be read or written.
    """
    keys = read_keys(path)
    others = [one for one in keys if one.name != name]
    if len(others) == len(keys):
        known = ", ".join(one.name for one in keys) or "none"
        raise KeysError(f"{path}: there is no key named {name!a}; there are: {known}")
    _write(path, others)


def hash_of(key: str) -> str:
    """Return what is kept of a key, in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def _write(path: Path, keys: Sequence[StoredKey]) -> None:
    """Replace the file whole; it is readable by its owner only from its first moment."""
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
        # Without this a power cut could bring a revoked key back.
        sync_folder(path.parent)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror or error}") from None
