"""The queue of jobs, in lanes for short jobs, long jobs and training; owners take turns."""

from __future__ import annotations

import threading
from collections import deque
from typing import Literal, get_args

Lane = Literal["short", "long", "training"]
LANES: tuple[Lane, ...] = get_args(Lane)


class JobQueue:
    """The ids of waiting jobs, by lane and owner. All methods are thread-safe.

    In each lane the owner served least recently is served next, so that an owner with a hundred
    jobs does not hold up another's single one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Lane, dict[str, deque[str]]] = {lane: {} for lane in LANES}
        self._closed = False

    def enqueue(self, lane: Lane, owner: str, id_: str) -> None:
        """Add a job behind the others of its owner."""
        with self._changed:
            self._waiting[lane].setdefault(owner, deque()).append(id_)
            self._changed.notify_all()

    def take(self, lane: Lane, seconds: float) -> str | None:
        """Return the next job of a lane; wait for one at most `seconds`, then return None."""
        with self._changed:
            waiting = self._waiting[lane]
            self._changed.wait_for(lambda: self._closed or bool(waiting), seconds)
            if self._closed or not waiting:
                return None
            owner = next(iter(waiting))
            jobs = waiting.pop(owner)
            id_ = jobs.popleft()
            if jobs:
                waiting[owner] = jobs
            return id_

    def close(self) -> None:
        """Hand out no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
