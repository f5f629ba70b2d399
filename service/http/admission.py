"""Admits requests by host, origin and key, and refuses others.

A service without keys accepts every request that reaches it, and any web page can make a browser on
the same machine send requests to 127.0.0.1. If the page's own name resolves to 127.0.0.1 (DNS
rebinding), it can even read the responses. So the host must be one of the service's own, and a
request that changes something must not come from another origin.

Nothing here reads a body, so a refused request costs next to nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import math
import os
import re
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from hummingbit.index.filters import parse_filter
from hummingbit.service.http.keys import (
    Access,
    KeysError,
    Role,
    hash_key,
    read_keys,
    request_key,
)
from hummingbit.service.http.limits import Headers, refuse
from hummingbit.service.http.problems import ProblemError
from hummingbit.service.settings import Settings

# Refusals.


DOT_SEGMENT = re.compile(rb"/\.\.?(?=/|$)")

CHALLENGE = 'Bearer realm="hummingbit", Basic realm="hummingbit", charset="UTF-8"'


def unauthorized(key: str | None) -> ProblemError:
    """Return the problem, 401, of a request whose `key` is unknown, or None."""
    message = "the key is unknown or was revoked"
    if key is None:
        message = "a key is required: send Authorization: Bearer KEY, or X-API-Key: KEY"
    return ProblemError(401, "unauthorized", message, headers={"WWW-Authenticate": CHALLENGE})


def unknown_host(host: str) -> ProblemError:
    """Return the problem, 421, of a request for a host that is not this service's."""
    message = f"this service does not serve the host {host[:80]!r}; set allowed_hosts to allow it"
    return ProblemError(421, "unknown_host", message)


def cross_origin(page: str) -> ProblemError:
    """Return the problem, 403, of a request from a `page` of another origin."""
    message = f"the request comes from {page}; set cors_origin to allow it"
    return ProblemError(403, "cross_origin", message)


def dot_segment(raw_path: bytes) -> ProblemError | None:
    """Return the problem, 400, of a path with the segment ``.`` or ``..``, or None.

    Clients and proxies resolve such a segment before they send it, so ``documents/..`` would be a
    document here and the collection elsewhere. With encoded dots it is an id everywhere.
    """
    match = DOT_SEGMENT.search(raw_path)
    if match is None:
        return None
    segment = match[0][1:].decode("ascii")
    encoded = segment.replace(".", "%2E")
    message = f"the path has the segment {segment!r}, which is ambiguous; write {encoded} for an id"
    return ProblemError(400, "invalid_path", message)


# The header ``Min-Generation``: the response must reflect that generation or a later one.


MIN_GENERATION = b"min-generation"
MAX_DIGITS = 18


def min_generation(headers: Headers) -> int | None:
    """Return the value of the header, 0 without it, or None if it is not a generation."""
    value = headers.get(MIN_GENERATION, b"0")
    return int(value) if value.isdigit() and len(value) <= MAX_DIGITS else None


def invalid_generation(headers: Headers) -> ProblemError:
    """Return the problem, 422, of a request whose header is not a generation."""
    value = headers[MIN_GENERATION][:40].decode("latin-1")
    rule = f"it must be a whole number of at most {MAX_DIGITS} digits"
    return ProblemError(422, "invalid_request", f"Min-Generation is {value!r}; {rule}")


# Admission and keys.


_log = logging.getLogger("hummingbit.service")

# These respond without a key.
KEYLESS_PATHS = {"/livez"}
# A browser loads the console before its user can enter a key. Its files hold no data.
CONSOLE_PATH = "/console"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
KEY_HEADERS = {b"authorization", b"x-api-key"}
OWN_SITES = {b"same-origin", b"none"}


class Admission:
    """Passes admitted requests on, and refuses the others.

    A request for another host gets 421, one from a page of another origin 403, and one without a
    valid key 401, if the service has keys. ``scope["state"]["role"]`` becomes the role of the key;
    the route checks whether it is high enough.
    """

    def __init__(
        self,
        app: ASGIApp,
        keyring: Keyring,
        hosts: Collection[str],
        own_host: str,
        origins: Collection[str],
    ) -> None:
        """Serve the `hosts`, or any host if ``*`` is among them.

        If `hosts` is empty, a service with keys serves any host, and one without keys serves
        `own_host` and the loopback names of this machine. Pages of `origins` may send any request.
        """
        self._app = app
        self._keyring = keyring
        self._hosts = {host.lower() for host in hosts}
        self._own_host = own_host.lower()
        self._origins = {origin.encode("latin-1") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it without reading more than 64 KiB of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] == "/" and asks_for_a_page(scope):
            # It redirects to the page, which asks for a key itself.
            scope = {**scope, "path": CONSOLE_PATH, "raw_path": CONSOLE_PATH.encode()}
        problem = self._problem_of(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, problem)

    def _problem_of(self, scope: Scope) -> ProblemError | None:
        """Return why a request is refused, or None; set the role in the state of its scope."""
        headers: Headers = scope["state"]["headers"]
        path = scope["path"]
        key = request_key(headers) if headers.keys() & KEY_HEADERS else None
        access = self._keyring.access_of(key)
        role = scope["state"]["role"] = access.role
        scope["state"]["filter"] = access.filter
        scope["state"]["collections"] = access.collections
        problem = None if path in KEYLESS_PATHS else self._refusal_of(scope["method"], headers)
        if problem is None and role is Role.NOBODY and not _is_keyless(path):
            problem = unauthorized(key)
        if problem is None and b"/." in scope["raw_path"]:
            problem = dot_segment(scope["raw_path"])
        if problem is None and role is not Role.NOBODY and not access.reaches(path):
            problem = beyond_key(access)
        if problem is None and MIN_GENERATION in headers and min_generation(headers) is None:
            problem = invalid_generation(headers)
        return problem

    def _refusal_of(self, method: str, headers: Headers) -> ProblemError | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._serves_host(host):
            return unknown_host(host)
        if method in SAFE_METHODS:
            return None
        origin = headers.get(b"origin")
        if origin in self._origins:
            return None
        # Browsers send this header; other clients do not.
        if headers.get(b"sec-fetch-site", b"none") not in OWN_SITES:
            return cross_origin("a page of another site")
        if origin is not None and not _is_from_host(origin.decode("latin-1"), host):
            return cross_origin(f"a page of {origin.decode('latin-1')[:80]!r}")
        return None

    def _serves_host(self, host: str) -> bool:
        if "*" in self._hosts or (not self._hosts and self._keyring.is_required):
            return True
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        name = name.lower()
        if self._hosts:
            return name in self._hosts
        return name == self._own_host or is_loopback(name)


