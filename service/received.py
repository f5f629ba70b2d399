"""Bodies that go to disk as they come."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from service.errors import ProblemError


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
