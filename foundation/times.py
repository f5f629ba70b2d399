"""The current time, in the form that everything this application writes uses."""

from __future__ import annotations

from datetime import UTC, datetime


def now(timespec: str = "milliseconds") -> str:
    """Return the current time in UTC as ISO 8601, with the precision `timespec`."""
    return datetime.now(UTC).isoformat(timespec=timespec)
