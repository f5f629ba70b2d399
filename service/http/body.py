"""Request bodies: strict JSON (RFC 8259), and bodies that go to disk as they come."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from service.http.problems import ProblemError
from service.http.roles import Role, needed_role

# Shorter bodies are parsed faster than they are handed to a thread.
PARSED_IN_PLACE = 64 << 10


class JSONRoute(APIRoute):
    """A route for those of a role, whose body, where it takes one, is a :class:`JSONRequest`'s."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with another request, for those who may make it."""
        handler = super().get_route_handler()
        needed = needed_role(self.openapi_extra)
        changes = needed > Role.READ and bool((self.methods or set()) - {"GET", "HEAD"})

        async def handle(request: Request) -> Response:
            check_role(request, needed)
            if changes and request.app.state.settings.read_only:
                message = "this service only reads; send it to the one that writes"
                raise ProblemError(403, "read_only", message)
            return await handler(JSONRequest(request.scope, request.receive))

        return handle


def check_role(request: Request, needed: Role) -> None:
    """Raise a ProblemError, 403, unless the request's key is of the role `needed` or a higher."""
    role: Role = request.scope["state"]["role"]
    if role < needed:
        message = f"the key is one to {role.label}; this needs one for {needed.label}"
        problem = ProblemError(403, "forbidden", message)
        challenge = 'Bearer realm="hummingbit", error="insufficient_scope"'
        problem.headers = {"WWW-Authenticate": f'{challenge}, scope="{needed.label}"'}
        raise problem


class JSONRequest(Request):
    """A request that takes a JSON body only, and parses it strictly and off the event loop."""

    async def body(self) -> bytes:
        """Return the body.

        Raises:
            ProblemError: 415 if there is one that does not say it is JSON.
        """
        raw = await super().body()
        media_type = self.headers.get("content-type", "")
        if raw and not _is_json(media_type):
            given = f"the content type is {media_type[:80]!a}" if media_type else "there is none"
            message = f"{given}; send the header Content-Type: application/json"
            raise ProblemError(415, "unsupported_media_type", message)
        return raw

    async def json(self) -> Any:
        """Return the parsed body; see :func:`parse_json`."""
        raw = await self.body()
        depth: int = self.app.state.settings.max_json_depth
        if len(raw) <= PARSED_IN_PLACE:
            return parse_json(raw, depth)
        return await run_in_threadpool(parse_json, raw, depth)


def parse_json(raw: bytes, max_depth: int) -> Any:
    """Parse UTF-8 JSON.

    Numbers too large for a float come out as infinity, and lone surrogates as they are: what reads
    the values can say which of them it is.

    Raises:
        ProblemError: 400 if it is not JSON, has NaN or Infinity, names a key twice in one object,
            holds an integer of thousands of digits or is nested in more than `max_depth` levels.
    """
    _check_depth(raw, max_depth)
    try:
        return json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise _not_json(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _not_json(f"{error.msg} ({where})") from None
    except RecursionError:
        raise _not_json("it is nested too deeply") from None
    except ValueError:
        raise _not_json("it holds an integer of too many digits") from None


def _check_depth(raw: bytes, most: int) -> None:
    """Raise a ProblemError if objects and lists are nested too deeply, before any is made."""
    if raw.count(b"[") + raw.count(b"{") <= most:
        return
    # Without escaped quotes, the text is inside a string after an odd number of quotes.
    text = np.frombuffer(raw.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    inside = np.bitwise_xor.accumulate((text == ord('"')).view(np.uint8))
    opens = (text == ord("[")) | (text == ord("{"))
    closes = (text == ord("]")) | (text == ord("}"))
    steps = (opens.view(np.int8) - closes.view(np.int8)) * (inside ^ 1).view(np.int8)
    if int(np.cumsum(steps, dtype=np.int32).max(initial=0)) > most:
        raise _not_json(f"it is nested in more than {most} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _not_json(f"the key {twice[:40]!a} is given twice in one object")
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise _not_json(f"{name} is no JSON number; numbers must be finite")


def _not_json(reason: str) -> ProblemError:
    return ProblemError(400, "invalid_json", f"the body cannot be read as JSON: {reason}")


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    main, _, sub = media_type.partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


def check_media_type(request: Request, taken: Sequence[str]) -> None:
    """Raise a ProblemError, 415, unless the body says that it is of one of the types `taken`."""
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() not in taken:
        found = f"the content type is {given[:80]!a}" if given else "there is none"
        message = f"{found}; send the header Content-Type: {taken[0]}"
        raise ProblemError(415, "unsupported_media_type", message)


async def keep_body(request: Request, path: Path, about: bytes = b"") -> str:
    """Write a body to a file and return the sha256 of `about` and of the body.

    Raises:
        ProblemError: 503 if it cannot be written.
    """
    digest = hashlib.sha256(about)
    try:
        with path.open("wb") as file:
            async for chunk in request.stream():
                digest.update(chunk)
                await run_in_threadpool(file.write, chunk)
            file.flush()
            await run_in_threadpool(os.fsync, file.fileno())
    except OSError as error:
        message = f"the body cannot be kept: {error.strerror}"
        raise ProblemError(503, "storage_failed", message) from error
    return digest.hexdigest()
