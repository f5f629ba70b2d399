"""A thread that keeps a data folder open for reading up to date with its writer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

SECONDS = 0.25

_log = logging.getLogger("hummingbit.index")


class Follower:
    """Calls a function every :data:`SECONDS` until it is stopped."""

    def __init__(self, follow: Callable[[], object]) -> None:
        """Start the thread; an error of `follow` is logged once, until it changes or is over."""
        self._follow = follow
        self._stopped = threading.Event()
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after a call in progress."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(SECONDS):
            try:
                self._follow()
                self._last_error = ""
            except Exception as error:  # noqa: BLE001 - the next call may succeed
                if str(error) != self._last_error:
                    _log.warning("following the data folder failed: %s", error)
                self._last_error = str(error)
