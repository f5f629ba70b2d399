"""Request bodies: strict JSON (RFC 8259), and bodies that are streamed to disk."""

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
SMALL_BODY = 64 << 10


class JSONRequest(Request):
    """A request that accepts a JSON body only, and parses it without blocking the event loop.

    The body is validated against `model`; FastAPI passes the instance on as it is.
    """

    def __init__(self, scope: Scope, receive: Receive, model: type[BaseModel] | None) -> None:
        super().__init__(scope, receive)
        self._model = model
        self.held_bytes = 0
        """The bytes of the body that count in HeldBytes until they are removed there."""

    async def body(self) -> bytes:
        """Return the body.

        Raises:
            ProblemError: 415 if its media type is not JSON, 503 if too many large bodies are
                being received.
            ClientDisconnect: if the client has disconnected.
        """
        await self.read_body()
        media_type = self.headers.get("content-type", "")
        if self._body and not is_json(media_type):
            remedy = "send the header Content-Type: application/json"
            raise unsupported_media_type(media_type, remedy)
        return self._body

    async def read_body(self) -> bytes:
        """Return the body, whatever its media type.

        Raises:
            ProblemError: 503 if too many large bodies are being received.
            ClientDisconnect: if the client has disconnected.
        """
        if not hasattr(self, "_body"):
            held_bytes: HeldBytes = self.app.state.held_bytes
            chunks: list[bytes] = []
            async for chunk in self.stream():
                held_bytes.add(len(chunk), self.held_bytes)
                self.held_bytes += len(chunk)
                chunks.append(chunk)
            self._body = b"".join(chunks)
        return self._body

    @property
    def received_body(self) -> bytes:
        """The body, once :meth:`body` or :meth:`json` has returned."""
        return self._body

    async def json(self) -> Any:
        """Return the parsed body, as an instance of the model if there is one."""
        raw = await self.body()
        if len(raw) <= SMALL_BODY:
            return self._parse(raw)
        return await run_in_threadpool(self._parse_in_turn, raw)

    def _parse_in_turn(self, raw: bytes) -> Any:
        with in_turn(self):
            return self._parse(raw)

    def _parse(self, raw: bytes) -> Any:
        settings: Settings = self.app.state.settings
        max_entries = settings.max_entries
        parsed = parse_json(raw, settings.max_json_depth, max_entries)
        return parsed if self._model is None else validate(self._model, parsed, max_entries)


def in_turn(request: Request) -> AbstractContextManager[None]:
    """Do the work within in slices, in turn with expensive requests; end it if this one timed out.

    The work must not take a lock that another thread may hold while it waits for a turn.
    """
    state = request.scope["state"]
    turns = Slices(request.app.state.compute_turns, lambda: bool(state.get("expired")))
    return in_slices(turns)


class HeldBytes:
    """Counts and limits the bytes of bodies that are being received or wait for a turn.

    Without a limit, clients that send all but the end of large bodies would fill the memory. A
    small body is never refused.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0

    def add(self, count: int, received: int) -> None:
        """Count `count` more bytes of a body of which `received` are counted already.

        Raises:
            ProblemError: 503 if the limit is exceeded and the body is not small.
        """
        self._total += count
        if self._total > self._limit and received + count > SMALL_BODY:
            self._total -= count
            message = "too many large bodies are being received; try again later"
            raise ProblemError(503, "too_many_bodies", message)

    def remove(self, count: int) -> None:
        """Stop counting `count` bytes."""
        self._total -= count


def is_json(content_type: str) -> bool:
    """Tell whether the header Content-Type names JSON, such as ``application/problem+json``."""
    media_type = content_type.partition(";")[0].strip().lower()
    main, _, sub = media_type.partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


def check_media_type(request: Request, media_types: Sequence[str]) -> None:
    """Raise a ProblemError, 415, unless the body's media type is one of `media_types`."""
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() not in media_types:
        remedy = f"send the header Content-Type: {media_types[0]}"
        raise unsupported_media_type(content_type, remedy)


async def save_body(request: Request, path: Path, prefix: bytes = b"") -> str:
    """Write a body to a file and return the SHA-256 of `prefix` and the body, in hexadecimal.

    Raises:
        ProblemError: 503 if it cannot be written.
    """
    digest = hashlib.sha256(prefix)
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
