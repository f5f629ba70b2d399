"""Refuses requests before or while their body is read.

A client that is still sending when the connection closes would never see the response. So the rest
of its body is read and discarded, within bounds, before the response is sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import anyio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from service.http.problems import ProblemError, problem_response

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
    found = DOT_SEGMENT.search(raw_path)
    if found is None:
        return None
    segment = found[0][1:].decode("ascii")
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
