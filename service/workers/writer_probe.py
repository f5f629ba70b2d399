"""Notices that the writer hangs: like a stopped process, it accepts requests and answers none."""

from __future__ import annotations

import asyncio

import httpx

URL = "http://localhost/livez"
# The path needs only the writer's event loop, which no request holds up for as long.
SECONDS_BETWEEN_PROBES = 2.0
PROBE_SECONDS = 10.0


class WriterProbe:
    """Asks the writer whether it is alive, while requests wait for it."""

    def __init__(self, writer: httpx.AsyncClient) -> None:
        self._writer = writer
        self._probe: asyncio.Task[bool] | None = None

    async def wait_until_it_hangs(self) -> None:
        """Wait until the writer answers nothing; all who wait share one probe at a time."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_PROBES)
            if self._probe is None or self._probe.done():
                self._probe = asyncio.create_task(self._hangs())
            if await asyncio.shield(self._probe):
                return

    async def _hangs(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._writer.get(URL)
        except TimeoutError:
            return True
        except httpx.TransportError:  # it has ended, and what waited for it has failed
            return False
        return False
