"""Request bodies: strict JSON (RFC 8259), and bodies that go to disk as they come."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.types import Receive, Scope

from foundation.slices import Slices, in_slices
from service.http.bodies.body_validation import validate
from service.http.bodies.json_parser import parse_json
from service.http.problems import ProblemError, unsupported_media_type
from service.settings import Settings

JSON_LINES = ("application/x-ndjson", "application/jsonl")
# Shorter bodies are parsed faster than they are handed to a thread.
PARSED_IN_PLACE = 64 << 10


class JSONRequest(Request):
    """A request that takes a JSON body only, and parses and validates it without a pause.

    `model` is what the body must be; FastAPI takes an instance of it as it is.
    """

    def __init__(self, scope: Scope, receive: Receive, model: type[BaseModel] | None) -> None:
        super().__init__(scope, receive)
        self._model = model
        self.held = 0
        """How many bytes of the body were counted, until they are removed from HeldBytes."""

    async def body(self) -> bytes:
        """Return the body.

        Raises:
            ProblemError: 415 if there is one that does not say it is JSON, 503 if others are being
                received that are too large for one more beside them.
            ClientDisconnect: if the client has gone.
        """
        await self.received()
        media_type = self.headers.get("content-type", "")
        if self._body and not is_json(media_type):
            wanted = "send the header Content-Type: application/json"
            raise unsupported_media_type(media_type, wanted)
        return self._body

    async def received(self) -> bytes:
        """Return the body, whatever it says it is.

        Raises:
            ProblemError: 503 if others are being received that are too large for one more.
            ClientDisconnect: if the client has gone.
        """
        if not hasattr(self, "_body"):
            held_bytes: HeldBytes = self.app.state.held_bytes
            chunks: list[bytes] = []
            async for chunk in self.stream():
                held_bytes.add(len(chunk), self.held)
                self.held += len(chunk)
                chunks.append(chunk)
            self._body = b"".join(chunks)
        return self._body

    async def json(self) -> Any:
        """Return the parsed body, an instance of the model if it must be one."""
        raw = await self.body()
        if len(raw) <= PARSED_IN_PLACE:
            return self._parsed(raw)
        return await run_in_threadpool(self._parsed_in_turn, raw)

    def _parsed_in_turn(self, raw: bytes) -> Any:
        with in_turn(self):
            return self._parsed(raw)

    def _parsed(self, raw: bytes) -> Any:
        settings: Settings = self.app.state.settings
        most = settings.most_entries
        parsed = parse_json(raw, settings.max_json_depth, most)
        return parsed if self._model is None else validate(self._model, parsed, most)


def in_turn(request: Request) -> AbstractContextManager[None]:
    """Have what is done within take turns with expensive requests, and end if this one timed out.

    No lock is taken within that others may hold while they wait for a turn.
    """
    state = request.scope["state"]
    turns = Slices(request.app.state.compute_turns, lambda: bool(state.get("expired")))
    return in_slices(turns)


class HeldBytes:
    """The bytes of bodies that are being received or wait for a turn, which are bounded.

    Without a bound, clients that send all but the end of large bodies would fill the memory. What
    is beyond a small body counts.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def add(self, count: int, before: int) -> None:
        """Count `count` bytes of a body of which `before` have come.

        Raises:
            ProblemError: 503 if it is too much.
        """
        self._held += count
        if self._held > self._most and before + count > PARSED_IN_PLACE:
            self._held -= count
            message = "too many large bodies are being received; try again later"
            raise ProblemError(503, "too_many_bodies", message)

    def remove(self, count: int) -> None:
        """Forget bytes that were counted."""
        self._held -= count


def is_json(content_type: str) -> bool:
    """Tell whether a content type says that a body is JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    main, _, sub = media_type.partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


def check_media_type(request: Request, taken: Sequence[str]) -> None:
    """Raise a ProblemError, 415, unless the body says that it is of one of the types `taken`."""
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() not in taken:
        raise unsupported_media_type(given, f"send the header Content-Type: {taken[0]}")


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
        message = f"the body cannot be saved: {error.strerror}"
        raise ProblemError(503, "storage_failed", message) from error
    return digest.hexdigest()
