"""The queue of jobs, in lanes; owners take turns.

Jobs that only read, which a read key may submit, have lanes of their own: however long they take,
no write, snapshot or compaction waits for them. There an owner has at most one running job, so one
key cannot hold all threads.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Literal, get_args

Lane = Literal["short", "long", "analysis", "evaluation", "training"]
LANES: tuple[Lane, ...] = get_args(Lane)
READING: frozenset[Lane] = frozenset({"analysis", "evaluation"})
"""The lanes of jobs that only read."""


class JobQueue:
    """The ids of waiting jobs, by lane and owner. All methods are thread-safe.

    In each lane the owner served least recently is served next, so that an owner with a hundred
    jobs does not hold up another's single one. In the lanes of :data:`READING`, an owner whose job
    is running is passed over until :meth:`end`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Lane, dict[str, deque[str]]] = {lane: {} for lane in LANES}
        self._running: dict[Lane, dict[str, str]] = {lane: {} for lane in READING}
        self._closed = False

    def enqueue(self, lane: Lane, owner: str, id_: str) -> None:
        """Add a job behind the others of its owner."""
        with self._changed:
            self._waiting[lane].setdefault(owner, deque()).append(id_)
            self._changed.notify_all()

    def take(self, lane: Lane, seconds: float) -> tuple[str, str] | None:
        """Return the owner and the id of the next job of a lane.

        Wait for one at most `seconds`, then return None.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._next_owner(lane) is not None, seconds
            )
            owner = self._next_owner(lane)
            if self._closed or owner is None:
                return None
            waiting = self._waiting[lane]
            jobs = waiting.pop(owner)
            id_ = jobs.popleft()
            if jobs:
                waiting[owner] = jobs
            if lane in READING:
                self._running[lane][owner] = id_
            return owner, id_

    def end(self, lane: Lane, id_: str) -> None:
        """Note that a job no longer runs, so that its owner's next one may."""
        with self._changed:
            running = self._running.get(lane, {})
            for owner in [owner for owner, one in running.items() if one == id_]:
                del running[owner]
            self._changed.notify_all()

    def _next_owner(self, lane: Lane) -> str | None:
        running = self._running.get(lane, {})
        return next((owner for owner in self._waiting[lane] if owner not in running), None)

    def close(self) -> None:
        """Hand out no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
