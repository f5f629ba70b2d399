"""Keeps expensive requests out of the way of cheap ones, and writers out of the way of a swap.

An expensive request, such as a search for thousands of documents, a filter used for the first time
or an evaluation, gives its turn back and waits for a :class:`ConcurrencyLimiter`. Requests within
one compute in slices, in turn (:mod:`hummingbit.foundation.slices`), so a short one overtakes a
long one, and the event loop never competes with more than a few threads. A request that has timed
out ends at its next slice.

A response of more than :data:`SMALL_ANSWER` bytes is made within a limiter, too, and at most
:data:`LARGE_ANSWERS` of them are made at a time, which bounds the memory of all.

A :class:`WriteGate` lets many writers in together, or one caller alone.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

from hummingbit.foundation.slices import (
    Allowance,
    FairSemaphore,
    Slices,
    acquired,
    in_slices,
    within,
)
from hummingbit.service.http.problems import ProblemError

# Threads that compute at a time; one processor is left to the event loop and to cheap requests.
COMPUTING = max(1, (os.cpu_count() or 1) - 1)
# Searches with a filter that is used for the first time. One pass over the payloads serves all that
# wait, so the more the better; each has a thread, which mostly sleeps.
FILTERS_AT_A_TIME = 32
# The bytes of documents that a response may hold while it is made outside of a limiter.
SMALL_ANSWER = 2 << 20
LARGE_ANSWERS = 2


class _SlotAllowance(Allowance):
    """That of a request with a slot, which waits for its turn to make a large response."""

    def __init__(self, large: threading.Semaphore) -> None:
        super().__init__(SMALL_ANSWER, waits=True, builds=True)
        self._large = large
        self._slot = ExitStack()
        self._is_large = False

    def exceed(self) -> None:
        """Wait until so few large responses are being made that this one can be."""
        if not self._is_large:
            self._slot.enter_context(acquired(self._large))
            self._is_large = True

    def end(self) -> None:
        """Let another request make a large response."""
        self._slot.close()


class ConcurrencyLimiter:
    """Limits how many expensive requests run at a time and how many wait; further ones get 429."""

    def __init__(
        self,
        running: int,
        waiting: int,
        turns: FairSemaphore,
        large: threading.Semaphore | None = None,
    ) -> None:
        """Let `running` requests run and `waiting` wait; limiters may share `turns` and `large`.

        `large` has a slot for each large response that may be made at a time.
        """
        self._slots = asyncio.Semaphore(running)
        self._max_waiting = waiting
        self._waiting = 0
        self._turns = turns
        self._large = large or threading.Semaphore(LARGE_ANSWERS)

    @asynccontextmanager
    async def slot(self, state: MutableMapping[str, Any]) -> AsyncIterator[None]:
        """Hold a slot for a request, and do the work within in slices.

        `state` is that of the request's scope.

        Raises:
            ProblemError: 429 if too many requests wait already.
        """
        if self._slots.locked() and self._waiting >= self._max_waiting:
            message = f"{self._waiting} expensive requests are already waiting; try again later"
            raise ProblemError(429, "too_many_requests", message)
        if give_back := state.get("give_back_turn"):
            give_back()
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            allowance = _SlotAllowance(self._large)
            try:
                slices = Slices(self._turns, lambda: bool(state.get("expired")))
                with in_slices(slices), within(allowance):
                    yield
            finally:
                allowance.end()
        finally:
            self._slots.release()


class WriteGate:
    """A lock that writers share; a caller that wants it alone goes before later writers.

    A writer looks up a name and writes to its collection within one passage through the gate. So a
    caller that has the gate alone can move an alias, and no later write goes to its old collection.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writers = 0
        self._closers = 0
        self._closed = False

    def enter(self, *, wait: bool = True) -> bool:
        """Begin to write; return False at once if that must wait and `wait` is false."""
        with self._changed:
            if not wait and (self._closers or self._closed):
                return False
            self._changed.wait_for(lambda: not self._closers and not self._closed)
            self._writers += 1
            return True

    def leave(self) -> None:
        """End what :meth:`enter` began, from any thread."""
        with self._changed:
            self._writers -= 1
            self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write together with others."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until nobody writes, and keep all writers out within."""
        with self._changed:
            self._closers += 1
            self._changed.wait_for(lambda: not self._writers and not self._closed)
            self._closers -= 1
            self._closed = True
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
