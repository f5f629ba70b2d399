"""Keeps expensive requests out of the way of cheap ones.

An expensive request, such as a search for thousands of documents, a filter used for the first time
or an evaluation, gives its turn back and waits in a lane of its own. Requests of a lane compute in
slices, in turn (:mod:`foundation.slices`), so a short one overtakes a long one, and the event loop
never competes with more than a few threads. A request that has timed out ends at its next slice.

A response of more than :data:`SMALL_ANSWER` bytes is made in a lane, too, and at most
:data:`LARGE_ANSWERS` of them are made at a time, which bounds the memory of all.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, MutableMapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from foundation.slices import Allowance, ComputeTurns, Slices, acquired, in_slices, within
from service.http.problems import ProblemError

# Threads that compute at a time; one processor is left to the event loop and to cheap requests.
COMPUTING = max(1, (os.cpu_count() or 1) - 1)
# Searches with a filter that is used for the first time. One pass over the payloads serves all that
# wait, so the more the better; each has a thread, which mostly sleeps.
FILTERS_AT_A_TIME = 32
# The bytes of documents that a response may hold while it is made outside of a lane.
SMALL_ANSWER = 2 << 20
LARGE_ANSWERS = 2


class LargeAnswers:
    """Limits how many responses of more than :data:`SMALL_ANSWER` bytes are made at a time."""

    def __init__(self, at_a_time: int = LARGE_ANSWERS) -> None:
        self.places = threading.Semaphore(at_a_time)


class _LaneAllowance(Allowance):
    """That of a request in a lane, which waits for its turn to make a large response."""

    def __init__(self, large: LargeAnswers) -> None:
        super().__init__(SMALL_ANSWER, waits=True, builds=True)
        self._large = large
        self._place = ExitStack()
        self._is_large = False

    def exceed(self) -> None:
        """Wait until so few large responses are being made that this one can be."""
        if not self._is_large:
            self._place.enter_context(acquired(self._large.places))
            self._is_large = True

    def end(self) -> None:
        """Let another request make a large response."""
        self._place.close()


class Lane:
    """Limits how many expensive requests run at a time and how many wait; one more gets 429."""

    def __init__(
        self,
        running: int,
        waiting: int,
        turns: ComputeTurns,
        large: LargeAnswers | None = None,
    ) -> None:
        """Let `running` requests run and `waiting` wait; lanes may share `turns` and `large`."""
        self._places = asyncio.Semaphore(running)
        self._max_waiting = waiting
        self._waiting = 0
        self._turns = turns
        self._large = large or LargeAnswers()

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
            allowance = _LaneAllowance(self._large)
            try:
                slices = Slices(self._turns, lambda: bool(state.get("expired")))
                with in_slices(slices), within(allowance):
                    yield
            finally:
                allowance.end()
        finally:
            self._places.release()
