"""Admits requests by host, origin and key, limits how many run at a time, and refuses others.

A service without keys accepts every request that reaches it, and any web page can make a browser on
the same machine send requests to 127.0.0.1. If the page's own name resolves to 127.0.0.1 (DNS
rebinding), it can even read the responses. So the host must be one of the service's own, and a
request that changes something must not come from another origin.

Nothing here reads a body, so a refused request costs next to nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import math
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import anyio
from starlette.requests import Request
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
from hummingbit.service.http.monitoring import Metrics
from hummingbit.service.http.problems import ProblemError, problem_response
from hummingbit.service.http.protocol import Arrival, answer_now_of
from hummingbit.service.settings import Settings

# Refusals.
#
# A client that is still sending when the connection closes would never see the response. So the
# rest of its body is read and discarded, within bounds, before the response is sent.


Headers = Mapping[bytes, bytes]
"""The headers of a request, names in lower case; of a header that is sent twice, the first."""

CODING = b"content-encoding"
DISCARDED_BYTES = 64 << 20
DISCARDING_SECONDS = 10.0
# A body this small is read and discarded, so that the connection can be used again.
SMALL_BODY_BYTES = 64 << 10
SMALL_BODY_SECONDS = 1.0

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


def check_not_coded(headers: Headers) -> None:
    """Raise a ProblemError, 415, if a body is compressed or coded in another way."""
    coding = headers[CODING].decode("latin-1").strip()
    if coding.lower() not in {"", "identity"}:
        message = f"Content-Encoding is {coding[:80]!r}; send the body uncompressed"
        accepted = {"Accept-Encoding": "identity"}
        raise ProblemError(415, "unsupported_media_type", message, headers=accepted)


async def refuse(scope: Scope, receive: Receive, send: Send, problem: ProblemError) -> None:
    """Respond with `problem`, without reading more than 64 KiB of the body."""
    if not await _drain_small_body(scope["state"]["headers"], receive):
        # The rest of the body is never read, so the connection ends with the response.
        problem.headers = {**(problem.headers or {}), "Connection": "close"}
    await problem_response(Request(scope), problem)(scope, receive, send)


async def refuse_body(limit: int, receive: Receive, *, more: bool) -> None:
    """Raise a ProblemError, 413; if there is `more` of the body, discard it first."""
    if more:
        await discard_body(receive, DISCARDED_BYTES, DISCARDING_SECONDS)
    raise ProblemError(413, "body_too_large", f"the body has more than {limit:,} bytes, the limit")


async def refuse_late(
    scope: Scope, receive: Receive, send: Send, seconds: float, *, body_is_complete: bool
) -> None:
    """Respond to a request that takes too long: 408 if its body is incomplete, otherwise 503."""
    limit = f"within {seconds:g} s"
    if body_is_complete or not _has_body(scope["state"]["headers"]):
        message = f"there was no response {limit}; a write may still complete"
        problem = ProblemError(503, "timed_out", message)
    else:
        problem = ProblemError(408, "body_too_slow", f"the body was not sent {limit}")
    problem.headers = {"Connection": "close", **(problem.headers or {})}
    await problem_response(Request(scope), problem)(scope, receive, send)


async def discard_body(receive: Receive, max_bytes: int, seconds: float) -> bool:
    """Read and discard the rest of a body, within bounds; tell whether it ended."""
    discarded = 0
    with anyio.move_on_after(seconds):
        while discarded < max_bytes:
            message = await receive()
            discarded += len(message.get("body", b""))
            if not message.get("more_body", False):
                return True
    return False


async def _drain_small_body(headers: Headers, receive: Receive) -> bool:
    """Read and discard a small body; tell whether nothing of the body is left."""
    if not _has_body(headers):
        return True
    declared = int(headers.get(b"content-length", b"0"))
    if b"transfer-encoding" in headers or b"expect" in headers or declared > SMALL_BODY_BYTES:
        return False
    with suppress(ProblemError):  # the limit of bodies at this address may be smaller
        return await discard_body(receive, declared, SMALL_BODY_SECONDS)
    return False


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


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


# Admission, keys and turns.


_log = logging.getLogger("hummingbit.service")

# These respond without a key.
KEYLESS_PATHS = {"/livez"}
# A browser loads the console before its user can enter a key. Its files hold no data.
CONSOLE_PATH = "/console"
# These respond however busy the service is.
UNQUEUED_PATHS = {"/livez", "/readyz", "/metrics"}
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
KEY_HEADERS = {b"authorization", b"x-api-key"}
OWN_SITES = {b"same-origin", b"none"}
LARGE_BODY = 1 << 20


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
        self._answer_now = answer_now_of(app)
        self._keyring = keyring
        self._hosts = {host.lower() for host in hosts}
        self._own_host = own_host.lower()
        self._origins = {origin.encode("latin-1") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it without reading more than 64 KiB of its body."""
        if scope["path"] == "/" and asks_for_a_page(scope):
            # It redirects to the page, which asks for a key itself.
            scope = {**scope, "path": CONSOLE_PATH, "raw_path": CONSOLE_PATH.encode()}
        problem = self._problem_of(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, problem)

    def answer_now(self, arrived: Sequence[Arrival | None]) -> list[bytes | None]:
        """Pass requests on to be answered at once; those that are refused take the usual way."""
        if self._answer_now is None:
            return [None] * len(arrived)
        return self._answer_now(
            [
                request if request and self._problem_of(request[0]) is None else None
                for request in arrived
            ]
        )

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


class Turns:
    """Limits how many requests run at a time and how many wait; further ones get 429.

    A large body takes a multiple of its size in memory, so fewer of such requests run at a time.
    """

    def __init__(self, running: int, waiting: int, large: int, metrics: Metrics) -> None:
        """Let `running` requests run, at most `large` of them with a large body."""
        self._turns = asyncio.Semaphore(running)
        self._large = asyncio.Semaphore(large)
        self._max_waiting = waiting
        self._metrics = metrics

    @property
    def are_taken(self) -> bool:
        """Whether the next request has to wait for a turn."""
        return self._turns.locked()

    async def take(self, size: int = 0) -> Turn:
        """Wait for a turn, which the caller gives back.

        `size` is the size of the request's body in bytes.

        Raises:
            ProblemError: 429 if too many requests wait already.
        """
        metrics = self._metrics
        is_large = size > LARGE_BODY
        must_wait = self._turns.locked() or (is_large and self._large.locked())
        if must_wait and metrics.waiting >= self._max_waiting:
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
    """A turn that a request holds.

    An expensive request calls :meth:`pass_on` to give its turn back early: it waits elsewhere, and
    does not hold up cheap ones. A large body counts until :meth:`give_back`.
    """

    def __init__(self, turns: asyncio.Semaphore, large: asyncio.Semaphore | None) -> None:
        self._turns: asyncio.Semaphore | None = turns
        self._large = large

    def pass_on(self) -> None:
        """Let the next request have the turn."""
        if self._turns is not None:
            self._turns.release()
            self._turns = None

    def give_back(self) -> None:
        """End the turn. Call it once."""
        self.pass_on()
        if self._large is not None:
            self._large.release()
