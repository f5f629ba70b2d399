"""When to try again what failed, and whether its reason is worth a line of the log."""

from __future__ import annotations

import time

FIRST_SECONDS = 0.25
MAX_SECONDS = 30.0


class Retry:
    """Waits twice as long after each failure, up to :data:`MAX_SECONDS`."""

    def __init__(self) -> None:
        """Be due at once."""
        self._reason = ""
        self._seconds = FIRST_SECONDS
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time to try."""
        return time.monotonic() >= self._next

    def note_failure(self, reason: str) -> bool:
        """Wait before the next try; return whether the failure before had another reason."""
        is_other = reason != self._reason
        self._reason = reason
        self._next = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, MAX_SECONDS)
        return is_other

    def note_success(self) -> None:
        """Be due at once, and forget the reason."""
        self._reason, self._seconds, self._next = "", FIRST_SECONDS, 0.0
