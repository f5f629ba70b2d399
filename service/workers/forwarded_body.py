"""The body of a forwarded request, in chunks, and how long the request may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
from starlette.types import Receive

from service.http.problems import ProblemError
from service.http.refusals import DISCARDED_BYTES, DISCARDING_SECONDS, discard_body

CLOSE = {"Connection": "close"}


class ForwardedBody:
    """The body of a request, in chunks, read as fast as the writer takes it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_cut = False
        """Whether the client disconnected before the end."""
        self._complete = asyncio.Event()
        self._awaits_client = False
        self._last_chunk = asyncio.get_running_loop().time()

    def mark_empty(self) -> None:
        """Note that the request has no body."""
        self._complete.set()

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects after the end of the body, or has its response."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def wait_for_deadline(self, seconds: float, *, per_chunk: bool) -> None:
        """Wait `seconds`; with `per_chunk`, until no chunk has arrived for as long."""
        loop = asyncio.get_running_loop()
        began = self._last_chunk
        while (left := began + seconds - loop.time()) > 0:
            await asyncio.sleep(left)
            if per_chunk:
                began = self._last_chunk

    async def timeout_problem(self, seconds: float) -> ProblemError:
        """Return the problem of a request that took too long: 408 if its client did, or else 503.

        What the client still sends is discarded first: otherwise it would not read the response.
        """
        if self._awaits_client:
            message = f"the body was not sent within {seconds:g} s"
            return ProblemError(408, "body_too_slow", message, headers=CLOSE)
        await self._discard_rest()
        message = f"the writer process did not respond within {seconds:g} s"
        message += "; a write may still complete"
        return ProblemError(503, "timed_out", message, headers=CLOSE)

    async def hang_problem(self) -> ProblemError:
        """Return the problem of a request to a writer that hangs; discard the rest of the body."""
        await self._discard_rest()
        message = "the writer process does not respond; a write may still complete"
        return ProblemError(503, "writer_unavailable", message, headers=CLOSE)

    async def _discard_rest(self) -> None:
        if not self._complete.is_set():
            await discard_body(self._receive, DISCARDED_BYTES, DISCARDING_SECONDS)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self._awaits_client = True
            message = await self._receive()
            self._awaits_client = False
            self._last_chunk = asyncio.get_running_loop().time()
            if message["type"] == "http.disconnect":
                self.is_cut = True
                raise httpx.WriteError("the client disconnected")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body", False):
                self._complete.set()
                return
