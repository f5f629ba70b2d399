"""Keys: their file, and the roles read, write and admin, each of which includes the one before.

A route declares the role that it requires: ``**READ``. One that declares none requires ``admin``.
One that can be limited to the documents that match the filter of a key declares so,
``**FILTERED_READ``; keys with a filter are refused everywhere else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from hummingbit.foundation.errors import HummingbitError, InputError
from hummingbit.foundation.files import open_regular_file, replacing
from hummingbit.foundation.times import now
from hummingbit.index.filtered import check_is_of_payloads
from hummingbit.index.filters import Filter, filter_to_json, parse_filter

ROLE_FIELD = "x-role"


class Role(IntEnum):
    """A higher role may do more. NOBODY has sent no valid key to a service that has keys."""

    NOBODY = 0
    READ = 1
    WRITE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The role's name as operators write it."""
        return self.name.lower()


# Any one of them carries the key.
SCHEMES: list[dict[str, list[str]]] = [{"bearer": []}, {"header": []}, {"basic": []}]
FILTER_FIELD = "x-key-filter"


def requires(
    role: Role, *, filtered: bool = False, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a route declares that requires `role`; `body` describes one that it streams.

    It can be limited to the filter of a key if it is `filtered`.
    """
    operation: dict[str, Any] = {ROLE_FIELD: role.label}
    operation["security"] = [{}] if role is Role.NOBODY else SCHEMES
    if filtered:
        operation[FILTER_FIELD] = "applied"
    if body is not None:
        operation["requestBody"] = body
    return {"openapi_extra": operation}


EVERYBODY = requires(Role.NOBODY, filtered=True)
READ, FILTERED_READ = requires(Role.READ), requires(Role.READ, filtered=True)
WRITE, FILTERED_WRITE = requires(Role.WRITE), requires(Role.WRITE, filtered=True)
ADMIN = requires(Role.ADMIN)


def required_role(operation: Mapping[str, Any] | None) -> Role:
    """Return the role that a route requires, from its ``openapi_extra``."""
    label = (operation or {}).get(ROLE_FIELD, Role.ADMIN.label)
    return Role[str(label).upper()]


# The keys file.
#
# A key is 32 bytes from the system's source of randomness, so nobody can find it from its SHA-256
# by guessing. The slow, salted hashes that passwords need would only slow down every request. The
# hashes are of no use to whoever reads the file. Keys from settings are hashed at the start.


PREFIX = "hb"
MAX_FILE_BYTES = 1 << 20
LOCK_TIMEOUT = 30.0
"""Seconds that a change of the file waits for another one."""

KeyRole = Literal["read", "write", "admin"]


class KeysError(HummingbitError, ValueError):
    """The keys file cannot be read or written, or a key cannot be created or revoked."""


class StoredKey(BaseModel):
    """What the file holds of a key: its name, role and hash, but not the key itself.

    It is not accepted once it `expires`, in ISO 8601 with a zone. With `collections`, it reaches
    only what is below these names or aliases of collections, and with a `filter`, as in requests,
    only the documents there that match it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    role: KeyRole
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    created: str
    expires: AwareDatetime | None = None
    collections: tuple[str, ...] | None = None
    filter: dict[str, Any] | None = None

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            check_is_of_payloads(parse_filter(value))
        return value


class Access(NamedTuple):
    """What a key may do: its role, the collections that it is for, and the filter of documents.

    None stands for all collections, and for all documents.
    """

    role: Role
    collections: frozenset[str] | None = None
    filter: Filter | None = None

    def reaches(self, path: str) -> bool:
        """Return whether a request's path is within the collections of the key, or its jobs."""
        if self.collections is None or path in UNSCOPED_PATHS or _OF_JOBS.match(path):
            return True
        match = _OF_COLLECTION.match(path)
        return match is not None and match[1] in self.collections


UNSCOPED_PATHS = {"/v1/access", "/livez"}
"""Requests that say nothing about collections, which every key may send."""
_OF_COLLECTION = re.compile(r"/v1/collections/([^/]+)(?:/|\Z)")
# The routes show such a key only the jobs that it submitted.
_OF_JOBS = re.compile(r"/v1/(?:jobs|maps|duplicates|evaluations)(?:/|\Z)")


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
        field = ".".join(map(str, first["loc"]))
        raise KeysError(f"{path}: is not a keys file: {field}: {first['msg']}") from None


def create_key(
    path: Path,
    name: str,
    role: KeyRole,
    *,
    expires: datetime | None = None,
    collections: Sequence[str] = (),
    filter: Filter | None = None,  # noqa: A002 - as in requests
) -> str:
    """Create a key, add its hash to the file, and return the key, which is stored nowhere.

    Raises:
        KeysError: if there is a key of that name, the file cannot be read or written, an ``admin``
            key is to be for some collections only, or a filter has no collections or names ids.
    """
    if collections and role == "admin":
        raise KeysError("collections: an admin key is for everything; choose read or write")
    if filter is not None:
        if not collections:
            raise KeysError("filter: name the collections, too, whose documents it is for")
        try:
            check_is_of_payloads(filter)
        except InputError as error:
            raise KeysError(str(error)) from None
    key = f"{PREFIX}_{role}_{secrets.token_urlsafe(32)}"
    created = now("seconds")
    try:
        stored = StoredKey(
            name=name,
            role=role,
            sha256=hash_key(key),
            created=created,
            expires=expires,
            collections=tuple(collections) or None,
            filter=None if filter is None else json.loads(filter_to_json(filter)),
        )
    except ValidationError:
        rule = "1 to 64 letters, digits, dots, dashes and underscores"
        raise KeysError(f"name is {name[:80]!r}; it must be {rule}") from None
    with _locked(path):
        keys = read_keys(path)
        if any(key.name == name for key in keys):
            message = f"there is a key named {name!r}; revoke it, or choose another name"
            raise KeysError(f"{path}: {message}")
        _write(path, [*keys, stored])
    return key


def revoke_key(path: Path, name: str) -> None:
    """Remove a key from the file; running services stop accepting it at once.

    Raises:
        KeysError: if there is no key of that name, or the file cannot be read or written.
    """
    with _locked(path):
        keys = read_keys(path)
        others = [stored for stored in keys if stored.name != name]
        if len(others) == len(keys):
            names = ", ".join(stored.name for stored in keys) or "none"
            raise KeysError(f"{path}: there is no key named {name!r}; there are: {names}")
        _write(path, others)


def hash_key(key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the keys file until the end of the block.

    The file itself is replaced by each change, and the service locks the data folder, so a file
    beside it is locked. SQLite locks it on every system, and a killed process leaves no lock.

    Raises:
        KeysError: if the lock cannot be created, or another process holds it for LOCK_TIMEOUT.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only the owner may lock it.
        os.close(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise KeysError(f"{lock}: {error.strerror or error}") from None
    with closing(sqlite3.connect(lock, timeout=LOCK_TIMEOUT, isolation_level=None)) as database:
        try:
            database.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                message = f"another process has been changing it for {LOCK_TIMEOUT:.0f} s"
                raise KeysError(f"{path}: {message}; try again") from None
            raise KeysError(f"{lock}: cannot be locked: {error}") from None
        yield


def _write(path: Path, keys: Sequence[StoredKey]) -> None:
    """Replace the whole file, of which the lock is held; only its owner can ever read it."""
    text = _KeysFile(keys=list(keys)).model_dump_json(indent=2, exclude_none=True) + "\n"
    try:
        with replacing(path) as partial:
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror or error}") from None