def asks_for_a_page(scope: Scope) -> bool:
    """Tell whether a request is that of a browser in which a person entered an address."""
    accepted = scope["state"]["headers"].get(b"accept", b"")
    return scope["method"] in ("GET", "HEAD") and b"text/html" in accepted.lower()


def beyond_key(access: Access) -> ProblemError:
    """Return the problem, 403, of a request beyond the collections of its key."""
    names = ", ".join(sorted(access.collections or ()))
    return ProblemError(403, "beyond_key", f"the key is only for requests to collections: {names}")


def _is_keyless(path: str) -> bool:
    return path in KEYLESS_PATHS or path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")


def _is_from_host(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host, given as a name or address without port."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Keyring:
    """The keys of a service: those of the settings, and those now in the keys file."""

    def __init__(self, settings: Settings) -> None:
        """Read the keys.

        Raises:
            KeysError: if the keys file cannot be read.
        """
        self._path = settings.keys_path
        self._configured = [
            (bytes.fromhex(hash_key(key.get_secret_value())), role, f"{role.label} key")
            for key, role in (
                (settings.read_key, Role.READ),
                (settings.write_key, Role.WRITE),
                (settings.admin_key, Role.ADMIN),
            )
            if key is not None
        ]
        self._path_text = os.fspath(self._path)
        self._file_state = self._read_file_state()
        self._from_file = self._read()
        self.is_required = bool(self._configured or self._from_file)
        """Whether requests need a key, as of the last :meth:`role_of`.

        Once there was a key, this stays true: revoking the last one does not open the service.
        """

    def role_of(self, key: str | None) -> Role:
        """Return the role of `key`: NOBODY if it is unknown, ADMIN if the service has no keys."""
        return self.access_of(key).role

    def access_of(self, key: str | None) -> Access:
        """Return what `key` may do; an expired one counts as unknown.

        Every hash is compared, each in constant time, so the time reveals nothing about the keys.
        """
        state = self._read_file_state()
        if state != self._file_state:
            self._refresh(state)
        if not self.is_required:
            return Access(Role.ADMIN)
        if key is None:
            return Access(Role.NOBODY)
        digest = hashlib.sha256(key.encode("utf-8", "replace")).digest()
        access = Access(Role.NOBODY)
        for stored, role, name in (*self._configured, *self._from_file):
            if hmac.compare_digest(digest, stored) and role > access.role:
                access = Access(role, self._collections.get(name), self._filters.get(name))
                if self._expiries.get(name, math.inf) <= time.time():
                    access = Access(Role.NOBODY)
        return access

    def name_of(self, key: str | None) -> str | None:
        """Return the name of `key`, ``read key`` and the like for one of the settings, or None."""
        digest = hashlib.sha256((key or "").encode("utf-8", "replace")).digest()
        for stored, _, name in (*self._from_file, *self._configured):
            if hmac.compare_digest(digest, stored):
                return name
        return None

    def _refresh(self, state: tuple[int, int, int] | None) -> None:
        """Read the changed file again; while it is damaged, none of its keys is accepted."""
        self._file_state = state
        try:
            self._from_file = self._read()
        except KeysError as error:
            _log.error("%s; its keys are not accepted until it can be read", error)
            self._from_file = []
            self.is_required = True
        self.is_required = self.is_required or bool(self._from_file)

    def _read(self) -> list[tuple[bytes, Role, str]]:
        keys = read_keys(self._path)
        self._expiries = {key.name: key.expires.timestamp() for key in keys if key.expires}
        self._collections = {
            key.name: frozenset(key.collections) for key in keys if key.collections is not None
        }
        self._filters = {
            key.name: parse_filter(key.filter) for key in keys if key.filter is not None
        }
        return [
            (bytes.fromhex(stored.sha256), Role[stored.role.upper()], stored.name)
            for stored in keys
        ]

    def _read_file_state(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._path_text)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_mode
