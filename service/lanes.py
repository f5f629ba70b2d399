"""Cheap requests and expensive ones do not wait for each other.

What is expensive, such as a search for thousands of documents, a filter that was never asked for
before, an evaluation, gives back the place among the requests that are worked on, and waits in a
lane of its own. Those that run there compute in turns, a slice each (:mod:`foundation.slices`), so
that a short one overtakes a long one, and the event loop never competes with more than a few
threads. One whose request has timed out ends at its next slice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from foundation.slices import ComputeTurns, Slices, in_slices
from service.http.problems import ProblemError

# One processor is left to the event loop and to cheap requests.
COMPUTING = max(1, (os.cpu_count() or 1) - 1)
# Searches with a filter that was never asked for before. One pass over the payloads answers all
# that wait, so the more the better; each has a thread, which mostly sleeps.
FILTERS_AT_A_TIME = 32


class Lane:
    """Expensive requests: so many run at a time and so many wait; the next is answered 429."""

    def __init__(self, running: int, waiting: int, turns: ComputeTurns) -> None:
        self._places = asyncio.Semaphore(running)
        self._most = waiting
        self._waiting = 0
        self._turns = turns

    @asynccontextmanager
    async def place(self, state: MutableMapping[str, Any]) -> AsyncIterator[None]:
        """Have a place in the lane for the request of that state, and do its work in slices.

        Raises:
            ProblemError: 429 if too many wait already.
        """
        if self._places.locked() and self._waiting >= self._most:
            message = f"{self._waiting} expensive requests are already waiting; try again later"
            raise ProblemError(429, "too_many_requests", message)
        if give_back := state.get("give_back_turn"):
            give_back()
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            with in_slices(Slices(self._turns, lambda: bool(state.get("expired")))):
                yield
        finally:
            self._places.release()
