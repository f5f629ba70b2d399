"""Keeps expensive requests out of the way of cheap ones.

An expensive request, such as a search for thousands of documents, a filter used for the first time
or an evaluation, gives its turn back and waits in a lane of its own. Requests of a lane compute in
slices, in turn (:mod:`foundation.slices`), so a short one overtakes a long one, and the event loop
never competes with more than a few threads. A request that has timed out ends at its next slice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from foundation.slices import ComputeTurns, Slices, in_slices
from service.http.problems import ProblemError

# Threads that compute at a time; one processor is left to the event loop and to cheap requests.
COMPUTING = max(1, (os.cpu_count() or 1) - 1)
# Searches with a filter that is used for the first time. One pass over the payloads serves all that
# wait, so the more the better; each has a thread, which mostly sleeps.
FILTERS_AT_A_TIME = 32


class Lane:
    """Limits how many expensive requests run at a time and how many wait; one more gets 429."""

    def __init__(self, running: int, waiting: int, turns: ComputeTurns) -> None:
        self._places = asyncio.Semaphore(running)
        self._max_waiting = waiting
        self._waiting = 0
        self._turns = turns

    @asynccontextmanager
    async def place(self, state: MutableMapping[str, Any]) -> AsyncIterator[None]:
        """Hold a place in the lane for a request, and do the work within in slices.

        `state` is that of the request's scope.

        Raises:
            ProblemError: 429 if too many requests wait already.
        """
        if self._places.locked() and self._waiting >= self._max_waiting:
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
