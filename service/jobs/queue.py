"""Jobs that wait: short ones beside long ones and trainings, and everybody's in turn."""

from __future__ import annotations

import threading
from collections import deque
from typing import Literal, get_args

Lane = Literal["short", "long", "training"]
LANES: tuple[Lane, ...] = get_args(Lane)


class JobQueue:
    """The ids of jobs that wait, by lane and by whose they are. All methods are thread-safe.

    Of a lane, whoever was served least recently is served next, so that somebody with a hundred
    jobs does not hold up another's one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Lane, dict[str, deque[str]]] = {lane: {} for lane in LANES}
        self._closed = False

    def put(self, lane: Lane, owner: str, id_: str) -> None:
        """Let a job wait behind the others of its owner."""
        with self._changed:
            self._waiting[lane].setdefault(owner, deque()).append(id_)
            self._changed.notify_all()

    def take(self, lane: Lane, seconds: float) -> str | None:
        """Wait so long at most for the next job of a lane; None if none came."""
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
        """Hand out nothing from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
