"""Which hosts are served, and to pages of which origins.

A service without keys takes whatever reaches it, and a browser on the same machine can be made to
reach it: a page of any site may send requests to 127.0.0.1, and with a name that resolves to
127.0.0.1 (DNS rebinding) it may read the answers. So the host must be one of the service's own, and
what changes something must come from no other origin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.admission import WITHOUT_KEY, refuse
from service.http.keyring import Keyring
from service.http.problems import ProblemError

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
OWN_SITES = {"same-origin", "none"}


class CheckOrigin:
    """Refuses requests for other hosts (421), and from pages of other origins (403).

    `hosts` are the names that are taken, any with ``*``; without one, any where there are keys, or
    else those of this machine and `own_host`. `origins` may send what they like.
    """

    def __init__(
        self,
        app: ASGIApp,
        keyring: Keyring,
        hosts: Collection[str],
        own_host: str,
        origins: Collection[str],
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._hosts = {host.lower() for host in hosts}
        self._own_host = own_host.lower()
        self._origins = set(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it before its body is read."""
        is_checked = scope["type"] == "http" and scope["path"] not in WITHOUT_KEY
        problem = self._problem(scope) if is_checked else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await refuse(scope, receive, send, problem)

    def _problem(self, scope: Scope) -> ProblemError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_taken(host):
            message = f"this service does not serve the host {host[:80]!a}; set allowed_hosts"
            return ProblemError(421, "unknown_host", message)
        if scope["method"] in SAFE_METHODS:
            return None
        origin = headers.get("origin")
        if origin in self._origins:
            return None
        # Browsers say where a request comes from; other clients say nothing.
        if headers.get("sec-fetch-site", "none") not in OWN_SITES:
            message = "the request comes from a page of another site; set cors_origin to allow it"
            return ProblemError(403, "cross_origin", message)
        if origin is not None and not _is_of(origin, host):
            page = f"a page of {origin[:80]!a}"
            message = f"the request comes from {page}; set cors_origin to allow it"
            return ProblemError(403, "cross_origin", message)
        return None

    def _is_taken(self, host: str) -> bool:
        if "*" in self._hosts or (not self._hosts and self._keyring.required):
            return True
        name = _name_of(host)
        if self._hosts:
            return name in self._hosts
        return name == self._own_host or is_loopback(name)


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Return a host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host, a name or an address without its port."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
