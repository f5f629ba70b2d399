"""Who comes in: which hosts are served, to pages of which origins, to whom, and how many at a time.

A service without keys takes whatever reaches it, and a browser on the same machine can be made to
reach it: a page of any site may send requests to 127.0.0.1, and with a name that resolves to
127.0.0.1 (DNS rebinding) it may read the answers. So the host must be one of the service's own, and
what changes something must come from no other origin.

Nothing here reads a body: a request without a key, or one too many, costs next to nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import os
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.keys import KeysError, hash_of, read_keys
from service.http.min_generation import MIN_GENERATION, invalid_generation, min_generation
from service.http.monitoring import Metrics
from service.http.problems import ProblemError
from service.http.refusals import Headers, cross_origin, refuse, unauthorized, unknown_host
from service.http.roles import Role
from service.settings import Settings

_log = logging.getLogger("hummingbit.service")

# What must answer whoever asks, and what must answer however much there is to do.
WITHOUT_KEY = {"/livez"}
# A browser asks for the console's page before anybody could give it a key. Its files are the same
# for everybody and tell nothing.
PAGE_WITHOUT_KEY = "/console"
WITHOUT_WAITING = {"/livez", "/readyz", "/metrics"}
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
KEY_HEADERS = {b"authorization", b"x-api-key"}
OWN_SITES = {b"same-origin", b"none"}
LARGE_BODY = 1 << 20


class Admission:
    """Passes on the requests of those who may come in; says in the scope who came.

    Requests for other hosts get 421, those from pages of other origins 403, those without a key,
    where there are keys, 401. ``scope["state"]["role"]`` is the role of the key; the route looks
    whether it suffices.
    """

    def __init__(
        self,
        app: ASGIApp,
        keyring: Keyring,
        hosts: Collection[str],
        own_host: str,
        origins: Collection[str],
    ) -> None:
        """Take requests for any of `hosts`, any at all with ``*``.

        Without one, take any where there are keys, or else those for this machine and `own_host`.
        `origins` may send what they like.
        """
        self._app = app
        self._keyring = keyring
        self._hosts = {host.lower() for host in hosts}
        self._own_host = own_host.lower()
        self._origins = {origin.encode("latin-1") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it before more than 64 KiB of its body are read."""
        headers: Headers = scope["state"]["headers"]
        path = scope["path"]
        key = given_key(headers) if headers.keys() & KEY_HEADERS else None
        role = scope["state"]["role"] = self._keyring.role_of(key)
        problem = None if path in WITHOUT_KEY else self._problem(scope["method"], headers)
        if problem is None and role is Role.NOBODY and not _needs_no_key(path):
            problem = unauthorized(key)
        if problem is None and MIN_GENERATION in headers and min_generation(headers) is None:
            problem = invalid_generation(headers)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, problem)

    def _problem(self, method: str, headers: Headers) -> ProblemError | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_taken(host):
            return unknown_host(host)
        if method in SAFE_METHODS:
            return None
        origin = headers.get(b"origin")
        if origin in self._origins:
            return None
        # Browsers say where a request comes from; other clients say nothing.
        if headers.get(b"sec-fetch-site", b"none") not in OWN_SITES:
            return cross_origin("a page of another site")
        if origin is not None and not _is_of(origin.decode("latin-1"), host):
            return cross_origin(f"a page of {origin.decode('latin-1')[:80]!a}")
        return None

    def _is_taken(self, host: str) -> bool:
        if "*" in self._hosts or (not self._hosts and self._keyring.is_required):
            return True
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        name = name.lower()
        if self._hosts:
            return name in self._hosts
        return name == self._own_host or is_loopback(name)


def given_key(headers: Headers) -> str | None:
    """Return the key of a request: a bearer's, a password of any user, or ``X-API-Key``."""
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


