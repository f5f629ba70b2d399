"""Keys: who holds one may read, write or do anything.

A key is 32 bytes from the system's source of randomness, so its plain SHA-256 cannot be turned back
by guessing; the slow hashes with salt that passwords need would only make every request slow. The
file holds hashes only, and who can read it can do nothing with them. Keys that the environment
brings are hashed at the start and held to the same length.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.errors import HummingbitError
from common.files import sync_folder
from service.http.roles import Role
from service.settings import Settings

_log = logging.getLogger("hummingbit.service")

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
    created = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        stored = StoredKey(name=name, role=role, sha256=_hash(key), created=created)
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
    kept = [one for one in keys if one.name != name]
    if len(kept) == len(keys):
        known = ", ".join(one.name for one in keys) or "none"
        raise KeysError(f"{path}: there is no key named {name!a}; there are: {known}")
    _write(path, kept)


class Keyring:
    """The keys of a service: those of the settings, and those of the file as it is now."""

    def __init__(self, settings: Settings) -> None:
        """Read the keys.

        Raises:
            KeysError: if the keys file cannot be read.
        """
        self._path = settings.keys_path
        self._fixed = [
            (bytes.fromhex(_hash(key.get_secret_value())), role, f"{role.label} key")
            for key, role in (
                (settings.read_key, Role.READ),
                (settings.write_key, Role.WRITE),
                (settings.admin_key, Role.ADMIN),
            )
            if key is not None
        ]
        self._seen = self._state_of_file()
        self._of_file = self._read()
        self._required = bool(self._fixed or self._of_file)

    @property
    def required(self) -> bool:
        """Whether a key is asked for; once there has been one, revoking the last opens nothing."""
        self._refresh()
        return self._required

    def role_of(self, key: str | None) -> Role:
        """Return what the holder of `key` may do, NOBODY if it is unknown; all, without keys.

        Every hash is compared, each in constant time, so the time tells nothing of the keys.
        """
        self._refresh()
        if not self._required:
            return Role.ADMIN
        if key is None:
            return Role.NOBODY
        given = hashlib.sha256(key.encode("utf-8", "replace")).digest()
        found = Role.NOBODY
        for known, role, _ in (*self._fixed, *self._of_file):
            if hmac.compare_digest(given, known):
                found = max(found, role)
        return found

    def name_of(self, key: str | None) -> str | None:
        """Return the name that `key` has in the keys file, or what it may do; None if unknown."""
        given = hashlib.sha256((key or "").encode("utf-8", "replace")).digest()
        names = [
            name
            for known, _, name in (*self._of_file, *self._fixed)
            if hmac.compare_digest(given, known)
        ]
        return names[0] if names else None

    def _refresh(self) -> None:
        """Read the file again if it is another one by now; one that is damaged opens nothing."""
        state = self._state_of_file()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._of_file = self._read()
        except KeysError as error:
            _log.error("%s; its keys are not accepted until it can be read", error)
            self._of_file = []
            self._required = True
        self._required = self._required or bool(self._of_file)

    def _read(self) -> list[tuple[bytes, Role, str]]:
        return [
            (bytes.fromhex(one.sha256), Role[one.role.upper()], one.name)
            for one in read_keys(self._path)
        ]

    def _state_of_file(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_mode


def _hash(key: str) -> str:
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
