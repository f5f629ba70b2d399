"""A thread that keeps a data folder which is open for reading up to date with its writer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

SECONDS = 0.25

_log = logging.getLogger("hummingbit.index")


class Follower:
    """Calls a function every :data:`SECONDS` until it is stopped."""

    def __init__(self, follow: Callable[[], object]) -> None:
        """Begin; what `follow` raises is logged once, until it is something else or succeeds."""
        self._follow = follow
        self._stopped = threading.Event()
        self._failed = ""
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, once a call in progress is done."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(SECONDS):
            try:
                self._follow()
                self._failed = ""
            except Exception as error:  # noqa: BLE001 - the next round may do better
                if str(error) != self._failed:
                    _log.warning("the data folder cannot be followed: %s", error)
                self._failed = str(error)