def _needs_no_key(path: str) -> bool:
    return (
        path in WITHOUT_KEY or path == PAGE_WITHOUT_KEY or path.startswith(f"{PAGE_WITHOUT_KEY}/")
    )


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host, a name or an address without its port."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Keyring:
    """The keys of a service: those of the settings, and those of the file as it is now."""

    def __init__(self, settings: Settings) -> None:
        """Read the keys.

        Raises:
            KeysError: if the keys file cannot be read.
        """
        self._path = settings.keys_path
        self._fixed = [
            (bytes.fromhex(hash_of(key.get_secret_value())), role, f"{role.label} key")
            for key, role in (
                (settings.read_key, Role.READ),
                (settings.write_key, Role.WRITE),
                (settings.admin_key, Role.ADMIN),
            )
            if key is not None
        ]
        self._place = os.fspath(self._path)
        self._seen = self._state_of_file()
        self._of_file = self._read()
        self.is_required = bool(self._fixed or self._of_file)
        """Whether a key is asked for, as of the last :meth:`role_of`.

        Once there has been one, revoking the last opens nothing.
        """

    def role_of(self, key: str | None) -> Role:
        """Return what the holder of `key` may do, NOBODY if it is unknown; all, without keys.

        Every hash is compared, each in constant time, so the time tells nothing of the keys.
        """
        state = self._state_of_file()
        if state != self._seen:
            self._refresh(state)
        if not self.is_required:
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
        for known, _, name in (*self._of_file, *self._fixed):
            if hmac.compare_digest(given, known):
                return name
        return None

    def _refresh(self, state: tuple[int, int, int] | None) -> None:
        """Read the file again, which is another one by now; one that is damaged opens nothing."""
        self._seen = state
        try:
            self._of_file = self._read()
        except KeysError as error:
            _log.error("%s; its keys are not accepted until it can be read", error)
            self._of_file = []
            self.is_required = True
        self.is_required = self.is_required or bool(self._of_file)

    def _read(self) -> list[tuple[bytes, Role, str]]:
        return [
            (bytes.fromhex(one.sha256), Role[one.role.upper()], one.name)
            for one in read_keys(self._path)
        ]

    def _state_of_file(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._place)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_mode


class Turns:
    """Lets so many requests be worked on at a time and so many wait; the next is answered 429.

    Of those with a large body, which takes a multiple of its size in memory, fewer are worked on.
    """

    def __init__(self, running: int, waiting: int, large: int, metrics: Metrics) -> None:
        self._turns = asyncio.Semaphore(running)
        self._large = asyncio.Semaphore(large)
        self._most = waiting
        self._metrics = metrics

    async def take(self, size: int = 0) -> Turn:
        """Wait for a turn; `size` is that of the request's body. The caller gives it back.

        Raises:
            ProblemError: 429 if too many wait already.
        """
        metrics = self._metrics
        is_large = size > LARGE_BODY
        must_wait = self._turns.locked() or (is_large and self._large.locked())
        if must_wait and metrics.waiting >= self._most:
            metrics.refused.inc()
            message = f"{metrics.waiting} requests are already waiting; try again later"
            raise ProblemError(429, "too_many_requests", message)
        metrics.waiting += 1
        try:
            if is_large:
                await self._large.acquire()
            try:
                await self._turns.acquire()
            except BaseException:
                if is_large:
                    self._large.release()
                raise
        finally:
            metrics.waiting -= 1
        return Turn(self._turns, self._large if is_large else None)


class Turn:
    """A turn that was taken.

    :meth:`pass_on` gives it back early: an expensive request waits elsewhere, and holds up no cheap
    one meanwhile. What there may be of large bodies stays taken until :meth:`give_back`.
    """

    def __init__(self, turns: asyncio.Semaphore, large: asyncio.Semaphore | None) -> None:
        self._turns: asyncio.Semaphore | None = turns
        self._large = large

    def pass_on(self) -> None:
        """Let another request have the turn."""
        if self._turns is not None:
            self._turns.release()
            self._turns = None

    def give_back(self) -> None:
        """End the turn; called once."""
        self.pass_on()
        if self._large is not None:
            self._large.release()
